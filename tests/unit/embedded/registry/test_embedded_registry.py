from __future__ import annotations

from typing import Any

import api_kit
import pytest

from pytest_sremut.embedded.meta.errors import ApiStatus
from pytest_sremut.embedded.registry.registry import Registry
from pytest_sremut.embedded.registry.store import Event


@pytest.fixture
def clock() -> api_kit.Clock:
    return api_kit.Clock()


@pytest.fixture
def registry(clock: api_kit.Clock) -> Registry:
    return api_kit.make_registry(clock)


def refusal(call: Any, *arguments: Any, **options: Any) -> ApiStatus:
    with pytest.raises(ApiStatus) as caught:
        call(*arguments, **options)
    return caught.value


def test_a_created_object_is_complete_and_the_body_untouched(registry: Registry) -> None:
    body = api_kit.deployment(replicas=2)
    before = str(body)
    value = registry.create("deployments.apps", "default", body)
    assert str(body) == before
    metadata = value["metadata"]
    assert metadata["uid"].startswith("00000000")
    assert metadata["generation"] == 1
    assert metadata["creationTimestamp"] == "2026-11-30T12:00:00Z"
    assert metadata["resourceVersion"] == str(registry.revision)
    assert value["kind"] == "Deployment"
    assert value["status"] == {}
    assert registry.get("deployments.apps", "default", "web") is value


def test_generated_names_are_made_and_unique(registry: Registry) -> None:
    body = {"metadata": {"generateName": "x-"}}
    names = {registry.create("configmaps", "default", body)["metadata"]["name"] for _ in range(9)}
    assert len(names) == 9
    assert all(name.startswith("x-") and len(name) == 7 for name in names)


def test_a_name_is_taken_once(registry: Registry) -> None:
    body = {"metadata": {"name": "x"}}
    registry.create("configmaps", "default", body)
    status = refusal(registry.create, "configmaps", "default", body)
    assert (status.code, status.reason) == (409, "AlreadyExists")


def test_dry_runs_write_nothing(registry: Registry) -> None:
    revision = registry.revision
    value = registry.create("configmaps", "default", {"metadata": {"name": "x"}}, dry_run=True)
    assert value["metadata"]["uid"]
    assert registry.get("configmaps", "default", "x") is None
    registry.create("pods", "default", api_kit.pod())
    registry.delete("pods", "default", "p", dry_run=True)
    changed = {"metadata": {"name": "p", "namespace": "default", "labels": {"a": "b"}}}
    stored = registry.get("pods", "default", "p")
    assert stored is not None
    registry.update(
        "pods", {**stored, "metadata": {**stored["metadata"], **changed["metadata"]}}, dry_run=True
    )
    assert registry.get("pods", "default", "p") is stored
    assert registry.revision == revision + 1


def test_writes_that_change_nothing_are_no_writes(registry: Registry) -> None:
    registry.create("configmaps", "default", {"metadata": {"name": "x"}, "data": {"a": "b"}})
    revision = registry.revision
    registry.mutate("configmaps", "default", "x", lambda value: None)
    registry.mutate("configmaps", "default", "x", lambda value: value["data"].update(a="b"))
    assert registry.revision == revision


def test_mutating_an_absent_object_answers_none(registry: Registry) -> None:
    assert registry.mutate("pods", "default", "nope", lambda value: None) is None


def test_generation_counts_specifications_only(registry: Registry) -> None:
    registry.create("deployments.apps", "default", api_kit.deployment())

    def write(change: Any, subresource: str = "") -> int:
        value = registry.mutate(
            "deployments.apps", "default", "web", change, subresource=subresource
        )
        assert value is not None
        return int(value["metadata"]["generation"])

    assert write(lambda value: value["metadata"].update(annotations={"a": "b"})) == 1
    assert write(lambda value: value["spec"].update(replicas=3)) == 2
    assert write(lambda value: value["status"].update(replicas=3), "status") == 2
    stored = registry.get("deployments.apps", "default", "web")
    assert stored is not None
    assert stored["status"] == {"replicas": 3}


def test_a_status_write_cannot_change_the_rest_and_the_other_way_round(registry: Registry) -> None:
    registry.create("deployments.apps", "default", api_kit.deployment(replicas=1))

    def both(value: Any) -> None:
        value["spec"]["replicas"] = 9
        value["status"]["replicas"] = 9

    first = registry.mutate("deployments.apps", "default", "web", both, subresource="status")
    assert first is not None
    assert (first["spec"]["replicas"], first["status"]["replicas"]) == (1, 9)
    second = registry.mutate(
        "deployments.apps", "default", "web", lambda value: value["status"].clear()
    )
    assert second is not None
    assert second["status"] == {"replicas": 9}


