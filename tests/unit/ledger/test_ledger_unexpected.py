"""Every rule of the table, and that the table is total."""

from __future__ import annotations

import itertools

import pytest

from pytest_sremut.ledger.model import ContractFact
from pytest_sremut.ledger.timeline import PodCondition
from pytest_sremut.ledger.unexpected import (
    Meaning,
    UnexpectedReading,
    contract_meaning,
    invalidating,
    outcome_of,
    reading_meaning,
)
from pytest_sremut.study.verdict import ContractVerdict, Outcome, State, Verdict

A, R, E = Verdict.ACCEPT, Verdict.REJECT, Verdict.ERROR
PASS, REJECT = ContractVerdict.PASS, ContractVerdict.REJECT
H, F = State.HEALTHY, State.FAULTED
RUNNING, RECOVERED, DOWN, UNSEEN = PodCondition


@pytest.mark.parametrize(
    ("predicted", "observed", "state", "pods", "contract", "active", "meaning"),
    [
        # An oracle rejects where it was to accept: the sampler decides, never the verdict.
        (A, R, F, RUNNING, REJECT, True, Meaning.PREDICTION_FALSIFIED),
        (A, R, F, RECOVERED, REJECT, True, Meaning.HARNESS_TIMING_FAILURE),
        (A, R, F, DOWN, REJECT, True, Meaning.RESEARCH_VERDICT),
        (A, R, F, UNSEEN, REJECT, True, Meaning.INVESTIGATE),
        (A, R, H, RUNNING, PASS, True, Meaning.PREDICTION_FALSIFIED),
        (A, R, H, RECOVERED, PASS, True, Meaning.HARNESS_TIMING_FAILURE),
        # It accepts where it was to reject: the contract and the activation decide.
        (R, A, F, RUNNING, REJECT, True, Meaning.PREDICTION_FALSIFIED),
        (R, A, F, RUNNING, None, True, Meaning.PREDICTION_FALSIFIED),
        (R, A, F, RUNNING, PASS, True, Meaning.CONTRACT_INSUFFICIENT),
        (R, A, F, RUNNING, PASS, False, Meaning.MUTANT_ACTIVATION_FAILURE),
        (R, A, H, RUNNING, PASS, True, Meaning.PREDICTION_FALSIFIED),
        # It rejects the mutant as predicted, and the contract passes: somebody looks.
        (R, R, F, RUNNING, PASS, True, Meaning.INVESTIGATE),
        # An error is no verdict.
        (A, E, F, RUNNING, REJECT, True, Meaning.INVESTIGATE),
        (E, E, F, RUNNING, REJECT, True, None),
        # As expected.
        (A, A, F, RUNNING, REJECT, True, None),
        (R, R, F, RUNNING, REJECT, True, None),
        (R, R, H, DOWN, PASS, True, None),
        (A, A, H, DOWN, PASS, True, None),
    ],
)
def test_a_reading(
    predicted: Verdict,
    observed: Verdict,
    state: State,
    pods: PodCondition,
    contract: ContractVerdict | None,
    active: bool,
    meaning: Meaning | None,
) -> None:
    found = reading_meaning(
        predicted=predicted,
        observed=observed,
        state=state,
        pods=pods,
        contract=contract,
        active=active,
    )
    assert found is meaning


def test_the_table_is_total_and_pods_decide_only_unpredicted_rejections() -> None:
    for predicted, observed, state, contract, active in itertools.product(
        Verdict, Verdict, State, [PASS, REJECT, None], [True, False]
    ):
        meanings = {
            reading_meaning(
                predicted=predicted,
                observed=observed,
                state=state,
                pods=pods,
                contract=contract,
                active=active,
            )
            for pods in PodCondition
        }
        assert len(meanings) == (4 if observed is R and predicted is not R else 1)


def fact(verdict: ContractVerdict, *violated: str, missing: tuple[str, ...] = ()) -> ContractFact:
    return ContractFact(
        verdict=verdict, violated=frozenset(violated), not_evaluated=frozenset(missing)
    )


@pytest.mark.parametrize(
    ("predicted", "ids", "observed", "active", "meaning"),
    [
        (PASS, (), fact(PASS), True, None),
        (PASS, (), fact(REJECT, "I1"), True, Meaning.INVESTIGATE),
        (REJECT, ("I1", "I2"), fact(REJECT, "I1", "I2"), True, None),
        (REJECT, ("I1", "I2"), fact(REJECT, "I1"), True, Meaning.PREDICTION_FALSIFIED),
        (REJECT, ("I1",), fact(REJECT, "I1", "I2"), True, Meaning.PREDICTION_FALSIFIED),
        # What was not evaluated cannot be missing from the set.
        (REJECT, ("I1", "I6"), fact(REJECT, "I1", missing=("I6",)), True, None),
        (REJECT, ("I1",), fact(PASS), True, Meaning.CONTRACT_INSUFFICIENT),
        (REJECT, ("I1",), fact(PASS), False, Meaning.MUTANT_ACTIVATION_FAILURE),
        # Only what was not evaluated should have been violated: the PASS proves nothing.
        (REJECT, ("I6",), fact(PASS, missing=("I6",)), True, Meaning.INVESTIGATE),
    ],
)
def test_the_contract(
    predicted: ContractVerdict,
    ids: tuple[str, ...],
    observed: ContractFact,
    active: bool,
    meaning: Meaning | None,
) -> None:
    found = contract_meaning(
        predicted=predicted, predicted_violated=frozenset(ids), observed=observed, active=active
    )
    assert found is meaning


def unexpected(meaning: Meaning) -> UnexpectedReading:
    return UnexpectedReading(
        run="r",
        attempt=1,
        evidence="e",
        state=F,
        grader="O1",
        instrument="in-process",
        predicted="ACCEPT",
        observed="REJECT",
        pods=RECOVERED,
        meaning=meaning,
    )


@pytest.mark.parametrize(
    ("meanings", "outcome"),
    [
        ([], None),
        ([Meaning.HARNESS_TIMING_FAILURE], Outcome.HARNESS_TIMING_FAILURE),
        ([Meaning.MUTANT_ACTIVATION_FAILURE], Outcome.MUTANT_ACTIVATION_FAILURE),
        ([Meaning.INVESTIGATE], None),
        ([Meaning.CONTRACT_INSUFFICIENT], None),
        # A finding is never thrown away with the attempt that holds it.
        ([Meaning.HARNESS_TIMING_FAILURE, Meaning.PREDICTION_FALSIFIED], None),
        ([Meaning.HARNESS_TIMING_FAILURE, Meaning.RESEARCH_VERDICT], None),
        (
            [Meaning.HARNESS_TIMING_FAILURE, Meaning.INVESTIGATE],
            Outcome.HARNESS_TIMING_FAILURE,
        ),
    ],
)
def test_what_makes_an_attempt_invalid(meanings: list[Meaning], outcome: Outcome | None) -> None:
    cause = invalidating([unexpected(meaning) for meaning in meanings])
    assert (None if cause is None else outcome_of(cause.meaning)) is outcome
