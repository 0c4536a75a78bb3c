"""No write without an allowed context, the leased cluster, and a durable intent before it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from engine_world import EngineWorld
from journal_double import Journal
from world import NS

from pytest_sremut.cluster.port import Absent, Deleted, ObjectRef
from pytest_sremut.engine.guard import Captured, Guard, OperationKind
from pytest_sremut.errors import (
    ClusterError,
    ClusterUnavailableError,
    EvidenceError,
    GuardRefusedError,
)
from pytest_sremut.ground.formats.canonical import canonical_json, sha256


@pytest.fixture
def world(tmp_path: Path) -> EngineWorld:
    return EngineWorld(tmp_path)


@pytest.fixture
def journal() -> Journal:
    return Journal()


def guard(world: EngineWorld, journal: Journal, **more: Any) -> Guard:
    return Guard(
        cluster=world,
        identity=world.identity(),
        allowed_contexts=more.get("allowed", frozenset({world.context})),
        namespace=NS,
        journal=journal,
    )


def config(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


def writes(world: EngineWorld) -> list[tuple[str, str, str]]:
    return [call for call in world.kube.calls if call[0] in {"create", "replace", "delete"}]


def test_intent_call_observation_receipt(world: EngineWorld, journal: Journal) -> None:
    created = guard(world, journal).create(OperationKind.CREATE_MUTANT, [config("a")])
    assert journal.transitions == ["INTENT", "RECEIPT"]
    (call,) = journal.entries[0][1]["calls"]
    body = sha256(canonical_json(config("a")))
    assert call == {"object": f"ConfigMap {NS}/a", "call": "create", "body": body}
    assert journal.entries[1][1]["effects"][0]["uid"] == created[0].body["metadata"]["uid"]
    order = [call[0] for call in world.kube.calls if call[1] == "ConfigMap"]
    assert order == ["create", "get"]


def test_many_objects_are_observed_by_list(world: EngineWorld, journal: Journal) -> None:
    bodies = [config(f"c{n}") for n in range(5)]
    created = guard(world, journal).create(OperationKind.DEPLOY_APPLICATION, bodies)
    assert [item.body["metadata"]["name"] for item in created] == [f"c{n}" for n in range(5)]
    assert [item.body["kind"] for item in created] == ["ConfigMap"] * 5
    assert ("list", "ConfigMap", "") in world.kube.calls
    targets = [
        Captured(
            ref=ObjectRef(kind="ConfigMap", namespace=NS, name=item.body["metadata"]["name"]),
            uid=item.body["metadata"]["uid"],
        )
        for item in created
    ]
    results = guard(world, journal).delete(OperationKind.REMOVE_APPLICATION, targets)
    assert all(isinstance(result, Deleted) for result in results)
    assert {effect["observed"] for effect in journal.entries[-1][1]["effects"]} == {"absent"}


def test_no_dispatch_without_a_durable_intent(world: EngineWorld, journal: Journal) -> None:
    journal.fail_at = "INTENT"
    with pytest.raises(EvidenceError):
        guard(world, journal).create(OperationKind.CREATE_MUTANT, [config("a")])
    assert writes(world) == []


def test_no_result_without_a_durable_receipt(world: EngineWorld, journal: Journal) -> None:
    journal.fail_at = "RECEIPT"
    with pytest.raises(EvidenceError):
        guard(world, journal).create(OperationKind.CREATE_MUTANT, [config("a")])
    assert journal.transitions == ["INTENT"]  # what recovery reconciles by observation


@pytest.mark.parametrize("allowed", [frozenset(), frozenset({"another"})])
def test_a_context_that_was_not_allowed(
    world: EngineWorld, journal: Journal, allowed: frozenset[str]
) -> None:
    with pytest.raises(GuardRefusedError, match="not allowed for writing"):
        guard(world, journal, allowed=allowed).create(OperationKind.CREATE_MUTANT, [config("a")])
    assert writes(world) == []
    assert journal.entries == []


def test_identity_is_asked_before_every_write(world: EngineWorld, journal: Journal) -> None:
    guarded = guard(world, journal)
    guarded.create(OperationKind.CREATE_MUTANT, [config("a")])
    world.uid = "somebody-else"
    with pytest.raises(GuardRefusedError, match="now reaches another cluster"):
        guarded.create(OperationKind.CREATE_MUTANT, [config("b")])
    assert len(writes(world)) == 1


@pytest.mark.parametrize(
    "body",
    [
        {**config("a"), "metadata": {"name": "a", "namespace": "kube-system"}},
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}},
    ],
)
def test_nothing_outside_the_namespace(
    world: EngineWorld, journal: Journal, body: dict[str, Any]
) -> None:
    with pytest.raises(GuardRefusedError, match="outside the study's namespace"):
        guard(world, journal).create(OperationKind.CREATE_MUTANT, [body])
    assert writes(world) == []


def test_a_conflicting_object_is_never_overwritten(world: EngineWorld, journal: Journal) -> None:
    standing = world.kube.put({**config("a"), "metadata": {"name": "a", "namespace": NS}})
    with pytest.raises(ClusterError) as caught:
        guard(world, journal).create(OperationKind.CREATE_MUTANT, [config("a")])
    assert caught.value.reason == "AlreadyExists"
    assert world.kube.objects[("ConfigMap", NS, "a")] == standing
    assert journal.transitions == ["INTENT"]


def test_deleting_names_the_uid(world: EngineWorld, journal: Journal) -> None:
    ref = ObjectRef(kind="ConfigMap", namespace=NS, name="a")
    world.kube.put({**config("a"), "metadata": {"name": "a", "namespace": NS}})
    with pytest.raises(GuardRefusedError, match="no longer the captured object"):
        guard(world, journal).delete(
            OperationKind.DELETE_TARGET, [Captured(ref=ref, uid="another")]
        )
    assert ("ConfigMap", NS, "a") in world.kube.objects
    with pytest.raises(GuardRefusedError, match="no captured UID"):
        guard(world, journal).delete(OperationKind.DELETE_TARGET, [Captured(ref=ref, uid="")])


def test_deleting_what_is_gone_says_so(world: EngineWorld, journal: Journal) -> None:
    ref = ObjectRef(kind="ConfigMap", namespace=NS, name="a")
    (result,) = guard(world, journal).delete(
        OperationKind.DELETE_TARGET, [Captured(ref=ref, uid="u")]
    )
    assert isinstance(result, Absent)
    assert journal.entries[-1][1]["effects"][0]["observed"] == "absent"


def test_an_unobservable_effect_leaves_no_receipt(world: EngineWorld, journal: Journal) -> None:
    world.kube.break_next("get", "ConfigMap")
    with pytest.raises(ClusterUnavailableError, match="cannot be observed"):
        guard(world, journal).create(OperationKind.CREATE_MUTANT, [config("a")])
    assert journal.transitions == ["INTENT"]
