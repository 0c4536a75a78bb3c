"""Whether every guard of an attempt held, from its own evidence. Pure: entries and records in.

A guard held when nothing was done without it: every intent has exactly one receipt that comes
after it, written by whoever did it and not by looking later; the run went from CREATED to
FINALIZED, the cluster was the same one throughout, and the contract left no invariant out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pytest_sremut.evidence.journal import JournalEntry, JournalReading, JournalStatus

__all__ = ["broken_guards"]

_STATES: Final = ("healthy", "faulted", "restored")


def broken_guards(
    journal: JournalReading,
    *,
    identity: Mapping[str, Any],
    record: Mapping[str, Any],
    states: Mapping[str, Mapping[str, Any]],
) -> tuple[str, ...]:
    """What did not hold, a sentence each; empty where every guard held.

    Args:
        journal: As read.
        identity: `attempt.json`.
        record: `record.json`; empty where there is none.
        states: The state records by state.
    """
    return (
        *_chain(journal),
        *_receipts(journal.entries),
        *_phases(journal.entries),
        *_cluster(identity, record),
        *_invariants(states),
    )


def _chain(journal: JournalReading) -> Iterator[str]:
    if journal.status is not JournalStatus.INTACT:
        yield f"the journal is {journal.status.value}: {journal.problem}"


def _receipts(journal: Sequence[JournalEntry]) -> Iterator[str]:
    open_intents: dict[str, int] = {}
    seen: set[str] = set()
    for entry in journal:
        operation = str(entry.facts.get("operation", ""))
        if entry.transition == "INTENT":
            if operation in seen:
                yield f"journal line {entry.sequence}: {operation} is intended twice"
            seen.add(operation)
            open_intents[operation] = entry.sequence
        elif entry.transition == "RECEIPT" and open_intents.pop(operation, None) is None:
            yield f"journal line {entry.sequence}: a receipt of {operation} without its intent"
        elif entry.transition == "RECEIPT" and entry.facts.get("reconciled"):
            yield f"journal line {entry.sequence}: {operation} was reconciled: looked at only later"
    for operation, line in open_intents.items():
        yield f"journal line {line}: {operation} has no receipt"


def _phases(journal: Sequence[JournalEntry]) -> Iterator[str]:
    if not journal or journal[0].transition != "CREATED":
        yield "the journal does not begin with CREATED"
    transitions = [entry.transition for entry in journal]
    if "FINALIZED" not in transitions:
        last = next((t for t in reversed(transitions) if t not in _NO_PHASES), "nothing")
        yield f"the run ended at {last}, not at FINALIZED"
    if len({(entry.run, entry.attempt) for entry in journal}) > 1:
        yield "the journal speaks of more than one attempt"


_NO_PHASES: Final = frozenset({"INTENT", "RECEIPT", "STATE_RECORDED", "CLOSING"})


def _cluster(identity: Mapping[str, Any], record: Mapping[str, Any]) -> Iterator[str]:
    begun = identity.get("cluster", {}).get("kube_system_uid")
    if not begun:
        yield "the cluster's identity was not recorded"
    elif record and record.get("cluster", {}).get("kube_system_uid") != begun:
        yield "the cluster at the end is another one than at the beginning"


def _invariants(states: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for state in _STATES:
        contract = states.get(state, {}).get("contract")
        if not contract:
            yield f"no contract was read in the {state} state"
        elif contract["not_evaluated"]:
            yield f"{state}: not evaluated: {', '.join(sorted(contract['not_evaluated']))}"
