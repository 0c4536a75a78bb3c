"""Waiting by watching."""

from __future__ import annotations

from typing import Any

import pytest
from fake_kube import FakeKube
from world import NS, World, deployment, pod

from pytest_sremut.cluster.port import Kind, Listing, ObjectRef
from pytest_sremut.cluster.waiting import (
    Objects,
    WaitTimeoutError,
    change_seen,
    deployment_lacks,
    deployments_ready,
    job_finished,
    object_gone,
    pods_gone,
    wait_for,
)
from pytest_sremut.errors import ClusterUnavailableError


def _names(*wanted: str) -> Any:
    def predicate(items: Objects) -> str:
        seen = sorted(item["metadata"]["name"] for item in items)
        return "" if seen == sorted(wanted) else f"saw {seen}"

    return predicate


def test_what_is_there_already_needs_no_watch() -> None:
    kube = FakeKube(pod("a", "10.0.0.1"))
    waited = wait_for(kube, "Pod", NS, _names("a"), timeout=1)
    assert [item["metadata"]["name"] for item in waited.items] == ["a"]
    assert kube.calls == [("list", "Pod", "")]


def test_an_event_ends_the_wait() -> None:
    kube = FakeKube(pod("a", "10.0.0.1"))

    def later(kube: FakeKube) -> None:
        kube.put(pod("b", "10.0.0.2"))
        kube.drop("Pod", NS, "a")

    kube.on_idle = later
    wait_for(kube, "Pod", NS, _names("b"), timeout=5)
    assert [call[0] for call in kube.calls] == ["list", "watch"]


def test_other_namespaces_kinds_and_labels_do_not_count() -> None:
    kube = FakeKube(pod("a", "10.0.0.1", labels={"app": "x"}), pod("b", "10.0.0.2"))
    kube.put({"kind": "Pod", "metadata": {"name": "c", "namespace": "other"}})
    wait_for(kube, "Pod", NS, _names("a"), timeout=1, labels="app=x")


def test_a_timeout_says_what_is_missing() -> None:
    kube = FakeKube(pod("a", "10.0.0.1"))
    with pytest.raises(WaitTimeoutError, match=r"after 0.1 s in social-network: saw \['a'\]"):
        wait_for(kube, "Pod", NS, _names("b"), timeout=0.1)


def test_a_watch_that_expires_or_breaks_lists_again() -> None:
    kube = FakeKube(pod("a", "10.0.0.1"))
    kube.watch_expired = 2
    kube.break_next("watch", times=1)
    kube.on_idle = lambda kube: kube.put(pod("b", "10.0.0.2"))
    wait_for(kube, "Pod", NS, _names("a", "b"), timeout=5)
    assert [call[0] for call in kube.calls].count("list") == 4


def test_an_event_lost_between_two_watches_is_found_by_the_list() -> None:
    kube = FakeKube(pod("a", "10.0.0.1"))
    kube.break_next("watch", times=1)

    def watch(*args: Any, **kwargs: Any) -> Any:
        kube.put(pod("b", "10.0.0.2"))  # while nobody looks
        return FakeKube.watch(kube, *args, **kwargs)

    kube.watch = watch  # type: ignore[method-assign]
    wait_for(kube, "Pod", NS, _names("a", "b"), timeout=5)
    assert kube.calls.count(("list", "Pod", "")) == 2


def test_an_api_that_stays_away_is_unavailable_and_no_timeout() -> None:
    kube = FakeKube()
    kube.break_always("*", message="gone fishing")
    with pytest.raises(ClusterUnavailableError, match="gone fishing"):
        wait_for(kube, "Pod", NS, _names("b"), timeout=60, outage=0.1)


def test_an_api_away_at_the_end_is_unavailable() -> None:
    kube = FakeKube()
    kube.break_always("list")
    with pytest.raises(ClusterUnavailableError):
        wait_for(kube, "Pod", NS, _names("b"), timeout=0.1)


def test_a_short_outage_is_survived() -> None:
    kube = FakeKube(pod("a", "10.0.0.1"))
    kube.break_next("list", times=2)
    wait_for(kube, "Pod", NS, _names("a"), timeout=5)


# -- rollouts ------------------------------------------------------------------------------------


def _status(**changes: Any) -> dict[str, Any]:
    body = deployment("a", 3)
    body["status"].update(changes)
    return body


def test_a_complete_rollout_lacks_nothing() -> None:
    assert deployment_lacks(deployment("a", 3)) == ""
    assert deployment_lacks(deployment("a", 3), 3) == ""
    assert deployment_lacks(deployment("a", 0)) == ""


