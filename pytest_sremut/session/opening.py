"""What every process of a session does first: pass the gate, try the evidence directory.

Each check ends the session as `pytest.UsageError` before anything is run. Under `--collect-only`
nothing will be run, so nothing is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_sremut.errors import InputError, SremutError
from pytest_sremut.session.collection import selects, study_files, study_of
from pytest_sremut.session.gate import admit
from pytest_sremut.session.reports import baseline_of
from pytest_sremut.session.subject import why_not_run

if TYPE_CHECKING:
    from pytest_sremut.ledger.baseline.document import Baseline
    from pytest_sremut.options.settings import Settings
    from pytest_sremut.session.admission import Admission
    from pytest_sremut.study.model import Study

__all__ = ["Opened", "named_baseline", "open_session"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """What is to be run."""

    runs: bool = False  # False under --collect-only
    covered: tuple[Study, ...] = ()  # by the arguments, whatever `-k` selects of them
    admitted: tuple[Study, ...] = ()
    admissions: Mapping[str, Admission] = field(default_factory=dict)  # by the study's id
    not_run: tuple[str, ...] = ()  # studies that cannot be run, each with what to pass
    baseline: Baseline | None = None  # disagreements that are known


def open_session(config: pytest.Config, settings: Settings) -> Opened:
    """Decide what this session runs. Raises `pytest.UsageError`."""
    runs = not config.option.collectonly
    covered = tuple(_covered(config, settings))
    admitted: list[Study] = []
    not_run: list[str] = []
    for study in covered:
        if not selects(config.option.keyword, study):
            continue
        if why_not := why_not_run(study, settings):
            not_run.append(why_not)
        else:
            admitted.append(study)
    admissions = {study.id: admit(study, settings) for study in admitted}
    if runs:
        _refuse(admissions)
        _try_evidence(settings.evidence)
    return Opened(
        runs=runs,
        covered=covered,
        admitted=tuple(admitted),
        admissions=admissions,
        not_run=tuple(not_run),
        baseline=named_baseline(settings) if runs else None,
    )


def named_baseline(settings: Settings) -> Baseline | None:
    """The baseline that was named. Raises `pytest.UsageError`."""
    try:
        return baseline_of(settings)
    except InputError as error:
        raise pytest.UsageError(f"--sremut-baseline: {error}") from None


def _covered(config: pytest.Config, settings: Settings) -> Iterator[Study]:
    """The studies that the arguments cover. One that cannot be loaded is left to collection,
    which reports it with its file and place."""
    for file in study_files(settings, config.args, config.invocation_params.dir):
        try:
            yield study_of(config, file)
        except InputError:
            continue


def _refuse(admissions: Mapping[str, Admission]) -> None:
    refused = [line for item in admissions.values() for line in item.refusals]
    if refused:
        raise pytest.UsageError("\n  ".join(["nothing was run:", *refused]))


def _try_evidence(directory: Path | None) -> None:
    """A directory that was asked for is tried before anything is started."""
    if directory is None:
        return
    from pytest_sremut.evidence.root import EvidenceRoot

    try:
        EvidenceRoot.open(directory)
    except SremutError as error:
        raise pytest.UsageError(f"--sremut-evidence: {error}") from None
