"""ReplicaSets: numbers kept, pods adopted and released, the right ones given up."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from controllers_kit import START, Cluster, Json, pod, run, template

from pytest_sremut.embedded.controllers.workloads.replicaset import deletion_order
from pytest_sremut.embedded.meta.errors import forbidden
from pytest_sremut.embedded.meta.jsonvalue import timestamp


def replicaset(name: str = "web", replicas: int = 2, **spec: Any) -> Json:
    labels = {"app": name}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": template(labels),
            **spec,
        },
    }


def test_pods_come_and_are_counted() -> None:
    async def body(cluster: Cluster) -> None:
        owner = cluster.create("replicasets.apps", replicaset())
        await cluster.settle(kubelet=False)
        first, second = cluster.pods()
        reference = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "name": "web",
            "uid": owner["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
        assert first["metadata"]["ownerReferences"] == [reference]
        assert first["metadata"]["generateName"] == "web-"
        assert first["metadata"]["labels"] == {"app": "web"}
        expected = {"replicas": 2, "fullyLabeledReplicas": 2, "terminatingReplicas": 0}
        expected["observedGeneration"] = 1
        assert cluster.get("replicasets.apps", "web")["status"] == expected
        await cluster.settle()
        expected |= {"readyReplicas": 2, "availableReplicas": 2}
        assert cluster.get("replicasets.apps", "web")["status"] == expected
        names = [item["metadata"]["name"] for item in (first, second)]
        assert sorted(cluster.messages("web")) == sorted(f"Created pod: {x}" for x in names)

    run(body)


def test_a_terminating_pod_is_replaced_at_once_and_counted() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("replicasets.apps", replicaset())
        await cluster.settle()
        cluster.kubelet.stops = False
        cluster.delete("pods", cluster.pods()[0]["metadata"]["name"])
        await cluster.settle()
        assert len(cluster.pods()) == 2
        assert len(cluster.list("pods")) == 3
        status = cluster.get("replicasets.apps", "web")["status"]
        assert (status["replicas"], status["terminatingReplicas"]) == (2, 1)
        cluster.kubelet.stops = True
        await cluster.settle()
        assert cluster.get("replicasets.apps", "web")["status"]["terminatingReplicas"] == 0

    run(body)


def test_finished_pods_are_replaced_and_kept() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("replicasets.apps", replicaset(replicas=1))
        await cluster.settle()
        cluster.kubelet.finish(cluster.pods()[0], "Failed", 1)
        await cluster.settle()
        assert len(cluster.pods()) == 1
        assert len(cluster.list("pods")) == 2

    run(body)


def test_matching_pods_without_owner_are_adopted_and_strangers_released() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("pods", pod("solo", {"app": "web"}))
        cluster.create("replicasets.apps", replicaset(replicas=1))
        await cluster.settle()
        (only,) = cluster.pods()
        assert only["metadata"]["name"] == "solo"
        assert only["metadata"]["ownerReferences"][0]["name"] == "web"
        cluster.change("pods", "solo", lambda x: x["metadata"].update(labels={"app": "orphan"}))
        await cluster.settle()
        assert "ownerReferences" not in cluster.get("pods", "solo")["metadata"]
        assert len(cluster.pods(app="web")) == 1
        cluster.change("pods", "solo", lambda x: x["metadata"].update(labels={"app": "web"}))
        await cluster.settle()
        assert len(cluster.pods(app="web")) == 1  # adopted again, and one given up

    run(body)


def test_availability_waits_for_min_ready_seconds() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("replicasets.apps", replicaset(minReadySeconds=10))
        await cluster.settle()
        status = cluster.get("replicasets.apps", "web")["status"]
        assert status["readyReplicas"] == 2
        assert "availableReplicas" not in status
        await cluster.advance(9.9)
        assert "availableReplicas" not in cluster.get("replicasets.apps", "web")["status"]
        await cluster.advance(0.2)
        assert cluster.get("replicasets.apps", "web")["status"]["availableReplicas"] == 2

    run(body)


def test_refused_pods_are_told_and_tried_again() -> None:
    async def body(cluster: Cluster) -> None:
        real = cluster.registry.create
        refusals = 0

        def create(resource: str, namespace: str, value: Json, **options: Any) -> Json:
            nonlocal refusals
            if resource == "pods" and refusals < 3:
                refusals += 1
                raise forbidden("pods", f"web-{refusals}", "exceeded quota: q")
            return real(resource, namespace, value, **options)

        cluster.registry.create = create  # type: ignore[method-assign]
        cluster.create("replicasets.apps", replicaset())
        await cluster.settle()
        told = cluster.get("replicasets.apps", "web")["status"]
        assert told["replicas"] == 0
        assert told["conditions"] == [
            {
                "type": "ReplicaFailure",
                "status": "True",
                "lastTransitionTime": timestamp(START),
                "reason": "FailedCreate",
                "message": 'pods "web-1" is forbidden: exceeded quota: q',
            }
        ]
        refused = 'Error creating: pods "web-1" is forbidden: exceeded quota: q'
        assert cluster.messages("web", "FailedCreate")[0] == refused
        await cluster.advance(1)
        status = cluster.get("replicasets.apps", "web")["status"]
        assert status["availableReplicas"] == 2
        assert "conditions" not in status
        assert refusals == 3

    run(body)


def test_a_replicaset_that_is_being_deleted_neither_makes_nor_adopts() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("replicasets.apps", replicaset())
        await cluster.settle()
        cluster.kubelet.stops = False
        cluster.delete("replicasets.apps", "web", propagation="Foreground")
        cluster.create("pods", pod("solo", {"app": "web"}))
        await cluster.settle()
        assert [item["metadata"]["name"] for item in cluster.pods()] == ["solo"]
        status = cluster.get("replicasets.apps", "web")["status"]
        assert (status["replicas"], status["terminatingReplicas"]) == (0, 2)
        cluster.kubelet.stops = True
        await cluster.settle()
        assert cluster.gone("replicasets.apps", "web")

    run(body)


def candidate(
    name: str, *, node: str = "n", phase: str = "Running", ready: float | None = 100, **extra: Any
) -> Json:
    """A pod that became ready `ready` seconds ago (``None``: is not)."""
    conditions = []
    if ready is not None:
        moment = timestamp(START - timedelta(seconds=ready))
        conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": moment}]
    statuses = [{"restartCount": extra.pop("restarts", 0)}]
    annotations = {}
    if "cost" in extra:
        annotations["controller.kubernetes.io/pod-deletion-cost"] = extra.pop("cost")
    created = timestamp(START - timedelta(seconds=extra.pop("age", 1000)))
    return {
        "metadata": {
            "name": name,
            "uid": name,
            "creationTimestamp": created,
            "annotations": annotations,
        },
        "spec": {"nodeName": node},
        "status": {"phase": phase, "conditions": conditions, "containerStatuses": statuses},
    }


def order(*pods: Json) -> list[str]:
    return [item["metadata"]["name"] for item in deletion_order(pods, START)]


def test_pods_are_given_up_in_the_recorded_order() -> None:
    assert order(
        candidate("serving"),
        candidate("restarted", restarts=3),
        candidate("younger", ready=9),
        candidate("crowded", node="m", ready=5000),
        candidate("crowded2", node="m", ready=5000, cost="-7"),
        candidate("waiting", ready=None),
        candidate("pending", phase="Pending", ready=None),
        candidate("nowhere", node="", phase="Pending", ready=None),
    ) == [
        "nowhere",
        "pending",
        "waiting",
        "crowded2",
        "younger",
        "restarted",
        "serving",
        "crowded",
    ]


def test_pods_of_about_one_age_are_given_up_by_uid() -> None:
    # As recorded: ready for 9, 8 and 2 seconds; the youngest goes first, then the lower uid.
    pods = [candidate("2857", ready=9), candidate("d4c4", ready=8), candidate("76f7", ready=2)]
    assert order(*pods) == ["76f7", "2857", "d4c4"]


def test_a_deletion_cost_that_is_no_number_costs_nothing() -> None:
    assert order(candidate("b", cost="--5"), candidate("a", cost="x")) == ["a", "b"]
