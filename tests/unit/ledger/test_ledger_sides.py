"""Both sides of a grader, and what can never change them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_ledger_scores import A, E, R, attempt, mutant

from pytest_sremut.ledger.model import AttemptFact, ReadingFact
from pytest_sremut.ledger.scores import fates, score
from pytest_sremut.ledger.sides import Share, sides
from pytest_sremut.study.verdict import CONTRACT, Expectation, State, Verdict

WRONG = {"m1": Expectation.REJECT}


def three(verdict: Verdict, controls: Verdict) -> list[AttemptFact]:
    side = {"O1": controls}
    return [
        attempt("m1", {"O1": verdict}, repetition=n, healthy=side, restored=side) for n in (1, 2, 3)
    ]


@pytest.mark.parametrize(
    ("faulted", "controls", "rejected", "accepted", "informedness"),
    [
        (R, A, (3, 3), (6, 6), 1.0),  # a perfect one
        (R, R, (3, 3), (0, 6), 0.0),  # rejects everything
        (A, A, (0, 3), (6, 6), 0.0),  # accepts everything
        (A, R, (0, 3), (0, 6), -1.0),  # says the contrary
    ],
)
def test_neither_side_alone_is_worth_anything(
    faulted: Verdict,
    controls: Verdict,
    rejected: tuple[int, int],
    accepted: tuple[int, int],
    informedness: float,
) -> None:
    found = sides(three(faulted, controls), "O1", WRONG)
    assert (found.rejected.part, found.rejected.of) == rejected
    assert (found.accepted.part, found.accepted.of) == accepted
    assert found.informedness == informedness


def test_an_error_is_in_no_count_and_is_stated() -> None:
    found = sides(three(E, A), "O1", WRONG)
    assert found.rejected == Share(part=0, of=0, errors=3)
    assert found.informedness is None


def test_flapping_is_never_in_favour_of_the_grader() -> None:
    """Rejects in one run and accepts in the next; its instruments differ in the third."""
    first, second = attempt("m1", {"O1": R}), attempt("m1", {"O1": A}, repetition=2)
    third = with_reading(attempt("m1", {"O1": R}, repetition=3), State.FAULTED, "isolated", A)
    found = sides([first, second, third], "O1", WRONG)
    assert found.rejected == Share(part=1, of=3, differing=1)


def test_what_counts_is_what_the_contract_says() -> None:
    """A wrong repair that it passes, and a control that it rejects, are on neither side."""
    equivalent = attempt("m1", {"O1": A}, violated=())
    broken = attempt("m2", {"O1": A}, violated=("MS-I6",))
    right = attempt("m3", {"O1": R}, violated=())
    expected = {**WRONG, "m2": Expectation.ACCEPT, "m3": Expectation.ACCEPT}
    found = sides([equivalent, broken, right], "O1", expected)
    assert found.rejected == Share()
    assert found.accepted == Share(part=6, of=7)
    contract = sides([equivalent, broken, right], CONTRACT, expected)
    assert contract.rejected == Share(part=0, of=1)  # blind to m1, as its author sees it
    assert contract.accepted == Share(part=7, of=8)  # and rejects the control m2


def test_without_valid_runs_there_is_nothing() -> None:
    found = sides([replace(one, outcome=None) for one in three(R, A)], "O1", WRONG)
    assert found.rejected == found.accepted == Share()
    assert found.informedness is None
    assert found.rejected.rate is None


# -- what never changes a score -----------------------------------------------------------------


def with_reading(
    given: AttemptFact, state: State, instrument: str, verdict: Verdict
) -> AttemptFact:
    fact = given.states[state]
    more = ReadingFact(oracle="O1", instrument=instrument, verdict=verdict, exception=None)
    states = {**given.states, state: replace(fact, readings=(*fact.readings, more))}
    return replace(given, states=states)


def renamed(given: AttemptFact, name: str) -> AttemptFact:
    return replace(
        given,
        states={
            state: replace(
                fact, readings=tuple(replace(one, instrument=name) for one in fact.readings)
            )
            for state, fact in given.states.items()
        },
    )


def doubled(given: AttemptFact) -> AttemptFact:
    """A second instrument that says what the first said."""
    return replace(
        given,
        states={
            state: replace(
                fact,
                readings=(
                    *fact.readings,
                    *(replace(one, instrument="again") for one in fact.readings),
                ),
            )
            for state, fact in given.states.items()
        },
    )


VERDICTS = st.sampled_from([A, R, E])
ATTEMPTS = st.lists(
    st.builds(
        lambda faulted, healthy, restored, violated, name, repetition: attempt(
            name,
            {"O1": faulted},
            repetition=repetition,
            healthy={"O1": healthy},
            restored={"O1": restored},
            violated=violated,
        ),
        VERDICTS,
        VERDICTS,
        VERDICTS,
        st.sampled_from([(), ("MS-I1",)]),
        st.sampled_from(["m1", "m2"]),
        st.integers(1, 9),
    ),
    max_size=8,
)
EXPECT = st.sampled_from(Expectation)


@given(ATTEMPTS, EXPECT, EXPECT)
def test_instruments_by_another_name_or_twice_change_nothing(
    attempts: list[AttemptFact], first: Expectation, second: Expectation
) -> None:
    mutants = [mutant("m1", first), mutant("m2", second)]
    expected = {"m1": first, "m2": second}

    def told(given: list[AttemptFact]) -> object:
        everything = fates(given, graders=["O1", CONTRACT], mutants=mutants)
        return (
            [(item.grader, item.mutant, item.fate, item.runs) for item in everything],
            [score(grader, everything) for grader in ("O1", CONTRACT)],
            [sides(given, grader, expected) for grader in ("O1", CONTRACT)],
        )

    as_it_was = told(attempts)
    assert told([renamed(one, "another") for one in attempts]) == as_it_was
    assert told([doubled(one) for one in attempts]) == as_it_was


@given(ATTEMPTS, EXPECT)
def test_bounds_hold_for_every_table(attempts: list[AttemptFact], first: Expectation) -> None:
    expected = {"m1": first, "m2": Expectation.REJECT}
    mutants = [mutant(name, expect) for name, expect in expected.items()]
    found = sides(attempts, "O1", expected)
    assert found.informedness is None or -1 <= found.informedness <= 1
    result = score("O1", fates(attempts, graders=["O1"], mutants=mutants))
    assert 0 <= result.killed <= result.scored <= len(mutants) - result.controls
    assert (result.percent is None) == (result.scored == result.unproven)
