"""The cluster of one process: opened when the first cell asks for it, leased, given back.

What dead processes left on it is put back before anything of ours is done there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_sremut.cluster.lease import Lease, directory_for
from pytest_sremut.cluster.port import LogSource
from pytest_sremut.session.recovery import Place, recover_leased

if TYPE_CHECKING:
    from pytest_sremut.cluster.port import Cluster, ClusterIdentity
    from pytest_sremut.evidence.attempt import Attempt
    from pytest_sremut.options.settings import Settings
    from pytest_sremut.session.members import Member

__all__ = ["ClusterFactory", "LeaseMark", "Leased", "Leasing"]

ClusterFactory = Callable[["Settings", str], "Cluster"]
"""Settings, name of the cluster -> the cluster."""


class LeaseMark:
    """The lease as one attempt uses it; satisfies `engine.state.LeasePort`.

    Its durable mark says whether the cluster must be put back.

    Args:
        lease: Of the cluster.
        facts: What recovery needs to find the journal and to reach the cluster.
    """

    def __init__(self, lease: Lease, facts: Mapping[str, str]) -> None:
        self._lease = lease
        self._facts = facts

    def mark_dirty(self, note: str) -> None:
        """Before anything is written to the cluster. `note` is one sentence. Raises UsageError."""
        self._lease.mark_dirty(note, self._facts)

    def mark_clean(self) -> None:
        """Once everything is undone. Raises UsageError: the mark may stay then."""
        self._lease.mark_clean()

    def keep_aside(self, body: bytes) -> None:
        """Privately, for whoever recovers the attempt: what restores the target, no evidence."""
        self._lease.keep_aside(body)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leased:
    """A cluster that this process alone may write to."""

    cluster: Cluster
    identity: ClusterIdentity
    lease: Lease

    @property
    def own_context(self) -> frozenset[str]:
        """A cluster that this session started itself may be written to."""
        return frozenset({self.cluster.context}) if _is_own(self.cluster) else frozenset()

    def record(self) -> dict[str, object]:
        """What an attempt's identity says about its cluster."""
        facts = self.cluster.facts()
        return {
            "kind": facts.kind,
            "name": facts.name,
            "context": facts.context,
            "kube_system_uid": self.identity.kube_system_uid,
            "server_version": self.identity.server_version,
            "facts": dict(facts.values),
        }

    def mark_of(self, attempt: Attempt, *, settings: Settings, evidence: Path) -> LeaseMark:
        """The mark under which an attempt mutates the cluster."""
        return LeaseMark(
            self.lease,
            {
                "study": attempt.identity.study,
                "run": attempt.run,
                "attempt": str(attempt.directory.absolute()),
                "evidence": str(evidence.absolute()),
                "project": str(settings.root.absolute()),
                "kind": settings.cluster_kind,
                "context": self.cluster.context,
                "kubeconfig": str(self.cluster.kubeconfig.absolute()),
            },
        )


class Leasing:
    """Opens, leases, recovers and gives back the cluster of one process.

    Args:
        settings: Of the session.
        member: Which process this is.
        progress: Shown while something long goes on.
        open_cluster: Instead of what the settings name.
    """

    def __init__(
        self,
        settings: Settings,
        member: Member,
        *,
        progress: Callable[[str], None],
        open_cluster: ClusterFactory | None = None,
    ) -> None:
        self._settings = settings
        self._member = member
        self._progress = progress
        self._open = open_cluster or partial(
            _opened, session=member.session, evidence=member.evidence, tell=progress
        )
        self._cluster: Cluster | None = None
        self._lease: Lease | None = None
        self._leased: Leased | None = None
        self.recovered: list[str] = []  # attempts of dead processes, put back before ours

    def take(self) -> Leased:
        """The leased cluster, brought up if need be. Raises SremutError."""
        if self._leased is None:
            name = f"{self._member.session[-6:]}-{self._member.worker}"
            self._cluster = cluster = self._open(self._settings, name)
            identity = cluster.identity()
            self._lease = lease = Lease.acquire(
                identity,
                holder=self._member.session,
                directory=_lease_directory(cluster),
                allow_dirty=True,
            )
            if not _is_own(cluster):  # a worker that died may have left it so just now
                self._recover(cluster, identity, lease)
            self._leased = Leased(cluster=cluster, identity=identity, lease=lease)
        return self._leased

    def is_taken(self) -> bool:
        """Whether the cluster is leased."""
        return self._leased is not None

    def close(self, *, keep_logs: bool) -> None:
        """Give the lease and the cluster back. Idempotent. Raises SremutError.

        Args:
            keep_logs: Keep the cluster's logs beside the evidence, where it has any.
        """
        self._leased = None
        with ExitStack() as last:  # each is done, whatever becomes of the one before it
            last.callback(self._close_cluster, keep_logs=keep_logs)
            lease, self._lease = self._lease, None
            if lease is not None:
                lease.release()

    def _close_cluster(self, *, keep_logs: bool) -> None:
        cluster, self._cluster = self._cluster, None
        if cluster is None:
            return
        if keep_logs and isinstance(cluster, LogSource):
            self._progress("keeping the cluster's logs")
            cluster.export_logs(self._member.evidence / "clusters")
        self._progress("taking the cluster down")
        cluster.close()
        self._progress("")

    def _recover(self, cluster: Cluster, identity: ClusterIdentity, lease: Lease) -> None:
        """Put back what died on this cluster, and refuse it where that is blocked."""
        place = Place.of_project(
            self._settings.root, session=self._member.session, more=[self._member.evidence]
        )
        self.recovered += recover_leased(
            cluster,
            identity,
            lease,
            replace(place, progress=self._progress),
            allowed_contexts=self._settings.allowed_contexts,
        )


def _opened(
    settings: Settings, name: str, *, session: str, evidence: Path, tell: Callable[[str], None]
) -> Cluster:
    """The cluster that the settings name. Raises UsageError and ClusterError."""
    if settings.cluster == "kind":
        from pytest_sremut.cluster.kind.backend import KindBackend, Plan

        plan = Plan(
            name=name,
            session=session,
            evidence=evidence,
            image=settings.kind_image,
            workers=settings.kind_workers,
            keep=settings.keep_cluster,
        )
        return KindBackend.start(plan, tell=tell)
    if settings.cluster == "embedded":
        from pytest_sremut.cluster.embedded import EmbeddedBackend, named_directory
        from pytest_sremut.embedded import Options

        return EmbeddedBackend.start(
            name=name,
            # A kept one lies where `sremut cluster` finds it by its name.
            directory=named_directory(name) if settings.keep_cluster else None,
            keep=settings.keep_cluster,
            options=Options.of_text(dict(settings.embedded)),
        )
    from pytest_sremut.cluster.context import ContextBackend

    return ContextBackend.open(
        context=settings.cluster.split(":", 1)[1], allowed=settings.allowed_contexts
    )


def _is_own(cluster: Cluster) -> bool:
    return cluster.facts().kind in {"embedded", "kind"}


def _lease_directory(cluster: Cluster) -> Path:
    """A cluster of our own is gone with its directory, and so is its lease."""
    if _is_own(cluster):
        return cluster.kubeconfig.parent
    return directory_for(cluster.kubeconfig, os.environ)
