"""A `ContractPort` over the fake world, with a clock that only moves when it is waited for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any

from fake_kube import FakeKube
from world import NS, TARGET

from pytest_sremut.cluster.port import ExecResult, Failed, Kind, ObjectRef
from pytest_sremut.study.model import Contract, Invariant, Protocol, Target, Workload
from pytest_sremut.workload.report import Round, RoundOutcome
from pytest_sremut.workload.window import Window

__all__ = ["FakePort", "make_contract", "make_window"]


def make_window(*, requests: int = 100, failures: int = 0, rounds: int = 10) -> Window:
    """A window of equal rounds."""
    at = datetime(2026, 11, 30, tzinfo=UTC)
    return Window(
        boundary=None,
        at_least=rounds,
        before=0,
        unfinished=0,
        rounds=tuple(
            Round(
                number=number,
                source="",
                begin=at,
                end=at,
                requests=requests // rounds,
                failures=failures // rounds,
                socket_errors=None,
                duration=0.5,
                received=1,
                rate=200.0,
                latency=0.001,
                outcome=RoundOutcome.OK,
                findings=(),
            )
            for number in range(rounds)
        ),
    )


def make_contract(**parameters: Mapping[str, Any]) -> Contract:
    """The contract of the audit; `MS_I4={...}` replaces an invariant's parameters."""
    rows: list[tuple[str, str, dict[str, Any]]] = [
        ("MS-I1", "service-identity", {}),
        ("MS-I2", "backend-routing", {"connect_timeout": 3.0}),
        ("MS-I3", "ready-endpoints", {"minimum": 1}),
        ("MS-I4", "functional-workload", {"minimum_requests": 50, "maximum_failures": 0}),
        ("MS-I5", "capacity-preserved", {"floor_percent": 100}),
        (
            "MS-I6",
            "repair-persistence",
            {
                "again": ["MS-I1", "MS-I2", "MS-I3", "MS-I4"],
                "minimum_requests": 50,
                "maximum_failures": 0,
            },
        ),
    ]
    return Contract(
        id="missing_service",
        file=PurePosixPath("contracts/missing_service.yaml"),
        invariants=tuple(
            Invariant(
                id=name,
                name=check,
                check=check,
                deadline=30.0,
                parameters=parameters.get(name.replace("-", "_"), given),
            )
            for name, check, given in rows
        ),
    )


class FakePort:
    """See `ContractPort`."""

    def __init__(self, kube: FakeKube, *, baseline: Mapping[str, int]) -> None:
        self.kube = kube
        self.api = kube
        self.namespace = NS
        self.target: Target = TARGET
        self.baseline = baseline
        self.protocol = Protocol(
            profile="test",
            settle=0,
            poll=2.0,
            deploy_timeout=1,
            stable_timeout=1,
            oracle_timeout=1,
            barrier_timeout=1,
            sampler_interval=1,
            deadlines={"MS-I6": 20.0},
            workload=Workload(
                url="http://x", rate=200, connections=3, threads=1, duration=0.5, pause=0,
                rounds=10, timeout=1, mix=(),
            ),
        )  # fmt: skip
        self.clock = 0.0
        self.waits = 0
        self.seen = make_window()
        self.fresh: Callable[[], Window] = make_window
        self.deleted: list[str] = []
        self.on_wait: Callable[[float], None] | None = None
        self.probes: list[Sequence[str]] = []
        self.watched: list[Kind] = []

    def probe(self, argv: Sequence[str], *, timeout: float) -> ExecResult | Failed:
        self.probes.append(tuple(argv))
        return self.kube.exec(NS, "sremut-probe", argv, timeout=timeout)

    def window(self) -> Window:
        return self.seen

    def fresh_window(self) -> Window:
        return self.fresh()

    def delete_pod(self, ref: ObjectRef, uid: str) -> object:
        self.deleted.append(ref.name)
        return self.kube.delete(ref, uid=uid)

    def now(self) -> float:
        return self.clock

    def wait(self, seconds: float) -> None:
        self.waits += 1
        assert self.waits < 10_000
        self.clock += seconds
        if self.on_wait is not None:
            self.on_wait(self.clock)

    def changed(self, kind: Kind, *, since: str, within: float) -> None:
        assert since
        self.watched.append(kind)
        self.wait(within)