@pytest.mark.parametrize(
    ("changes", "lacks"),
    [
        ({"observedGeneration": 0}, "generation 1 is not observed"),
        ({"updatedReplicas": 1}, "updatedReplicas is 1 of 3"),  # ready counts the old template
        ({"replicas": 4}, "replicas is 4 of 3"),  # an old pod is still there
        ({"readyReplicas": 2}, "readyReplicas is 2 of 3"),
        ({"readyReplicas": None}, "readyReplicas is 0 of 3"),
        ({"availableReplicas": 0}, "availableReplicas is 0 of 3"),
    ],
)
def test_what_a_rollout_lacks(changes: dict[str, Any], lacks: str) -> None:
    assert lacks in deployment_lacks(_status(**changes))


def test_a_deployment_that_was_just_created_is_not_ready() -> None:
    assert deployment_lacks({"metadata": {"name": "a", "generation": 1}, "spec": {"replicas": 1}})


def test_the_baseline_counts_and_missing_deployments_are_not_ready() -> None:
    predicate = deployments_ready({"a": 3, "b": 1})
    assert predicate([deployment("a", 3)]) == "Deployment b does not exist"
    assert "desires 2 replicas instead of 3" in predicate([deployment("a", 2), deployment("b", 1)])
    assert predicate([deployment("a", 3), deployment("b", 1), deployment("c", 5, ready=0)]) == ""
    assert deployments_ready({"a": 1})([]) == "Deployment a does not exist"


def test_pods_gone_by_uid() -> None:
    world = World()
    old = [item["metadata"]["uid"] for item in world.pods()]
    predicate = pods_gone(old)
    assert "3 pods are still there" in predicate(world.pods())
    for item in world.pods():
        world.kube.drop("Pod", NS, item["metadata"]["name"])
    world.new_pod("user-service")
    assert predicate(world.pods()) == ""


def test_jobs() -> None:
    def job(*conditions: dict[str, str]) -> dict[str, Any]:
        return {"metadata": {"name": "load"}, "status": {"conditions": list(conditions)}}

    predicate = job_finished("load")
    assert predicate([]) == "Job load does not exist"
    assert predicate([{"metadata": {"name": "load"}}]) == "Job load is still running"
    assert predicate([job({"type": "Complete", "status": "False"})])
    assert predicate([job({"type": "Failed", "status": "True"})]) == ""
    assert predicate([job({"type": "Complete", "status": "True"})]) == ""


def test_an_object_is_gone_when_another_has_its_name() -> None:
    kube = FakeKube()
    uid = kube.put(pod("a", "10.0.0.1"))["metadata"]["uid"]
    ref = ObjectRef(kind="Pod", namespace=NS, name="a")
    with pytest.raises(WaitTimeoutError, match="still there"):
        object_gone(kube, ref, uid, timeout=0.1)
    kube.drop("Pod", NS, "a")
    object_gone(kube, ref, uid, timeout=0.1)
    kube.put(pod("a", "10.0.0.2"))
    object_gone(kube, ref, uid, timeout=0.1)


def test_a_failed_read_is_not_gone() -> None:
    kube = FakeKube()
    kube.break_always("*")
    ref = ObjectRef(kind="Pod", namespace=NS, name="a")
    with pytest.raises(ClusterUnavailableError):
        object_gone(kube, ref, "u", timeout=0.1)


def test_a_change_ends_the_wait_for_one() -> None:
    kube = FakeKube(pod("a", "10.0.0.1"))
    listing = kube.list("Pod", NS)
    assert isinstance(listing, Listing)
    waits: list[float] = []

    def seen(kind: Kind) -> bool:
        return change_seen(
            kube, kind, NS, since=listing.resource_version, within=60, wait=waits.append
        )

    assert not seen("Pod")  # the watch ended early
    assert waits == [0.25]  # so the caller looks again soon, and not at once
    kube.put(pod("b", "10.0.0.2"))
    assert seen("Pod")
    assert not seen("Job")
    assert waits == [0.25, 0.25]


def test_a_watch_that_is_refused_is_no_change_and_no_error() -> None:
    kube = FakeKube(pod("a", "10.0.0.1"))
    waits: list[float] = []
    kube.break_next("watch", "EndpointSlice", status=403, reason="Forbidden")
    assert not change_seen(kube, "EndpointSlice", NS, since="1", within=0.1, wait=waits.append)
    assert len(waits) == 1
    assert 0 < waits[0] <= 0.1
