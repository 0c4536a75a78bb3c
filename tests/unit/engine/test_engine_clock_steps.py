"""The wall clock is set while a run goes on: never a number that only looks right.

Either the run is what it would have been, with every round of the faulted window known to have
begun after the mutant, or it is a failure of the harness's timing and was put back.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from api_faults import FaultedWorld, run_to_its_end
from engine_world import FakeClock, small_application

from pytest_sremut.cluster import overlap
from pytest_sremut.engine.clock import ClockWatch
from pytest_sremut.engine.run import Driver
from pytest_sremut.engine.steps import deploy
from pytest_sremut.errors import SremutError
from pytest_sremut.evidence.journal import JournalStatus, read_journal
from pytest_sremut.evidence.load import load_attempt
from pytest_sremut.study.verdict import Outcome

HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deploy, "manifests_of", small_application)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


class SetClock(FakeClock):
    """A wall clock that somebody sets; the monotonic one goes on."""

    def __init__(self) -> None:
        super().__init__()
        self.off = timedelta()

    def now(self) -> datetime:
        return super().now() + self.off


class Calls(list[str]):
    """Sets the clock when the n-th call is made."""

    def __init__(self, clock: SetClock, at: int, step: timedelta) -> None:
        super().__init__()
        self._set = (clock, at, step)

    def append(self, call: str) -> None:
        super().append(call)
        clock, at, step = self._set
        if len(self) == at:
            clock.off += step


def stepped_run(directory: Path, at: int, step: timedelta) -> tuple[FaultedWorld, Driver, Any, Any]:
    world = FaultedWorld(directory)
    clock = world.clock = SetClock()
    driver = world.small_driver("MS-M02")
    world.faulty.calls = Calls(clock, at, step)
    seen, error = run_to_its_end(driver)
    world.stop()
    return world, driver, seen, error


@pytest.fixture(autouse=True)
def _one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlap, "WIDTH", 1)  # only so has a call a number


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[list[str], Any]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deploy, "manifests_of", small_application)
        patch.setattr(overlap, "WIDTH", 1)
        world, driver, seen, error = stepped_run(tmp_path_factory.mktemp("whole"), 0, HOUR)
        assert error is None
        assert driver.outcome is Outcome.COMPLETE
        yield list(world.faulty.calls), seen


def rounds_after_the_mutant(driver: Driver) -> int:
    """As the ledger counts them: begun later than the last receipt before the activation."""
    mutated, injected = "", False
    for entry in read_journal(driver.attempt.journal.path).entries:
        injected |= entry.transition == "MUTANT_INJECTED"
        if entry.transition == "RECEIPT" and injected:
            mutated = entry.utc
        if entry.transition == "MUTANT_STATE_VERIFIED":
            break
    state = json.loads((driver.attempt.directory / "states" / "faulted.json").read_text())
    return sum(item["begin"] > mutated for item in state["workload"]["rounds"])


PLACES = [
    ("create Deployment", 0),
    ("create Job social-network/sremut-load-healthy", 0),
    ("logs of Pod social-network/sremut-load-healthy", 0),
    ("delete Service", 0),
    ("create Service", 1),  # the mutant
    ("create Job social-network/sremut-load-faulted", 0),
    ("logs of Pod social-network/sremut-load-faulted", 0),
    ("create Service", 2),  # the target again
    ("delete Deployment", 0),
]


@pytest.mark.parametrize("step", [HOUR, -HOUR], ids=["forwards", "backwards"])
@pytest.mark.parametrize("place", PLACES, ids=lambda place: f"{place[0].split('/')[-1]}-{place[1]}")
def test_the_clock_is_set(
    tmp_path: Path, whole: tuple[list[str], Any], place: tuple[str, int], step: timedelta
) -> None:
    calls, expected = whole
    call, which = place
    at = [number for number, name in enumerate(calls, 1) if name.startswith(call)][which]
    world, driver, seen, error = stepped_run(tmp_path, at, step)
    assert seen == {state: expected[state] for state in seen}
    if call.endswith("Deployment"):  # outside the states: nothing that is compared lies between
        assert error is None
        assert driver.outcome is Outcome.COMPLETE
        assert rounds_after_the_mutant(driver) == 10
    else:
        assert driver.outcome is Outcome.HARNESS_TIMING_FAILURE
        assert isinstance(error, SremutError)
        assert "clock" in str(error)
    assert not driver.dirty
    assert world.left == []
    assert world.marks[-1:] in ([], [""])
    # Entries stand in the order in which they were made, whatever their dates say.
    assert read_journal(driver.attempt.journal.path).status is JournalStatus.INTACT
    record = load_attempt(driver.attempt.directory)
    assert record.problems == ()
    assert record.outcome is driver.outcome
    waiting = json.loads((driver.attempt.directory / "record.json").read_text())["waiting"]
    assert all(0 <= seconds < 600 for seconds in waiting.values())


def test_the_nodes_clock_is_behind_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = FaultedWorld(tmp_path)
    clock = world.clock = SetClock()
    driver = world.small_driver("MS-M02")
    log = world._log

    def dated_by_the_node(rounds: int, duration: float) -> bytes:
        clock.off = -HOUR
        try:
            return log(rounds, duration)
        finally:
            clock.off = timedelta()

    monkeypatch.setattr(world, "_log", dated_by_the_node)
    seen, error = run_to_its_end(driver)
    world.stop()
    assert seen == {}
    assert driver.outcome is Outcome.HARNESS_TIMING_FAILURE
    assert "10 rounds are dated before they were asked for" in str(error)


def test_a_step_and_a_slew() -> None:
    clock = SetClock()
    watch = ClockWatch(clock)
    clock.wait(600)
    clock.off = timedelta(seconds=0.3)  # slewed
    assert watch.stepped == 0.0
    clock.off = timedelta(seconds=-3)
    assert -3.1 < watch.stepped < -2.9
    assert ClockWatch(clock).stepped == 0.0
