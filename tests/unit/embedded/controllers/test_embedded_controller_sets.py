"""StatefulSets, DaemonSets and disruption budgets."""

from __future__ import annotations

from typing import Any

import pytest
from controllers_kit import Cluster, Json, deployment, run, template


def workload(name: str, **spec: Any) -> Json:
    labels = {"app": name}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"selector": {"matchLabels": labels}, "template": template(labels), **spec},
    }


def statefulset(name: str = "db", replicas: int = 2, **spec: Any) -> Json:
    return workload(name, serviceName=name, replicas=replicas, **spec)


def image(tag: str) -> Any:
    def change(value: Json) -> None:
        value["spec"]["template"]["spec"]["containers"][0]["image"] = f"busybox:{tag}"

    return change


def names(cluster: Cluster) -> list[str]:
    return [item["metadata"]["name"] for item in cluster.list("pods")]


def test_pods_come_in_order_with_names_that_stay() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("statefulsets.apps", statefulset())
        await cluster.manager.settle()
        assert names(cluster) == ["db-0"]
        cluster.kubelet.step()
        await cluster.manager.settle()
        assert names(cluster) == ["db-0", "db-1"]
        await cluster.settle()
        (revision,) = cluster.list("controllerrevisions.apps")
        code = revision["metadata"]["labels"]["controller.kubernetes.io/hash"]
        assert revision["metadata"]["name"] == f"db-{code}"
        assert revision["revision"] == 1
        assert revision["data"]["spec"]["template"]["$patch"] == "replace"
        first = cluster.get("pods", "db-0")
        assert first["metadata"]["labels"] == {
            "app": "db",
            "apps.kubernetes.io/pod-index": "0",
            "controller-revision-hash": f"db-{code}",
            "statefulset.kubernetes.io/pod-name": "db-0",
        }
        assert (first["spec"]["hostname"], first["spec"]["subdomain"]) == ("db-0", "db")
        assert cluster.get("statefulsets.apps", "db")["status"] == {
            "observedGeneration": 1,
            "replicas": 2,
            "readyReplicas": 2,
            "currentReplicas": 2,
            "updatedReplicas": 2,
            "currentRevision": f"db-{code}",
            "updateRevision": f"db-{code}",
            "collisionCount": 0,
            "availableReplicas": 2,
        }
        made = ["Create Pod db-0 in StatefulSet db successful"]
        made.append("Create Pod db-1 in StatefulSet db successful")
        assert cluster.messages("db") == made
        await cluster.settle()

    run(body)


def test_a_deleted_pod_comes_back_under_its_name() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("statefulsets.apps", statefulset())
        await cluster.settle()
        before = cluster.get("pods", "db-0")["metadata"]["uid"]
        cluster.delete("pods", "db-0")
        await cluster.settle()
        assert names(cluster) == ["db-0", "db-1"]
        assert cluster.get("pods", "db-0")["metadata"]["uid"] != before
        cluster.kubelet.finish(cluster.get("pods", "db-1"), "Failed", 1)
        await cluster.settle()
        assert names(cluster) == ["db-0", "db-1"]
        assert cluster.get("pods", "db-1")["status"]["phase"] == "Running"

    run(body)


def test_the_last_pod_goes_first() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("statefulsets.apps", statefulset(replicas=3))
        await cluster.settle()
        cluster.kubelet.stops = False
        cluster.scale("statefulsets.apps", "db", 1)
        await cluster.settle()
        going = [x["metadata"]["name"] for x in cluster.list("pods") if x not in cluster.pods()]
        assert going == ["db-2"]
        cluster.kubelet.stops = True
        await cluster.settle()
        assert names(cluster) == ["db-0"]

    run(body)


def test_parallel_pods_do_not_wait() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("statefulsets.apps", statefulset(podManagementPolicy="Parallel"))
        await cluster.manager.settle()
        assert names(cluster) == ["db-0", "db-1"]

    run(body)


def test_an_update_goes_from_the_last_to_the_first() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("statefulsets.apps", statefulset())
        await cluster.settle()
        deleted: list[str] = []
        cluster.registry.subscribe(
            lambda e: deleted.append(e.key[1]) if e.type == "DELETED" else None, "pods"
        )
        cluster.change("statefulsets.apps", "db", image("2"))
        await cluster.settle()
        assert deleted == ["db-1", "db-0"]
        images = {x["spec"]["containers"][0]["image"] for x in cluster.pods()}
        assert images == {"busybox:2"}
        status = cluster.get("statefulsets.apps", "db")["status"]
        assert status["currentRevision"] == status["updateRevision"]
        assert len(cluster.list("controllerrevisions.apps")) == 2
        cluster.change("statefulsets.apps", "db", image("1.36"))
        await cluster.settle()
        revisions = cluster.list("controllerrevisions.apps")
        assert sorted(item["revision"] for item in revisions) == [2, 3]

    run(body)


def test_a_partition_keeps_the_first_pods_as_they_are() -> None:
    async def body(cluster: Cluster) -> None:
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
        cluster.create("statefulsets.apps", statefulset(updateStrategy=strategy))
        await cluster.settle()
        cluster.change("statefulsets.apps", "db", image("2"))
        await cluster.settle()
        cluster.delete("pods", "db-0")
        await cluster.settle()
        images = [x["spec"]["containers"][0]["image"] for x in cluster.pods()]
        assert images == ["busybox:1.36", "busybox:2"]

    run(body)


