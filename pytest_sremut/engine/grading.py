"""Reading every oracle of a state through every instrument, each behind the barrier.

A grader of the kind under audit sweeps every pod of the namespace, so no pod of ours may be there
when it is called, and a benchmark's own probe pod from an earlier call must have gone: it is
waited for, never deleted by us.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pytest_sremut.cluster.port import ObjectRef
from pytest_sremut.cluster.waiting import Objects, WaitTimeoutError, wait_for
from pytest_sremut.engine.application import listed
from pytest_sremut.engine.guard import Captured
from pytest_sremut.engine.labels import ROLE_LABEL
from pytest_sremut.engine.stops import RunStoppedError
from pytest_sremut.errors import UsageError
from pytest_sremut.oracles.instruments import InProcess, Instrument, Isolated
from pytest_sremut.oracles.port import Reading
from pytest_sremut.oracles.request import ReadingRequest, oracle_tree
from pytest_sremut.study.verdict import Outcome

if TYPE_CHECKING:
    from pytest_sremut.engine.context import RunContext
    from pytest_sremut.study.model import OracleSpec, Study

__all__ = ["InstrumentSet", "TimedReading", "abandoned_probes", "barrier", "read_oracles"]

_PROBE_OF_A_BENCHMARK: Final = ("app", "service-connectivity-check")


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedReading:
    """A reading with its place on the run's monotonic clock (seconds)."""

    reading: Reading
    begin: float
    end: float


class InstrumentSet:
    """The instruments of a session, each started once and kept warm."""

    def __init__(self, instruments: Sequence[Instrument] | None = None) -> None:
        known = (InProcess(), Isolated()) if instruments is None else instruments
        self._known: dict[str, Instrument] = {item.name: item for item in known}

    def start(self, study: Study) -> None:
        """Warm up what the study needs. Raises UsageError naming an instrument that is absent."""
        for spec in study.oracles:
            for name in spec.instruments:
                self.get(name).start()

    def get(self, name: str) -> Instrument:
        """The instrument of that name. Raises UsageError."""
        if name not in self._known:
            raise UsageError(
                f"instrument {name!r} is not here; allowed: {', '.join(sorted(self._known))}"
            )
        return self._known[name]

    def close(self) -> None:
        """End every instrument's processes."""
        for instrument in self._known.values():
            instrument.close()


def barrier(ctx: RunContext) -> float:
    """Wait until no probe or load pod is in the namespace; seconds waited.

    Raises:
        RunStoppedError: One stayed (`HARNESS_TIMING_FAILURE`).
    """

    def clear(pods: Objects) -> str:
        left = [p["metadata"]["name"] for p in pods if _is_probe(p["metadata"].get("labels"))]
        return f"pods of a probe are still there: {', '.join(left[:3])}" if left else ""

    try:
        waited = wait_for(
            ctx.api, "Pod", ctx.namespace, clear, timeout=ctx.protocol.barrier_timeout
        )
    except WaitTimeoutError as error:
        raise RunStoppedError(Outcome.HARNESS_TIMING_FAILURE, f"barrier: {error}") from error
    return waited.elapsed


def abandoned_probes(ctx: RunContext) -> list[Captured]:
    """Probe pods whose grader was interrupted and will not take them away any more."""
    return [
        Captured(
            ref=ObjectRef(kind="Pod", namespace=ctx.namespace, name=pod["metadata"]["name"]),
            uid=pod["metadata"]["uid"],
        )
        for pod in listed(ctx.api.list("Pod", ctx.namespace))
        if _is_probe(pod["metadata"].get("labels"))
    ]


def _is_probe(labels: Mapping[str, Any] | None) -> bool:
    key, value = _PROBE_OF_A_BENCHMARK
    return labels is not None and (ROLE_LABEL in labels or labels.get(key) == value)


def read_oracles(ctx: RunContext, instruments: InstrumentSet) -> list[TimedReading]:
    """Every oracle of the study, in order, through each of its instruments.

    Raises:
        HarnessError: An instrument failed; never a verdict.
        RunStoppedError: The barrier did not clear.
    """
    specs = {spec.id: spec for spec in ctx.study.oracles}
    readings: list[TimedReading] = []
    for spec in ctx.study.oracles:
        for name in spec.instruments:
            ctx.tell(f"{spec.id} {name}")
            barrier(ctx)
            begin = ctx.clock.monotonic()
            reading = instruments.get(name).read(_request(ctx, spec, specs))
            readings.append(TimedReading(reading=reading, begin=begin, end=ctx.clock.monotonic()))
    return readings


def _request(ctx: RunContext, spec: OracleSpec, specs: Mapping[str, OracleSpec]) -> ReadingRequest:
    return ReadingRequest(
        oracle=oracle_tree(spec, specs),
        kubeconfig=str(ctx.cluster.kubeconfig),
        context=ctx.cluster.context,
        cluster_uid=ctx.cluster_uid,
        namespace=ctx.namespace,
        target=ctx.study.target,
        baseline=dict(ctx.baseline),
        timeout=ctx.protocol.oracle_timeout,
    )
