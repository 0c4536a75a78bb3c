"""From evidence directories to judged studies, from a ledger to the reports that were asked for.

Used by a live session at its end and by one that only adjudicates, so that they cannot differ.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from pytest_sremut.errors import EvidenceError, InputError

if TYPE_CHECKING:
    from pytest_sremut.ledger.judge import Judged, StudyInput
    from pytest_sremut.options import Settings

__all__ = ["export", "export_session", "judge_directories", "study_inputs"]


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
    return judge(studies, [read_evidence(one, needs_pods=needs) for one in directories])


def export_session(settings: Settings, evidence: Path) -> list[str]:
    """The reports that a live session was asked for; a line for each. Raises EvidenceError."""
    from pytest_sremut.ledger.adjudicate import ledger
    from pytest_sremut.ledger.document import ledger_bytes

    if not settings.reports:
        return []
    document = ledger(judge_directories(settings, [evidence]))
    data = ledger_bytes(document)
    return [export(settings, kind, path, document, data) for kind, path in settings.reports]


def export(
    settings: Settings, kind: str, path: Path, document: Mapping[str, Any], data: bytes
) -> str:
    """Write one report; says where. Raises EvidenceError.

    Args:
        settings: Of the session; a viewer shows the project's mutant registries.
        kind: `json`, `md` or `stryker`.
        path: Where to; the file named by GITHUB_STEP_SUMMARY is appended to, others are replaced.
        document: The ledger.
        data: Its bytes.
    """
    from pytest_sremut.evidence.atomic import make_directory
    from pytest_sremut.ledger.step_summary import step_summary
    from pytest_sremut.ledger.store import append_text, replace_file
    from pytest_sremut.ledger.stryker import stryker_report
    from pytest_sremut.study.canonical import canonical_json, sha256

    make_directory(path.parent)
    if kind == "json":
        replace_file(path, data)
    elif kind == "stryker":
        texts = _registries(settings.root, document)
        replace_file(path, canonical_json(stryker_report(document, texts)) + b"\n")
    else:
        text = step_summary(document, sha256(data))
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
