"""From evidence directories to judged studies.

A live session at its end and one that only adjudicates both come this way, so they cannot differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from pytest_sremut.errors import InputError

if TYPE_CHECKING:
    from pytest_sremut.evidence.root import AttemptEntry
    from pytest_sremut.evidence.seal.anchor import AnchorState
    from pytest_sremut.ledger.judge import Judged, StudyInput
    from pytest_sremut.ledger.load import Evidence, SealSource
    from pytest_sremut.ledger.seals import Seals
    from pytest_sremut.options.settings import Settings

__all__ = ["judge_directories", "read_directory", "study_inputs"]


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


def read_directory(settings: Settings, directory: Path, studies: Sequence[StudyInput]) -> Evidence:
    """Read and verify one evidence directory.

    Args:
        settings: Of the session; seals are verified against this project's pins.
        directory: To be read.
        studies: What `study_inputs` found; says which readings need the sampler's timeline.

    Raises:
        EvidenceError: It is no evidence directory or cannot be read.
    """
    from pytest_sremut.ledger.judge import pods_needed
    from pytest_sremut.ledger.load import read_evidence

    return read_evidence(directory, needs_pods=pods_needed(studies), seals=_seal_source(settings))


def judge_directories(settings: Settings, directories: Sequence[Path]) -> Judged:
    """Read, verify and judge everything in these evidence directories.

    Raises:
        EvidenceError: One is no evidence directory or cannot be read.
        ConflictError: Together they contradict themselves.
    """
    from pytest_sremut.ledger.judge import judge

    studies = study_inputs(settings)
    return judge(studies, [read_directory(settings, one, studies) for one in directories])


def _seal_source(settings: Settings) -> SealSource:
    """Verifies seals against the project's pins and registrations, as they are here now."""

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
    """Who vouches for the weaker of a registration's two stamps; None: it does not hold."""
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
