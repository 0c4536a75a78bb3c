"""Everything one attempt at one run works with, passed to each step of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_sremut.cluster.port import Cluster, KubeApi
    from pytest_sremut.engine.clock import Clock
    from pytest_sremut.engine.faults.benchmark import Operator
    from pytest_sremut.engine.guard import Captured, Guard
    from pytest_sremut.engine.observe.fingerprint import Fingerprint
    from pytest_sremut.engine.observe.sampler import Sampler
    from pytest_sremut.evidence.attempt import Attempt
    from pytest_sremut.study.model import Mutant, Protocol, Run, Study

__all__ = ["RunContext", "Timings", "manager_of"]


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


@dataclass(slots=True, kw_only=True)
class RunContext:
    """One attempt's world. Only the driver changes the fields below the line."""

    study: Study
    run: Run
    mutant: Mutant
    protocol: Protocol
    cluster: Cluster
    cluster_uid: str
    guard: Guard
    attempt: Attempt
    clock: Clock
    timings: Timings
    progress: Callable[[str], None]
    use_namespaces: frozenset[str] = frozenset()  # not created by us, and allowed by name
    keep_aside: Callable[[bytes], None] = lambda _body: None  # privately, until the run has ended
    # ---
    baseline: Mapping[str, int] = field(default_factory=dict)
    target: Mapping[str, Any] | None = None  # the captured live object
    mutant_objects: list[Captured] = field(default_factory=list)
    mutant_bodies: list[Mapping[str, Any]] = field(default_factory=list)  # as read back
    application: list[Captured] = field(default_factory=list)
    temporary: list[Captured] = field(default_factory=list)  # our load Jobs and probe pods
    mutated_at: datetime | None = None
    sampler: Sampler | None = None
    surroundings: Fingerprint | None = None  # before anything was touched
    operator: Operator | None = None  # runs a benchmark's injector, where the fault is one
    operations: int = 0  # how often it was asked
    deployer: Operator | None = None  # runs a benchmark's deployment, where it deploys
    deployed_by_benchmark: bool = False  # it began to, and was not asked to take it away since
    deployments: int = 0  # how often it was asked for anything
    captured: dict[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)
    """(oracle, instrument) -> what `capture_baseline()` of a benchmark's class changed in it."""

    @property
    def fault(self) -> str:
        """The fault, the profile's own before the study's."""
        return self.protocol.fault or self.study.fault

    @property
    def api(self) -> KubeApi:
        """The cluster's API."""
        return self.cluster.api

    @property
    def namespace(self) -> str:
        """The only namespace this run touches."""
        return self.study.namespace

    def forget(self, temporary: Captured) -> None:
        """A pod or Job of ours is verified gone."""
        self.temporary = [item for item in self.temporary if item.uid != temporary.uid]

    def tell(self, what: str) -> None:
        """Show run and phase while something long goes on."""
        self.progress(f"{self.run.id}: {what}")


def manager_of(attempt: Attempt) -> str:
    """Whose creations an attempt's are, for the server's `managedFields`."""
    who = attempt.identity
    return f"sremut:{who.session}:{who.study}:{who.run}-a{attempt.number:02d}"
