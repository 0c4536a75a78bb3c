"""An interrupt or a full disk at any point of a run: what was done is known, and undone."""

from __future__ import annotations

import errno
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from engine_world import EngineWorld, small_application
from fake_kube import FakeKube
from world import NS

from pytest_sremut.engine.run import Driver
from pytest_sremut.engine.steps import deploy
from pytest_sremut.engine.stops import RunStoppedError
from pytest_sremut.errors import ClusterError, EvidenceError
from pytest_sremut.evidence import journal, stream
from pytest_sremut.evidence.load import load_attempt
from pytest_sremut.ground.durable import atomic
from pytest_sremut.ground.durable.uninterrupted import interrupt, uninterrupted
from pytest_sremut.study.verdict import Outcome, State

MUTANTS = ("MS-M02", "MS-M04")
STEPS = 12  # points of a run that are tried, spread evenly over all that there are


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EngineWorld]:
    monkeypatch.setattr(deploy, "manifests_of", small_application)
    monkeypatch.setattr("pytest_sremut.cluster.waiting._OUTAGE", 0.2)
    world = EngineWorld(tmp_path / "evidence")
    yield world
    world.stop()


class Counter:
    """Counts what the main thread does and acts once, when it comes to a number."""

    def __init__(self, act: Callable[[], None], at: int | None = None) -> None:
        self.count = 0
        self._act = act
        self._at = at

    def step(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        self.count += 1
        if self.count == self._at:
            self._act()


class Calls(list[tuple[str, str, str]]):
    """The fake's list of calls, which every call is appended to before it does anything."""

    def __init__(self, counter: Counter) -> None:
        super().__init__()
        self._counter = counter

    def append(self, call: tuple[str, str, str]) -> None:
        super().append(call)
        self._counter.step()


def before_each_call(world: EngineWorld, counter: Counter, _: pytest.MonkeyPatch) -> None:
    world.kube.calls = Calls(counter)


def after_each_write(world: EngineWorld, counter: Counter, _: pytest.MonkeyPatch) -> None:
    def written(kube: FakeKube, verb: str, body: Mapping[str, Any]) -> None:
        counter.step()

    world.kube.reactors.append(written)


def in_each_evidence_write(
    world: EngineWorld, counter: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_all(descriptor: int, data: bytes) -> None:
        counter.step()
        os.write(descriptor, data)

    for module in (atomic, journal, stream):
        monkeypatch.setattr(module, "write_all", write_all)


def study_of(mutant: str, world: EngineWorld) -> Any:
    return world.pinned() if mutant == "MS-M04" else world.study()


def nothing_left(world: EngineWorld) -> list[tuple[str, str, str]]:
    return [key for key in world.kube.objects if key[1] == NS and key[0] != "EndpointSlice"]


def counted(
    place: Callable[[EngineWorld, Counter, pytest.MonkeyPatch], None],
    directory: Path,
    mutant: str,
    monkeypatch: pytest.MonkeyPatch,
) -> int:
    """How many points a whole run has."""
    world = EngineWorld(directory)
    counter = Counter(lambda: None)
    with monkeypatch.context() as patch:
        driver = world.driver(mutant, study=study_of(mutant, world))
        place(world, counter, patch)
        assert driver.state(State.RESTORED)
    world.stop()
    return counter.count


@pytest.mark.parametrize("place", [before_each_call, after_each_write, in_each_evidence_write])
@pytest.mark.parametrize("mutant", MUTANTS)
def test_an_interrupt_anywhere_is_undone(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mutant: str,
    place: Callable[[EngineWorld, Counter, pytest.MonkeyPatch], None],
) -> None:
    monkeypatch.setattr(deploy, "manifests_of", small_application)
    total = counted(place, tmp_path / "whole", mutant, monkeypatch)
    assert total > STEPS
    for number in range(1, total + 1, max(1, total // STEPS)):
        world = EngineWorld(tmp_path / f"at-{number}")
        with monkeypatch.context() as patch:
            driver = world.driver(mutant, study=study_of(mutant, world))
            place(world, Counter(lambda: interrupt("SIGINT received"), number), patch)
            with pytest.raises(KeyboardInterrupt):
                driver.state(State.RESTORED)
        told = f"interrupted at {number} of {total}: {driver.outcome}, {driver.dirty}"
        assert driver.outcome in {Outcome.DRIVER_ABORTED, Outcome.COMPLETE}, told
        assert nothing_left(world) == [], told
        assert not driver.dirty, told
        assert world.marks[-1:] in ([], [""]), told
        record = load_attempt(driver.attempt.directory)
        assert record.problems == (), told
        assert record.outcome is driver.outcome, told
        world.stop()


@pytest.mark.parametrize("mutant", ["MS-M02", "MS-M04"])
def test_a_second_interrupt_during_the_restoration_is_told(world: EngineWorld, mutant: str) -> None:
    driver = world.driver(mutant, study=study_of(mutant, world))
    driver.state(State.FAULTED)
    world.kube.calls = Calls(Counter(lambda: interrupt("SIGINT received"), 3))
    world.kube.reactors.append(lambda kube, verb, body: interrupt("SIGINT received again"))
    with pytest.raises(KeyboardInterrupt):
        driver.state(State.RESTORED)
    assert driver.outcome is Outcome.RESTORATION_FAILURE
    assert "; then restoration failed: interrupted: SIGINT received" in _reason(world)
    assert world.marks[-1] != ""
    assert driver.dirty


def _reason(world: EngineWorld) -> str:
    (closed,) = (world.directory / "attempts").glob("*.closed.json")
    return str(json.loads(closed.read_text())["reason"])


def test_half_a_mutant_is_taken_away_again(world: EngineWorld) -> None:
    driver = world.driver("MS-M04", study=world.pinned())
    driver.state(State.HEALTHY)
    world.kube.break_next("create", "Endpoints")
    with pytest.raises(RunStoppedError) as caught:
        driver.state(State.FAULTED)
    assert caught.value.outcome is Outcome.INFRASTRUCTURE_FAILURE
    assert not driver.dirty
    assert nothing_left(world) == []


def test_half_an_application_is_taken_away_again(world: EngineWorld) -> None:
    driver = world.driver("MS-M01")
    world.kube.break_next("create", "Service")
    with pytest.raises(RunStoppedError) as caught:
        driver.state(State.HEALTHY)
    assert caught.value.outcome is Outcome.INFRASTRUCTURE_FAILURE
    assert nothing_left(world) == []


def test_a_disk_that_fills_up_anywhere_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deploy, "manifests_of", small_application)
    total = counted(in_each_evidence_write, tmp_path / "whole", "MS-M01", monkeypatch)
    for number in range(1, total + 1, max(1, total // STEPS)):
        world = EngineWorld(tmp_path / f"at-{number}")
        driver = world.driver("MS-M01")
        with monkeypatch.context() as patch:
            fill(patch, number)
            stopped = until_stopped(driver)
        told = f"full at {number} of {total}: {stopped}"
        assert "No space left on device (ENOSPC)" in str(stopped), told
        assert driver.outcome not in {None, Outcome.COMPLETE}, told
        # Nothing is written to a cluster without a durable intent; what is left is told.
        assert driver.dirty or not nothing_left(world), told
        if world.marks[-1:] not in ([], [""]):
            assert driver.dirty or not driver.attempt.closed, told
        # What was finished before stands, and nobody takes the attempt for a complete one.
        record = load_attempt(driver.attempt.directory)
        assert record.outcome is not Outcome.COMPLETE, told
        world.stop()


def fill(patch: pytest.MonkeyPatch, number: int) -> None:
    """From its n-th write on the disk is full."""
    counter = Counter(lambda: None)

    def write_all(descriptor: int, data: bytes) -> None:
        counter.step()
        if counter.count >= number:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.write(descriptor, data)

    for module in (atomic, journal, stream):
        patch.setattr(module, "write_all", write_all)


def until_stopped(driver: Driver) -> Exception:
    """What the cells of the run are told; every one is told the same."""
    with pytest.raises((RunStoppedError, EvidenceError)) as first:
        driver.state(State.RESTORED)
    with pytest.raises(RunStoppedError) as second:
        driver.state(State.RESTORED)
    assert driver.finish() is driver.outcome
    assert first.value.__class__ is RunStoppedError
    assert str(first.value) == str(second.value)
    return first.value


# -- the tool itself ----------------------------------------------------------------------------


def test_an_interrupt_waits_for_the_end_of_the_outermost_block() -> None:
    done: list[str] = []

    def work() -> None:
        with uninterrupted():
            with uninterrupted():
                interrupt("now")
                done.append("inner")
            done.append("outer")
        done.append("never")

    with pytest.raises(KeyboardInterrupt, match="now"):
        work()
    assert done == ["inner", "outer"]
    with uninterrupted():
        pass  # and it came once


def test_a_second_interrupt_does_not_wait() -> None:
    def insist() -> None:
        with uninterrupted():
            interrupt("once")
            interrupt("again")

    with pytest.raises(KeyboardInterrupt, match="again"):
        insist()
    with uninterrupted():
        pass


def test_an_interrupt_beats_the_error_of_the_block() -> None:
    def fail() -> None:
        with uninterrupted():
            interrupt("now")
            raise ClusterError("refused")

    with pytest.raises(KeyboardInterrupt, match="now") as caught:
        fail()
    assert isinstance(caught.value.__context__, ClusterError)


def test_other_threads_pass_through() -> None:
    inside = threading.Event()
    leave = threading.Event()

    def other() -> None:
        with uninterrupted():
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    thread.start()
    assert inside.wait(10)
    with pytest.raises(KeyboardInterrupt):
        interrupt("at once")
    leave.set()
    thread.join(10)
