"""Every way in which an API server fails, as its client tells it, at any call of a whole run.

    world = FaultedWorld(tmp_path)
    driver = world.small_driver("MS-M02")
    world.api.plan(at=17, way=WAYS["reset"], effect="after")
    run_to_its_end(driver)

`WAYS` is what `KubeClient` makes of each way: `test_cluster_ways.py` proves that over a socket.
A write whose answer is lost was made or not: `effect` says which.
"""

from __future__ import annotations

import dataclasses
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from engine_world import EngineWorld, FakeInstrument
from fake_kube import FakeKube

from pytest_sremut.cluster.identity import read_identity, read_uid
from pytest_sremut.cluster.port import (
    Absent,
    ClusterIdentity,
    Deleted,
    ExecResult,
    Failed,
    Kind,
    KubeApi,
    Listing,
    ObjectRef,
    Present,
    Right,
    WatchEvent,
)
from pytest_sremut.engine.run import Driver, StateReadings
from pytest_sremut.errors import ClusterError, ClusterUnavailableError, SremutError
from pytest_sremut.evidence.load import load_attempt
from pytest_sremut.evidence.root import EvidenceRoot
from pytest_sremut.study.model import Study
from pytest_sremut.study.verdict import Outcome, State

__all__ = [
    "WAYS",
    "Effect",
    "FaultedWorld",
    "FaultyKube",
    "Way",
    "problems_of",
    "run_to_its_end",
    "verdicts",
]

_T = TypeVar("_T")
Effect = Literal["before", "after"]
"""Of a write that fails: whether the server had carried it out."""

