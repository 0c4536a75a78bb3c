"""From what a state yielded to its record (`sremut/state/v1`), raw files first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from pytest_sremut.cluster.overlap import overlapped
from pytest_sremut.cluster.port import Failed, Kind
from pytest_sremut.contract.contract_port import ContractReading
from pytest_sremut.engine.clock import rfc3339
from pytest_sremut.engine.observe.windows import TakenWindow
from pytest_sremut.engine.steps.activation import CriterionResult
from pytest_sremut.engine.steps.read import TimedReading
from pytest_sremut.evidence.rawref import RawRef
from pytest_sremut.evidence.redaction import redact, redact_text, redact_value
from pytest_sremut.study.verdict import Registration, State

if TYPE_CHECKING:
    from pytest_sremut.engine.state import RunContext, Timings
    from pytest_sremut.oracles.oracle_port import Reading

__all__ = [
    "StateNotes",
    "StateReadings",
    "attempt_facts",
    "contract_record",
    "dump_objects",
    "state_record",
    "workload_record",
]

_DUMPED: tuple[Kind, ...] = ("Service", "Endpoints", "EndpointSlice", "Deployment", "Pod")


@dataclass(slots=True, kw_only=True)
class StateNotes:
    """What one state has yielded so far."""

    state: State
    started: datetime
    activation: list[tuple[str, CriterionResult]] = field(default_factory=list)
    readings: Sequence[TimedReading] = ()
    window: TakenWindow | None = None
    contract: ContractReading | None = None
    objects: list[RawRef] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    timings: dict[str, float] = field(default_factory=dict)
    waiting: dict[str, float] = field(default_factory=dict)

    def reckon(self, timings: Timings) -> None:
        """Note what had been spent when the state began."""
        self.timings, self.waiting = dict(timings.seconds), dict(timings.waiting)

    def charge(self, timings: Timings) -> None:
        """What the state cost: the difference to when it began."""
        self.timings = _spent(timings.seconds, self.timings)
        self.waiting = _spent(timings.waiting, self.waiting)

    def said(self) -> StateReadings:
        """What the graders and the contract said. The contract was evaluated."""
        assert self.contract is not None
        by_oracle: dict[str, tuple[Reading, ...]] = {}
        for item in self.readings:
            known = by_oracle.get(item.reading.oracle, ())
            by_oracle[item.reading.oracle] = (*known, item.reading)
        return StateReadings(state=self.state, readings=by_oracle, contract=self.contract)


@dataclass(frozen=True, slots=True, kw_only=True)
class StateReadings:
    """What the graders and the contract said in one finished state."""

    state: State
    readings: Mapping[str, tuple[Reading, ...]]  # oracle id -> one reading per instrument
    contract: ContractReading


def _spent(now: Mapping[str, float], before: Mapping[str, float]) -> dict[str, float]:
    spent = {name: value - before.get(name, 0.0) for name, value in now.items()}
    return {name: value for name, value in spent.items() if value > 0.0}


def dump_objects(ctx: RunContext, state: State, when: str) -> list[RawRef]:
    """Keep the namespace's objects of the allow-listed kinds, redacted; a failed read is kept
    as what it is.

    Returns:
        The files.
    """
    files: list[RawRef] = []
    listings = overlapped([partial(ctx.api.list, kind, ctx.namespace) for kind in _DUMPED])
    for kind, listing in zip(_DUMPED, listings, strict=True):
        value: dict[str, Any]
        if isinstance(listing, Failed):
            value = {"kind": kind, "failed": listing.message, "status": listing.status}
        else:
            value = {
                "kind": kind,
                "resourceVersion": listing.resource_version,
                "items": [redact(kind, item) for item in listing.items],
            }
        name = f"{state.value}-{when}-{kind.lower()}.json"
        files.append(ctx.attempt.json(name, value))
    return files


def state_record(
    ctx: RunContext, notes: StateNotes, *, registration: Registration, finished: datetime
) -> dict[str, Any]:
    """The record of a finished state; writes the returned objects on the way."""
    return {
        "schema": "sremut/state/v1",
        "study": ctx.study.id,
        "run": ctx.run.id,
        "attempt": ctx.attempt.number,
        "state": notes.state.value,
        "registration": registration.value,
        "started": rfc3339(notes.started),
        "finished": rfc3339(finished),
        "activation": [
            {
                "when": when,
                "criterion": result.criterion,
                "holds": result.holds,
                "observed": redact_text(result.observed),
            }
            for when, result in notes.activation
        ],
        "readings": [_reading(ctx, notes.state, item) for item in notes.readings],
        "workload": None if notes.window is None else workload_record(notes.window),
        "contract": None if notes.contract is None else contract_record(notes.contract),
        "objects": [ref.as_json() for ref in notes.objects],
        "timings": _rounded(notes.timings),
        "waiting": _rounded(notes.waiting),
        "facts": notes.facts,
    }


def attempt_facts(timings: Timings, notes: Iterable[StateNotes]) -> dict[str, Any]:
    """The parts of an attempt's record that its states add up to: what it cost, and versions and
    digests as each instrument last reported them."""
    return {
        "instruments": {
            item.reading.instrument: dict(item.reading.facts)
            for one in notes
            for item in one.readings
        },
        "timings": _rounded(timings.seconds),
        "waiting": _rounded(timings.waiting),
    }


def _reading(ctx: RunContext, state: State, item: TimedReading) -> dict[str, Any]:
    reading = item.reading
    raw = ctx.attempt.json(
        f"{state.value}-{reading.oracle}-{reading.instrument}.json", reading.to_json()
    )
    exception: dict[str, str] | None = None
    if reading.exception is not None:
        exception = {"type": reading.exception.type, "message": reading.exception.message}
    elif reading.reason:
        exception = {"type": "NoVerdict", "message": reading.reason}
    return {
        "oracle": reading.oracle,
        "use": reading.use,
        "instrument": reading.instrument,
        "verdict": reading.verdict.value,
        "returned": raw.as_json(),
        "exception": exception,
        "started": reading.started,
        "elapsed": round(reading.elapsed, 6),
        "instrument_facts": dict(reading.facts),
        "facts": {"begin": f"{item.begin:.6f}", "end": f"{item.end:.6f}", **item.facts},
    }


def workload_record(taken: TakenWindow) -> dict[str, Any]:
    """A window as a record has it."""
    return {**taken.window.record(), "raw": taken.raw.as_json(), "facts": dict(taken.facts)}


def contract_record(reading: ContractReading) -> dict[str, Any]:
    """What the contract said, as a record has it."""
    return {
        "verdict": reading.verdict.value,
        "violated": sorted(reading.violated),
        "not_evaluated": sorted(reading.not_evaluated),
        "invariants": [
            {
                "id": result.id,
                "evaluation": result.evaluation.value,
                "observed": redact_text(result.observed),
                "elapsed": round(result.elapsed, 6),
                "facts": redact_value(dict(result.facts)),
            }
            for result in reading.invariants
        ],
    }


def _rounded(seconds: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, 6) for name, value in seconds.items()}