def test_binding_a_pod_is_for_controllers_and_no_new_generation(registry: Registry) -> None:
    created = registry.create("pods", "default", api_kit.pod())
    bound = {**created, "spec": {**created["spec"], "nodeName": "node-1"}}
    assert refusal(registry.update, "pods", bound, external=True).code == 422
    assert registry.update("pods", bound)["metadata"]["generation"] == 1


def test_stale_and_foreign_writes_conflict(registry: Registry) -> None:
    created = registry.create("configmaps", "default", {"metadata": {"name": "x"}})
    registry.mutate("configmaps", "default", "x", lambda value: value.update(data={"a": "b"}))
    status = refusal(registry.update, "configmaps", {**created, "data": {"c": "d"}})
    assert (status.code, status.reason) == (409, "Conflict")
    other = {"metadata": {"name": "x", "namespace": "default", "uid": "other"}}
    assert "Precondition failed" in refusal(registry.update, "configmaps", other).message


def test_what_clients_may_not_set_is_kept(registry: Registry) -> None:
    created = registry.create("configmaps", "default", {"metadata": {"name": "x"}})
    body = {
        "metadata": {
            "name": "x",
            "namespace": "default",
            "creationTimestamp": "1999-01-01T00:00:00Z",
            "deletionTimestamp": "1999-01-01T00:00:00Z",
        },
        "data": {"a": "b"},
    }
    metadata = registry.update("configmaps", body)["metadata"]
    assert metadata["creationTimestamp"] == created["metadata"]["creationTimestamp"]
    assert metadata["uid"] == created["metadata"]["uid"]
    assert "deletionTimestamp" not in metadata


# Deletion


def bind(registry: Registry, name: str = "p", grace: int = 30) -> dict[str, Any]:
    body = api_kit.pod(name, terminationGracePeriodSeconds=grace)
    registry.create("pods", "default", body)
    value = registry.mutate(
        "pods", "default", name, lambda value: value["spec"].update(nodeName="node-1")
    )
    assert value is not None
    return value


def test_a_running_pod_stays_until_the_kubelet_removes_it(
    registry: Registry, clock: api_kit.Clock
) -> None:
    created = bind(registry, grace=8)
    marked = registry.delete("pods", "default", "p")
    assert marked is not None
    assert marked["metadata"]["deletionTimestamp"] == "2026-11-30T12:00:08Z"
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 8
    assert marked["metadata"]["generation"] == 2
    clock.advance(3)
    assert registry.delete("pods", "default", "p") == marked, "a second delete changes nothing"
    shorter = registry.delete("pods", "default", "p", grace_period=5)
    assert shorter is not None
    assert shorter["metadata"]["deletionTimestamp"] == "2026-11-30T12:00:05Z"
    longer = registry.delete("pods", "default", "p", grace_period=60)
    assert longer == shorter
    registry.remove("pods", "default", "p", uid="another")
    assert registry.get("pods", "default", "p") is not None
    registry.remove("pods", "default", "p", uid=created["metadata"]["uid"])
    assert registry.get("pods", "default", "p") is None
    registry.remove("pods", "default", "p", uid=created["metadata"]["uid"])


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_finished_pods_go_at_once(registry: Registry, phase: str) -> None:
    bind(registry)
    registry.mutate(
        "pods", "default", "p", lambda value: value["status"].update(phase=phase),
        subresource="status",
    )  # fmt: skip
    last = registry.delete("pods", "default", "p")
    assert registry.get("pods", "default", "p") is None
    assert last is not None
    assert last["metadata"]["deletionGracePeriodSeconds"] == 0


def test_unscheduled_and_forced_pods_go_at_once(registry: Registry) -> None:
    registry.create("pods", "default", api_kit.pod("a"))
    registry.delete("pods", "default", "a")
    assert registry.get("pods", "default", "a") is None
    bind(registry, "b")
    registry.delete("pods", "default", "b", grace_period=0)
    assert registry.get("pods", "default", "b") is None
    bind(registry, "c")
    registry.delete("pods", "default", "c")
    registry.delete("pods", "default", "c", grace_period=0)
    assert registry.get("pods", "default", "c") is None