Streamed = Literal["raises", "cut-quietly", "garbage"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How a call fails: what the client says of it."""

    name: str
    status: int
    reason: str
    refused: bool = False  # a write: the server says that nothing happened
    lost_answer: bool = False  # a write: it may have happened
    logs: Streamed = "raises"
    message: str = "told to fail"

    def failed(self, what: str) -> Failed:
        return Failed(
            what=what, status=self.status, reason=self.reason, message=f"{self.message} {self.name}"
        )

    def error(self, what: str) -> ClusterError:
        kind = ClusterError if self.refused else ClusterUnavailableError
        text = f"{what}: {self.message} {self.name}"
        return kind(text, status=self.status, reason=self.reason)

    @property
    def effects(self) -> tuple[Effect, ...]:
        return ("before", "after") if self.lost_answer else ("before",)


def _ways(*ways: Way) -> dict[str, Way]:
    return {way.name: way for way in ways}


WAYS = _ways(
    Way(name="refused", status=0, reason="Refused"),
    Way(name="reset", status=0, reason="Reset", lost_answer=True),
    Way(name="hung", status=0, reason="Timeout", lost_answer=True, logs="cut-quietly"),
    Way(name="500", status=500, reason="InternalError", lost_answer=True),
    Way(name="429", status=429, reason="TooManyRequests"),
    Way(name="429-retry-after", status=429, reason="TooManyRequests"),
    Way(name="409", status=409, reason="Conflict", refused=True),
    Way(name="410", status=410, reason="Expired", refused=True),
    Way(name="truncated", status=0, reason="Truncated", lost_answer=True),
    Way(name="content-type", status=200, reason="Malformed", lost_answer=True),
    Way(name="not-json", status=200, reason="Malformed", lost_answer=True, logs="garbage"),
    Way(name="wrong-shape", status=200, reason="Malformed", lost_answer=True, logs="garbage"),
    Way(name="html", status=200, reason="Malformed", lost_answer=True),
)


@dataclass(slots=True)
class _Plan:
    at: int
    way: Way
    effect: Effect = "before"
    lasting: bool = False
    times: int = 0
    struck: list[str] = field(default_factory=list)

    @property
    def over(self) -> bool:
        return 0 < self.times <= len(self.struck)


class FaultyKube:
    """A `KubeApi` before a `FakeKube`, whose n-th call (from 1) fails, or all from there on.

    Calls of the main thread are counted; a lasting failure is everybody's, the sampler's too.
    """

    def __init__(self, kube: FakeKube) -> None:
        self.kube = kube
        self.calls: list[str] = []  # as the client tells them
        self.sites: list[tuple[str, ...]] = []  # where: `module.function`, innermost first
        self.trace = False
        self._plan: _Plan | None = None
        self._main = threading.main_thread()

    def plan(
        self,
        *,
        at: int,
        way: Way,
        effect: Effect = "before",
        lasting: bool = False,
        times: int = 0,
    ) -> None:
        """`times`: so many calls of a lasting failure, then the API is back."""
        self._plan = _Plan(at=at, way=way, effect=effect, lasting=lasting, times=times)

    @property
    def struck(self) -> list[str]:
        """The calls of the main thread that failed."""
        return [] if self._plan is None else self._plan.struck

    # -- the port --------------------------------------------------------------------------------

    def get(self, ref: ObjectRef) -> Present | Absent | Failed:
        return self._read(f"get {ref}", lambda: self.kube.get(ref))

    def list(
        self, kind: Kind, namespace: str, *, labels: str = "", fields: str = ""
    ) -> Listing | Failed:
        return self._read(
            f"list {kind} in {namespace or 'all namespaces'}",
            lambda: self.kube.list(kind, namespace, labels=labels, fields=fields),
        )

    def watch(
        self, kind: Kind, namespace: str, *, resource_version: str, timeout: float, labels: str = ""
    ) -> Iterator[WatchEvent]:
        what = f"watch {kind} in {namespace}"
        if way := self._strikes(what):
            raise way.error(what)
        return self.kube.watch(
            kind, namespace, resource_version=resource_version, timeout=timeout, labels=labels
        )

    def create(self, body: Mapping[str, Any], *, namespace: str, manager: str = "") -> Present:
        what = f"create {body['kind']} {namespace}/{body['metadata']['name']}"
        return self._write(
            what, lambda: self.kube.create(body, namespace=namespace, manager=manager)
        )

    def replace(self, body: Mapping[str, Any], *, namespace: str) -> Present:
        what = f"replace {body['kind']} {namespace}/{body['metadata']['name']}"
        return self._write(what, lambda: self.kube.replace(body, namespace=namespace))

    def delete(
        self,
        ref: ObjectRef,
        *,
        uid: str,
        resource_version: str = "",
        grace_period: int | None = None,
        propagation: Literal["Background", "Foreground", "Orphan"] | None = None,
    ) -> Deleted | Absent:
        return self._write(
            f"delete {ref}",
            lambda: self.kube.delete(
                ref,
                uid=uid,
                resource_version=resource_version,
                grace_period=grace_period,
                propagation=propagation,
            ),
        )

    def exec(
        self, namespace: str, pod: str, argv: Sequence[str], *, timeout: float
    ) -> ExecResult | Failed:
        return self._read(
            f"exec in Pod {namespace}/{pod}",
            lambda: self.kube.exec(namespace, pod, argv, timeout=timeout),
        )

    def logs(
        self,
        namespace: str,
        pod: str,
        *,
        container: str = "",
        follow: bool = False,
        since: str = "",
        timeout: float,
    ) -> Iterator[bytes]:
        what = f"logs of Pod {namespace}/{pod}"
        way = self._strikes(what)
        whole = self.kube.logs(
            namespace, pod, container=container, follow=follow, since=since, timeout=timeout
        )
        if way is None:
            yield from whole
        elif way.logs == "garbage":
            yield b"{}<html>\x00 not a log\n"
        else:
            log = b"".join(whole)
            yield log[: len(log) // 2]
            if way.logs == "raises":
                raise way.error(what)

    def version(self) -> Mapping[str, Any] | Failed:
        return self._read("get /version", self.kube.version)

    def allowed(self, right: Right) -> bool | Failed:
        return self._read(f"ask whether we may {right}", lambda: self.kube.allowed(right))

    # -- inside ----------------------------------------------------------------------------------

    def _read(self, what: str, call: Callable[[], _T]) -> _T | Failed:
        way = self._strikes(what)
        return call() if way is None else way.failed(what)

    def _write(self, what: str, call: Callable[[], _T]) -> _T:
        way = self._strikes(what)
        if way is None:
            return call()
        assert self._plan is not None
        if self._plan.effect == "after" and way.lost_answer:
            call()
        raise way.error(what)

    def _strikes(self, what: str) -> Way | None:
        plan = None if self._plan is None or self._plan.over else self._plan
        if threading.current_thread() is not self._main:
            return plan.way if plan is not None and plan.lasting and plan.struck else None
        self.calls.append(what)
        if self.trace:
            self.sites.append(_engine_frames())
        number = len(self.calls)
        if plan is None or number < plan.at or (number > plan.at and not plan.lasting):
            return None
        plan.struck.append(what)
        return plan.way


def _engine_frames() -> tuple[str, ...]:
    """Functions of ours on the way to the call, innermost first, less what every call has."""
    found: list[str] = []
    frame: Any = sys._getframe(2)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name.startswith("pytest_sremut."):
            found.append(f"{name.rsplit('.', 1)[1]}.{frame.f_code.co_name}")
        frame = frame.f_back
    return tuple(found)


class FaultedWorld(EngineWorld):
    """The run in memory behind a `FaultyKube`; its identity is read through the API, too."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.faulty = FaultyKube(self.kube)
        self.instruments = [FakeInstrument(one.name, self.faulty) for one in self.instruments]

    @property
    def api(self) -> KubeApi:
        return self.faulty if hasattr(self, "faulty") else self.kube

    def identity(self) -> ClusterIdentity:
        return read_identity(self.api, "fake")

    def kube_system_uid(self) -> str:
        return read_uid(self.api)

    def small_study(self, mutant: str) -> Study:
        """One oracle through one instrument: every call site is there, few are there often."""
        study = _study(self, mutant)
        only = next(spec for spec in study.oracles if spec.use == "reference:service-endpoints")
        return dataclasses.replace(
            study, oracles=(dataclasses.replace(only, instruments=("in-process",)),)
        )

    def small_driver(self, mutant: str) -> Driver:
        """A driver of the small study whose calls are counted from now on."""
        driver = self.driver(mutant, study=self.small_study(mutant))
        self.faulty.calls.clear()
        return driver

    @property
    def left(self) -> list[tuple[str, str, str]]:
        """What a run left in its namespace."""
        from world import NS

        return [key for key in self.kube.objects if key[1] == NS and key[0] != "EndpointSlice"]


_studies: dict[bool, Study] = {}


def _study(world: EngineWorld, mutant: str) -> Study:
    pinned = mutant == "MS-M04"
    if pinned not in _studies:
        _studies[pinned] = world.pinned() if pinned else world.study()
    return _studies[pinned]


def verdicts(state: StateReadings) -> dict[str, str]:
    """What was concluded in a state: oracle and instrument, or the contract -> verdict."""
    told = {
        f"{reading.oracle}/{reading.instrument}": reading.verdict.value
        for readings in state.readings.values()
        for reading in readings
    }
    told["contract"] = f"{state.contract.verdict.value} {sorted(state.contract.violated)}"
    return told


def run_to_its_end(driver: Driver) -> tuple[dict[State, dict[str, str]], SremutError | None]:
    """Every state until one stops the run: their verdicts, and the error that a cell gets."""
    seen: dict[State, dict[str, str]] = {}
    for state in State:
        try:
            seen[state] = verdicts(driver.state(state))
        except SremutError as error:
            return seen, error
    return seen, None


def problems_of(
    world: FaultedWorld,
    driver: Driver,
    seen: Mapping[State, Mapping[str, str]],
    error: SremutError | None,
    expected: Mapping[State, Mapping[str, str]],
    *,
    lasting: bool,
) -> list[str]:
    """What is wrong with how a run took a failure of the API; empty when nothing is.

    No verdict but those of a run without failures; the outcome of a failed infrastructure, told
    with the call; a cluster that was put back, or a mark that says that it was not; an attempt
    that is closed and holds together.
    """
    outcome, told = driver.outcome, str(error)
    found = [f"{state.value}: {given}" for state, given in seen.items() if given != expected[state]]
    allowed = {Outcome.INFRASTRUCTURE_FAILURE}
    if error is None:  # it was read again, or was not needed
        allowed = {Outcome.COMPLETE}
    elif lasting:
        allowed.add(Outcome.RESTORATION_FAILURE)
    if outcome not in allowed:
        found.append(f"its outcome is {outcome}: {told}")
    if error is not None and not any(call in told for call in world.faulty.struck):
        found.append(f"{told!r} does not name {world.faulty.struck[0]!r}")
    marked = world.marks[-1:] not in ([], [""])
    if not lasting and (driver.dirty or marked or world.left):
        found.append(f"not put back: {driver.dirty!r}, {world.marks}, {world.left}")
    if world.left and not (driver.dirty and marked):
        found.append(f"left unmarked: {world.left}")
    if outcome is Outcome.RESTORATION_FAILURE and not marked:
        found.append("not restored and not marked")
    record = load_attempt(driver.attempt.directory)
    found += record.problems
    if record.outcome is not outcome:
        found.append(f"recorded as {record.outcome}")
    (entry,) = EvidenceRoot.existing(world.directory).attempts()
    if entry.problem or entry.outcome is not outcome:
        found.append(f"the ledger says {entry.outcome}, {entry.problem}")
    return found
