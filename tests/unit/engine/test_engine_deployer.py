"""What the engine does around an application that a benchmark deploys."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from engine_world import EngineWorld, small_application
from recovery_world import KilledWorld
from world import NS

from pytest_sremut.engine.recovery import BlockedError
from pytest_sremut.engine.run import Driver
from pytest_sremut.engine.steps.deployer import unlike
from pytest_sremut.engine.steps.instruments import InstrumentSet
from pytest_sremut.engine.steps.preflight import PreflightCheck
from pytest_sremut.engine.stops import RunStoppedError
from pytest_sremut.errors import HarnessError, UsageError
from pytest_sremut.oracles.request import ReadingRequest
from pytest_sremut.study.model import BenchmarkPins, Study
from pytest_sremut.study.verdict import Outcome, State

NAME = "sregym:small"


class Deployer:
    """A benchmark's: makes the two Deployments, the Service and a ConfigMap, and deletes them."""

    def __init__(self, world: EngineWorld) -> None:
        self.world = world
        self.asked: list[tuple[str, str]] = []
        self.bodies = small_application("", NS, "")
        self.bodies.append(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "release", "namespace": NS},
                "data": {},
            }
        )
        self.breaks: dict[str, int] = {}  # action -> after how many objects
        self.dies = False

    def problem(self, _pins: object, _name: str) -> str:
        return ""

    def operate(self, action: str, request: ReadingRequest, name: str) -> Mapping[str, Any]:
        assert request.namespace == NS
        self.asked.append((action, name))
        kube = self.world.kube
        for number, body in enumerate(self.bodies):
            if self.breaks.get(action) == number:
                if self.dies and isinstance(self.world, KilledWorld):
                    self.world.die()
                raise HarnessError(f"{action} did not end within {request.timeout:g} s")
            key = (body["kind"], NS, body["metadata"]["name"])
            if action == "deploy":
                kube.create(body, namespace=NS)
            elif key in kube.objects:
                gone = kube.objects[key]
                kube.drop(*key)
                self.world._control(kube, "delete", gone)
        return {"returned": None, "elapsed": 0.0, "stdout": f"{action}\n", "stderr": ""}


@pytest.fixture
def world(tmp_path: Path) -> KilledWorld:
    return KilledWorld(tmp_path / "evidence")


@pytest.fixture
def deployer(world: KilledWorld, monkeypatch: pytest.MonkeyPatch) -> Deployer:
    made = Deployer(world)
    monkeypatch.setattr(
        InstrumentSet, "_deployment", lambda _self, study: made if study.deployer else None
    )
    pinned = PreflightCheck(name="benchmark", holds=True, observed="clean")
    monkeypatch.setattr(InstrumentSet, "_checkout", lambda _self, _study: pinned)
    return made


def study(world: EngineWorld) -> Study:
    pins = BenchmarkPins(
        name="sregym", commit="0" * 40, files={}, problem_class="P", problem={}, imports="light"
    )
    return dataclasses.replace(world.study(), application=NAME, benchmark=pins)


def driver(world: EngineWorld) -> Driver:
    return world.driver("MS-M01", study=study(world))


def left(world: EngineWorld) -> list[tuple[str, str]]:
    looked_at = {"Deployment", "Service", "ConfigMap", "Pod", "Job"}
    return sorted(
        (kind, name) for kind, ns, name in world.kube.objects if ns == NS and kind in looked_at
    )


