from __future__ import annotations

from collections.abc import Mapping

import pytest

from pytest_sremut.ledger.model import (
    AttemptFact,
    ContractFact,
    ReadingFact,
    StateFact,
    WindowFact,
)
from pytest_sremut.ledger.scores import (
    Fate,
    disagreements,
    fates,
    retained_percent,
    score,
    violated_sets,
)
from pytest_sremut.study.verdict import CONTRACT, ContractVerdict, Outcome, State, Verdict

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
            State.HEALTHY: state(State.HEALTHY, controls),
            State.FAULTED: state(State.FAULTED, faulted, violated=violated, successes=successes),
            State.RESTORED: state(State.RESTORED, controls),
        },
    )


def one_fate(*attempts: AttemptFact) -> Fate:
    (found,) = fates(attempts, graders=["O1"], mutants=["m1"])
    return found.fate


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
    assert one_fate(*attempts) is fate


@pytest.mark.parametrize("outcome", [None, *(o for o in Outcome if o is not Outcome.COMPLETE)])
def test_invalid_attempts_never_enter_a_score(outcome: Outcome | None) -> None:
    killed = attempt("m1", {"O1": R})
    assert one_fate(killed, attempt("m1", {"O1": A}, repetition=2, outcome=outcome)) is Fate.KILLED
    (result,) = [
        score(
            "O1", fates([attempt("m1", {"O1": R}, outcome=outcome)], graders=["O1"], mutants=["m1"])
        )
    ]
    assert (result.killed, result.scored, result.percent) == (0, 0, None)


def test_score_counts_killed_of_scored() -> None:
    attempts = [
        attempt("m1", {"O1": R, "O3": R}),
        attempt("m2", {"O1": A, "O3": R}),
        attempt("m3", {"O1": E, "O3": R}),
    ]
    everything = fates(attempts, graders=["O1", "O3", CONTRACT], mutants=["m1", "m2", "m3"])
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


def test_retained_volume_is_per_round() -> None:
    assert retained_percent(attempt("m1", {"O1": A}, successes=27)) == pytest.approx(27.0)


def test_retained_volume_of_nothing_is_no_number() -> None:
    empty = attempt("m1", {"O1": A})
    states = dict(empty.states)
    del states[State.HEALTHY]
    without = AttemptFact(
        study="s",
        run="m1-r01",
        mutant="m1",
        repetition=1,
        attempt=1,
        outcome=Outcome.COMPLETE,
        reason="",
        registration="EXPLORATORY",
        states=states,
    )
    assert retained_percent(without) is None
