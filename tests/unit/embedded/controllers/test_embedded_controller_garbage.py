"""The garbage collector: background, foreground, orphans, several owners."""

from __future__ import annotations

from controllers_kit import Cluster, Json, deployment, run


def config(name: str, *owners: Json, block: bool = False) -> Json:
    references = [
        {
            "apiVersion": item.get("apiVersion", "v1"),
            "kind": item["kind"],
            "name": item["metadata"]["name"],
            "uid": item["metadata"]["uid"],
            **({"blockOwnerDeletion": True} if block else {}),
        }
        for item in owners
    ]
    metadata: Json = {"name": name}
    if references:
        metadata["ownerReferences"] = references
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def test_all_of_a_deployment_goes_in_the_background() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("deployments.apps", deployment())
        await cluster.settle()
        cluster.delete("deployments.apps", "web")
        assert cluster.gone("deployments.apps", "web")
        await cluster.settle()
        assert cluster.list("replicasets.apps") == []
        assert cluster.list("pods") == []

    run(body)


def test_in_the_foreground_owners_wait_for_their_dependents() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("deployments.apps", deployment())
        await cluster.settle()
        cluster.kubelet.stops = False
        cluster.delete("deployments.apps", "web", propagation="Foreground")
        await cluster.settle()
        (owned,) = cluster.list("replicasets.apps")
        assert owned["metadata"]["finalizers"] == ["foregroundDeletion"]
        assert all("deletionTimestamp" in item["metadata"] for item in cluster.list("pods"))
        deleted: list[str] = []
        cluster.registry.subscribe(
            lambda e: deleted.append(e.object["kind"]) if e.type == "DELETED" else None,
            "pods",
            "replicasets.apps",
            "deployments.apps",
        )
        cluster.kubelet.stops = True
        await cluster.settle()
        assert deleted == ["Pod", "Pod", "ReplicaSet", "Deployment"]

    run(body)


def test_dependents_without_dependents_go_at_once() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("deployments.apps", deployment(replicas=0))
        await cluster.settle()
        cluster.delete("deployments.apps", "web", propagation="Foreground")
        await cluster.settle()
        assert cluster.gone("deployments.apps", "web")
        assert cluster.list("replicasets.apps") == []

    run(body)


def test_an_object_goes_with_its_last_owner() -> None:
    async def body(cluster: Cluster) -> None:
        first = cluster.create("configmaps", config("first"))
        second = cluster.create("configmaps", config("second"))
        cluster.create("configmaps", config("child", first, second))
        await cluster.settle()
        cluster.delete("configmaps", "first")
        await cluster.settle()
        child = cluster.get("configmaps", "child")
        assert [x["name"] for x in child["metadata"]["ownerReferences"]] == ["second"]
        cluster.delete("configmaps", "second")
        await cluster.settle()
        assert cluster.gone("configmaps", "child")

    run(body)


def test_an_owner_of_the_same_name_is_not_the_owner() -> None:
    async def body(cluster: Cluster) -> None:
        owner = cluster.create("configmaps", config("owner"))
        cluster.delete("configmaps", "owner")
        cluster.create("configmaps", config("owner"))
        cluster.create("configmaps", config("child", owner))
        await cluster.settle()
        assert cluster.gone("configmaps", "child")

    run(body)


def test_an_owner_in_another_namespace_does_not_own() -> None:
    async def body(cluster: Cluster) -> None:
        owner = cluster.create("configmaps", config("owner"), "default")
        cluster.create("configmaps", config("child", owner))
        node = cluster.get("nodes", "node-1", "")
        cluster.create("configmaps", config("of-a-node", node))
        await cluster.settle()
        assert cluster.gone("configmaps", "child")
        assert not cluster.gone("configmaps", "of-a-node")

    run(body)


def test_an_owner_of_a_kind_not_served_may_be_there() -> None:
    async def body(cluster: Cluster) -> None:
        stranger = {
            "apiVersion": "example.com/v1",
            "kind": "Thing",
            "metadata": {"name": "x", "uid": "1"},
        }
        cluster.create("configmaps", config("child", stranger))
        await cluster.settle()
        assert not cluster.gone("configmaps", "child")

    run(body)


def test_orphans_lose_the_reference_and_stay() -> None:
    async def body(cluster: Cluster) -> None:
        owner = cluster.create("configmaps", config("owner"))
        cluster.create("configmaps", config("child", owner))
        await cluster.settle()
        cluster.delete("configmaps", "owner", propagation="Orphan")
        await cluster.settle()
        assert cluster.gone("configmaps", "owner")
        assert "ownerReferences" not in cluster.get("configmaps", "child")["metadata"]

    run(body)


def test_dependents_that_do_not_block_do_not_hold_their_owner() -> None:
    async def body(cluster: Cluster) -> None:
        owner = cluster.create("configmaps", config("owner"))
        loose = config("loose", owner)
        loose["metadata"]["finalizers"] = ["example.com/hold"]
        cluster.create("configmaps", loose)
        blocking = config("blocking", owner, block=True)
        blocking["metadata"]["finalizers"] = ["example.com/hold"]
        cluster.create("configmaps", blocking)
        await cluster.settle()
        cluster.delete("configmaps", "owner", propagation="Foreground")
        await cluster.settle()
        assert not cluster.gone("configmaps", "owner")
        assert "deletionTimestamp" in cluster.get("configmaps", "loose")["metadata"]
        cluster.change("configmaps", "blocking", lambda x: x["metadata"].pop("finalizers"))
        await cluster.settle()
        assert cluster.gone("configmaps", "owner")
        assert not cluster.gone("configmaps", "loose")
        cluster.change("configmaps", "loose", lambda x: x["metadata"].pop("finalizers"))
        await cluster.settle()
        assert cluster.gone("configmaps", "loose")

    run(body)


def test_a_foreground_deletion_ends_when_a_dependent_is_released() -> None:
    async def body(cluster: Cluster) -> None:
        owner = cluster.create("configmaps", config("owner"))
        child = config("child", owner, block=True)
        child["metadata"]["finalizers"] = ["example.com/hold"]
        cluster.create("configmaps", child)
        await cluster.settle()
        cluster.delete("configmaps", "owner", propagation="Foreground")
        await cluster.settle()
        assert not cluster.gone("configmaps", "owner")
        cluster.change("configmaps", "child", lambda x: x["metadata"].pop("ownerReferences"))
        await cluster.settle()
        assert cluster.gone("configmaps", "owner")

    run(body)
