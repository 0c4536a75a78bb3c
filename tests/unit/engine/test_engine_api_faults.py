"""The API fails in every way, at calls of every kind that a run makes: never a verdict from it.

A selection that has each way and each kind of call; `benchmarks/faults.py` fails every call in
every way.
"""

from __future__ import annotations

import dataclasses
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from api_faults import (
    WAYS,
    Effect,
    FaultedWorld,
    problems_of,
    run_to_its_end,
)
from engine_world import small_application

from pytest_sremut.cluster import overlap, waiting
from pytest_sremut.engine.run import Driver
from pytest_sremut.engine.steps import deploy
from pytest_sremut.engine.stops import RunStoppedError
from pytest_sremut.oracles.oracle_port import Reading
from pytest_sremut.oracles.request import ReadingRequest
from pytest_sremut.study.verdict import Outcome, State, Verdict


@pytest.fixture(autouse=True)
def _quick() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        _in_memory(patch)
        yield


def _in_memory(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(deploy, "manifests_of", small_application)
    patch.setattr(waiting, "_OUTAGE", 0.05)
    patch.setattr(waiting, "_BACK_OFF", (0.001, 0.001))
    patch.setattr(overlap, "WIDTH", 1)  # calls have a number only one after another
    patch.setattr(os, "fsync", lambda descriptor: None)  # a crash of the machine is not the point


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """A run in which nothing failed."""

    calls: tuple[str, ...]
    sites: tuple[tuple[str, ...], ...]
    verdicts: dict[State, dict[str, str]]

    def find(self, call: str, function: str) -> int:
        """The number of the first call of that name made below that function."""
        for number, (name, site) in enumerate(zip(self.calls, self.sites, strict=True), start=1):
            if name.startswith(call) and function in site:
                return number
        raise AssertionError(f"no {call} below {function}")


_known: dict[str, Whole] = {}


@pytest.fixture
def whole(tmp_path_factory: pytest.TempPathFactory, mutant: str) -> Whole:
    if mutant not in _known:
        world = FaultedWorld(tmp_path_factory.mktemp("whole"))
        world.faulty.trace = True
        driver = world.small_driver(mutant)
        skipped = len(world.faulty.sites)
        seen, error = run_to_its_end(driver)
        world.stop()
        assert error is None
        _known[mutant] = Whole(
            calls=tuple(world.faulty.calls),
            sites=tuple(world.faulty.sites[skipped:]),
            verdicts=seen,
        )
    return _known[mutant]


@pytest.fixture
def mutant() -> str:
    return "MS-M02"


ONCE = [
    # (call, made below, way, effect)
    ("get /version", "preflight._cluster", "html", "before"),
    ("list Node", "preflight.preflight", "410", "before"),
    ("get Namespace kube-system", "guard.create", "wrong-shape", "before"),
    ("create Deployment", "deploy.deploy", "reset", "after"),
    ("create Service", "deploy.deploy", "409", "before"),
    ("list Pod", "stability.stable", "429-retry-after", "before"),
    ("create Job", "windows.take_window", "truncated", "after"),
    ("logs of Pod", "windows._whole_log", "hung", "before"),
    ("logs of Pod", "windows._whole_log", "not-json", "before"),
    ("delete Job", "windows._discard", "500", "after"),
    ("get Endpoints", "service_endpoints._get", "not-json", "before"),
    ("create Pod", "service_endpoints._connection", "hung", "after"),
    ("exec in Pod", "checks._identity", "content-type", "before"),
    ("get Service", "capture.capture_target", "truncated", "before"),
    ("delete Service", "writes.inject", "hung", "after"),
    ("delete Service", "writes.inject", "409", "before"),
    ("delete Pod", "writes.inject", "429", "before"),
    ("create Service", "mutate.apply_mutant", "html", "after"),
    ("get Service", "activation.see", "refused", "before"),
    ("delete Service", "restore.restore", "reset", "after"),
    ("create Service", "writes.recover", "wrong-shape", "after"),
    ("delete Deployment", "deploy.remove", "content-type", "after"),
]


def test_every_way_is_tried() -> None:
    assert {way for _, _, way, _ in ONCE} == set(WAYS)


@pytest.mark.parametrize(("call", "function", "way", "effect"), ONCE)
def test_one_call_fails(
    tmp_path: Path, whole: Whole, mutant: str, call: str, function: str, way: str, effect: Effect
) -> None:
    world = FaultedWorld(tmp_path)
    driver = world.small_driver(mutant)
    world.faulty.plan(at=whole.find(call, function), way=WAYS[way], effect=effect)
    seen, error = run_to_its_end(driver)
    world.stop()
    assert world.faulty.struck
    assert problems_of(world, driver, seen, error, whole.verdicts, lasting=False) == []


@pytest.mark.parametrize(
    ("call", "function", "way", "outcome"),
    [
        ("get Namespace social-network", "preflight.preflight", "refused", "INFRASTRUCTURE"),
        ("list Deployment", "stability.stable", "429", "INFRASTRUCTURE"),
        ("get Service", "capture.capture_target", "hung", "INFRASTRUCTURE"),
        ("create Service", "mutate.apply_mutant", "reset", "RESTORATION"),
        ("list EndpointSlice", "activation.see", "not-json", "RESTORATION"),
        ("exec in Pod", "checks._routing", "500", "INFRASTRUCTURE"),
        ("list Pod", "writes.recover", "html", "RESTORATION"),
        ("delete Deployment", "deploy.remove", "410", "INFRASTRUCTURE"),
    ],
)
def test_the_api_fails_from_a_call_on(
    tmp_path: Path, whole: Whole, mutant: str, call: str, function: str, way: str, outcome: str
) -> None:
    world = FaultedWorld(tmp_path)
    driver = world.small_driver(mutant)
    world.faulty.plan(at=whole.find(call, function), way=WAYS[way], effect="after", lasting=True)
    seen, error = run_to_its_end(driver)
    world.stop()
    assert driver.outcome is Outcome[f"{outcome}_FAILURE"]
    assert problems_of(world, driver, seen, error, whole.verdicts, lasting=True) == []


@pytest.mark.parametrize("call", ["create Service", "get Service"])
@pytest.mark.parametrize("times", [2, 4])
def test_the_api_comes_back_while_the_cluster_is_put_back(
    tmp_path: Path, whole: Whole, mutant: str, call: str, times: int
) -> None:
    """Four calls: the one that stopped the run, and those of the first attempts to restore."""
    world = FaultedWorld(tmp_path)
    driver = world.small_driver(mutant)
    function = "mutate.apply_mutant" if call == "create Service" else "activation.see"
    at = whole.find(call, function)
    world.faulty.plan(at=at, way=WAYS["reset"], effect="after", lasting=True, times=times)
    seen, error = run_to_its_end(driver)
    world.stop()
    assert len(world.faulty.struck) == times
    assert driver.outcome is Outcome.INFRASTRUCTURE_FAILURE
    assert problems_of(world, driver, seen, error, whole.verdicts, lasting=False) == []


@pytest.mark.parametrize("mutant", ["MS-M04"])
@pytest.mark.parametrize("kind", ["Service", "Endpoints"])
def test_a_mutant_of_two_objects_whose_answer_is_lost(
    tmp_path: Path, whole: Whole, mutant: str, kind: str
) -> None:
    world = FaultedWorld(tmp_path)
    driver = world.small_driver(mutant)
    at = whole.find(f"create {kind}", "mutate.apply_mutant")
    world.faulty.plan(at=at, way=WAYS["reset"], effect="after")
    seen, error = run_to_its_end(driver)
    world.stop()
    # It was sent once: the application's and the restored Service have its name, too.
    (struck,) = world.faulty.struck
    assert world.faulty.calls.count(struck) == whole.calls.count(struck)
    assert problems_of(world, driver, seen, error, whole.verdicts, lasting=False) == []


class Swallows:
    """A grader with a client of its own that takes a failed call for a bad state, as many do."""

    def __init__(self, world: FaultedWorld, driver: Driver) -> None:
        self._world = world
        self._driver = driver

    def before(self, request: ReadingRequest) -> None:
        if request.oracle.id == "O1":
            self._world.kube.break_always("list", "Pod")

    def change(self, request: ReadingRequest, reading: Reading) -> Reading:
        if request.oracle.id != "O1":
            return reading
        self._until_the_sampler_looked()
        self._world.kube.heal()
        return dataclasses.replace(
            reading,
            verdict=Verdict.REJECT,
            returned={"success": False},
            exception=None,
            reason="",
        )

    def _until_the_sampler_looked(self) -> None:
        sampler = self._driver._samples
        seen, tick = len(sampler.timeline), threading.Event()
        for _ in range(2000):
            if len(sampler.timeline) >= seen + 3:
                return
            tick.wait(0.005)
        raise AssertionError("the sampler stands still")


@pytest.mark.parametrize("state", [State.HEALTHY, State.FAULTED])
def test_a_rejection_while_the_api_fails_is_no_verdict(tmp_path: Path, state: State) -> None:
    world = FaultedWorld(tmp_path)
    driver = world.driver("MS-M02")
    if state is State.FAULTED:
        driver.state(State.HEALTHY)
    grader = Swallows(world, driver)
    world.instruments[0].before, world.instruments[0].change = grader.before, grader.change
    with pytest.raises(RunStoppedError) as caught:
        driver.state(state)
    world.stop()
    assert caught.value.outcome is Outcome.INFRASTRUCTURE_FAILURE
    assert "O1" in caught.value.reason
    assert "as the sampler saw" in caught.value.reason
    assert world.left == []
