"""An application that is given as files: deployed, taken away and recovered like any other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import engine_world
import pytest
from engine_world import EngineWorld
from manifest_project import CONFIG_MAP, make_project
from recovery_world import KilledWorld, Step
from world import NS

from pytest_sremut.cluster.port import ClusterFacts
from pytest_sremut.engine.own_pods import OWNER_LABEL
from pytest_sremut.engine.steps.preflight import preflight
from pytest_sremut.engine.stops import RunStoppedError
from pytest_sremut.evidence.load import load_attempt
from pytest_sremut.study.verdict import Outcome, State

OURS = ("ConfigMap", NS, "user-service")
THEIRS = {"kind": "ConfigMap", "metadata": {"name": "kube-root-ca.crt", "namespace": NS}}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    project = make_project(tmp_path / "project")
    monkeypatch.setattr(engine_world, "ROOT", project)
    monkeypatch.setattr("pytest_sremut.cluster.waiting._OUTAGE", 0.2)
    return project


@pytest.fixture
def world(tmp_path: Path, project: Path) -> Iterator[EngineWorld]:
    world = EngineWorld(tmp_path / "evidence")
    yield world
    world.stop()


def left(world: EngineWorld) -> list[tuple[str, str, str]]:
    return [key for key in world.kube.objects if key[1] == NS and key[0] != "EndpointSlice"]


def test_a_run_creates_what_the_files_say_and_takes_it_away(world: EngineWorld) -> None:
    theirs = world.kube.put(THEIRS)
    driver = world.driver("MS-M02")
    driver.state(State.HEALTHY)
    made = world.kube.objects[OURS]
    assert made["data"] == json.loads(CONFIG_MAP)["data"]
    assert dict(driver._book.state.baseline) == {"media-service": 1, "user-service": 1}
    creations = [call[1] for call in world.kube.calls if call[0] == "create"]
    assert creations[:5] == ["Namespace", "ConfigMap", "Service", "Deployment", "Deployment"]
    driver.state(State.RESTORED)
    assert driver.outcome is Outcome.COMPLETE
    assert left(world) == [("ConfigMap", NS, "kube-root-ca.crt")]
    assert world.kube.objects["ConfigMap", NS, "kube-root-ca.crt"] == theirs
    identity = json.loads((driver.attempt.directory / "attempt.json").read_text())
    assert {"application/a.yaml", "application/b.yml", "application/c.json"} < set(
        identity["files"]
    )
    assert load_attempt(driver.attempt.directory).problems == ()


def test_a_config_map_that_does_not_go_is_waited_for(world: EngineWorld) -> None:
    driver = world.driver("MS-M01")
    driver.state(State.FAULTED)
    removed: list[dict[str, Any]] = []

    def keep(verb: str, body: Any) -> None:
        if verb == "delete ConfigMap" and not removed:
            removed.append(world.kube.put(body))  # something holds it back for a while

    def let_go(kube: Any) -> None:
        if OURS in kube.objects:
            kube.drop(*OURS)

    world.hooks.append(keep)
    world.kube.on_idle = let_go
    assert driver.finish() is not None
    assert removed
    assert left(world) == []


def test_a_namespace_may_hold_config_maps_but_none_of_ours(world: EngineWorld) -> None:
    world.kube.put({"kind": "Namespace", "metadata": {"name": NS, "labels": {OWNER_LABEL: "true"}}})
    world.kube.put(THEIRS)
    checks = {check.name: check.observed for check in preflight(world.driver("MS-M01")._ctx)}
    assert checks["no-stale-ConfigMap"] == "none of the application's names is taken"
    world.kube.put({"kind": "ConfigMap", "metadata": {"name": "user-service", "namespace": NS}})
    with pytest.raises(RunStoppedError) as stopped:
        preflight(world.driver("MS-M02")._ctx)
    assert "no-stale-ConfigMap: 1 of the application's names are taken: user-service" in str(
        stopped.value
    )


def test_config_maps_that_cannot_be_listed(world: EngineWorld) -> None:
    world.kube.put({"kind": "Namespace", "metadata": {"name": NS, "labels": {OWNER_LABEL: "true"}}})
    world.kube.break_always("list", "ConfigMap")
    with pytest.raises(RunStoppedError, match="no-stale-ConfigMap"):
        preflight(world.driver("MS-M01")._ctx)


def test_rights_for_config_maps_are_asked_for_where_there_are_any(world: EngineWorld) -> None:
    def facts() -> ClusterFacts:
        return ClusterFacts(kind="context", name="theirs", context=world.context, values={})

    world.facts = facts  # type: ignore[method-assign]
    world.kube.forbidden.add(f"create configmaps in namespace {NS}")
    with pytest.raises(RunStoppedError) as stopped:
        preflight(world.driver("MS-M01")._ctx)
    assert (
        f"lacks: create configmaps in namespace {NS}; `sremut cluster rbac --namespace {NS} "
        "--configmaps` prints the manifest"
    ) in str(stopped.value)


def test_rights_for_config_maps_are_nobodys_business_elsewhere(
    world: EngineWorld, project: Path
) -> None:
    (project / "apps" / "social" / "c.json").unlink()
    world.facts = lambda: ClusterFacts(  # type: ignore[method-assign]
        kind="context", name="theirs", context=world.context, values={}
    )
    world.kube.forbidden.add(f"create configmaps in namespace {NS}")
    names = [check.name for check in preflight(world.driver("MS-M01")._ctx)]
    assert "rights" in names
    assert "no-stale-ConfigMap" not in names


@pytest.mark.parametrize("number", range(2, 7))
def test_a_kill_while_deploying_leaves_nothing_that_is_not_found_again(
    tmp_path: Path, project: Path, number: int
) -> None:
    """After each of the five creations, acknowledged or not: the receipt is never written."""
    world = KilledWorld(tmp_path / "killed", project=project)
    theirs = world.kube.put(THEIRS)
    step = Step(what="api", number=number, when="half" if number % 2 else "after")
    assert world.run("MS-M02", world.study(), step).dead
    assert OURS in world.kube.objects
    world.recover()
    assert left(world) == [("ConfigMap", NS, "kube-root-ca.crt")]
    assert world.kube.objects["ConfigMap", NS, "kube-root-ca.crt"] == theirs
    assert world.pending() == []


def test_a_mutated_system_is_put_back_and_taken_away(tmp_path: Path, project: Path) -> None:
    world = KilledWorld(tmp_path / "killed", project=project)
    step = Step(what="journal", number=20, when="after")
    assert world.run("MS-M02", world.study(), step).dead
    assert OURS in world.kube.objects
    world.recover()
    assert left(world) == []
    assert world.pending() == []


def test_files_that_were_changed_since_block_a_recovery(tmp_path: Path, project: Path) -> None:
    from pytest_sremut.engine.recovery import BlockedError

    world = KilledWorld(tmp_path / "killed", project=project)
    assert world.run("MS-M02", world.study(), Step(what="api", number=4, when="after")).dead
    file = project / "apps" / "social" / "c.json"
    file.write_text(CONFIG_MAP + "\n")
    with pytest.raises(BlockedError, match=r"apps/social/c\.json is not what the attempt ran"):
        world.recover()
    assert OURS in world.kube.objects
    file.write_text(CONFIG_MAP)
    world.recover()
    assert left(world) == []
