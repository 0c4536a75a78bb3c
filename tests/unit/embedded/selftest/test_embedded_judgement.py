"""Answers are judged by kind and order, on machines of every speed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

import pytest

from pytest_sremut.embedded.selftest.expectations import EXPECTATIONS
from pytest_sremut.embedded.selftest.judgement import (
    LEAST_TRIES,
    MOST_TRIES,
    Observed,
    ProbeResult,
    Trial,
    deviations,
    to_repeat,
)


class _Names(dict[str, str]):
    """Every name of the templates is its own."""

    def __missing__(self, key: str) -> str:
        return key


NAMES = _Names()
Machine = Callable[[Trial], Observed]


def right(trial: Trial, late: float = 0.01) -> Observed:
    """The recorded answer."""
    expectation = trial.expectation
    return Observed(
        exit_code=expectation.exit_code,
        stdout="\n".join(line.format_map(NAMES) for line in expectation.stdout),
        stderr="\n".join(line.format_map(NAMES) for line in expectation.stderr),
        elapsed=trial.nature + late,
    )


def played(machine: Machine) -> dict[str, ProbeResult]:
    """All that a self-test measures on a machine, by name."""
    trials = [Trial(item, NAMES) for item in EXPECTATIONS]
    again: Iterable[Trial] = trials
    while again:
        for trial in again:
            trial.saw(machine(trial))
        again = to_repeat(trials)
    return {t.expectation.name: t.result(deviations(t, trials)) for t in trials}


def bad(found: dict[str, ProbeResult]) -> dict[str, tuple[str, ...]]:
    return {name: result.deviations for name, result in found.items() if not result.ok}


def test_a_quick_machine_is_measured_once() -> None:
    found = played(right)
    assert not bad(found)
    assert {result.tries for result in found.values()} == {1}


@pytest.mark.parametrize("late", [0.5, 0.91, 1.0, 3.0, 30.0])
def test_a_machine_may_be_as_slow_as_it_is(late: float) -> None:
    found = played(lambda trial: right(trial, late))
    assert not bad(found)
    assert {result.tries for result in found.values()} <= {1, LEAST_TRIES}


def test_a_busy_machine_is_slow_now_and_then() -> None:
    for seed in range(200):
        chance = random.Random(seed)
        found = played(lambda trial: right(trial, 0.05 + chance.expovariate(1 / 0.6)))  # noqa: B023
        assert not bad(found), seed


def test_on_a_busy_machine_a_refusal_that_waits_is_still_no_refusal_at_once() -> None:
    chance = random.Random(1)
    name = "closed target port, nc"

    def machine(trial: Trial) -> Observed:
        wait = 1.0 if trial.expectation.name == name else 0.0
        return right(trial, wait + 0.05 + chance.uniform(0, 0.3))

    for _ in range(50):
        found = bad(played(machine))
        assert set(found) == {name}
        assert "(at once), while answers of other kinds were at most" in found[name][0]


def test_one_that_waits_a_second_too_much_is_named_after_all_tries() -> None:
    def machine(trial: Trial) -> Observed:
        return right(trial, 1.0 if trial.expectation.name == "closed target port, wget" else 0.0)

    found = played(machine)
    assert bad(found) == {
        "closed target port, wget": (
            "took 1.00 s (at once), while answers of other kinds were at most 0.00 s late",
        )
    }
    assert found["closed target port, wget"].tries == MOST_TRIES


def test_refused_after_the_third_syn_is_not_after_the_second() -> None:
    def machine(trial: Trial) -> Observed:
        return right(trial, 2.1 if trial.expectation.name == "no endpoints, nc" else 0.0)

    assert list(bad(played(machine))) == ["no endpoints, nc"]


@pytest.mark.parametrize("late", [0.0, 0.8])
def test_a_refusal_is_no_silence_on_a_slow_machine_either(late: float) -> None:
    name = "port that the Service does not have, nc"

    def machine(trial: Trial) -> Observed:
        seen = right(trial, late)
        if trial.expectation.name != name:
            return seen
        return Observed(exit_code=1, stdout="", stderr="", elapsed=late)

    found = bad(played(machine))
    assert found == {name: (f"took {late:.2f} s instead of 1.00 or more (at its timeout)",)}


@pytest.mark.parametrize(
    ("name", "seen", "tries"),
    [
        # Cut off by the program's own limit: in doubt, and measured again.
        ("good Service by name, nc", Observed(exit_code=1, stdout="", stderr="", elapsed=3.0), 6),
        ("good Service, wget", Observed(exit_code=1, stdout="", stderr="x", elapsed=3.2), 6),
        ("known name, nslookup", Observed(exit_code=1, stdout="", stderr="", elapsed=5.0), 6),
        # Answered, and wrongly: nothing to doubt.
        ("good Service by name, nc", Observed(exit_code=1, stdout="", stderr="", elapsed=0.1), 1),
        ("known name, nslookup", Observed(exit_code=1, stdout="", stderr="", elapsed=2.0), 1),
        ("unknown name, nslookup", Observed(exit_code=0, stdout="", stderr="", elapsed=0.0), 1),
    ],
)
def test_a_wrong_kind_is_refused(name: str, seen: Observed, tries: int) -> None:
    found = played(lambda trial: seen if trial.expectation.name == name else right(trial))
    assert list(bad(found)) == [name]
    assert f"exit code {seen.exit_code} instead of" in found[name].deviations[0]
    assert found[name].tries == tries
    assert found[name].observed["elapsed"] == seen.elapsed


def test_a_right_answer_that_was_once_cut_off_is_right() -> None:
    name = "good Service by name, nc"

    def machine(trial: Trial) -> Observed:
        if trial.expectation.name == name and trial.tries < 2:
            return Observed(exit_code=1, stdout="", stderr="", elapsed=3.1)
        return right(trial)

    found = played(machine)
    assert not bad(found)
    assert found[name].tries == 3
    assert found[name].observed["exit_code"] == 0


def test_a_wrong_answer_is_not_outweighed_by_right_ones() -> None:
    name = "closed target port, nc"

    def machine(trial: Trial) -> Observed:
        seen = right(trial, 2.0)  # slow: everything is measured again
        if trial.expectation.name == name and trial.tries == 1:
            return Observed(exit_code=0, stdout="", stderr="", elapsed=2.0)
        return seen

    assert bad(played(machine)) == {name: ("exit code 0 instead of 1",)}


def test_what_was_never_run_is_no_pass() -> None:
    trial = Trial(EXPECTATIONS[0], NAMES)
    trial.failed("No such file or directory")
    assert deviations(trial, [trial]) == ["cannot be run: No such file or directory"]
    assert trial.result(["x"]).observed == {"error": "No such file or directory"}
    assert not to_repeat([trial])
    assert deviations(Trial(EXPECTATIONS[0], NAMES), []) == ["was not run"]
