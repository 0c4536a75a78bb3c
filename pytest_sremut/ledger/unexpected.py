"""What an unexpected reading means, by a table that was fixed beforehand; its first rule that fits.

| reading | circumstance | meaning |
|---|---|---|
| an oracle rejects, ACCEPT predicted | every pod Running | the prediction is falsified |
| | a pod not Running that recovers by itself | HARNESS_TIMING_FAILURE |
| | a pod not Running that never recovers | a research verdict |
| | no sample near it | a person looks |
| an oracle accepts, REJECT predicted | the contract rejects | the prediction is falsified |
| | the contract passes, the mutant was active | the contract is insufficient |
| | the contract passes, the mutant was not active | MUTANT_ACTIVATION_FAILURE |
| | there is no contract reading | the prediction is falsified |
| an oracle rejects a mutant as predicted | the contract passes | a person looks |
| the contract passes, REJECT predicted | the mutant was (not) active | as above |
| | what should be violated was not evaluated | a person looks |
| the contract rejects, PASS predicted | | a person looks |
| the contract violates another set | | the prediction is falsified |
| an oracle ends in an ERROR | | a person looks: an error is no verdict |

Whether a rejection was the harness's fault is decided by the sampler, never by the verdict. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from pytest_sremut.ledger.model import AttemptFact, ContractFact, ReadingFact, StateFact
from pytest_sremut.ledger.timeline import PodCondition
from pytest_sremut.study.model import Predictions
from pytest_sremut.study.verdict import CONTRACT, ContractVerdict, Outcome, State, Verdict

__all__ = [
    "Meaning",
    "UnexpectedReading",
    "contract_meaning",
    "invalidating",
    "is_active",
    "outcome_of",
    "reading_meaning",
    "unexpected_readings",
]


class Meaning(StrEnum):
    """What an unexpected reading was."""

    PREDICTION_FALSIFIED = "PREDICTION_FALSIFIED"
    HARNESS_TIMING_FAILURE = "HARNESS_TIMING_FAILURE"
    RESEARCH_VERDICT = "RESEARCH_VERDICT"
    CONTRACT_INSUFFICIENT = "CONTRACT_INSUFFICIENT"
    MUTANT_ACTIVATION_FAILURE = "MUTANT_ACTIVATION_FAILURE"
    INVESTIGATE = "INVESTIGATE"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnexpectedReading:
    """A reading that is not as predicted, or that the contract contradicts, and what it means."""

    run: str
    attempt: int
    evidence: str
    state: State
    grader: str
    instrument: str
    predicted: str
    observed: str
    pods: PodCondition
    meaning: Meaning


def reading_meaning(
    *,
    predicted: Verdict,
    observed: Verdict,
    state: State,
    pods: PodCondition,
    contract: ContractVerdict | None,
    active: bool,
) -> Meaning | None:
    """What one oracle reading means; None if it is as expected.

    Args:
        predicted: By the frozen table.
        observed: By one instrument.
        state: Of the run.
        pods: As the sampler saw them around the reading.
        contract: Of the same state; None if it was not read.
        active: Whether every activation criterion held at each check.
    """
    match observed:
        case Verdict.ERROR:
            return None if predicted is Verdict.ERROR else Meaning.INVESTIGATE
        case Verdict.REJECT if predicted is not Verdict.REJECT:
            return _rejection(pods)
        case Verdict.REJECT:
            if state is State.FAULTED and contract is ContractVerdict.PASS:
                return Meaning.INVESTIGATE
            return None
        case Verdict.ACCEPT if predicted is not Verdict.ACCEPT:
            if contract is ContractVerdict.PASS and state is State.FAULTED:
                return _both_pass(active)
            return Meaning.PREDICTION_FALSIFIED
        case Verdict.ACCEPT:
            return None
        case _:
            assert_never(observed)


def contract_meaning(
    *,
    predicted: ContractVerdict,
    predicted_violated: frozenset[str],
    observed: ContractFact,
    active: bool,
) -> Meaning | None:
    """What the contract's verdict in one state means; None if it is as expected.

    An invariant that was not evaluated cannot be missing from the violated set.
    """
    visible = predicted_violated - observed.not_evaluated
    if observed.verdict is not predicted:
        if observed.verdict is ContractVerdict.PASS and (visible or not predicted_violated):
            return _both_pass(active)
        return Meaning.INVESTIGATE
    if observed.violated != visible:
        return Meaning.PREDICTION_FALSIFIED
    return None


def _rejection(pods: PodCondition) -> Meaning:
    match pods:
        case PodCondition.ALL_RUNNING:
            return Meaning.PREDICTION_FALSIFIED
        case PodCondition.RECOVERED:
            return Meaning.HARNESS_TIMING_FAILURE
        case PodCondition.NEVER_RECOVERED:
            return Meaning.RESEARCH_VERDICT
        case PodCondition.UNKNOWN:
            return Meaning.INVESTIGATE
        case _:
            assert_never(pods)


def _both_pass(active: bool) -> Meaning:
    return Meaning.CONTRACT_INSUFFICIENT if active else Meaning.MUTANT_ACTIVATION_FAILURE


def is_active(state: StateFact) -> bool:
    """Whether the mutant was active: checked at least once, and every check held."""
    return bool(state.activation) and all(item.holds for item in state.activation)


def unexpected_readings(attempt: AttemptFact, table: Predictions) -> Iterator[UnexpectedReading]:
    """Every unexpected reading of one attempt, in the order of its states and readings."""
    for state in State:
        fact = attempt.states.get(state)
        if fact is None:
            continue
        for reading in fact.readings:
            yield from _of_reading(attempt, fact, reading, table)
        if fact.contract is not None:
            yield from _of_contract(attempt, fact, fact.contract, table)


def _of_reading(
    attempt: AttemptFact, fact: StateFact, reading: ReadingFact, table: Predictions
) -> Iterator[UnexpectedReading]:
    predicted = table.oracles.get((attempt.mutant, fact.state, reading.oracle))
    if predicted is None:
        return
    meaning = reading_meaning(
        predicted=predicted,
        observed=reading.verdict,
        state=fact.state,
        pods=reading.pods,
        contract=None if fact.contract is None else fact.contract.verdict,
        active=is_active(fact),
    )
    if meaning is not None:
        yield UnexpectedReading(
            run=attempt.run,
            attempt=attempt.attempt,
            evidence=attempt.evidence,
            state=fact.state,
            grader=reading.oracle,
            instrument=reading.instrument,
            predicted=predicted.value,
            observed=reading.verdict.value,
            pods=reading.pods,
            meaning=meaning,
        )


def _of_contract(
    attempt: AttemptFact, fact: StateFact, contract: ContractFact, table: Predictions
) -> Iterator[UnexpectedReading]:
    expected = table.contract.get((attempt.mutant, fact.state))
    if expected is None:
        return
    verdict, violated = expected
    meaning = contract_meaning(
        predicted=verdict,
        predicted_violated=violated,
        observed=contract,
        active=is_active(fact) if fact.state is State.FAULTED else True,
    )
    if meaning is not None:
        yield UnexpectedReading(
            run=attempt.run,
            attempt=attempt.attempt,
            evidence=attempt.evidence,
            state=fact.state,
            grader=CONTRACT,
            instrument=CONTRACT,
            predicted=_text(verdict, violated),
            observed=_text(contract.verdict, contract.violated),
            pods=PodCondition.UNKNOWN,
            meaning=meaning,
        )


def _text(verdict: ContractVerdict, violated: frozenset[str]) -> str:
    return " ".join([verdict.value, *sorted(violated)])


_VALID_FINDINGS = frozenset({Meaning.PREDICTION_FALSIFIED, Meaning.RESEARCH_VERDICT})
_OUTCOMES = {
    Meaning.MUTANT_ACTIVATION_FAILURE: Outcome.MUTANT_ACTIVATION_FAILURE,
    Meaning.HARNESS_TIMING_FAILURE: Outcome.HARNESS_TIMING_FAILURE,
}


def invalidating(found: list[UnexpectedReading]) -> UnexpectedReading | None:
    """The unexpected reading that makes a whole attempt invalid; None if it stays valid.

    An attempt in which another reading falsifies a prediction stays: a finding is reported and
    never run again.
    """
    if any(item.meaning in _VALID_FINDINGS for item in found):
        return None
    for meaning in _OUTCOMES:
        for item in found:
            if item.meaning is meaning:
                return item
    return None


def outcome_of(meaning: Meaning) -> Outcome:
    """The outcome of an attempt that `invalidating` named. Raises KeyError for others."""
    return _OUTCOMES[meaning]
