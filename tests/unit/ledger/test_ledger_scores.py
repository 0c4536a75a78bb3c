from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from pytest_sremut.ledger.figures import retained
from pytest_sremut.ledger.model import (
    AttemptFact,
    ContractFact,
    ReadingFact,
    StateFact,
    WindowFact,
)
from pytest_sremut.ledger.scores import Fate, MutantFate, disagreements, fates, score, violated_sets
from pytest_sremut.study.model import Mutant
from pytest_sremut.study.verdict import (
    CONTRACT,
    ContractVerdict,
    Expectation,
    Outcome,
    State,
    Verdict,
)

A, R, E = Verdict.ACCEPT, Verdict.REJECT, Verdict.ERROR


def state(
    name: State,
    verdicts: Mapping[str, Verdict],
    *,
    violated: tuple[str, ...] = (),
    successes: int = 100,
    rounds: int = 10,
) -> StateFact:
    contract = ContractFact(
        verdict=ContractVerdict.REJECT if violated else ContractVerdict.PASS,
        violated=frozenset(violated),
        not_evaluated=frozenset(),
    )
    readings = tuple(
        ReadingFact(oracle=oracle, instrument="in-process", verdict=verdict, exception=None)
        for oracle, verdict in verdicts.items()
    )
    window = WindowFact(rounds=rounds, requests=successes, failures=0, successes=successes)
    return StateFact(state=name, readings=readings, contract=contract, window=window)


def attempt(
    mutant: str,
    faulted: Mapping[str, Verdict],
    *,
    repetition: int = 1,
    outcome: Outcome | None = Outcome.COMPLETE,
    violated: tuple[str, ...] = ("MS-I1",),
    successes: int = 100,
    healthy: Mapping[str, Verdict] | None = None,
    restored: Mapping[str, Verdict] | None = None,
) -> AttemptFact:
    controls = dict.fromkeys(faulted, A)
    return AttemptFact(
        study="s",
        run=f"{mutant}-r{repetition:02d}",
        mutant=mutant,
        repetition=repetition,
        attempt=1,
        outcome=outcome,
        reason="",
        registration="EXPLORATORY",
        states={
            State.HEALTHY: state(State.HEALTHY, controls if healthy is None else healthy),
            State.FAULTED: state(State.FAULTED, faulted, violated=violated, successes=successes),
            State.RESTORED: state(State.RESTORED, controls if restored is None else restored),
        },
    )


def mutant(name: str, expect: Expectation = Expectation.REJECT) -> Mutant:
    return Mutant(
        id=name,
        slug=name,
        models="a test's",
        absent=True,
        patch=(),
        creates=(),
        activation=(),
        differs=(),
        expect=expect,
    )


def one(*attempts: AttemptFact, expect: Expectation = Expectation.REJECT) -> MutantFate:
    (found,) = fates(attempts, graders=["O1"], mutants=[mutant("m1", expect)])
    return found


@pytest.mark.parametrize(
    ("verdicts", "fate"),
    [
        ([R, R, R], Fate.KILLED),
        ([A, A, A], Fate.SURVIVED),
        ([R, A, R], Fate.UNSTABLE),  # reported, never a majority
        ([R, E, R], Fate.UNSCORED),  # an error is neither killed nor survived
        ([], Fate.UNSCORED),
    ],
)
def test_fate_of_a_mutant(verdicts: list[Verdict], fate: Fate) -> None:
    attempts = [attempt("m1", {"O1": v}, repetition=n) for n, v in enumerate(verdicts, 1)]
    assert one(*attempts).fate is fate


@pytest.mark.parametrize("state_", ["healthy", "restored"])
@pytest.mark.parametrize("control", [R, E])
def test_a_kill_needs_the_runs_own_controls(state_: str, control: Verdict) -> None:
    """A grader that rejects a system that is right has not seen the mutant."""
    brittle = attempt("m1", {"O1": R}, **{state_: {"O1": control}})
    found = one(brittle)
    assert found.fate is Fate.BRITTLE
    result = score("O1", [found])
    assert (result.killed, result.scored, result.percent) == (0, 0, None)
    assert (result.brittle, result.brittle_runs) == (1, 1)


def test_brittle_in_one_run_is_said_and_the_others_decide() -> None:
    found = one(
        attempt("m1", {"O1": R}),
        attempt("m1", {"O1": R}, repetition=2, healthy={"O1": R}),
        attempt("m1", {"O1": R}, repetition=3),
    )
    assert found.fate is Fate.KILLED
    assert found.runs == {Fate.BRITTLE: 1, Fate.KILLED: 2}
    result = score("O1", [found])
    assert (result.killed, result.scored, result.brittle, result.brittle_runs) == (1, 1, 0, 1)


def test_accepting_a_broken_system_counts_whatever_the_controls_say() -> None:
    assert one(attempt("m1", {"O1": A}, healthy={"O1": R})).fate is Fate.SURVIVED


