"""The cluster around the namespace: what counts as a change, and what is left in the record."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from engine_world import EngineWorld, small_application
from fake_kube import FakeKube

from pytest_sremut.engine.observe.fingerprint import changes
from pytest_sremut.engine.observe.surroundings import noted, surroundings
from pytest_sremut.engine.steps import deploy
from pytest_sremut.study.verdict import State

OURS = "shop"
NODE = {
    "kind": "Node",
    "metadata": {"name": "n1", "labels": {"zone": "a"}, "annotations": {}},
    "spec": {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule", "timeAdded": "then"}]},
    "status": {
        "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "1"}],
        "nodeInfo": {"kubeletVersion": "v1.36.2"},
    },
}
HOOK = {
    "name": "inject.example.org",
    "failurePolicy": "Fail",
    "clientConfig": {"service": {"name": "hook"}, "caBundle": "one"},
}
SYSTEM = [
    NODE,
    {"kind": "MutatingWebhookConfiguration", "metadata": {"name": "m"}, "webhooks": [HOOK]},
    {"kind": "ValidatingWebhookConfiguration", "metadata": {"name": "v"}, "webhooks": [HOOK]},
    {
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "crd"},
        "spec": {"group": "g", "versions": [{"name": "v1", "served": True, "schema": {}}]},
    },
    {"kind": "PriorityClass", "metadata": {"name": "p"}, "value": 10},
    {"kind": "StorageClass", "metadata": {"name": "s"}, "provisioner": "x"},
    {"kind": "Namespace", "metadata": {"name": OURS, "labels": {}}},
    {"kind": "Namespace", "metadata": {"name": "theirs", "labels": {}}},
    {
        "kind": "Deployment",
        "metadata": {"name": "coredns", "namespace": "kube-system", "generation": 1},
        "spec": {"replicas": 2, "template": {}},
        "status": {"readyReplicas": 2},
    },
    {
        "kind": "DaemonSet",
        "metadata": {"name": "kube-proxy", "namespace": "kube-system"},
        "spec": {"template": {"spec": {"containers": [{"image": "p:1"}]}}},
    },
    *(
        {
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": "kube-system"},
            "data": {"Corefile": "secret words"},
        }
        for name in ("coredns", "kube-proxy", "somebody-elses")
    ),
]


@pytest.fixture
def kube() -> FakeKube:
    return FakeKube(*SYSTEM)


def changed(kube: FakeKube, *, of: Callable[[], None]) -> list[str]:
    before = surroundings(kube, OURS)
    of()
    return [line.replace("  ", " ") for line in changes(before, surroundings(kube, OURS))]


CHANGES: list[tuple[tuple[str, str, str], Mapping[str, Any]]] = [
    (("Node", "", "n1"), {"spec__unschedulable": True}),
    (("Node", "", "n1"), {"spec__taints": []}),
    (("Node", "", "n1"), {"metadata__labels": {"zone": "b"}}),
    (("Node", "", "n1"), {"status__conditions": [{"type": "Ready", "status": "Unknown"}]}),
    (("MutatingWebhookConfiguration", "", "m"), {"webhooks": []}),
    (("ValidatingWebhookConfiguration", "", "v"), {"webhooks": [{**HOOK, "rules": [1]}]}),
    (("CustomResourceDefinition", "", "crd"), {"spec__versions": []}),
    (("PriorityClass", "", "p"), {"globalDefault": True}),
    (("StorageClass", "", "s"), {"reclaimPolicy": "Retain"}),
    (("Namespace", "", "theirs"), {"metadata__labels": {"x": "y"}}),
    (("Deployment", "kube-system", "coredns"), {"spec__replicas": 0}),
    (("DaemonSet", "kube-system", "kube-proxy"), {"spec__template": {}}),
    (("ConfigMap", "kube-system", "coredns"), {"data": {"Corefile": "other"}}),
    (("ConfigMap", "kube-system", "kube-proxy"), {"data": {}}),
]


@pytest.mark.parametrize(("key", "paths"), CHANGES, ids=lambda value: str(value)[:60])
def test_a_change_is_seen(
    kube: FakeKube, key: tuple[str, str, str], paths: Mapping[str, Any]
) -> None:
    (line,) = changed(kube, of=lambda: kube.change(*key, **paths))
    assert line.startswith(f"{key[0]} {key[1] + '/' if key[1] else ''}{key[2]} (")
    assert line.endswith(" changed")


QUIET: list[tuple[tuple[str, str, str], Mapping[str, Any]]] = [
    (("Node", "", "n1"), {"metadata__annotations": {"heartbeat": "2"}}),
    (("Node", "", "n1"), {"status__conditions": [{**NODE["status"]["conditions"][0],  # type: ignore[index]
                                                 "lastHeartbeatTime": "2"}]}),
    (("MutatingWebhookConfiguration", "", "m"),
     {"webhooks": [{**HOOK, "clientConfig": {"service": {"name": "hook"}, "caBundle": "two"}}]}),
    (("Deployment", "kube-system", "coredns"), {"status__readyReplicas": 1}),
    (("ConfigMap", "kube-system", "somebody-elses"), {"data": {}}),
    (("Namespace", "", OURS), {"metadata__labels": {"x": "y"}}),
]  # fmt: skip


@pytest.mark.parametrize(("key", "paths"), QUIET, ids=lambda value: str(value)[:60])
def test_what_changes_by_itself_or_is_ours_is_not(
    kube: FakeKube, key: tuple[str, str, str], paths: Mapping[str, Any]
) -> None:
    assert changed(kube, of=lambda: kube.change(*key, **paths)) == []


def test_what_comes_and_goes(kube: FakeKube) -> None:
    kinds = {"kind": "PriorityClass", "metadata": {"name": "new", "uid": "u9"}, "value": 1}
    assert changed(kube, of=lambda: kube.put(kinds) and None) == [  # type: ignore[func-returns-value]
        "PriorityClass new (u9) appeared"
    ]
    assert changed(kube, of=lambda: kube.drop("PriorityClass", "", "new")) == [
        "PriorityClass new (u9) is gone"
    ]


def test_what_may_not_be_read_is_told_and_decides_nothing(kube: FakeKube) -> None:
    kube.break_always("list", "Node", status=403, reason="Forbidden")
    kube.break_always("get", "ConfigMap", status=403, reason="Forbidden")
    seen = surroundings(kube, OURS)
    assert seen.unread == ("ConfigMap", "Node")
    assert changed(kube, of=lambda: kube.change("Node", "", "n1", spec__unschedulable=True)) == []


def test_a_server_that_is_away_is_asked_once(kube: FakeKube) -> None:
    kube.break_always("*", status=0, reason="Refused")
    before = len(kube.calls)
    assert len(surroundings(kube, OURS).unread) == 10
    assert len(kube.calls) == before + 1


def test_what_was_not_read_has_no_digest(world: EngineWorld) -> None:
    for verb in ("get", "list"):
        for kind in ("ConfigMap", "Namespace", "Node", "DaemonSet", "Deployment", "PriorityClass"):
            world.kube.break_always(verb, kind, status=403, reason="Forbidden")
    assert noted(world.kube, OURS, None) == {}  # no preflight, nothing to compare with
    before = surroundings(world.kube, OURS)
    seen = noted(world.kube, OURS, before)["surroundings"]
    assert (seen["before"], seen["after"], seen["changes"]) == (None, None, [])
    assert "Node" in seen["unread"]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EngineWorld]:
    monkeypatch.setattr(deploy, "manifests_of", small_application)
    world = EngineWorld(tmp_path)
    yield world
    world.stop()


def test_a_run_notes_it_and_goes_on(world: EngineWorld) -> None:
    for body in SYSTEM[1:]:
        world.kube.put(body)

    def somebody(what: str, body: object) -> None:
        if what == "create Job":
            config = ("ConfigMap", "kube-system", "coredns")
            world.kube.change(*config, data={"Corefile": "other words"})

    world.hooks.append(somebody)
    driver = world.driver("MS-M01")
    driver.state(State.RESTORED)
    assert driver.outcome is not None
    assert driver.outcome.value == "COMPLETE"
    text = (driver.attempt.directory / "record.json").read_text()
    noted = json.loads(text)["facts"]["surroundings"]
    assert noted["before"] != noted["after"]
    assert [line.partition(" (")[0] for line in noted["changes"]] == [
        "ConfigMap kube-system/coredns"
    ]
    assert "words" not in text