def test_finalizers_hold_an_object_until_the_last_is_taken(registry: Registry) -> None:
    body = {"metadata": {"name": "x", "finalizers": ["a.example/b", "a.example/c"]}}
    registry.create("configmaps", "default", body)
    marked = registry.delete("configmaps", "default", "x")
    assert marked is not None
    assert "deletionTimestamp" in marked["metadata"]
    registry.mutate(
        "configmaps", "default", "x", lambda value: value["metadata"]["finalizers"].pop()
    )
    assert registry.get("configmaps", "default", "x") is not None
    seen: list[Event] = []
    registry.subscribe(seen.append, "configmaps")
    registry.mutate("configmaps", "default", "x", lambda value: value["metadata"].pop("finalizers"))
    assert registry.get("configmaps", "default", "x") is None
    assert [event.type for event in seen] == ["DELETED"]


def test_a_pod_with_finalizers_outlives_its_processes(registry: Registry) -> None:
    body = api_kit.pod()
    body["metadata"]["finalizers"] = ["a.example/b"]
    registry.create("pods", "default", body)
    bound = registry.mutate(
        "pods", "default", "p", lambda value: value["spec"].update(nodeName="node-1")
    )
    assert bound is not None
    registry.delete("pods", "default", "p")
    registry.mutate("pods", "default", "p", lambda value: value["metadata"].pop("finalizers"))
    assert registry.get("pods", "default", "p") is not None, "the processes still run"
    registry.remove("pods", "default", "p", uid=bound["metadata"]["uid"])
    assert registry.get("pods", "default", "p") is None


@pytest.mark.parametrize(
    ("propagation", "finalizers"),
    [("Foreground", ["foregroundDeletion"]), ("Orphan", ["orphan"]), ("Background", None)],
)
def test_propagation_is_kept_as_a_finalizer(
    registry: Registry, propagation: str, finalizers: list[str] | None
) -> None:
    registry.create("deployments.apps", "default", api_kit.deployment())
    value = registry.delete("deployments.apps", "default", "web", propagation=propagation)
    assert value is not None
    assert value["metadata"].get("finalizers") == finalizers
    held = registry.get("deployments.apps", "default", "web") is not None
    assert held is (finalizers is not None)


def test_jobs_orphan_by_default(registry: Registry) -> None:
    container = {"name": "c", "image": "i"}
    spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    registry.create("jobs.batch", "default", {"metadata": {"name": "j"}, "spec": spec})
    value = registry.delete("jobs.batch", "default", "j")
    assert value is not None
    assert value["metadata"]["finalizers"] == ["orphan"]


def test_preconditions_of_deletes(registry: Registry) -> None:
    created = registry.create("pods", "default", api_kit.pod())
    uid, version = created["metadata"]["uid"], created["metadata"]["resourceVersion"]
    assert (
        "UID in the precondition"
        in refusal(registry.delete, "pods", "default", "p", uid="other").message
    )
    assert (
        "ResourceVersion in the precondition"
        in refusal(registry.delete, "pods", "default", "p", resource_version="1").message
    )
    registry.delete("pods", "default", "p", uid=uid, resource_version=version)
    assert refusal(registry.delete, "pods", "default", "p").code == 404


def test_a_namespace_goes_when_its_controller_says_so(registry: Registry) -> None:
    created = registry.create("namespaces", "", {"metadata": {"name": "n"}})
    assert created["metadata"]["labels"] == {"kubernetes.io/metadata.name": "n"}
    going = registry.delete("namespaces", "", "n")
    assert going is not None
    assert going["status"]["phase"] == "Terminating"
    status = refusal(registry.create, "configmaps", "n", {"metadata": {"name": "late"}})
    assert (status.code, status.reason) == (403, "Forbidden")
    registry.remove("namespaces", "", "n", uid=created["metadata"]["uid"])
    assert registry.get("namespaces", "", "n") is None
    status = refusal(registry.create, "configmaps", "n", {"metadata": {"name": "late"}})
    assert (status.code, status.reason) == (404, "NotFound")


# Services


def test_addresses_are_handed_out_and_not_again_at_once(registry: Registry) -> None:
    first = registry.create("services", "default", api_kit.service())["spec"]["clusterIP"]
    registry.delete("services", "default", "web")
    second = registry.create("services", "default", api_kit.service())["spec"]["clusterIP"]
    assert first != second
    wanted = registry.create("services", "default", api_kit.service("x", clusterIP="10.96.0.10"))
    assert wanted["spec"]["clusterIPs"] == ["10.96.0.10"]
    taken = refusal(
        registry.create, "services", "default", api_kit.service("y", clusterIP="10.96.0.10")
    )
    assert "already allocated" in taken.message
    outside = refusal(
        registry.create, "services", "default", api_kit.service("y", clusterIP="192.0.2.1")
    )
    assert "does not match the current range" in outside.message


