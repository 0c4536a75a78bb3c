"""What the engine does around a benchmark: fingerprints, noise, its fault, absent instruments."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from engine_world import EngineWorld, FakeInstrument, small_application
from fake_kube import FakeKube
from world import NS

from pytest_sremut.engine.faults.benchmark import BenchmarkFault
from pytest_sremut.engine.observe.fingerprint import changes, fingerprint
from pytest_sremut.engine.steps import deploy
from pytest_sremut.engine.steps.instruments import InstrumentSet
from pytest_sremut.engine.steps.preflight import PreflightCheck
from pytest_sremut.engine.stops import RunStoppedError
from pytest_sremut.errors import UsageError
from pytest_sremut.oracles.request import ReadingRequest
from pytest_sremut.study.model import Study
from pytest_sremut.study.verdict import Outcome, State


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EngineWorld:
    monkeypatch.setattr(deploy, "manifests_of", small_application)
    return EngineWorld(tmp_path)


# -- fingerprints ----------------------------------------------------------------------------------


def pod(**metadata: Any) -> dict[str, Any]:
    return {
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": NS, "uid": "u1", **metadata},
        "spec": {"containers": []},
        "status": {"phase": "Running"},
    }


@pytest.fixture
def kube() -> FakeKube:
    kube = FakeKube()
    kube.put(pod())
    return kube


def test_status_and_versions_are_not_compared(kube: FakeKube) -> None:
    before = fingerprint(kube, NS)
    kube.change("Pod", NS, "p", status={"phase": "Failed"})
    after = fingerprint(kube, NS)
    assert changes(before, after) == []
    assert before.digest == after.digest


@pytest.mark.parametrize(
    "change",
    [
        lambda kube: kube.put(pod(labels={"a": "b"})),
        lambda kube: kube.put(pod(annotations={"a": "b"})),
        lambda kube: kube.put(pod() | {"spec": {"containers": [{"name": "c"}]}}),
    ],
)
def test_what_should_be_is_compared(kube: FakeKube, change: Callable[[FakeKube], None]) -> None:
    before = fingerprint(kube, NS)
    change(kube)
    assert [line.rpartition(" ")[2] for line in changes(before, fingerprint(kube, NS))] == [
        "changed"
    ]


def test_a_probe_that_comes_or_goes_is_no_change(kube: FakeKube) -> None:
    def looks(item: Mapping[str, Any]) -> bool:
        return bool(item["metadata"].get("labels") == {"app": "check"})

    before = fingerprint(kube, NS, is_probe=looks)
    kube.put(pod(name="check-1", uid="u7", labels={"app": "check"}))
    kube.put(pod(name="other-1", uid="u8", labels={"app": "other"}))
    after = fingerprint(kube, NS, is_probe=looks)
    assert changes(before, after) == ["Pod other-1 (u8) appeared"]


def test_objects_that_come_and_go_are_told_by_uid(kube: FakeKube) -> None:
    before = fingerprint(kube, NS)
    kube.put(pod(uid="u2"))
    assert changes(before, fingerprint(kube, NS)) == ["Pod p (u2) appeared", "Pod p (u1) is gone"]


def test_a_kind_that_cannot_be_read_decides_nothing(kube: FakeKube) -> None:
    before = fingerprint(kube, NS)
    kube.break_always("list", "Pod")
    after = fingerprint(kube, NS)
    assert after.unread == ("Pod",)
    assert changes(before, after) == []


def test_many_changes_are_counted(kube: FakeKube) -> None:
    before = fingerprint(kube, NS)
    for number in range(30):
        kube.put(pod(name=f"p{number}", uid=f"v{number}"))
    told = changes(before, fingerprint(kube, NS))
    assert len(told) == 21
    assert told[-1] == "and 10 more"


def test_readings_tell_what_changed_meanwhile(world: EngineWorld) -> None:
    def meddle(request: ReadingRequest) -> None:
        if request.oracle.id == "O3":
            world.kube.put(
                {"kind": "ConfigMap", "metadata": {"name": "x", "namespace": NS, "uid": "c"}}
            )

    world.instruments[0].before = meddle
    driver = world.driver("MS-M01")
    driver.state(State.HEALTHY)
    facts = {
        (item.reading.oracle, item.reading.instrument): item.facts["state"]["changes"]
        for item in driver._notes[State.HEALTHY].readings
    }
    assert facts.pop(("O3", "in-process")) == ["ConfigMap x (c) appeared"]
    assert not any(facts.values())


# -- noise -----------------------------------------------------------------------------------------


def noisy(world: EngineWorld, kills: int) -> Any:
    driver = world.driver("MS-M01")
    protocol = dataclasses.replace(driver._ctx.protocol, chaos_kills=kills)
    driver._ctx = dataclasses.replace(driver._ctx, protocol=protocol)
    return driver


def test_noise_kills_pods_whenever_the_state_was_changed(world: EngineWorld) -> None:
    driver = noisy(world, 1)
    driver.state(State.RESTORED)
    assert driver.outcome is Outcome.COMPLETE
    killed = {state: notes.facts.get("killed") for state, notes in driver._notes.items()}
    assert killed[State.HEALTHY] is None
    assert len(killed[State.FAULTED]) == len(killed[State.RESTORED]) == 1


def test_the_same_run_meets_the_same_noise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deploy, "manifests_of", small_application)
    killed = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        driver = noisy(EngineWorld(tmp_path / name), 1)
        driver.state(State.FAULTED)
        (pod_name,) = driver._notes[State.FAULTED].facts["killed"]
        killed.append(pod_name.rsplit("-", 2)[0])
    assert killed[0] == killed[1]


def test_more_noise_than_pods(world: EngineWorld) -> None:
    driver = noisy(world, 99)
    driver.state(State.FAULTED)
    assert len(driver._notes[State.FAULTED].facts["killed"]) == 2


# -- a fault of the benchmark's --------------------------------------------------------------------


class Injector:
    """A benchmark's injector: deletes the Service and every pod, and puts the Service back."""

    def __init__(self, world: EngineWorld) -> None:
        self.world = world
        self.asked: list[tuple[str, str]] = []
        self.recovers = True
        self.changes: Mapping[str, Any] = {}

    def operate(self, action: str, request: ReadingRequest, name: str) -> Mapping[str, Any]:
        self.asked.append((action, name))
        kube = self.world.kube
        key = ("Service", NS, "user-service")
        if action == "inject":
            self.saved = kube.objects[key]
            kube.drop(*key)
        elif self.recovers:
            body = {
                **self.saved,
                "metadata": {
                    "name": "user-service",
                    "namespace": NS,
                    "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"},
                },
                "spec": {**self.saved["spec"], **self.changes},
            }
            kube.create(body, namespace=NS)
        for item in [*self.world.pods("user-service"), *self.world.pods("media-service")]:
            found = kube.objects[("Pod", NS, item["metadata"]["name"])]
            kube.drop("Pod", NS, item["metadata"]["name"])
            self.world._replace(found)
        self.world.settle()
        return {"returned": None, "elapsed": 0.0, "stdout": "", "stderr": ""}


