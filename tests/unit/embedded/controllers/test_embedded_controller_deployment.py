"""Deployments: rollouts step by step, their conditions, scaling, pausing, history."""

from __future__ import annotations

from typing import Any

import pytest
from controllers_kit import Cluster, Json, deployment, run, template

from pytest_sremut.embedded.controllers.objects import safe_hash


def image(tag: str) -> Any:
    def change(value: Json) -> None:
        value["spec"]["template"]["spec"]["containers"][0]["image"] = f"busybox:{tag}"

    return change


def progressing(cluster: Cluster) -> tuple[str, str, str]:
    told = {x["type"]: x for x in cluster.get("deployments.apps", "web")["status"]["conditions"]}
    item = told["Progressing"]
    return item["status"], item["reason"], item["message"]


def sizes(cluster: Cluster) -> dict[str, int]:
    """Replicas by revision."""
    return {
        item["metadata"]["annotations"]["deployment.kubernetes.io/revision"]: item["spec"][
            "replicas"
        ]
        for item in cluster.list("replicasets.apps")
    }


def test_a_new_deployment_is_rolled_out() -> None:
    async def body(cluster: Cluster) -> None:
        made = cluster.create("deployments.apps", deployment())
        await cluster.settle()
        value = cluster.get("deployments.apps", "web")
        assert value["metadata"]["annotations"] == {"deployment.kubernetes.io/revision": "1"}
        status = dict(value["status"])
        status.pop("conditions")
        assert status == {
            "observedGeneration": 1,
            "replicas": 2,
            "updatedReplicas": 2,
            "readyReplicas": 2,
            "availableReplicas": 2,
            "terminatingReplicas": 0,
        }
        (owned,) = cluster.list("replicasets.apps")
        code = owned["metadata"]["labels"]["pod-template-hash"]
        assert owned["metadata"]["name"] == f"web-{code}"
        assert owned["spec"]["selector"]["matchLabels"] == {"app": "web", "pod-template-hash": code}
        assert owned["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
        assert owned["metadata"]["annotations"] == {
            "deployment.kubernetes.io/desired-replicas": "2",
            "deployment.kubernetes.io/max-replicas": "3",
            "deployment.kubernetes.io/revision": "1",
        }
        assert {item["metadata"]["labels"]["pod-template-hash"] for item in cluster.pods()} == {
            code
        }
        name = f"web-{code}"
        complete = f'ReplicaSet "{name}" has successfully progressed.'
        assert progressing(cluster) == ("True", "NewReplicaSetAvailable", complete)
        assert cluster.messages("web") == [f"Scaled up replica set {name} from 0 to 2"]

    run(body)


def test_a_rollout_replaces_pods_within_its_bounds() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("deployments.apps", deployment(replicas=4))
        await cluster.settle()
        cluster.change("deployments.apps", "web", image("2"))
        seen = []
        for _ in range(50):
            await cluster.manager.settle()
            alive = cluster.pods()
            ready = [x for x in alive if x["status"].get("podIP")]
            assert len(alive) <= 5
            assert len(ready) >= 3
            seen.append(sizes(cluster))
            if not cluster.kubelet.step():
                break
        assert seen[-1] == {"1": 0, "2": 4}
        value = cluster.get("deployments.apps", "web")
        assert value["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "2"
        assert value["status"]["updatedReplicas"] == value["status"]["replicas"] == 4
        assert progressing(cluster)[1] == "NewReplicaSetAvailable"

    run(body)


def test_going_back_takes_the_old_replicaset_again() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("deployments.apps", deployment())
        await cluster.settle()
        first = cluster.list("replicasets.apps")[0]["metadata"]["name"]
        cluster.change("deployments.apps", "web", image("2"))
        await cluster.settle()
        cluster.change("deployments.apps", "web", image("1.36"))
        await cluster.settle()
        back = cluster.get("replicasets.apps", first)
        assert back["spec"]["replicas"] == 2
        annotations = back["metadata"]["annotations"]
        assert annotations["deployment.kubernetes.io/revision"] == "3"
        assert annotations["deployment.kubernetes.io/revision-history"] == "1"
        assert len(cluster.list("replicasets.apps")) == 2

    run(body)


def test_old_revisions_are_forgotten() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("deployments.apps", deployment(revisionHistoryLimit=1))
        for tag in ("2", "3", "4"):
            await cluster.settle()
            cluster.change("deployments.apps", "web", image(tag))
        await cluster.settle()
        assert sizes(cluster) == {"3": 0, "4": 2}

    run(body)


def test_a_rollout_without_progress_is_told_after_the_deadline() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("deployments.apps", deployment(progressDeadlineSeconds=6))
        await cluster.settle()
        cluster.kubelet.ready = lambda pod: False
        cluster.change("deployments.apps", "web", image("nope"))
        await cluster.settle()
        assert sizes(cluster) == {"1": 2, "2": 1}
        assert progressing(cluster)[1] == "ReplicaSetUpdated"
        await cluster.advance(5.9)
        assert progressing(cluster)[1] == "ReplicaSetUpdated"
        await cluster.advance(2)
        new = next(x for x in cluster.list("replicasets.apps") if x["spec"]["replicas"] == 1)
        message = f'ReplicaSet "{new["metadata"]["name"]}" has timed out progressing.'
        assert progressing(cluster) == ("False", "ProgressDeadlineExceeded", message)
        assert cluster.get("deployments.apps", "web")["status"]["availableReplicas"] == 2
        for item in cluster.pods():
            cluster.kubelet.set_ready(item, True)
        cluster.kubelet.ready = lambda pod: True
        await cluster.settle()
        assert progressing(cluster)[1] == "NewReplicaSetAvailable"

    run(body)


def test_a_finished_rollout_sets_no_timer() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("deployments.apps", deployment())
        await cluster.settle()
        assert cluster.clock.waiting() == 0

    run(body)


def test_recreate_waits_until_the_old_pods_are_gone() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("deployments.apps", deployment(strategy={"type": "Recreate"}))
        await cluster.settle()
        cluster.kubelet.stops = False
        cluster.change("deployments.apps", "web", image("2"))
        await cluster.settle()
        assert sizes(cluster) == {"1": 0}
        assert cluster.get("deployments.apps", "web")["status"]["terminatingReplicas"] == 2
        cluster.kubelet.remove(cluster.list("pods")[0])
        await cluster.settle()
        assert sizes(cluster) == {"1": 0}
        cluster.kubelet.stops = True
        await cluster.settle()
        assert sizes(cluster) == {"1": 0, "2": 2}
        assert len(cluster.pods()) == 2

    run(body)


def test_a_paused_deployment_is_scaled_but_not_rolled_out() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("deployments.apps", deployment())
        await cluster.settle()
        cluster.change("deployments.apps", "web", lambda x: x["spec"].update(paused=True))
        await cluster.settle()
        assert progressing(cluster) == ("Unknown", "DeploymentPaused", "Deployment is paused")
        cluster.change("deployments.apps", "web", image("2"))
        cluster.scale("deployments.apps", "web", 3)
        await cluster.settle()
        assert sizes(cluster) == {"1": 3}
        cluster.change("deployments.apps", "web", lambda x: x["spec"].pop("paused"))
        await cluster.settle()
        assert sizes(cluster) == {"1": 0, "2": 3}
        assert progressing(cluster)[1] == "NewReplicaSetAvailable"

    run(body)


def test_scaling_is_no_rollout() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("deployments.apps", deployment())
        await cluster.settle()
        before = progressing(cluster)
        cluster.scale("deployments.apps", "web", 5)
        await cluster.settle(kubelet=False)
        assert progressing(cluster) == before
        told = {
            x["type"]: x for x in cluster.get("deployments.apps", "web")["status"]["conditions"]
        }
        assert told["Available"]["status"] == "False"
        await cluster.settle()
        assert len(cluster.pods()) == 5
        cluster.scale("deployments.apps", "web", 0)
        await cluster.settle()
        assert cluster.list("pods") == []
        status = cluster.get("deployments.apps", "web")["status"]
        assert set(status) == {"observedGeneration", "terminatingReplicas", "conditions"}

    run(body)


def test_scaling_in_the_middle_of_a_rollout_keeps_both_sides() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("deployments.apps", deployment(replicas=10))
        await cluster.settle()
        cluster.kubelet.ready = lambda pod: False
        cluster.change("deployments.apps", "web", image("nope"))
        await cluster.settle()
        assert sizes(cluster) == {"1": 8, "2": 5}
        cluster.scale("deployments.apps", "web", 20)
        await cluster.settle()
        assert sum(sizes(cluster).values()) == 25
        assert sizes(cluster)["1"] > sizes(cluster)["2"] > 5

    run(body)


@pytest.mark.parametrize("replicas", [1, 4])
def test_a_switch_to_recreate_in_the_middle_of_a_rollout_ends(replicas: int) -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("deployments.apps", deployment())
        await cluster.settle()
        cluster.kubelet.ready = lambda pod: False
        cluster.change("deployments.apps", "web", image("nope"))
        await cluster.settle()

        def recreate(value: Json) -> None:
            value["spec"].update(strategy={"type": "Recreate"}, replicas=replicas)

        cluster.kubelet.ready = lambda pod: True
        cluster.change("deployments.apps", "web", recreate)
        await cluster.settle()
        assert sizes(cluster) == {"1": 0, "2": replicas}

    run(body)


def test_a_taken_name_is_a_collision_and_another_hash_is_taken() -> None:
    async def body(cluster: Cluster) -> None:
        shape = template({"app": "web"})
        stranger = {
            "metadata": {"name": "x"},
            "spec": {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}},
        }
        stranger["spec"]["template"] = template({"a": "b"})
        cluster.create("deployments.apps", deployment("probe"))
        await cluster.settle()
        value = cluster.get("deployments.apps", "probe")
        assert value["spec"]["template"]["metadata"] == {"labels": {"app": "probe"}}
        wanted = {**value["spec"]["template"], "metadata": {"labels": {"app": "web"}}}
        stranger["metadata"]["name"] = f"web-{safe_hash(wanted)}"
        cluster.create("replicasets.apps", stranger)
        cluster.create("deployments.apps", deployment())
        await cluster.settle()
        await cluster.advance(1)
        made = cluster.get("deployments.apps", "web")
        assert made["status"]["collisionCount"] == 1
        assert made["status"]["availableReplicas"] == 2
        assert shape["metadata"]["labels"] == {"app": "web"}

    run(body)


def test_orphaned_replicasets_are_adopted() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("deployments.apps", deployment())
        await cluster.settle()
        pods = {item["metadata"]["name"] for item in cluster.pods()}
        cluster.delete("deployments.apps", "web", propagation="Orphan")
        await cluster.settle()
        assert cluster.gone("deployments.apps", "web")
        (left,) = cluster.list("replicasets.apps")
        assert "ownerReferences" not in left["metadata"]
        cluster.create("deployments.apps", deployment())
        await cluster.settle()
        (adopted,) = cluster.list("replicasets.apps")
        assert adopted["metadata"]["ownerReferences"][0]["name"] == "web"
        assert {item["metadata"]["name"] for item in cluster.pods()} == pods

    run(body)


def test_a_deployment_deleted_in_the_foreground_counts_down() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("deployments.apps", deployment())
        await cluster.settle()
        cluster.kubelet.stops = False
        cluster.delete("deployments.apps", "web", propagation="Foreground")
        await cluster.settle()
        value = cluster.get("deployments.apps", "web")
        assert value["metadata"]["finalizers"] == ["foregroundDeletion"]
        assert value["status"]["terminatingReplicas"] == 2
        assert value["status"]["unavailableReplicas"] == 2
        assert value["status"]["observedGeneration"] == value["metadata"]["generation"]
        cluster.kubelet.stops = True
        await cluster.settle()
        assert cluster.gone("deployments.apps", "web")
        assert cluster.list("replicasets.apps") == []

    run(body)


def test_annotations_and_min_ready_seconds_reach_the_replicaset() -> None:
    async def body(cluster: Cluster) -> None:
        value = deployment(minReadySeconds=3)
        applied = "kubectl.kubernetes.io/last-applied-configuration"
        value["metadata"]["annotations"] = {"team": "blue", applied: "{}"}
        cluster.create("deployments.apps", value)
        await cluster.settle()
        (owned,) = cluster.list("replicasets.apps")
        assert owned["spec"]["minReadySeconds"] == 3
        assert owned["metadata"]["annotations"]["team"] == "blue"
        assert applied not in owned["metadata"]["annotations"]
        cluster.change("deployments.apps", "web", lambda x: x["spec"].update(minReadySeconds=5))
        await cluster.settle()
        assert cluster.list("replicasets.apps")[0]["spec"]["minReadySeconds"] == 5
        assert len(cluster.list("replicasets.apps")) == 1

    run(body)


def test_without_a_deadline_there_is_no_progress_condition() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("deployments.apps", deployment(progressDeadlineSeconds=2**31 - 1))
        await cluster.settle()
        conditions = cluster.get("deployments.apps", "web")["status"]["conditions"]
        assert [item["type"] for item in conditions] == ["Available"]
        assert cluster.clock.waiting() == 0

    run(body)


def test_a_settled_cluster_writes_nothing() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("deployments.apps", deployment())
        await cluster.settle()
        revision = cluster.registry.revision
        await cluster.advance(3600)
        assert cluster.registry.revision == revision

    run(body)


def test_each_application_costs_a_few_writes() -> None:
    async def body(cluster: Cluster) -> None:
        before = cluster.registry.revision
        for number in range(27):
            cluster.create("deployments.apps", deployment(f"web{number}", 1))
        await cluster.settle()
        # Deployment, ReplicaSet, pod, its statuses, three Events ... nothing per other application.
        assert cluster.registry.revision - before <= 27 * 20

    run(body)


@pytest.mark.parametrize("text", ["", "x", "-1", "9" * 5000, "\u0663"])
def test_annotations_that_are_no_numbers_stop_nothing(text: str) -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("deployments.apps", deployment())
        await cluster.settle()
        (owned,) = cluster.list("replicasets.apps")
        spoiled = dict.fromkeys(owned["metadata"]["annotations"], text)
        name = owned["metadata"]["name"]
        cluster.change(
            "replicasets.apps", name, lambda x: x["metadata"].update(annotations=spoiled)
        )
        cluster.change("deployments.apps", "web", image("2"))
        cluster.scale("deployments.apps", "web", 3)
        await cluster.settle()
        assert len(cluster.pods()) == 3
        assert progressing(cluster)[1] == "NewReplicaSetAvailable"

    run(body)