def test_a_used_up_range_is_refused() -> None:
    registry = api_kit.make_registry(service_cidr="10.0.0.0/29")
    for number in range(3):
        registry.create("services", "default", api_kit.service(f"s{number}"))
    status = refusal(registry.create, "services", "default", api_kit.service("one-too-many"))
    assert "range is full" in status.message


def test_node_ports_come_and_go_with_the_type(registry: Registry) -> None:
    created = registry.create("services", "default", api_kit.service(type="NodePort"))
    port = created["spec"]["ports"][0]["nodePort"]
    assert 30000 <= port < 32768
    clash = api_kit.service("x", type="NodePort")
    clash["spec"]["ports"][0]["nodePort"] = port
    assert "already allocated" in refusal(registry.create, "services", "default", clash).message
    clash["spec"]["ports"][0]["nodePort"] = 80
    assert (
        "not in the valid range" in refusal(registry.create, "services", "default", clash).message
    )
    plain = registry.mutate(
        "services", "default", "web", lambda value: value["spec"].update(type="ClusterIP")
    )
    assert plain is not None
    assert "nodePort" not in plain["spec"]["ports"][0]
    assert plain["spec"]["clusterIP"] == created["spec"]["clusterIP"]


def test_external_names_have_no_address(registry: Registry) -> None:
    body = {
        "metadata": {"name": "e"},
        "spec": {"type": "ExternalName", "externalName": "x.example"},
    }
    spec = registry.create("services", "default", body)["spec"]
    assert "clusterIP" not in spec


# Events


def test_events_count_up(registry: Registry, clock: api_kit.Clock) -> None:
    involved = registry.create("pods", "default", api_kit.pod())
    for _ in range(3):
        clock.advance(1)
        registry.record_event(
            involved, type="Warning", reason="R", message="m", component="kubelet",
            field_path="spec.containers{main}",
        )  # fmt: skip
    registry.record_event(involved, type="Warning", reason="R", message="n", component="kubelet")
    found = registry.list("events", "default")
    assert sorted(event["count"] for event in found) == [1, 3]
    counted = next(event for event in found if event["count"] == 3)
    assert counted["firstTimestamp"] == "2026-11-30T12:00:01Z"
    assert counted["lastTimestamp"] == "2026-11-30T12:00:03Z"
    assert counted["involvedObject"]["fieldPath"] == "spec.containers{main}"


def test_events_of_a_going_namespace_are_dropped(registry: Registry) -> None:
    registry.create("namespaces", "", {"metadata": {"name": "n"}})
    registry.create("serviceaccounts", "n", {"metadata": {"name": "default"}})
    involved = registry.create("pods", "n", api_kit.pod())
    registry.delete("namespaces", "", "n")
    registry.record_event(involved, type="Normal", reason="R", message="m", component="x")
    assert registry.list("events", "n") == []


# Admission


def test_pods_get_their_account_and_its_token(registry: Registry) -> None:
    spec = registry.create("pods", "default", api_kit.pod())["spec"]
    assert spec["serviceAccountName"] == "default"
    (volume,) = spec["volumes"]
    (mount,) = spec["containers"][0]["volumeMounts"]
    assert volume["name"] == mount["name"]
    spec = registry.create("pods", "default", api_kit.pod("q", automountServiceAccountToken=False))[
        "spec"
    ]
    assert "volumes" not in spec
    status = refusal(
        registry.create, "pods", "default", api_kit.pod("r", serviceAccountName="nope")
    )
    assert (status.code, status.reason) == (403, "Forbidden")


def test_quotas_and_limits(registry: Registry) -> None:
    registry.create(
        "resourcequotas", "default", {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "2"}}}
    )
    limit = {"type": "Container", "default": {"cpu": "1"}, "max": {"cpu": "2"}}
    registry.create(
        "limitranges", "default", {"metadata": {"name": "l"}, "spec": {"limits": [limit]}}
    )
    made = registry.create("pods", "default", api_kit.pod("a"))
    assert made["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "1"}
    big = api_kit.pod("b")
    big["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "3"}}
    assert (
        "maximum cpu usage per Container is 2"
        in refusal(registry.create, "pods", "default", big).message
    )
    registry.create("pods", "default", api_kit.pod("b"))
    assert (
        "exceeded quota: q" in refusal(registry.create, "pods", "default", api_kit.pod("c")).message
    )
    registry.delete("pods", "default", "a")
    registry.create("pods", "default", api_kit.pod("c"))


def test_unknown_resources_are_a_mistake_of_the_caller(registry: Registry) -> None:
    with pytest.raises(LookupError, match="widgets"):
        registry.create("widgets", "default", {"metadata": {"name": "x"}})
