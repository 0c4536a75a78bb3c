"""What must hold before a run touches anything, on a cluster that is not ours most of all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from engine_world import EngineWorld, small_application
from world import NS

from pytest_sremut.cluster.port import ClusterFacts
from pytest_sremut.engine.own_pods import OWNER_LABEL
from pytest_sremut.engine.steps import deploy
from pytest_sremut.engine.steps.preflight import as_facts, preflight
from pytest_sremut.engine.stops import RunStoppedError

IMAGES = ["image sremut/demo:1", "image sremut/load:1"]
READY = [{"type": "Ready", "status": "True"}]


class ContextWorld(EngineWorld):
    """The same world as a cluster that we did not make."""

    def facts(self) -> ClusterFacts:
        return ClusterFacts(kind="context", name="theirs", context=self.context, values={})


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ContextWorld]:
    monkeypatch.setattr(deploy, "manifests_of", small_application)
    world = ContextWorld(tmp_path)
    yield world
    world.stop()


def checks(world: EngineWorld, **more: Any) -> dict[str, str]:
    context = world.driver("MS-M01", **more)._ctx
    return {check.name: check.observed for check in preflight(context)}


def namespace(world: EngineWorld, **metadata: Any) -> None:
    world.kube.put({"kind": "Namespace", "metadata": {"name": NS, **metadata}})


def refused(world: EngineWorld, **more: Any) -> str:
    written = len(world.kube.history)
    with pytest.raises(RunStoppedError) as stopped:
        checks(world, **more)
    assert len(world.kube.history) == written
    return str(stopped.value)


def test_a_namespace_that_is_not_there_must_be_creatable(world: ContextWorld) -> None:
    assert checks(world)["namespace"] == "absent: will be created"
    world.kube.forbidden.add("create namespaces at the cluster scope")
    told = refused(world)
    assert "lacks: create namespaces at the cluster scope; `sremut cluster rbac --namespace" in told


def test_a_namespace_of_somebody_else_is_used_only_if_named(world: ContextWorld) -> None:
    namespace(world)
    world.kube.forbidden.add("create namespaces at the cluster scope")  # not needed any more
    told = refused(world)
    assert f"--sremut-use-namespace={NS}" in told
    assert "taken" in told
    assert "taken" in refused(world, use_namespaces=frozenset({"another"}))
    assert "not ours" in checks(world, use_namespaces=frozenset({NS}))["namespace"]


def test_a_named_namespace_must_be_empty_all_the_same(world: ContextWorld) -> None:
    namespace(world)
    world.kube.put({"kind": "ConfigMap", "metadata": {"name": "kube-root-ca.crt", "namespace": NS}})
    assert checks(world, use_namespaces=frozenset({NS}))["no-stale-Pod"] == "none"
    world.kube.put({"kind": "Service", "metadata": {"name": "theirs", "namespace": NS}})
    assert "no-stale-Service: 1 left over: theirs" in refused(world, use_namespaces=frozenset({NS}))


def test_a_namespace_that_is_going_is_nobodys(world: ContextWorld) -> None:
    namespace(world, labels={OWNER_LABEL: "true"}, deletionTimestamp="2026-11-30T12:00:00Z")
    assert "is being deleted" in refused(world)


def test_missing_rights_are_named_each_and_nothing_else(world: ContextWorld) -> None:
    world.kube.forbidden |= {f"create pods/exec in namespace {NS}", f"list pods in namespace {NS}"}
    told = refused(world)
    assert f"lacks: list pods in namespace {NS}, create pods/exec in namespace {NS};" in told


def test_a_review_that_fails_is_no_permission(world: ContextWorld) -> None:
    world.kube.break_always("review", status=500, reason="InternalError")
    assert "rights: cannot be asked for" in refused(world)


def test_a_cluster_of_our_own_is_not_asked(tmp_path: Path) -> None:
    world = EngineWorld(tmp_path)
    world.kube.break_always("review")
    assert "rights" not in checks(world)


def test_a_cluster_without_a_self_test_is_not_said_to_have_passed_one(world: ContextWorld) -> None:
    assert checks(world)["cluster-self-test"] == "not made: this cluster has no self-test"
    not_made = as_facts(preflight(world.driver("MS-M01")._ctx))["preflight_not_made"]
    assert not_made == ["cluster-self-test", *IMAGES]  # its node lists no images
    world.deviations = ["node n1 is not Ready"]
    assert "cluster-self-test: node n1 is not Ready" in refused(world)


def test_an_image_that_a_node_lacks_is_told_with_the_command(world: ContextWorld) -> None:
    lists = {"images": [{"names": ["docker.io/sremut/demo:1"]}], "conditions": READY}
    world.kube.put({"kind": "Node", "metadata": {"name": "node-1"}, "status": lists})
    told = refused(world)
    assert "image sremut/load:1: not on node-1; `sremut cluster images` makes it" in told
    assert "image sremut/demo:1" not in told
    lists["images"].append({"names": ["docker.io/sremut/load:1"]})
    world.kube.put({"kind": "Node", "metadata": {"name": "node-1"}, "status": lists})
    assert checks(world)["image sremut/load:1"] == "on node-1"


def test_one_of_our_own_has_one(tmp_path: Path) -> None:
    world = EngineWorld(tmp_path)
    assert checks(world)["cluster-self-test"] == "no deviation"
    assert as_facts(preflight(world.driver("MS-M01")._ctx))["preflight_not_made"] == []


def test_nodes_that_may_not_be_read_are_not_observable(world: ContextWorld) -> None:
    world.kube.break_always("list", "Node", status=403, reason="Forbidden")
    assert checks(world)["nodes-ready"] == "not made: nodes may not be read: Forbidden"
    facts = as_facts(preflight(world.driver("MS-M01")._ctx))
    assert facts["preflight_not_made"] == ["cluster-self-test", "nodes-ready", *IMAGES]
    assert facts["preflight"][IMAGES[0]] == "not made: nodes may not be read"
    world.kube.heal()
    world.kube.break_always("list", "Node", status=500, reason="InternalError")
    assert "nodes-ready" in refused(world)