FAULT = "sregym:missing_service"


def broken_by_benchmark(world: EngineWorld) -> tuple[Any, Injector]:
    driver = world.driver("MS-M01")
    injector = Injector(world)
    driver._fault = BenchmarkFault(FAULT, injector)
    return driver, injector


def test_a_benchmarks_fault_is_injected_and_taken_back_by_it(world: EngineWorld) -> None:
    driver, injector = broken_by_benchmark(world)
    driver.state(State.RESTORED)
    assert driver.outcome is Outcome.COMPLETE
    assert injector.asked == [("inject", "missing_service"), ("recover", "missing_service")]


def test_a_recovery_that_leaves_another_object_is_no_restoration(world: EngineWorld) -> None:
    driver, injector = broken_by_benchmark(world)
    injector.changes = {"selector": {"service": "other"}}
    with pytest.raises(RunStoppedError, match="left another Service") as caught:
        driver.state(State.RESTORED)
    assert caught.value.outcome is Outcome.RESTORATION_FAILURE


def test_a_recovery_that_leaves_nothing_is_told_and_ours_puts_it_back(world: EngineWorld) -> None:
    driver, injector = broken_by_benchmark(world)
    injector.recovers = False
    with pytest.raises(RunStoppedError, match="recovery left no Service") as caught:
        driver.state(State.RESTORED)
    assert caught.value.outcome is Outcome.RESTORATION_FAILURE
    assert driver.dirty == ""
    assert world.marks[-1] == ""


def test_without_anything_that_runs_it_a_benchmarks_fault_is_not_injected(
    world: EngineWorld,
) -> None:
    driver, _ = broken_by_benchmark(world)
    driver._fault = InstrumentSet([]).fault(FAULT)
    with pytest.raises(RunStoppedError, match="no instrument here runs a benchmark's injector"):
        driver.state(State.FAULTED)
    assert driver.dirty == ""  # and what was there stayed until the application was removed


# -- instruments -----------------------------------------------------------------------------------


def needing(world: EngineWorld, *names: str) -> Study:
    study = world.study()
    oracles = tuple(dataclasses.replace(spec, instruments=names) for spec in study.oracles)
    return dataclasses.replace(study, oracles=oracles)


def test_an_absent_instrument_is_an_outcome_with_what_to_pass(world: EngineWorld) -> None:
    study = needing(world, "in-process", "pinned")
    driver = world.driver("MS-M01", study=study)
    with pytest.raises(RunStoppedError) as caught:
        driver.state(State.HEALTHY)
    assert caught.value.outcome is Outcome.INFRASTRUCTURE_FAILURE
    assert "instrument-pinned: it is not here; pass --sremut-benchmark=DIR" in str(caught.value)
    assert not world.kube.objects.keys() & {("Deployment", NS, "user-service")}


def test_a_changed_checkout_outweighs_what_might_pass(
    world: EngineWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = PreflightCheck(
        name="benchmark", holds=False, observed="x", outcome=Outcome.PROTOCOL_VIOLATION
    )
    monkeypatch.setattr(InstrumentSet, "checks", lambda self, study, protocol: iter([broken]))
    world.deviations = ["slow"]
    with pytest.raises(RunStoppedError, match="benchmark: x; cluster-self-test: slow") as caught:
        world.driver("MS-M01").state(State.HEALTHY)
    assert caught.value.outcome is Outcome.PROTOCOL_VIOLATION


def test_an_instrument_is_asked_for_by_name(world: EngineWorld) -> None:
    instruments = InstrumentSet([FakeInstrument("own", world.kube)])
    assert instruments.get("own").name == "own"
    with pytest.raises(UsageError, match="instrument 'pinned' is not here; allowed: own"):
        instruments.get("pinned")
