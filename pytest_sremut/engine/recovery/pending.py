"""Which attempts left something to be done on a cluster. Reads evidence, never the cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pytest_sremut.engine.recovery.rebuild import rebuild
from pytest_sremut.errors import EvidenceError
from pytest_sremut.evidence.resume import entries_of, identity_of
from pytest_sremut.evidence.root import AttemptEntry, EvidenceRoot
from pytest_sremut.evidence.seal.attempt import is_sealed
from pytest_sremut.study.verdict import Outcome

__all__ = ["Pending", "pending_attempts", "put_back"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """An attempt that nobody works at and that is not over."""

    root: EvidenceRoot
    entry: AttemptEntry
    directory: Path
    project: Path  # where its study's files lie

    @property
    def name(self) -> str:
        """`missing_service/ms-m01-r01 attempt 1`."""
        return f"{self.entry.study}/{self.entry.run} attempt {self.entry.attempt}"


def pending_attempts(
    evidence: Iterable[Path], cluster_uid: str, *, project: Path
) -> Iterator[Pending]:
    """The attempts on that cluster that died, or ended without having put it back.

    Only whoever holds the cluster's lease may act on them: then nobody else works there.

    Args:
        evidence: Evidence directories; one that is none is passed over.
        cluster_uid: UID of kube-system.
        project: Where the studies' files lie.
    """
    for directory in evidence:
        try:
            root = EvidenceRoot.existing(directory)
            entries = root.attempts()
        except EvidenceError:
            continue
        for entry in entries:
            if entry.outcome is Outcome.COMPLETE or entry.directory is None:
                continue
            if _of_cluster(entry.directory, cluster_uid) and not _is_over(root, entry):
                yield Pending(root=root, entry=entry, directory=entry.directory, project=project)


def put_back(directory: Path, evidence: Path, cluster_uid: str) -> AttemptEntry | None:
    """The attempt on that cluster that ended, and by its journal left nothing to be done there.

    Only what can be read counts: a mark that names the attempt is released on it.
    """
    try:
        root = EvidenceRoot.existing(evidence)
        entries = [one for one in root.attempts() if one.directory is not None]
        (entry,) = [one for one in entries if one.directory == directory.absolute()]
        over = _of_cluster(directory, cluster_uid) and rebuild(entries_of(root, entry)).over
    except (EvidenceError, ValueError):
        return None
    return entry if over else None


def _of_cluster(directory: Path, cluster_uid: str) -> bool:
    try:
        return bool(identity_of(directory)["cluster"].get("kube_system_uid") == cluster_uid)
    except EvidenceError:
        return False  # it died before it said who it is, and before it touched anything


def _is_over(root: EvidenceRoot, entry: AttemptEntry) -> bool:
    """Closed or sealed, and by its journal or that of a recovery nothing is left to be done."""
    assert entry.directory is not None
    if entry.died and not is_sealed(entry.directory):
        return False
    try:
        return rebuild(entries_of(root, entry)).over
    except EvidenceError:
        # Its own end was written while its journal was whole; only this outcome says: not put back.
        return not entry.died and entry.outcome is not Outcome.RESTORATION_FAILURE
