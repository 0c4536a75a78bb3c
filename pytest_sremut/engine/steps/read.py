"""Reading every oracle of a state through every instrument, each behind the barrier.

A grader of the kind under audit sweeps every pod of the namespace, so no pod of ours may be there
when it is called, and a benchmark's own probe pod from an earlier call must have gone: it is
waited for, never deleted by us.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from pytest_sremut.cluster.waiting import Objects, WaitTimeoutError, wait_for
from pytest_sremut.engine.observe.fingerprint import Fingerprint, changes, fingerprint
from pytest_sremut.engine.own_pods import is_probe
from pytest_sremut.engine.state import request_for
from pytest_sremut.engine.steps.instruments import InstrumentSet
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
    from pytest_sremut.engine.state import RunContext, RunState

__all__ = [
    "OracleReadings",
    "TimedReading",
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


@dataclass(frozen=True, slots=True, kw_only=True)
class OracleReadings:
    """What the oracles of a state said."""

    readings: tuple[TimedReading, ...]
    graders: Mapping[tuple[str, str], Mapping[str, Any]]  # see `RunState.graders`


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


def read_oracles(
    ctx: RunContext, instruments: InstrumentSet, state: RunState, *, capture: bool = False
) -> OracleReadings:
    """Every oracle of the study, in order, through each of its instruments; none after one that
    got no answer from the API.

    Args:
        ctx: The attempt.
        instruments: Warm.
        state: `baseline` and `graders` are passed on to the oracles.
        capture: Let each oracle that can do so capture its baseline first: the state is healthy.

    Raises:
        HarnessError: An instrument failed; never a verdict.
        RunStoppedError: The barrier did not clear.
    """
    specs = {spec.id: spec for spec in ctx.study.oracles}
    readings: list[TimedReading] = []
    graders = dict(state.graders)
    for spec, name in [(one, name) for one in ctx.study.oracles for name in one.instruments]:
        ctx.tell(f"{spec.id} {name}")
        instrument = instruments.get(name)
        node = oracle_tree(spec, specs)
        timeout = ctx.protocol.oracle_timeout
        request = request_for(ctx, node, baseline=state.baseline, timeout=timeout)
        if isinstance(instrument, BenchmarkInstrument):
            if capture and spec.capture_baseline:
                graders[spec.id, name] = instrument.capture(request)
            request = replace(request, captured=graders.get((spec.id, name), {}))
        readings.append(_read(ctx, instrument, request))
        if unreachable(readings[-1].reading):
            break
    return OracleReadings(readings=tuple(readings), graders=graders)


def redacted(reading: Reading) -> Reading:
    """The reading as it may be kept and shown: the verdict stays, credentials go."""
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
    """What the direct call gave, beside the reading. A failure of it is only reported."""
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