def test_what_the_contract_passes_is_no_survivor() -> None:
    equivalent = attempt("m1", {"O1": A}, violated=())
    found = one(equivalent)
    assert found.fate is Fate.EQUIVALENT
    assert not found.is_survivor
    assert score("O1", [found]).percent is None
    # The contract is held against the author: it should have rejected this one.
    (contract,) = fates([equivalent], graders=[CONTRACT], mutants=[mutant("m1")])
    assert contract.fate is Fate.SURVIVED


@pytest.mark.parametrize(
    ("verdict", "fate"),
    [(A, Fate.CONTROL_ACCEPTED), (R, Fate.CONTROL_REJECTED), (E, Fate.UNSCORED)],
)
def test_a_right_repair_is_a_control(verdict: Verdict, fate: Fate) -> None:
    found = one(attempt("m1", {"O1": verdict}, violated=()), expect=Expectation.ACCEPT)
    assert found.fate is fate
    assert found.is_false_reject is (verdict is R)
    assert not found.is_survivor
    result = score("O1", [found])
    assert (result.scored, result.percent, result.controls) == (0, None, 1)
    assert result.controls_accepted == (verdict is A)


def test_a_control_that_the_contract_rejects_says_nothing_of_a_grader() -> None:
    given = attempt("m1", {"O1": A}, violated=("MS-I6",))
    assert one(given, expect=Expectation.ACCEPT).fate is Fate.UNSCORED
    (contract,) = fates([given], graders=[CONTRACT], mutants=[mutant("m1", Expectation.ACCEPT)])
    assert contract.fate is Fate.CONTROL_REJECTED


def test_instruments_that_differ_in_one_run_are_unstable() -> None:
    both = attempt("m1", {"O1": R})
    faulted = both.states[State.FAULTED]
    other = replace(faulted.readings[0], instrument="isolated", verdict=A)
    states = {**both.states, State.FAULTED: replace(faulted, readings=(*faulted.readings, other))}
    assert one(replace(both, states=states)).fate is Fate.UNSTABLE


@pytest.mark.parametrize("outcome", [None, *(o for o in Outcome if o is not Outcome.COMPLETE)])
def test_invalid_attempts_never_enter_a_score(outcome: Outcome | None) -> None:
    killed = attempt("m1", {"O1": R})
    assert one(killed, attempt("m1", {"O1": A}, repetition=2, outcome=outcome)).fate is Fate.KILLED
    result = score("O1", [one(attempt("m1", {"O1": R}, outcome=outcome))])
    assert (result.killed, result.scored, result.percent) == (0, 0, None)


def test_score_counts_killed_of_scored() -> None:
    attempts = [
        attempt("m1", {"O1": R, "O3": R}),
        attempt("m2", {"O1": A, "O3": R}),
        attempt("m3", {"O1": E, "O3": R}),
    ]
    mutants = [mutant(name) for name in ("m1", "m2", "m3")]
    everything = fates(attempts, graders=["O1", "O3", CONTRACT], mutants=mutants)
    o1, o3 = score("O1", everything), score("O3", everything)
    assert (o1.killed, o1.scored, o1.unscored, o1.percent) == (1, 2, 1, 50.0)
    assert (o3.killed, o3.scored, o3.unscored, o3.percent) == (3, 3, 0, 100.0)
    assert score(CONTRACT, everything).percent == 100.0


def test_disagreements_name_their_direction() -> None:
    accepted = attempt("m1", {"O1": A})
    harsh = AttemptFact(
        study="s",
        run="m1-r02",
        mutant="m1",
        repetition=2,
        attempt=1,
        outcome=Outcome.COMPLETE,
        reason="",
        registration="EXPLORATORY",
        states={State.HEALTHY: state(State.HEALTHY, {"O1": R})},
    )
    found = [(d.kind, d.run, d.state) for d in disagreements([accepted, harsh])]
    assert found == [
        ("false accept", "m1-r01", State.FAULTED),
        ("false reject", "m1-r02", State.HEALTHY),
    ]


def test_an_error_reading_is_no_disagreement() -> None:
    assert disagreements([attempt("m1", {"O1": E})]) == []


def test_violated_sets_report_disagreeing_repetitions() -> None:
    attempts = [
        attempt("m1", {"O1": A}, violated=("MS-I1", "MS-I2")),
        attempt("m1", {"O1": A}, repetition=2, violated=("MS-I2", "MS-I1")),
        attempt("m1", {"O1": A}, repetition=3, violated=("MS-I2",)),
    ]
    assert violated_sets(attempts, mutant="m1") == [
        frozenset({"MS-I1", "MS-I2"}),
        frozenset({"MS-I2"}),
    ]


def windows_of(given: AttemptFact) -> tuple[WindowFact | None, WindowFact | None]:
    return given.states[State.HEALTHY].window, given.states[State.FAULTED].window


def test_retained_volume_is_per_round() -> None:
    given = windows_of(attempt("m1", {"O1": A}, successes=27))
    assert retained(*given) == pytest.approx(27.0)


def test_retained_volume_of_nothing_is_no_number() -> None:
    healthy, _ = windows_of(attempt("m1", {"O1": A}))
    empty = WindowFact(rounds=1, requests=0, failures=0, successes=0)
    assert retained(None, healthy) is retained(healthy, None) is retained(empty, healthy) is None
