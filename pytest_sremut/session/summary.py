"""From evidence directories to judged studies, from a ledger to the reports that were asked for.

Used by a live session at its end and by one that only adjudicates, so that they cannot differ.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from pytest_sremut.errors import EvidenceError, InputError

if TYPE_CHECKING:
    from pytest_sremut.evidence.root import AttemptEntry
    from pytest_sremut.evidence.seal.anchor import AnchorState
    from pytest_sremut.ledger.baseline.comparison import Comparison
    from pytest_sremut.ledger.baseline.document import Baseline
    from pytest_sremut.ledger.judge import Judged, StudyInput
    from pytest_sremut.ledger.load import SealSource
    from pytest_sremut.ledger.seals import Seals
    from pytest_sremut.options import Settings

__all__ = [
    "Concluded",
    "baseline_of",
    "compared",
    "conclude_session",
    "export",
    "judge_directories",
    "seal_source",
    "study_inputs",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Concluded:
    """What was made of a live session's records: a line for each report, and the comparison."""

    reports: tuple[str, ...] = ()
    comparison: Comparison | None = None


def baseline_of(settings: Settings) -> Baseline | None:
    """The baseline that was named. Raises InputError."""
    from pytest_sremut.ledger.baseline.document import read_baseline

    return None if settings.baseline is None else read_baseline(settings.baseline)


def compared(settings: Settings, comparison: Comparison) -> list[tuple[str, bool]]:
    """A comparison as lines for the summary, each with whether it is bad."""
    file = "" if settings.baseline is None else settings.baseline.name
    head = (f"sremut: baseline {file}: {comparison.head()}", comparison.failed)
    return [head, *((f"  {line}", is_bad) for line, is_bad in comparison.lines())]


def study_inputs(settings: Settings) -> list[StudyInput]:
    """Every study of the project, whatever was selected: a ledger does not depend on `-k`.

    One that cannot be loaded is left to collection, which reports it with its file and place.
    """
    from pytest_sremut.evidence.identity import file_digests
    from pytest_sremut.ledger.judge import StudyInput
    from pytest_sremut.study.load import load_study

    root = settings.root
    found: list[StudyInput] = []
    for file in sorted(settings.audits.glob("*/study.yaml")):
        try:
            study = load_study(root, PurePosixPath(file.relative_to(root).as_posix()))
        except InputError:
            continue
        found.append(StudyInput(study=study, digests=file_digests(root, study.frozen)))
    return found


def judge_directories(settings: Settings, directories: Sequence[Path]) -> Judged:
    """Read, verify and judge everything in these evidence directories.

    Raises:
        EvidenceError: One is no evidence directory or cannot be read.
        ConflictError: Together they contradict themselves.
    """
    from pytest_sremut.ledger.judge import judge, pods_needed
    from pytest_sremut.ledger.load import read_evidence

    studies = study_inputs(settings)
    needs = pods_needed(studies)
    seals = seal_source(settings)
    return judge(
        studies, [read_evidence(one, needs_pods=needs, seals=seals) for one in directories]
    )


def seal_source(settings: Settings) -> SealSource:
    """Verifies seals against the project's pins and registrations, as they stand here now."""

    def read(directory: Path, entries: tuple[AttemptEntry, ...]) -> Seals:
        from pytest_sremut.attestation.registration.anchoring import OfflineStamps
        from pytest_sremut.attestation.registration.pins import trust_of
        from pytest_sremut.attestation.rfc3161.trust import TrustStore
        from pytest_sremut.ledger.seals import read_seals

        try:
            trust = trust_of(settings.root)
        except InputError:  # then nobody is trusted
            trust = TrustStore(roots=())
        return read_seals(
            directory,
            entries,
            verifier=OfflineStamps(trust),
            registrations=cache(partial(_behind_registration, settings)),
        )

    return read


def _behind_registration(
    settings: Settings, study: str, revision: int, digest: str
) -> AnchorState | None:
    """What stands behind the weaker of a registration's two stamps; None: it does not hold."""
    from pytest_sremut.attestation.registration.check import check
    from pytest_sremut.attestation.registration.evidence import behind

    for given in study_inputs(settings):
        if given.study.id != study:
            continue
        report = check(settings.root, given.study, revision=revision)
        if report.digest != digest:
            return None
        return behind(report)
    return None


def conclude_session(
    settings: Settings, evidence: Path, baseline: Baseline | None = None
) -> Concluded:
    """The reports that a live session was asked for, and how it compares with the baseline.

    Raises:
        EvidenceError: A report cannot be written, or nothing can be judged from the records.
    """
    from pytest_sremut.ledger.adjudicate import ledger
    from pytest_sremut.ledger.baseline.comparison import compare
    from pytest_sremut.ledger.renderings.document import ledger_bytes

    if not settings.reports and baseline is None:
        return Concluded()
    document = ledger(judge_directories(settings, [evidence]))
    data = ledger_bytes(document)
    comparison = None if baseline is None else compare(baseline, document)
    return Concluded(
        reports=tuple(
            export(settings, kind, path, document, data, comparison=comparison)
            for kind, path in settings.reports
        ),
        comparison=comparison,
    )


def export(
    settings: Settings,
    kind: str,
    path: Path,
    document: Mapping[str, Any],
    data: bytes,
    *,
    comparison: Comparison | None = None,
) -> str:
    """Write one report; says where. Raises EvidenceError.

    Args:
        settings: Of the session; a viewer shows the project's mutant registries.
        kind: `json`, `md` or `stryker`.
        path: Where to; the file named by GITHUB_STEP_SUMMARY is appended to, others are replaced.
        document: The ledger.
        data: Its bytes.
        comparison: With the baseline, told on the page of a CI step.
    """
    from pytest_sremut.ground.durable.atomic import make_directory
    from pytest_sremut.ground.formats.canonical import canonical_json, sha256
    from pytest_sremut.ledger.renderings.step_summary import step_summary
    from pytest_sremut.ledger.renderings.store import append_text, replace_file
    from pytest_sremut.ledger.renderings.stryker import stryker_report

    make_directory(path.parent)
    if kind == "json":
        replace_file(path, data)
    elif kind == "stryker":
        texts = _registries(settings.root, document)
        replace_file(path, canonical_json(stryker_report(document, texts)) + b"\n")
    else:
        known = () if comparison is None else compared(settings, comparison)
        text = step_summary(document, sha256(data), known)
        shared = os.environ.get("GITHUB_STEP_SUMMARY", "")
        if shared and Path(shared).resolve() == path:
            append_text(path, text)
        else:
            replace_file(path, text.encode())
    return f"sremut: {kind} report: {path}"


def _registries(root: Path, document: Mapping[str, Any]) -> dict[str, str]:
    names = sorted({study["plan"]["files"]["mutants"]["path"] for study in document["studies"]})
    try:
        return {name: (root / name).read_text(encoding="utf-8") for name in names}
    except (OSError, UnicodeDecodeError) as error:
        raise EvidenceError(f"mutant registries cannot be read: {error}") from error
