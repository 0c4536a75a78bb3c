"""Draws and due times: what a seed decides, and that it is what was asked for."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sremut.workload.draws import (
    SEED_LIMIT,
    Draws,
    choices,
    script_seed,
    stream,
    window_seed,
)
from pytest_sremut.workload.mix import Kind
from pytest_sremut.workload.pace import Drawn, Steady, due_within
from pytest_sremut.workload.plan import Distribution, Plan, Variant

MIX = (Kind("home", "/h", 60), Kind("user", "/u", 30), Kind("compose", "/c", 10))


def a_plan(**changes: object) -> Plan:
    values: dict[str, object] = {
        "connections": 3,
        "threads": 3,
        "rate": 100.0,
        "duration": 10.0,
        "timeout": 2.0,
        "kinds": MIX,
    }
    return Plan(**{**values, **changes})  # type: ignore[arg-type]


def test_seeds_of_windows_never_change() -> None:
    """Pinned: who knows the names of an old window can draw its load again."""
    named = {"run": "ms-m02-r01", "state": "faulted", "window": "faulted", "attempt": 1}
    assert window_seed(**named) == PINNED  # type: ignore[arg-type]
    others = [
        window_seed(**{**named, **change})  # type: ignore[arg-type]
        for change in (
            {"run": "ms-m02-r02"},
            {"state": "healthy"},
            {"window": "faulted-fresh1"},
            {"attempt": 2},
        )
    ]
    assert len({PINNED, *others}) == 5


PINNED = 5390187167460816
FIRST_KINDS = "1001011011110200221102110100101000012100"


@given(st.text(), st.text(), st.text(), st.integers(1, 1000))
def test_every_name_gives_a_seed_that_numbers_hold(
    run: str, state: str, window: str, attempt: int
) -> None:
    seed = window_seed(run=run, state=state, window=window, attempt=attempt)
    assert 0 <= seed < SEED_LIMIT
    assert int(float(seed)) == seed
    assert 0 <= script_seed(seed, 1, 1) < SEED_LIMIT


def test_the_draws_of_a_seed_never_change() -> None:
    draws = Draws(a_plan(), 4242, 1)
    assert "".join(str(kind) for kind in islice(draws.kinds(0), 40)) == FIRST_KINDS


@pytest.mark.parametrize("version", ["3.12", "3.13"])
def test_other_pythons_draw_the_same(version: str) -> None:
    root = Path.home() / ".pyenv" / "versions"
    found = sorted(root.glob(f"{version}.*/bin/python")) if root.is_dir() else []
    if not found:
        pytest.skip(f"no Python {version} here")
    code = (
        "from pytest_sremut.workload.draws import exponential, stream\n"
        "print([next(exponential(1.0, stream(7, 'x'))), stream(7, 'y').random()])\n"
    )
    here, there = (
        subprocess.run(
            [program, "-S", "-c", code],
            env={"PYTHONPATH": str(Path(__file__).resolve().parents[3])},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for program in (sys.executable, str(found[-1]))
    )
    assert here == there != ""


@given(st.integers(0, SEED_LIMIT - 1))
def test_each_request_is_drawn_alone_with_its_weight(seed: int) -> None:
    """No cycles: over 3,000 draws each share lies within five standard deviations."""
    drawn = list(islice(choices([60, 30, 10], stream(seed, "kinds")), 3000))
    for kind, share in enumerate((0.6, 0.3, 0.1)):
        spread = (3000 * share * (1 - share)) ** 0.5
        assert abs(drawn.count(kind) - 3000 * share) < 5.5 * spread
    tens = Counter(tuple(sorted(drawn[at : at + 10])) for at in range(0, 3000, 10))
    assert len(tens) > 10, "cycles of ten differ in what they hold"


@given(st.integers(0, SEED_LIMIT - 1))
def test_exponential_gaps_have_their_mean_and_scatter(seed: int) -> None:
    plan = a_plan()
    due = [due_within(plan, lane, Draws(plan, seed, number).gaps(lane))
           for lane in range(3) for number in range(20)]  # fmt: skip
    mean = sum(due) / len(due)
    assert abs(mean - 330) < 15, "ten seconds at 33 a second on each connection"
    assert max(due) - min(due) > 10


def test_fixed_gaps_scatter_nothing() -> None:
    plan = a_plan(distribution=Distribution.FIXED)
    assert [due_within(plan, lane, Draws(plan, 1, 1).gaps(lane)) for lane in range(3)] == [329] * 3
    giltene = a_plan(variant=Variant.GILTENE, distribution=Distribution.FIXED)
    assert [due_within(giltene, lane, iter(())) for lane in range(3)] == [334] * 3


def test_deathstarbench_divides_its_rate_by_threads_in_whole_numbers() -> None:
    assert a_plan().interval == pytest.approx(3 / 99)
    assert a_plan(variant=Variant.GILTENE).interval == pytest.approx(0.03)
    assert a_plan(rate=2.0).interval == pytest.approx(1.5), "less than one a thread stays as asked"


def test_the_drawn_pace_waits_for_nobody() -> None:
    pace = Drawn(10.0, iter([1.0, 2.0, 3.0]))
    assert (pace.due, pace.may_send(99.0)) == (11.0, 11.0)
    pace.answered()
    assert pace.due == 11.0
    pace.sent()
    assert pace.due == 13.0
    pace.given_up()
    assert pace.due == 16.0


def test_the_steady_pace_counts_answers_and_catches_up_at_twice_the_rate() -> None:
    pace = Steady(0.0, 1.0)
    assert pace.may_send(0.0) == 0.0
    pace.sent()
    assert pace.due == 0.0, "a request without an answer is due again"
    pace.answered()
    assert pace.may_send(0.5) == 1.0
    assert pace.may_send(5.0) == 1.0, "behind: at once"
    pace.answered()
    assert pace.may_send(5.0) == 5.5, "then two a second"
    pace.answered()
    assert pace.may_send(5.5) == 6.0
    for _ in range(4):
        pace.answered()
    assert pace.may_send(6.0) == 7.0, "caught up"
