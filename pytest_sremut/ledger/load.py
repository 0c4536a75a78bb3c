"""From an evidence directory to facts: every attempt that stands in it, none silently dropped.

An attempt whose evidence does not hold together is invalid, whatever it says of itself: it can
lower what a reader knows, never raise a score.
"""

from __future__ import annotations

from pathlib import Path

from pytest_sremut.errors import EvidenceError
from pytest_sremut.evidence.load import load_entry
from pytest_sremut.evidence.records import AttemptRecord, StateRecord
from pytest_sremut.evidence.root import AttemptEntry, EvidenceRoot
from pytest_sremut.ledger.model import (
    AttemptFact,
    ContractFact,
    ReadingFact,
    StateFact,
    WindowFact,
)

__all__ = ["attempt_fact", "read_attempts"]


def read_attempts(directory: Path) -> tuple[tuple[AttemptFact, ...], tuple[str, ...]]:
    """Every attempt of an evidence directory in the order of its ledger, and every problem.

    Raises:
        EvidenceError: The directory is none, or cannot be read.
    """
    facts: list[AttemptFact] = []
    problems: list[str] = []
    for entry in EvidenceRoot.existing(directory).attempts():
        try:
            record = load_entry(entry)
        except EvidenceError as error:
            problems.append(str(error))
            facts.append(_unreadable(entry, str(error)))
            continue
        problems += [f"{record.run} attempt {record.attempt}: {p}" for p in record.problems]
        facts.append(attempt_fact(record))
    return tuple(facts), tuple(problems)


def attempt_fact(record: AttemptRecord) -> AttemptFact:
    """The facts of one attempt as read back."""
    outcome, reason = record.outcome, record.reason
    if record.problems:
        outcome, reason = None, f"its evidence does not hold together: {record.problems[0]}"
    elif outcome is None:
        reason = "it was never closed: the process died"
    return AttemptFact(
        study=record.study,
        run=record.run,
        mutant=record.mutant,
        repetition=record.repetition,
        attempt=record.attempt,
        outcome=outcome,
        reason=reason,
        registration=record.registration.value if record.registration else "",
        states={state: _state(item) for state, item in record.states.items()},
    )


def _state(record: StateRecord) -> StateFact:
    contract = record.contract
    workload = record.workload
    return StateFact(
        state=record.state,
        readings=tuple(
            ReadingFact(
                oracle=reading.oracle,
                instrument=reading.instrument,
                verdict=reading.verdict,
                exception=reading.exception,
            )
            for reading in record.readings
        ),
        contract=(
            None
            if contract is None
            else ContractFact(
                verdict=contract.verdict,
                violated=contract.violated,
                not_evaluated=contract.not_evaluated,
            )
        ),
        window=(
            None
            if workload is None
            else WindowFact(
                rounds=len(workload.rounds),
                requests=workload.requests,
                failures=workload.failures,
                successes=workload.successes,
            )
        ),
    )


def _unreadable(entry: AttemptEntry, problem: str) -> AttemptFact:
    return AttemptFact(
        study=entry.study,
        run=entry.run,
        mutant=entry.mutant,
        repetition=0,
        attempt=entry.attempt,
        outcome=None,
        reason=problem,
        registration=entry.registration.value if entry.registration else "",
        states={},
    )