def test_claims_outlive_their_pods() -> None:
    async def body(cluster: Cluster) -> None:
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        claims = [{"metadata": {"name": "data"}, "spec": spec}]
        cluster.create("statefulsets.apps", statefulset(replicas=1, volumeClaimTemplates=claims))
        await cluster.settle()
        assert cluster.get("persistentvolumeclaims", "data-db-0")
        volumes = cluster.get("pods", "db-0")["spec"]["volumes"]
        assert {"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}} in volumes
        cluster.delete("statefulsets.apps", "db")
        await cluster.settle()
        assert cluster.list("pods") == []
        assert cluster.get("persistentvolumeclaims", "data-db-0")

    run(body)


def daemonset(**spec: Any) -> Json:
    value = workload("agent", **spec)
    value["metadata"]["annotations"] = {"deprecated.daemonset.template.generation": "1"}
    return value


def test_a_daemon_runs_on_each_node() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("daemonsets.apps", daemonset())
        await cluster.settle()
        assert sorted(x["spec"]["nodeName"] for x in cluster.pods()) == ["node-1", "node-2"]
        assert cluster.get("daemonsets.apps", "agent")["status"] == {
            "currentNumberScheduled": 2,
            "numberMisscheduled": 0,
            "desiredNumberScheduled": 2,
            "numberReady": 2,
            "observedGeneration": 1,
            "updatedNumberScheduled": 2,
            "numberAvailable": 2,
        }
        labels = cluster.pods()[0]["metadata"]["labels"]
        assert labels["pod-template-generation"] == "1"
        cluster.registry.delete("nodes", "", "node-2")
        await cluster.settle()
        assert [x["spec"]["nodeName"] for x in cluster.pods()] == ["node-1"]

    run(body, nodes=("node-1", "node-2"))


def test_daemons_run_on_cordoned_nodes_and_leave_tainted_ones() -> None:
    async def body(cluster: Cluster) -> None:
        def node(**fields: Any) -> None:
            cluster.registry.mutate("nodes", "", "node-1", lambda x: x["spec"].update(fields))

        node(unschedulable=True)
        await cluster.settle()
        cluster.create("daemonsets.apps", daemonset())
        await cluster.settle()
        assert len(cluster.pods()) == 1
        node(unschedulable=False, taints=[{"key": "x", "effect": "NoSchedule"}])
        await cluster.settle()
        assert len(cluster.pods()) == 1  # who is there stays
        node(taints=[{"key": "x", "effect": "NoExecute"}])
        await cluster.settle()
        assert cluster.pods() == []
        assert cluster.get("daemonsets.apps", "agent")["status"]["desiredNumberScheduled"] == 0

    run(body)


@pytest.mark.parametrize("kind", ["RollingUpdate", "OnDelete"])
def test_daemons_are_replaced_one_by_one_or_on_delete(kind: str) -> None:
    async def body(cluster: Cluster) -> None:
        strategy: Json = {"type": kind}
        cluster.create("daemonsets.apps", daemonset(updateStrategy=strategy))
        await cluster.settle()
        cluster.change("daemonsets.apps", "agent", image("2"))
        await cluster.manager.settle()
        serving = [x for x in cluster.pods() if x["status"].get("podIP")]
        assert len(serving) == (1 if kind == "RollingUpdate" else 2)
        await cluster.settle()
        images = {x["spec"]["containers"][0]["image"] for x in cluster.pods()}
        assert images == {"busybox:2" if kind == "RollingUpdate" else "busybox:1.36"}

    run(body, nodes=("node-1", "node-2"))


@pytest.mark.parametrize(
    ("spec", "allowed", "desired"),
    [
        ({"minAvailable": 2}, 1, 2),
        ({"minAvailable": "50%"}, 1, 2),
        ({"maxUnavailable": 1}, 1, 2),
        ({"maxUnavailable": "100%"}, 3, 0),
        ({"minAvailable": 5}, 0, 5),
    ],
)
def test_budgets_tell_how_many_may_be_evicted(spec: Json, allowed: int, desired: int) -> None:
    async def body(cluster: Cluster) -> None:
        selector = {"matchLabels": {"app": "web"}}
        body = {"metadata": {"name": "b"}, "spec": {**spec, "selector": selector}}
        cluster.create("deployments.apps", deployment(replicas=3))
        cluster.create("poddisruptionbudgets.policy", body)
        await cluster.settle()
        status = cluster.get("poddisruptionbudgets.policy", "b")["status"]
        assert (status["disruptionsAllowed"], status["desiredHealthy"]) == (allowed, desired)
        assert (status["currentHealthy"], status["expectedPods"]) == (3, 3)
        told = status["conditions"][0]
        assert told["reason"] == ("SufficientPods" if allowed else "InsufficientPods")
        cluster.kubelet.set_ready(cluster.pods()[0], False)
        await cluster.settle()
        status = cluster.get("poddisruptionbudgets.policy", "b")["status"]
        assert status["disruptionsAllowed"] == max(0, allowed - 1)

    run(body)
