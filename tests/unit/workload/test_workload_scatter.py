"""The simulation from which predictions are derived: what it may not do."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from pytest_sremut.workload.draws import Draws
from pytest_sremut.workload.plan import Plan

SOURCE = Path(__file__).resolve().parents[3] / "benchmarks" / "load_scatter.py"


@pytest.fixture(scope="module")
def scatter() -> Iterator[ModuleType]:
    """The benchmark as a module; its dataclasses want to find it by name."""
    spec = importlib.util.spec_from_file_location("load_scatter", SOURCE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["load_scatter"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["load_scatter"]


def connects(scatter: ModuleType, planned: Plan, pause: float) -> list[tuple[float, float, int]]:
    """When each SYN of a simulated window went out, its connect began, and which one it was."""
    seen: list[tuple[float, float, int]] = []

    class Watched(scatter.Limited):  # type: ignore[misc, name-defined]
        def _syn(self, now: float, sent: float, place: int, done: Callable[[float], None]) -> None:
            seen.append((now, sent, place))
            super()._syn(now, sent, place, done)

    watched = Watched(planned, 5, answer=0.003, syns=(0.0, 1.0, 2.0), pause=pause)
    watched.run(lambda number, lane: Draws(planned, 5, number).gaps(lane))
    return seen


def test_no_connection_outlives_its_round(scatter: ModuleType) -> None:
    """wrk2 closes them: what is due and was not sent is never sent, and takes no node's message."""
    planned, pause = scatter.PROFILES["kind"], 1.0
    begun = [sent for _, sent, place in connects(scatter, planned, pause) if place == 0]
    length = planned.duration + pause
    assert all(sent % length < planned.duration for sent in begun)
    # Three connections whose connects last a second or more cannot begin more than that.
    assert len(begun) <= scatter.ROUNDS * planned.connections * (planned.duration + 1)


def test_time_goes_forward_over_the_end_of_a_round(scatter: ModuleType) -> None:
    """A connect that began before the end goes on beside the next round, in its order."""
    times = [now for now, _, _ in connects(scatter, scatter.PROFILES["kind"], 1.0)]
    assert times == sorted(times)


def test_a_round_that_drains_ends_with_its_last_answer(scatter: ModuleType) -> None:
    planned = scatter.PROFILES["embedded"]
    seen = connects(scatter, planned, 0.05)
    assert seen == sorted(seen, key=lambda one: one[0])
    begun = sorted(sent for _, sent, place in seen if place == 0)
    # Each connection stalls once a round: it sends nothing after its first stall.
    assert len(begun) <= scatter.ROUNDS * planned.connections


def test_the_limit_makes_connects_longer_and_never_shorter(scatter: ModuleType) -> None:
    planned = scatter.PROFILES["kind"]
    limited = scatter.limited_window(
        planned, 5, answer=0.003, real=False, syns=(0.0, 1.0, 2.0), pause=1.0
    )
    free = scatter.window(planned, 5, 1.0, 0.003)
    assert 0 < limited.failures < free.failures
    assert limited.successes < free.successes
