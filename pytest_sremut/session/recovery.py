"""Putting a cluster back that a dead session left mutated: by `sremut recover`
(`pytest_sremut.session.recovery_command`), and first thing whenever a session leases one.

The lease's dirty mark says where to look; so does the evidence itself, which is searched for
attempts on this cluster that never ended. Whoever holds the lease is alone, so each of them is
dead.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_sremut.errors import ClusterError, UsageError
from pytest_sremut.study.verdict import Outcome

if TYPE_CHECKING:
    from pytest_sremut.cluster.lease import DirtyMark, Lease
    from pytest_sremut.cluster.port import Cluster, ClusterIdentity
    from pytest_sremut.engine.recovery import Pending
    from pytest_sremut.evidence.root import AttemptEntry
    from pytest_sremut.options.settings import Settings

__all__ = ["Place", "recover_before", "recover_leased"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where evidence may lie that speaks of a cluster, and who asks."""

    project: Path  # where the studies' files lie, for evidence that is found by searching
    evidence: tuple[Path, ...]  # evidence directories
    session: str
    progress: Callable[[str], None] = lambda _text: None

    @classmethod
    def of_project(cls, project: Path, *, session: str, more: Iterable[Path] = ()) -> Place:
        """A project's own evidence directories, and others."""
        own = sorted((project / ".sremut" / "evidence").glob("*"))
        return cls(project=project, evidence=(*own, *more), session=session)


def recover_leased(
    cluster: Cluster,
    identity: ClusterIdentity,
    lease: Lease,
    place: Place,
    *,
    allowed_contexts: frozenset[str],
) -> list[str]:
    """Recover every attempt that left something on a leased cluster, and release its mark.

    Returns:
        A line for each; empty where nothing was to be done.
    Raises:
        BlockedError: One cannot be put back safely. The mark stays.
        ClusterError: The cluster gave no answer. The mark stays.
        EvidenceError: An attempt's evidence cannot be read or written. The mark stays.
    """
    from pytest_sremut.engine.clock import SystemClock
    from pytest_sremut.engine.recovery import Recoverer, seal_left

    mark = lease.dirty()
    pending = list(_pending(mark, place, identity.kube_system_uid))
    if mark is not None and not pending:
        entry = _stale(mark, lease.mark_file, identity.kube_system_uid)
        if entry.directory is not None and entry.outcome is not Outcome.COMPLETE:
            # A recovery died once it had closed the attempt, and before it had sealed it.
            seal_left(entry.directory, session=place.session, stop=entry.reason)
    recoverer = Recoverer(
        cluster=cluster,
        identity=identity,
        allowed_contexts=allowed_contexts,
        session=place.session,
        clock=SystemClock(),
        progress=place.progress,
        aside=lease.aside(),
    )
    done = [str(recoverer.recover(item)) for item in pending]
    if mark is not None:
        lease.mark_clean()
    place.progress("")
    if mark is not None and not done:
        return [f"the mark of session {mark.session} was released: its run had put everything back"]
    return done


def _pending(mark: DirtyMark | None, place: Place, uid: str) -> Iterator[Pending]:
    from pytest_sremut.engine.recovery import pending_attempts

    seen: set[Path] = set()
    searches = [(place.evidence, place.project)]
    if mark is not None and _knows(mark):
        searches.insert(0, ((Path(mark.facts["evidence"]),), Path(mark.facts["project"])))
    for evidence, project in searches:
        for item in pending_attempts(evidence, uid, project=project):
            if item.directory.resolve() not in seen:
                seen.add(item.directory.resolve())
                yield item


def _knows(mark: DirtyMark) -> bool:
    return {"evidence", "project", "attempt"} <= mark.facts.keys()


def _stale(mark: DirtyMark, file: Path, uid: str) -> AttemptEntry:
    """The attempt of a mark that leads to nothing to be recovered: it had ended well.

    Raises:
        BlockedError: It had not, or cannot be read.
    """
    from pytest_sremut.engine.recovery import BlockedError, put_back

    where = "the mark does not say"
    if _knows(mark):
        attempt = Path(mark.facts["attempt"])
        entry = put_back(attempt, Path(mark.facts["evidence"]), uid)
        if entry is not None:
            return entry
        where = f"the evidence of its run is gone, or cannot be read ({attempt})"
    raise BlockedError(
        f"session {mark.session} left the cluster mutated ({mark.note}), and how to put it back "
        f"cannot be told: {where}",
        look=(
            f"mark: {file}",
            "put the objects back by hand or take the cluster down, then remove the mark",
        ),
    )


def recover_before(settings: Settings, place: Place) -> list[str]:
    """Before a session on an existing cluster: recover what earlier ones left there.

    Returns:
        A line for each attempt that was recovered.
    Raises:
        UsageError: Another session holds the cluster.
        BlockedError: See `recover_leased`.
    """
    from pytest_sremut.cluster.context import ContextBackend

    try:
        cluster = ContextBackend.open(
            context=settings.cluster.partition(":")[2], allowed=settings.allowed_contexts
        )
    except UsageError:
        return []  # each cell will tell
    try:
        return _leased_and_recovered(cluster, place, settings.allowed_contexts)
    finally:
        cluster.close()


def _leased_and_recovered(
    cluster: Cluster, place: Place, allowed_contexts: frozenset[str]
) -> list[str]:
    from pytest_sremut.cluster.lease import Lease, directory_for

    try:
        identity = cluster.identity()
    except ClusterError:
        return []  # each cell will tell
    directory = directory_for(cluster.kubeconfig, os.environ)
    with Lease.acquire(
        identity, holder=place.session, directory=directory, allow_dirty=True
    ) as lease:
        return recover_leased(cluster, identity, lease, place, allowed_contexts=allowed_contexts)
