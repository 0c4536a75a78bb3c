"""The scheduler: nodes that fit, reasons that are told, second tries."""

from __future__ import annotations

from typing import Any

import pytest
from controllers_kit import START, Cluster, Json, container, pod, run

from pytest_sremut.embedded.meta.jsonvalue import timestamp

ONE = "0/1 nodes are available"
HOPELESS = (
    f"no new claims to deallocate, preemption: {ONE}: 1 Preemption is not helpful for scheduling."
)


def asking(name: str, *, labels: Json | None = None, **requests: str) -> Json:
    return pod(name, labels, containers=[container("main", resources={"requests": requests})])


def node(cluster: Cluster, fn: Any, *, status: bool = False) -> None:
    cluster.registry.mutate("nodes", "", "node-1", fn, subresource="status" if status else "")


def allocatable(cluster: Cluster, **amounts: str) -> None:
    node(cluster, lambda x: x["status"]["allocatable"].update(amounts), status=True)


def scheduled(cluster: Cluster, name: str) -> Json:
    conditions = cluster.get("pods", name)["status"]["conditions"]
    return next(item for item in conditions if item["type"] == "PodScheduled")


def test_a_pod_is_bound_and_told() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("pods", pod())
        await cluster.settle(kubelet=False)
        value = cluster.get("pods", "solo")
        assert value["spec"]["nodeName"] == "node-1"
        assert value["metadata"]["generation"] == 1
        assert scheduled(cluster, "solo") == {
            "type": "PodScheduled",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": timestamp(START),
        }
        (event,) = cluster.list("events")
        assert event["message"] == "Successfully assigned shop/solo to node-1"
        assert (event["action"], event["reportingComponent"]) == ("Binding", "default-scheduler")
        assert event["source"] == {}
        assert event["lastTimestamp"] is None

    run(body)


def affinity(key: str) -> Json:
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": ["x"]}]}
    required = {"nodeSelectorTerms": [term]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (asking("a", cpu="10000"), "1 Insufficient cpu"),
        (asking("a", memory="900Ti", cpu="1000"), "1 Insufficient cpu, 1 Insufficient memory"),
        (
            pod("a", nodeSelector={"zone": "x"}),
            "1 node(s) didn't match Pod's node affinity/selector",
        ),
        (
            pod("a", affinity=affinity("zone")),
            "1 node(s) didn't match Pod's node affinity/selector",
        ),
    ],
)
def test_what_does_not_fit_is_told_in_the_recorded_words(value: Json, reason: str) -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("pods", value)
        await cluster.settle()
        assert scheduled(cluster, "a") == {
            "type": "PodScheduled",
            "observedGeneration": 1,
            "status": "False",
            "lastProbeTime": None,
            "lastTransitionTime": timestamp(START),
            "reason": "Unschedulable",
            "message": f"{ONE}: {reason}. {HOPELESS}",
        }
        assert cluster.messages("a") == [f"{ONE}: {reason}. {HOPELESS}"]
        assert "nodeName" not in cluster.get("pods", "a")["spec"]

    run(body)


def test_room_that_others_take_is_given_when_they_go() -> None:
    async def body(cluster: Cluster) -> None:
        allocatable(cluster, cpu="2")
        cluster.create("pods", asking("big", cpu="1500m"))
        cluster.create("pods", asking("late", cpu="1"))
        await cluster.settle()
        victims = "1 No preemption victims found for incoming pod."
        message = f"{ONE}: 1 Insufficient cpu. no new claims to deallocate, preemption: {ONE}: "
        assert scheduled(cluster, "late")["message"] == message + victims
        cluster.kubelet.finish(cluster.get("pods", "big"), "Succeeded")
        await cluster.settle()
        assert scheduled(cluster, "late")["status"] == "True"
        cluster.create("pods", asking("third", cpu="1"))
        await cluster.settle()
        assert scheduled(cluster, "third")["status"] == "True"
        cluster.create("pods", asking("fourth", cpu="1m"))
        await cluster.settle()
        assert scheduled(cluster, "fourth")["status"] == "False"
        cluster.delete("pods", "third")
        await cluster.settle()
        assert scheduled(cluster, "fourth")["status"] == "True"

    run(body)


def test_a_node_takes_so_many_pods() -> None:
    async def body(cluster: Cluster) -> None:
        allocatable(cluster, pods="2")
        for name in ("a", "b", "c"):
            cluster.create("pods", pod(name))
        await cluster.settle()
        assert "1 Too many pods" in scheduled(cluster, "c")["message"]
        allocatable(cluster, pods="3")
        await cluster.settle()
        assert scheduled(cluster, "c")["status"] == "True"

    run(body)


