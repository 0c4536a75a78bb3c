"""What the steps of one attempt are given: what never changes, and a value of what is known so far.

Both are frozen. A step gets values and returns what it found; `engine.run` alone makes the next
`RunState` of it. What a step creates must be known even if the step is interrupted half way, so a
step reports it to an `Owned` port at the moment the server acknowledged it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from pytest_sremut.engine.guard import Guard
from pytest_sremut.oracles.request import OracleNode, ReadingRequest

if TYPE_CHECKING:
    from pytest_sremut.cluster.port import Cluster, ClusterIdentity, KubeApi
    from pytest_sremut.engine.clock import Clock
    from pytest_sremut.engine.journal_ops import Captured
    from pytest_sremut.evidence.attempt import Attempt
    from pytest_sremut.study.model import Mutant, Run, Study
    from pytest_sremut.study.model import Protocol as Profile

__all__ = [
    "LeasePort",
    "Owned",
    "Role",
    "RunContext",
    "RunState",
    "Timings",
    "manager_of",
    "request_for",
]


class Timings:
    """Seconds spent per phase, and how much of them was the protocol's own waiting."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.seconds: dict[str, float] = {}
        self.waiting: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the time of the block to a phase."""
        begun = self._clock.monotonic()
        try:
            yield
        finally:
            spent = self._clock.monotonic() - begun
            self.seconds[name] = self.seconds.get(name, 0.0) + spent

    def waited(self, name: str, seconds: float) -> None:
        """Note time that the protocol itself demands (settling, rounds, expiring deadlines)."""
        self.waiting[name] = self.waiting.get(name, 0.0) + seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """What does not change during an attempt."""

    study: Study
    run: Run
    mutant: Mutant
    protocol: Profile
    cluster: Cluster
    cluster_uid: str
    guard: Guard
    attempt: Attempt
    clock: Clock
    timings: Timings
    progress: Callable[[str], None]
    use_namespaces: frozenset[str] = frozenset()  # not created by us, and allowed by name

    @classmethod
    def of(
        cls,
        *,
        study: Study,
        run: Run,
        protocol: Profile,
        cluster: Cluster,
        identity: ClusterIdentity,
        allowed_contexts: frozenset[str],
        attempt: Attempt,
        clock: Clock,
        progress: Callable[[str], None],
        use_namespaces: frozenset[str] = frozenset(),
        manager: str = "",
        sequence: int = 0,
    ) -> RunContext:
        """The context of an attempt with the guard of its writes.

        Args:
            study: What is audited.
            run: Which mutant and repetition.
            protocol: The numbers of the profile in use.
            cluster: Leased; nobody else writes to it.
            identity: Of the cluster when it was leased.
            allowed_contexts: Contexts that may be written to.
            attempt: Already opened in the attempt ledger.
            clock: Where times come from.
            progress: Shown while something long goes on.
            use_namespaces: Namespaces that may be used though they were not created by us.
            manager: Whose creations these are; the attempt's where left out.
            sequence: Operations that the journal has already.
        """
        guard = Guard(
            cluster=cluster,
            identity=identity,
            allowed_contexts=allowed_contexts,
            namespace=study.namespace,
            journal=attempt.journal,
            manager=manager or manager_of(attempt),
            sequence=sequence,
        )
        return cls(
            study=study,
            run=run,
            mutant=study.mutant(run.mutant),
            protocol=protocol,
            cluster=cluster,
            cluster_uid=identity.kube_system_uid,
            guard=guard,
            attempt=attempt,
            clock=clock,
            timings=Timings(clock),
            progress=progress,
            use_namespaces=use_namespaces,
        )

    @property
    def fault(self) -> str:
        """Name of the fault; the profile's own comes before the study's."""
        return self.protocol.fault or self.study.fault

    @property
    def api(self) -> KubeApi:
        """The cluster's API."""
        return self.cluster.api

    @property
    def namespace(self) -> str:
        """The only namespace that this run writes to."""
        return self.study.namespace

    def tell(self, what: str) -> None:
        """Show run and phase while something long goes on."""
        self.progress(f"{self.run.id}: {what}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """What is known of the system at one moment of an attempt."""

    baseline: Mapping[str, int] = field(default_factory=dict)  # Deployment -> replicas
    target: Mapping[str, Any] | None = None  # the captured live object
    application: tuple[Captured, ...] = ()
    mutants: tuple[Captured, ...] = ()
    mutant_bodies: tuple[Mapping[str, Any], ...] = ()  # as read back
    temporary: tuple[Captured, ...] = ()  # our load Jobs and probe pods
    graders: Mapping[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)
    """(oracle, instrument) -> what `capture_baseline()` of a benchmark's class changed in it."""


class Role(StrEnum):
    """What an object of ours is for; the value is the field of `RunState` that has it."""

    APPLICATION = "application"
    MUTANT = "mutants"
    TEMPORARY = "temporary"


class Owned(Protocol):
    """Where a step reports at once what it made and what is gone.

    Whoever ends an interrupted step then knows which objects are to be taken away, by UID.
    """

    def made(self, role: Role, *items: Captured) -> None:
        """These objects exist now and are ours."""
        ...

    def gone(self, role: Role, *items: Captured) -> None:
        """Nothing more is to be done about these objects."""
        ...

    def restored(self, body: Mapping[str, Any]) -> None:
        """The target is this object now: it was put back, and belongs to the application."""
        ...


class LeasePort(Protocol):
    """The lease of the cluster, as far as a run uses it."""

    def mark_dirty(self, note: str) -> None:
        """Say durably that the cluster is about to be changed. Raises UsageError."""
        ...

    def mark_clean(self) -> None:
        """Take the mark away: the cluster is as it was found. Raises UsageError."""
        ...

    def keep_aside(self, body: bytes) -> None:
        """Keep privately what is needed to put the target back and may not be evidence.

        It is for whoever recovers the run if this process dies.
        """
        ...


def manager_of(attempt: Attempt) -> str:
    """The owner of an attempt's creations, for the server's `managedFields`."""
    who = attempt.identity
    return f"sremut:{who.session}:{who.study}:{who.run}-a{attempt.number:02d}"


def request_for(
    ctx: RunContext, oracle: OracleNode, *, baseline: Mapping[str, int], timeout: float
) -> ReadingRequest:
    """What code that is not ours gets to know: where the application is, and how it was healthy.

    Args:
        ctx: The run.
        oracle: Which grader; for an injector or a deployer its name alone.
        baseline: Deployment -> replicas while healthy; empty before.
        timeout: Hard limit, in seconds.
    """
    return ReadingRequest(
        oracle=oracle,
        kubeconfig=str(ctx.cluster.kubeconfig),
        context=ctx.cluster.context,
        cluster_uid=ctx.cluster_uid,
        namespace=ctx.namespace,
        target=ctx.study.target,
        baseline=dict(baseline),
        timeout=timeout,
        benchmark=ctx.study.benchmark,
    )
