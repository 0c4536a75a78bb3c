"""Attempts read back from disk: frozen values, and a problem for everything that does not hold.

Readers see what is there: finished states of an attempt that died, and next to them every digest
that does not match, every file that is missing or of which nothing speaks. Nothing is dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_sremut.evidence.journal import JournalReading
from pytest_sremut.evidence.rawref import RawRef
from pytest_sremut.study.verdict import (
    ContractVerdict,
    Evaluation,
    Outcome,
    Registration,
    State,
    Verdict,
)

__all__ = [
    "ActivationRecord",
    "AttemptRecord",
    "ContractRecord",
    "InvariantRecord",
    "ReadingRecord",
    "RoundRecord",
    "StateRecord",
    "WorkloadRecord",
    "state_record",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivationRecord:
    """One activation criterion at one time of asking."""

    when: str  # "after-apply" or "before-oracle"
    criterion: str
    holds: bool
    observed: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingRecord:
    """What one instrument got from one oracle."""

    oracle: str
    use: str
    instrument: str
    verdict: Verdict
    returned: RawRef | None
    exception: str | None  # "TypeError: message"
    started: str
    elapsed: float  # seconds
    instrument_facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundRecord:
    """One round of a workload window. None: the report did not say."""

    number: int
    begin: str | None
    end: str | None
    parse: str
    requests: int
    failures: int
    duration: float | None  # seconds
    socket_errors: Mapping[str, int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadRecord:
    """A workload window; counts are over its rounds."""

    rounds: tuple[RoundRecord, ...]
    requests: int
    failures: int
    successes: int
    raw: RawRef


@dataclass(frozen=True, slots=True, kw_only=True)
class InvariantRecord:
    """What became of one invariant. `observed` is JSON."""

    id: str
    evaluation: Evaluation
    observed: Any
    elapsed: float  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractRecord:
    """What the contract concluded."""

    verdict: ContractVerdict
    violated: frozenset[str]
    not_evaluated: frozenset[str]
    invariants: tuple[InvariantRecord, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRecord:
    """A `sremut/state/v1` record. `body` is the whole of it as read."""

    study: str
    run: str
    attempt: int
    state: State
    registration: Registration
    started: str
    finished: str
    activation: tuple[ActivationRecord, ...]
    readings: tuple[ReadingRecord, ...]
    workload: WorkloadRecord | None
    contract: ContractRecord | None
    objects: tuple[RawRef, ...]
    timings: Mapping[str, float]
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRecord:
    """An attempt as its directory tells it.

    `outcome` None: there is no record, the attempt died (or its record does not hold: see
    `problems`). `states` holds every state record that can be read and satisfies its schema.
    """

    directory: Path
    study: str
    run: str
    mutant: str
    repetition: int
    attempt: int
    sequence: int
    registration: Registration | None
    session: str
    outcome: Outcome | None
    reason: str
    states: Mapping[State, StateRecord]
    journal: JournalReading
    identity: Mapping[str, Any]  # attempt.json, empty where it cannot be read
    record: Mapping[str, Any]  # record.json, empty where there is none
    problems: tuple[str, ...]

    @property
    def valid(self) -> bool:
        """COMPLETE, and everything in it holds: only then does it enter a score."""
        return self.outcome is Outcome.COMPLETE and not self.problems


def state_record(body: Mapping[str, Any]) -> StateRecord:
    """A state record from its schema-checked JSON."""
    workload, contract = body["workload"], body["contract"]
    return StateRecord(
        study=body["study"],
        run=body["run"],
        attempt=body["attempt"],
        state=State(body["state"]),
        registration=Registration(body["registration"]),
        started=body["started"],
        finished=body["finished"],
        activation=tuple(ActivationRecord(**item) for item in body["activation"]),
        readings=tuple(_reading(item) for item in body["readings"]),
        workload=None if workload is None else _workload(workload),
        contract=None if contract is None else _contract(contract),
        objects=tuple(RawRef.from_json(item) for item in body["objects"]),
        timings=body["timings"],
        body=body,
    )


def _reading(item: Mapping[str, Any]) -> ReadingRecord:
    returned, exception = item["returned"], item["exception"]
    return ReadingRecord(
        oracle=item["oracle"],
        use=item["use"],
        instrument=item["instrument"],
        verdict=Verdict(item["verdict"]),
        returned=None if returned is None else RawRef.from_json(returned),
        exception=None if exception is None else f"{exception['type']}: {exception['message']}",
        started=item["started"],
        elapsed=item["elapsed"],
        instrument_facts=item["instrument_facts"],
    )


def _workload(item: Mapping[str, Any]) -> WorkloadRecord:
    return WorkloadRecord(
        rounds=tuple(_round(one) for one in item["rounds"]),
        requests=item["requests"],
        failures=item["failures"],
        successes=item["successes"],
        raw=RawRef.from_json(item["raw"]),
    )


def _round(item: Mapping[str, Any]) -> RoundRecord:
    return RoundRecord(**{key: value for key, value in item.items() if key != "facts"})


def _contract(item: Mapping[str, Any]) -> ContractRecord:
    return ContractRecord(
        verdict=ContractVerdict(item["verdict"]),
        violated=frozenset(item["violated"]),
        not_evaluated=frozenset(item["not_evaluated"]),
        invariants=tuple(
            InvariantRecord(
                id=one["id"],
                evaluation=Evaluation(one["evaluation"]),
                observed=one["observed"],
                elapsed=one["elapsed"],
            )
            for one in item["invariants"]
        ),
    )