def test_cordon_and_uncordon() -> None:
    async def body(cluster: Cluster) -> None:
        node(cluster, lambda x: x["spec"].update(unschedulable=True))
        await cluster.settle()
        taints = cluster.get("nodes", "node-1", "")["spec"]["taints"]
        assert [item["key"] for item in taints] == ["node.kubernetes.io/unschedulable"]
        cluster.create("pods", pod())
        await cluster.settle()
        assert scheduled(cluster, "solo")["message"].startswith(
            f"{ONE}: 1 node(s) were unschedulable. "
        )
        node(cluster, lambda x: x["spec"].pop("unschedulable"))
        await cluster.settle()
        assert "taints" not in cluster.get("nodes", "node-1", "")["spec"]
        assert scheduled(cluster, "solo")["status"] == "True"

    run(body)


@pytest.mark.parametrize(
    ("toleration", "fits"),
    [
        (None, False),
        ({"key": "team", "operator": "Equal", "value": "blue", "effect": "NoSchedule"}, True),
        ({"key": "team", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"key": "team", "operator": "Equal", "value": "red", "effect": "NoSchedule"}, False),
        ({"key": "team", "operator": "Exists", "effect": "NoExecute"}, False),
    ],
)
def test_taints_keep_away_who_does_not_tolerate_them(toleration: Json | None, fits: bool) -> None:
    async def body(cluster: Cluster) -> None:
        taint = {"key": "team", "value": "blue", "effect": "NoSchedule"}
        node(cluster, lambda x: x["spec"].update(taints=[taint]))
        extra = {"tolerations": [toleration]} if toleration else {}
        cluster.create("pods", pod(**extra))
        await cluster.settle()
        told = scheduled(cluster, "solo")
        assert (told["status"] == "True") == fits
        if not fits:
            assert "1 node(s) had untolerated taint(s)" in told["message"]

    run(body)


def test_soft_taints_keep_nobody_away() -> None:
    async def body(cluster: Cluster) -> None:
        taint = {"key": "team", "effect": "PreferNoSchedule"}
        node(cluster, lambda x: x["spec"].update(taints=[taint]))
        cluster.create("pods", pod())
        await cluster.settle()
        assert scheduled(cluster, "solo")["status"] == "True"

    run(body)


def test_claims_must_be_there_and_bound() -> None:
    async def body(cluster: Cluster) -> None:
        volume = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
        cluster.create("pods", pod(volumes=[volume]))
        await cluster.settle()
        told = scheduled(cluster, "solo")["message"]
        assert told == f'{ONE}: persistentvolumeclaim "data" not found. not found'
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        cluster.create("persistentvolumeclaims", {"metadata": {"name": "data"}, "spec": spec})
        await cluster.settle()
        told = scheduled(cluster, "solo")["message"]
        assert told == f"{ONE}: pod has unbound immediate PersistentVolumeClaims. not found"

    run(body)


def test_host_ports_are_taken_once() -> None:
    async def body(cluster: Cluster) -> None:
        ports = [{"containerPort": 80, "hostPort": 8000}]
        for name in ("a", "b"):
            cluster.create("pods", pod(name, containers=[{**container(), "ports": ports}]))
        await cluster.settle()
        assert "didn't have free ports" in scheduled(cluster, "b")["message"]
        cluster.delete("pods", "a")
        await cluster.settle()
        assert scheduled(cluster, "b")["status"] == "True"

    run(body)


def test_pods_spread_over_nodes() -> None:
    async def body(cluster: Cluster) -> None:
        for name in "abcd":
            cluster.create("pods", pod(name))
        await cluster.settle()
        nodes = sorted(item["spec"]["nodeName"] for item in cluster.pods())
        assert nodes == ["node-1", "node-1", "node-2", "node-2"]

    run(body, nodes=("node-1", "node-2"))


def test_pods_of_other_schedulers_are_left_alone() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("pods", pod(schedulerName="mine"))
        await cluster.settle()
        assert "conditions" not in cluster.get("pods", "solo")["status"]

    run(body)


def test_without_nodes_nothing_is_available() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("pods", pod())
        await cluster.settle()
        assert scheduled(cluster, "solo")["message"] == "no nodes available to schedule pods"

    run(body, nodes=())


def test_init_containers_count_where_they_ask_for_more() -> None:
    async def body(cluster: Cluster) -> None:
        allocatable(cluster, cpu="2")
        first = {"name": "i", "image": "x", "resources": {"requests": {"cpu": "3"}}}
        cluster.create("pods", pod(initContainers=[first]))
        await cluster.settle()
        assert "1 Insufficient cpu" in scheduled(cluster, "solo")["message"]

    run(body)
