"""Reading every oracle of a state through every instrument, each behind the barrier.

A grader of the kind under audit sweeps every pod of the namespace, so no pod of ours may be there
when it is called, and a benchmark's own probe pod from an earlier call must have gone: it is
waited for, never deleted by us.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from pytest_sremut.cluster.port import ObjectRef
from pytest_sremut.cluster.waiting import Objects, WaitTimeoutError, wait_for
from pytest_sremut.engine.asking import request_for
from pytest_sremut.engine.guard import Captured
from pytest_sremut.engine.observe.fingerprint import Fingerprint, changes, fingerprint
from pytest_sremut.engine.observe.instruments import InstrumentSet
from pytest_sremut.engine.probes import is_probe
from pytest_sremut.engine.steps.deploy import listed
from pytest_sremut.engine.stops import RunStoppedError
from pytest_sremut.errors import (
    ClusterError,
    ClusterUnavailableError,
    HarnessError,
    UsageError,
)
from pytest_sremut.evidence.redaction import redact_text, redact_value
from pytest_sremut.oracles.benchmark.instrument import BenchmarkInstrument
from pytest_sremut.oracles.instruments import Instrument
from pytest_sremut.oracles.oracle_port import Raised, Reading
from pytest_sremut.oracles.request import ReadingRequest, oracle_tree
from pytest_sremut.study.verdict import Outcome

if TYPE_CHECKING:
    from pytest_sremut.engine.state import RunContext

__all__ = [
    "InstrumentSet",
    "TimedReading",
    "abandoned_probes",
    "barrier",
    "read_oracles",
    "unreachable",
]

_NO_ANSWER: Final = frozenset(
    f"{error.__module__}.{error.__qualname__}" for error in (ClusterError, ClusterUnavailableError)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedReading:
    """A reading with its place on the run's monotonic clock (seconds).

    `facts` are JSON-ready: the barrier before it, what changed in the cluster meanwhile, and the
    diagnostic call after it.
    """

    reading: Reading
    begin: float
    end: float
    facts: Mapping[str, Any] = field(default_factory=dict)


def barrier(ctx: RunContext) -> float:
    """Wait until no probe or load pod is in the namespace; seconds waited.

    Raises:
        RunStoppedError: One stayed (`HARNESS_TIMING_FAILURE`).
    """

    def clear(pods: Objects) -> str:
        left = [pod["metadata"]["name"] for pod in pods if is_probe(pod, ctx.study)]
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
        if is_probe(pod, ctx.study)
    ]


def read_oracles(
    ctx: RunContext, instruments: InstrumentSet, *, capture: bool = False
) -> list[TimedReading]:
    """Every oracle of the study, in order, through each of its instruments; none after one that
    got no answer from the API.

    Args:
        ctx: The attempt.
        instruments: Warm.
        capture: Let each oracle that can do so capture its baseline first: the state is healthy.

    Raises:
        HarnessError: An instrument failed; never a verdict.
        RunStoppedError: The barrier did not clear.
    """
    specs = {spec.id: spec for spec in ctx.study.oracles}
    readings: list[TimedReading] = []
    for spec in ctx.study.oracles:
        for name in spec.instruments:
            ctx.tell(f"{spec.id} {name}")
            instrument = instruments.get(name)
            node = oracle_tree(spec, specs)
            request = request_for(ctx, node, timeout=ctx.protocol.oracle_timeout)
            if isinstance(instrument, BenchmarkInstrument):
                if capture and spec.capture_baseline:
                    ctx.captured[spec.id, name] = instrument.capture(request)
                request = replace(request, captured=ctx.captured.get((spec.id, name), {}))
            readings.append(_read(ctx, instrument, request))
            if unreachable(readings[-1].reading):
                return readings
    return readings


def redacted(reading: Reading) -> Reading:
    """The reading as it may be kept and shown: the verdict stands, credentials go."""
    raised = reading.exception
    if raised is not None:
        raised = Raised(
            type=raised.type,
            message=redact_text(raised.message),
            traceback=redact_text(raised.traceback),
        )
    return replace(
        reading,
        returned=redact_value(reading.returned),
        exception=raised,
        reason=redact_text(reading.reason),
        stdout=redact_text(reading.stdout),
        stderr=redact_text(reading.stderr),
    )


def unreachable(reading: Reading) -> bool:
    """Whether a grader ended because the API refused or did not answer a call of our client's.

    What a grader does with a client of its own is the grader's, and stays its reading.
    """
    return reading.exception is not None and reading.exception.type in _NO_ANSWER


def _read(ctx: RunContext, instrument: Instrument, request: ReadingRequest) -> TimedReading:
    waited = barrier(ctx)
    before = _fingerprint(ctx)
    begin = ctx.clock.monotonic()
    reading = redacted(instrument.read(request))
    end = ctx.clock.monotonic()
    after = _fingerprint(ctx)
    facts: dict[str, Any] = {
        "barrier": {"cleared": True, "waited": f"{waited:.6f}"},
        "state": {
            "before": before.digest,
            "after": after.digest,
            "changes": changes(before, after),
            "unread": sorted({*before.unread, *after.unread}),
        },
    }
    if request.oracle.diagnostic and isinstance(instrument, BenchmarkInstrument):
        barrier(ctx)
        facts["diagnostic"] = _diagnosed(instrument, request)
    return TimedReading(reading=reading, begin=begin, end=end, facts=facts)


def _fingerprint(ctx: RunContext) -> Fingerprint:
    return fingerprint(ctx.api, ctx.namespace, is_probe=lambda pod: is_probe(pod, ctx.study))


def _diagnosed(instrument: BenchmarkInstrument, request: ReadingRequest) -> Mapping[str, Any]:
    """What the direct call gave. It stands beside the reading: that it fails is told, no more."""
    told: Mapping[str, Any]
    try:
        told = instrument.diagnose(request)
    except (HarnessError, UsageError) as error:
        told = {
            "method": request.oracle.diagnostic,
            "exception": {"type": type(error).__name__, "message": str(error)},
            "calls": [],
        }
    return {**redact_value(told)}
