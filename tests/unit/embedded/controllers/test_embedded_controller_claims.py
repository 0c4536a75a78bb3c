"""Claims and quotas: bound, protected, counted."""

from __future__ import annotations

from typing import Any

from controllers_kit import NAMESPACE, Cluster, pod, run

from pytest_sremut.embedded.controllers.claims import PROTECTION, PROVISIONER
from pytest_sremut.embedded.controllers.clusterroles import CLUSTER_ROLES

CLAIMS, VOLUMES = "persistentvolumeclaims", "persistentvolumes"
CLASSES = "storageclasses.storage.k8s.io"


def claim(storage: str | None = None) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    if storage is not None:
        spec["storageClassName"] = storage
    return {"metadata": {"name": "data"}, "spec": spec}


def user(name: str) -> dict[str, Any]:
    body = pod()
    body["metadata"]["name"] = name
    body["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    return body


def test_a_claim_without_a_class_stays_pending_and_says_why() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create(CLAIMS, claim())
        await cluster.settle()
        found = cluster.get(CLAIMS, "data")
        assert found["status"] == {"phase": "Pending"}
        assert found["metadata"]["finalizers"] == [PROTECTION]
        (message,) = cluster.messages("data", "FailedBinding")
        assert "no storage class is set" in message
        cluster.delete(CLAIMS, "data")
        await cluster.settle()
        assert cluster.gone(CLAIMS, "data")

    run(body)


def test_a_claim_of_our_class_is_bound_protected_and_goes_with_its_volume() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create(CLAIMS, claim("local"))
        await cluster.settle()
        assert cluster.get(CLAIMS, "data")["status"]["phase"] == "Pending"
        storage = {"metadata": {"name": "local"}, "provisioner": PROVISIONER}
        cluster.registry.create(CLASSES, "", storage)
        await cluster.settle()
        found = cluster.get(CLAIMS, "data")
        assert found["status"]["phase"] == "Bound"
        volume = cluster.get(VOLUMES, found["spec"]["volumeName"], "")
        assert volume["status"]["phase"] == "Bound"
        assert volume["spec"]["claimRef"]["uid"] == found["metadata"]["uid"]
        cluster.create("pods", user("one"))
        await cluster.settle()
        cluster.delete(CLAIMS, "data")
        await cluster.settle()
        assert not cluster.gone(CLAIMS, "data"), "it is in use"
        cluster.delete("pods", "one", grace_period=0)
        await cluster.settle()
        assert cluster.gone(CLAIMS, "data")
        assert cluster.registry.list(VOLUMES) == []

    run(body)


def test_a_foreign_class_binds_nothing() -> None:
    async def body(cluster: Cluster) -> None:
        storage = {"metadata": {"name": "x"}, "provisioner": "example.com/disk"}
        cluster.registry.create(CLASSES, "", storage)
        cluster.create(CLAIMS, claim("x"))
        await cluster.settle()
        assert cluster.get(CLAIMS, "data")["status"] == {"phase": "Pending"}

    run(body)


def test_a_quota_tells_what_is_used() -> None:
    async def body(cluster: Cluster) -> None:
        hard = {"pods": "2", "requests.memory": "64Mi", "count/configmaps": "9"}
        cluster.create("resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": hard}})
        await cluster.settle()

        def used() -> dict[str, str]:
            status = cluster.get("resourcequotas", "q")["status"]
            assert status["hard"] == hard
            found: dict[str, str] = status["used"]
            return found

        assert used() == {"pods": "0", "requests.memory": "0", "count/configmaps": "1"}
        sized = pod()
        requests = {"requests": {"memory": "16Mi"}}
        sized["spec"]["containers"][0]["resources"] = requests
        cluster.create("pods", sized)
        await cluster.settle()
        assert used() == {"pods": "1", "requests.memory": "16Mi", "count/configmaps": "1"}
        cluster.delete("pods", sized["metadata"]["name"], grace_period=0)
        await cluster.settle()
        assert used()["pods"] == "0"

    run(body)


def test_the_usual_roles_are_there_and_view_sees_no_secret() -> None:
    async def body(cluster: Cluster) -> None:
        roles = {x["metadata"]["name"] for x in cluster.registry.list(
            "clusterroles.rbac.authorization.k8s.io")}  # fmt: skip
        assert {"cluster-admin", "admin", "edit", "view"} <= roles

    run(body)
    seen = {name for rule in CLUSTER_ROLES["view"] for name in rule["resources"]}
    assert {"pods", "pods/log", "services", "endpoints", "deployments"} <= seen
    assert not seen & {"secrets", "roles", "rolebindings", "pods/exec"}
    verbs = {verb for rule in CLUSTER_ROLES["view"] for verb in rule["verbs"]}
    assert verbs == {"get", "list", "watch"}
    edited = {
        name
        for rule in CLUSTER_ROLES["edit"]
        if "create" in rule["verbs"]
        for name in rule["resources"]
    }
    assert {"pods/exec", "secrets", "deployments"} <= edited
    assert not edited & {"roles", "rolebindings", "resourcequotas"}


def test_similar_events_are_told_together() -> None:
    async def body(cluster: Cluster) -> None:
        involved = cluster.create("configmaps", {"metadata": {"name": "c"}})
        for number in range(15):
            cluster.registry.record_event(
                involved, type="Warning", reason="R", message=f"m {number}", component="x"
            )
        told = cluster.messages("c", "R")
        assert told[:10] == [f"m {number}" for number in range(10)]
        assert told[10:] == ["(combined from similar events): m 14"]
        (last,) = [x for x in cluster.list("events") if x["message"].startswith("(combined")]
        assert last["count"] == 5
        assert last["metadata"]["namespace"] == NAMESPACE
        await cluster.advance(601)
        cluster.registry.record_event(
            involved, type="Warning", reason="R", message="later", component="x"
        )
        assert "later" in cluster.messages("c", "R")

    run(body)