def journal(world: EngineWorld) -> list[dict[str, Any]]:
    (path,) = world.directory.glob("*/*/a01/journal.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def kinds(world: EngineWorld) -> list[str]:
    found = [e["facts"]["kind"] for e in journal(world) if e["transition"] == "INTENT"]
    return [kind for kind in found if kind.startswith(("benchmark", "deploy", "remove"))]


def test_a_run_on_what_a_benchmark_deployed_is_complete_and_leaves_nothing(
    world: KilledWorld, deployer: Deployer
) -> None:
    one = driver(world)
    one.state(State.RESTORED)
    assert one.outcome is Outcome.COMPLETE
    assert deployer.asked == [("remove", "small"), ("deploy", "small"), ("remove", "small")]
    assert kinds(world) == ["benchmark-remove", "benchmark-deploy", "benchmark-remove"]
    assert left(world) == []
    assert world.marks[-1] == ""


def test_every_object_that_came_is_in_the_receipt_and_no_other(
    world: KilledWorld, deployer: Deployer
) -> None:
    world.kube.put({"kind": "Namespace", "metadata": {"name": NS}})
    for name in ("theirs", "kube-root-ca.crt"):
        world.kube.put({"kind": "ConfigMap", "metadata": {"name": name, "namespace": NS}})
    one = world.driver("MS-M01", study=study(world), use_namespaces=frozenset({NS}))
    one.state(State.RESTORED)
    entries = journal(world)
    (number,) = [
        e["facts"]["operation"] for e in entries if e["facts"].get("kind") == "benchmark-deploy"
    ]
    (effects,) = [
        e["facts"]["effects"]
        for e in entries
        if e["transition"] == "RECEIPT" and e["facts"]["operation"] == number
    ]
    assert sorted(effect["object"] for effect in effects) == [
        f"ConfigMap {NS}/release",
        f"Deployment {NS}/media-service",
        f"Deployment {NS}/user-service",
        f"Service {NS}/user-service",
    ]
    assert left(world) == [("ConfigMap", "kube-root-ca.crt"), ("ConfigMap", "theirs")]


def test_a_deployment_that_fails_halfway_is_taken_away_by_the_benchmark(
    world: KilledWorld, deployer: Deployer
) -> None:
    deployer.breaks["deploy"] = 2
    one = driver(world)
    with pytest.raises(RunStoppedError, match="the benchmark did not deploy: deploy did not end"):
        one.state(State.HEALTHY)
    assert one.outcome is Outcome.INFRASTRUCTURE_FAILURE
    assert deployer.asked[-1] == ("remove", "small")
    assert left(world) == []
    assert one.dirty == ""
    assert world.marks[-1] == ""


def test_what_a_failing_removal_leaves_is_deleted_by_uid(
    world: KilledWorld, deployer: Deployer
) -> None:
    one = driver(world)
    one.state(State.FAULTED)
    deployer.breaks["remove"] = 1
    one.finish()
    assert one.outcome is Outcome.COMPLETE
    assert kinds(world)[-2:] == ["benchmark-remove", "remove-application"]
    assert left(world) == []
    (told,) = one.attempt.directory.glob("raw/deployer-03-failed.json")
    assert "remove did not end within" in json.loads(told.read_text())["reason"]


def test_what_nobody_can_take_away_is_told(world: KilledWorld, deployer: Deployer) -> None:
    deployer.breaks = {"deploy": 2}
    one = driver(world)
    ask = deployer.operate

    def then_neither(action: str, request: ReadingRequest, name: str) -> Mapping[str, Any]:
        if action == "remove" and ("deploy", name) in deployer.asked:
            raise HarnessError("helm is gone")
        return ask(action, request, name)

    deployer.operate = then_neither  # type: ignore[method-assign]
    with pytest.raises(
        RunStoppedError, match=r"then cleaning up failed: .*2 objects are still there"
    ):
        one.state(State.HEALTHY)
    assert one.outcome is Outcome.INFRASTRUCTURE_FAILURE
    assert "still there" in one.dirty
    assert world.marks[-1] != ""


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            {"ports": [{"name": "http", "port": 80, "targetPort": 80}]},
            r"spec\.ports: found \[\{'name': 'http'",
        ),
        ({"selector": {"app": "user"}}, r"spec\.selector: found \{'app': 'user'\}, proven against"),
        ({"type": "NodePort"}, r"spec\.type: found 'NodePort', proven against 'ClusterIP'"),
    ],
)
def test_a_target_that_the_mutants_were_not_proven_against_stops_the_run(
    world: KilledWorld, deployer: Deployer, change: dict[str, Any], told: str
) -> None:
    (target,) = [body for body in deployer.bodies if body["kind"] == "Service"]
    target["spec"] |= change
    one = driver(world)
    with pytest.raises(RunStoppedError, match=f"deployed another Service .*{told}"):
        one.state(State.HEALTHY)
    assert one.outcome is Outcome.INFRASTRUCTURE_FAILURE
    assert left(world) == []


