"""A study's own rules: when each circumstance holds, and that the first rule that applies fires."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from test_ledger_scores import A, E, R, attempt

from pytest_sremut.ledger.falsification import circumstance_holds, differing, fired, needs_pods
from pytest_sremut.ledger.model import AttemptFact
from pytest_sremut.ledger.timeline import PodCondition
from pytest_sremut.study.model import Study
from pytest_sremut.study.names import Circumstance, Consequence
from pytest_sremut.study.verdict import ContractVerdict, State

RUNNING, RECOVERED, DOWN, UNSEEN = PodCondition
PASS, REJECT = ContractVerdict.PASS, ContractVerdict.REJECT


@pytest.mark.parametrize(
    ("circumstance", "holding"),
    [
        (Circumstance.ALWAYS, {(p, c) for p in PodCondition for c in (PASS, REJECT, None)}),
        (Circumstance.EVERY_POD_RUNNING, {(RUNNING, c) for c in (PASS, REJECT, None)}),
        (Circumstance.POD_RECOVERS, {(RECOVERED, c) for c in (PASS, REJECT, None)}),
        (Circumstance.POD_STAYS_DOWN, {(DOWN, c) for c in (PASS, REJECT, None)}),
        (Circumstance.CONTRACT_PASSES, {(p, PASS) for p in PodCondition}),
        (Circumstance.CONTRACT_REJECTS, {(p, REJECT) for p in PodCondition}),
        (Circumstance.REPETITIONS_DIFFER, set()),
    ],
)
def test_when_a_circumstance_holds(circumstance: Circumstance, holding: set[Any]) -> None:
    found = {
        (pods, contract)
        for pods in PodCondition
        for contract in (PASS, REJECT, None)
        if circumstance_holds(circumstance, pods=pods, contract=contract)
    }
    assert found == holding


def rule(name: str, grader: str, verdict: str, circumstance: str, then: str) -> Mapping[str, Any]:
    when = {"grader": grader, "states": ["faulted"], "verdict": verdict, "while": circumstance}
    return {"id": name, "when": when, "then": then, "says": name}


def seen(first: AttemptFact, pods: PodCondition) -> AttemptFact:
    states = {
        state: replace(fact, readings=tuple(replace(r, pods=pods) for r in fact.readings))
        for state, fact in first.states.items()
    }
    return replace(first, states=states)


def test_the_first_rule_that_applies_fires_once_a_reading() -> None:
    rules = [
        rule("F1", "O1", "REJECT", "every-pod-running", "prediction-falsified"),
        rule("F2", "any", "REJECT", "always", "investigate"),
        rule("F3", "contract", "REJECT", "always", "investigate"),
    ]
    given = [seen(attempt("m1", {"O1": R, "O3": R}), RUNNING)]
    found = [(one.rule, one.grader) for one in fired(rules, given)]
    assert found == [("F1", "O1"), ("F2", "O3"), ("F2", "contract")]
    given = [seen(attempt("m1", {"O1": R}), DOWN)]
    assert [one.rule for one in fired(rules, given)] == ["F2", "F2"]


def test_a_rule_of_other_states_or_verdicts_does_not_fire() -> None:
    rules = [rule("F1", "O1", "ACCEPT", "contract-rejects", "prediction-falsified")]
    assert [one.rule for one in fired(rules, [attempt("m1", {"O1": R})])] == []
    # The controls accept as well, but the rule speaks of the faulted state.
    assert len(list(fired(rules, [attempt("m1", {"O1": A})]))) == 1


def test_repetitions_that_differ_are_one_finding_a_cell() -> None:
    rules = [rule("F9", "any", "any", "repetitions-differ", "report-instability")]
    given = [
        attempt("m1", {"O1": A, "O3": R}),
        attempt("m1", {"O1": R, "O3": R}, repetition=2),
        attempt("m2", {"O1": R, "O3": E}),
    ]
    (found,) = fired(rules, given)
    assert (found.mutant, found.state, found.grader) == ("m1", State.FAULTED, "O1")
    assert found.where == ("m1-r01", "m1-r02")
    assert found.consequence is Consequence.REPORT_INSTABILITY
    assert list(differing(given)) == [("m1", State.FAULTED, "O1")]


def test_the_sampler_is_asked_only_where_a_rule_speaks_of_pods(study: Study) -> None:
    assert study.predictions is not None
    rules = study.predictions.falsification

    def asked(grader: str, state: State, verdict: str) -> bool:
        return needs_pods(rules, state=state, grader=grader, verdict=verdict)

    assert asked("O1", State.HEALTHY, "REJECT")
    assert not asked("O1", State.HEALTHY, "ACCEPT")
    assert not asked("O3", State.FAULTED, "REJECT")
