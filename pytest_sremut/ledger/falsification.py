"""Evaluates a study's own frozen falsification rules; for each reading the first that applies.

A rule about repetitions concerns a whole cell of the table (mutant, state, grader); any other rule
concerns one reading. Nothing here changes a verdict. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, assert_never

from pytest_sremut.ledger.model import AttemptFact, StateFact
from pytest_sremut.ledger.timeline import PodCondition
from pytest_sremut.study.names import Circumstance, Consequence
from pytest_sremut.study.predictions import ANY_GRADER
from pytest_sremut.study.verdict import CONTRACT, ContractVerdict, State

__all__ = ["Fired", "circumstance_holds", "differing", "fired", "needs_pods"]

_PODS = {
    Circumstance.EVERY_POD_RUNNING: PodCondition.ALL_RUNNING,
    Circumstance.POD_RECOVERS: PodCondition.RECOVERED,
    Circumstance.POD_STAYS_DOWN: PodCondition.NEVER_RECOVERED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fired:
    """A rule that applied, and to what."""

    rule: str
    consequence: Consequence
    mutant: str
    state: State
    grader: str
    where: tuple[str, ...]  # "ms-m01-r01 a01 in-process"; runs, for a rule about repetitions


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """One reading as a rule sees it."""

    attempt: AttemptFact
    state: StateFact
    grader: str
    instrument: str
    verdict: str
    pods: PodCondition


def circumstance_holds(
    circumstance: Circumstance, *, pods: PodCondition, contract: ContractVerdict | None
) -> bool:
    """Whether a circumstance of one reading holds. It does not if it was not observed.

    `REPETITIONS_DIFFER` is no circumstance of one reading and never holds here.
    """
    match circumstance:
        case Circumstance.ALWAYS:
            return True
        case (
            Circumstance.EVERY_POD_RUNNING | Circumstance.POD_RECOVERS | Circumstance.POD_STAYS_DOWN
        ):
            return pods is _PODS[circumstance]
        case Circumstance.CONTRACT_PASSES:
            return contract is ContractVerdict.PASS
        case Circumstance.CONTRACT_REJECTS:
            return contract is ContractVerdict.REJECT
        case Circumstance.REPETITIONS_DIFFER:
            return False
        case _:
            assert_never(circumstance)


def needs_pods(
    rules: Iterable[Mapping[str, Any]], *, state: State, grader: str, verdict: str
) -> bool:
    """Whether any rule asks how the pods were during such a reading."""
    return any(
        Circumstance(rule["when"]["while"]) in _PODS and _speaks_of(rule, state, grader, verdict)
        for rule in rules
    )


def fired(rules: Sequence[Mapping[str, Any]], attempts: Sequence[AttemptFact]) -> Iterator[Fired]:
    """Every application of a rule to valid attempts, in the order of the readings.

    Rules about repetitions come last.
    """
    single = [r for r in rules if r["when"]["while"] != Circumstance.REPETITIONS_DIFFER]
    for seen in (item for attempt in attempts for item in _readings(attempt)):
        contract = None if seen.state.contract is None else seen.state.contract.verdict
        for rule in single:
            if _speaks_of(rule, seen.state.state, seen.grader, seen.verdict) and (
                circumstance_holds(
                    Circumstance(rule["when"]["while"]), pods=seen.pods, contract=contract
                )
            ):
                attempt = seen.attempt
                yield Fired(
                    rule=rule["id"],
                    consequence=Consequence(rule["then"]),
                    mutant=attempt.mutant,
                    state=seen.state.state,
                    grader=seen.grader,
                    where=(f"{attempt.run} a{attempt.attempt:02d} {seen.instrument}",),
                )
                break
    yield from _about_repetitions(
        [r for r in rules if r["when"]["while"] == Circumstance.REPETITIONS_DIFFER], attempts
    )


def _about_repetitions(
    rules: Sequence[Mapping[str, Any]], attempts: Sequence[AttemptFact]
) -> Iterator[Fired]:
    for (mutant, state, grader), runs in differing(attempts).items():
        verdicts = {verdict for verdict, _ in runs}
        for rule in rules:
            if any(_speaks_of(rule, state, grader, verdict) for verdict in verdicts):
                yield Fired(
                    rule=rule["id"],
                    consequence=Consequence(rule["then"]),
                    mutant=mutant,
                    state=state,
                    grader=grader,
                    where=tuple(sorted({run for _, run in runs})),
                )
                break


def differing(
    attempts: Iterable[AttemptFact],
) -> dict[tuple[str, State, str], list[tuple[str, str]]]:
    """Cells of the table in whose repetitions a grader did not always conclude the same.

    Returns:
        (mutant, state, grader) -> (verdict, run) of every reading.
    """
    cells: dict[tuple[str, State, str], list[tuple[str, str]]] = {}
    for attempt in attempts:
        for seen in _readings(attempt):
            key = (attempt.mutant, seen.state.state, seen.grader)
            cells.setdefault(key, []).append((seen.verdict, attempt.run))
    return {key: runs for key, runs in cells.items() if len({v for v, _ in runs}) > 1}


def _readings(attempt: AttemptFact) -> Iterator[_Seen]:
    for state in State:
        fact = attempt.states.get(state)
        if fact is None:
            continue
        for reading in fact.readings:
            yield _Seen(
                attempt=attempt,
                state=fact,
                grader=reading.oracle,
                instrument=reading.instrument,
                verdict=reading.verdict.value,
                pods=reading.pods,
            )
        if fact.contract is not None:
            yield _Seen(
                attempt=attempt,
                state=fact,
                grader=CONTRACT,
                instrument=CONTRACT,
                verdict=fact.contract.verdict.value,
                pods=PodCondition.UNKNOWN,
            )


def _speaks_of(rule: Mapping[str, Any], state: State, grader: str, verdict: str) -> bool:
    when = rule["when"]
    return (
        when["grader"] in {grader, ANY_GRADER}
        and state.value in when["states"]
        and when["verdict"] in {verdict, "any"}
    )