def test_a_target_without_an_address_is_another_one(world: KilledWorld) -> None:
    captured = world.study().registry.captured
    assert unlike(captured, captured) == ""
    headless = {**captured, "spec": {**captured["spec"], "clusterIP": "None"}}
    assert unlike(headless, captured) == "it is headless"


def test_a_deployment_without_the_target_stops_the_run(
    world: KilledWorld, deployer: Deployer
) -> None:
    deployer.bodies = [body for body in deployer.bodies if body["kind"] != "Service"]
    one = driver(world)
    with pytest.raises(RunStoppedError, match="it is not there"):
        one.state(State.HEALTHY)
    assert left(world) == []


def test_without_anything_that_deploys_the_preflight_says_what_to_pass(world: EngineWorld) -> None:
    one = driver(world)
    with pytest.raises(RunStoppedError) as caught:
        one.state(State.HEALTHY)
    assert caught.value.outcome is Outcome.INFRASTRUCTURE_FAILURE
    assert (
        "deployer: no benchmark is here that deploys sregym:small; pass --sremut-benchmark=DIR"
        in str(caught.value)
    )


def test_what_a_deployer_lacks_is_told_by_the_preflight(
    world: KilledWorld, deployer: Deployer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deployer, "problem", lambda _pins, name: f"{name} needs helm on PATH")
    with pytest.raises(RunStoppedError, match="deployer: small needs helm on PATH"):
        driver(world).state(State.HEALTHY)

    def unknown(_pins: object, name: str) -> str:
        raise UsageError(f"application: found {name}")

    monkeypatch.setattr(deployer, "problem", unknown)
    assert (
        list(InstrumentSet([]).checks(study(world), study(world).profiles["embedded"]))[-1].observed
        == "application: found small"
    )


# -- recovery --------------------------------------------------------------------------------------


def test_what_was_deployed_before_the_process_died_is_removed_by_uid(
    world: KilledWorld, deployer: Deployer
) -> None:
    def dies(one: Driver) -> None:
        world.instruments[0].before = lambda request: world.die()

    world.prepare = dies
    assert world.run("MS-M01", study(world)).dead
    assert ("Deployment", "user-service") in left(world)
    world.kube.put({"kind": "ConfigMap", "metadata": {"name": "theirs", "namespace": NS}})
    (recovered,) = world.recover()
    assert recovered.outcome is Outcome.DRIVER_ABORTED
    assert left(world) == [("ConfigMap", "theirs")]
    assert deployer.asked == [("remove", "small"), ("deploy", "small")]  # nothing of its runs there


def test_an_interrupted_deployment_blocks_until_somebody_looked(
    world: KilledWorld, deployer: Deployer
) -> None:
    deployer.breaks, deployer.dies = {"deploy": 3}, True
    assert world.run("MS-M01", study(world)).dead
    there = left(world)
    for _ in range(2):  # the second finds the receipt of the first
        (pending,) = world.pending()
        with pytest.raises(BlockedError) as caught:
            world.recoverer().recover(pending)
        assert "interrupted while it deployed" in caught.value.reason
        told = caught.value.diagnostics()
        assert f"object: Service {NS}/user-service, UID " in told
        assert f"3 objects in namespace {NS}: take away what is the benchmark's" in told
        assert left(world) == there
    for body in deployer.bodies:
        key = (body["kind"], NS, body["metadata"]["name"])
        if key in world.kube.objects:
            gone = world.kube.objects[key]
            world.kube.drop(*key)
            world._control(world.kube, "delete", gone)
    (recovered,) = world.recover()
    assert recovered.outcome is Outcome.DRIVER_ABORTED
    assert left(world) == []
    assert world.pending() == []
