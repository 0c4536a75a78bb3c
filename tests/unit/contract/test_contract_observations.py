"""What objects say."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from world import World, pod, slice_of

from pytest_sremut.contract.observations import (
    Backends,
    EligibleEndpoint,
    capacity_lacks,
    cluster_ip,
    eligible_endpoints,
    is_ready,
    routing_lacks,
)


def _slice(*endpoints: dict[str, Any], name: str = "a", family: str = "IPv4") -> dict[str, Any]:
    return {"metadata": {"name": name}, "addressType": family, "endpoints": list(endpoints)}


def test_the_union_of_all_slices_counts_each_address_once() -> None:
    one = {"addresses": ["10.0.0.2"], "conditions": {"ready": True}}
    two = {"addresses": ["10.0.0.1"], "conditions": {"ready": True}}
    found = eligible_endpoints([_slice(one, two), _slice(one, name="b")])
    assert found == (
        EligibleEndpoint(address="10.0.0.1", slices=("a",)),
        EligibleEndpoint(address="10.0.0.2", slices=("a", "b")),
    )


@pytest.mark.parametrize(
    ("conditions", "eligible"),
    [
        ({"ready": True}, True),
        ({"ready": True, "serving": True, "terminating": False}, True),
        ({}, True),
        (None, True),
        ({"ready": False}, False),
        ({"ready": True, "terminating": True}, False),  # publishNotReadyAddresses
        ({"ready": False, "serving": True, "terminating": True}, False),
    ],
)
def test_readiness_of_an_endpoint(conditions: Any, eligible: bool) -> None:
    endpoint = {"addresses": ["10.0.0.1"], "conditions": conditions}
    assert bool(eligible_endpoints([_slice(endpoint)])) is eligible


def test_other_address_families_and_empty_slices_hold_none() -> None:
    endpoint = {"addresses": ["fd00::1"], "conditions": {"ready": True}}
    assert eligible_endpoints([_slice(endpoint, family="IPv6")]) == ()
    assert eligible_endpoints([{"metadata": {"name": "x"}, "addressType": "IPv4"}]) == ()
    assert eligible_endpoints([_slice() | {"endpoints": None}]) == ()


@pytest.mark.parametrize(
    ("spec", "address"),
    [
        ({"type": "ClusterIP", "clusterIP": "10.96.0.7"}, "10.96.0.7"),
        ({"clusterIP": "None", "clusterIPs": ["None"]}, ""),
        ({"clusterIP": ""}, ""),
        ({}, ""),
        ({"clusterIP": "fd00::7", "clusterIPs": ["fd00::7", "10.96.0.8"]}, "10.96.0.8"),
        ({"clusterIP": "fd00::7"}, ""),
        ({"type": "ExternalName", "clusterIP": "10.96.0.7"}, ""),
    ],
)
def test_cluster_ip(spec: dict[str, Any], address: str) -> None:
    assert cluster_ip({"spec": spec}) == address


def test_a_pod_that_is_being_deleted_is_not_ready() -> None:
    item = pod("p", "10.0.0.1")
    assert is_ready(item)
    item["metadata"]["deletionTimestamp"] = "2026-11-30T00:00:00Z"
    assert not is_ready(item)
    assert not is_ready(pod("p", "10.0.0.1", phase="Pending"))
    assert not is_ready(pod("p", "10.0.0.1", ready=False))


def _backends(world: World) -> Backends:
    objects = world.kube.objects
    return Backends(
        workload="user-service",
        deployment=objects.get(("Deployment", "social-network", "user-service")),
        replica_sets=[body for key, body in objects.items() if key[0] == "ReplicaSet"],
        pods=[body for key, body in objects.items() if key[0] == "Pod"],
    )


def test_ownership_is_by_uid_and_not_by_name_or_label() -> None:
    world = World()
    foreign = pod("user-service-56f47b76b-zzz", "10.244.0.99", labels={"service": "user-service"})
    foreign["metadata"]["ownerReferences"] = [
        # The right names, of an owner that was replaced since.
        {"kind": "ReplicaSet", "name": "user-service-56f47b76b", "uid": "old", "controller": True}
    ]
    world.kube.put(foreign)
    backends = _backends(world)
    names = [item["metadata"]["name"] for item in backends.owned_ready()]
    assert foreign["metadata"]["name"] not in names
    assert len(names) == 3
    assert names == sorted(names)
    endpoint = EligibleEndpoint(address="10.244.0.99", slices=("a",))
    assert "not owned by Deployment/user-service" in routing_lacks([endpoint], backends)


def test_an_owner_that_is_no_controller_owns_nothing() -> None:
    world = World()
    for item in world.pods():
        item["metadata"]["ownerReferences"][0]["controller"] = False
        world.kube.put(item)
    assert _backends(world).owned() == []


def test_a_deployment_that_was_recreated_owns_no_old_pod() -> None:
    world = World()
    world.kube.change("Deployment", "social-network", "user-service", metadata__uid="new")
    assert _backends(world).owned() == []


def test_routing_says_what_is_wrong() -> None:
    world = World()
    backends = _backends(world)
    assert "no eligible endpoint" in routing_lacks([], backends)
    stray = EligibleEndpoint(address="10.244.9.9", slices=("a",))
    assert "10.244.9.9 is no pod" in routing_lacks([stray], backends)
    good = eligible_endpoints([slice_of("a", world.pods())])
    assert routing_lacks(good, backends) == ""
    text = routing_lacks([*good, stray], backends)
    assert text.startswith("1 of 4 eligible endpoints")


def test_an_ended_pods_address_belongs_to_nobody() -> None:
    world = World()
    name = world.pods()[0]["metadata"]["name"]
    world.kube.change("Pod", "social-network", name, status__phase="Failed")
    address = world.pods()[0]["status"]["podIP"]
    endpoint = EligibleEndpoint(address=address, slices=("a",))
    assert "is no pod" in routing_lacks([endpoint], _backends(world))


@pytest.mark.parametrize(
    ("replicas", "ready", "percent", "violated"),
    [
        (3, 3, 100, False),
        (4, 4, 100, False),
        (2, 2, 100, True),
        (3, 2, 100, True),
        (2, 2, 60, False),
    ],
)
def test_capacity(replicas: int, ready: int, percent: int, violated: bool) -> None:
    body = {
        "metadata": {"name": "a"},
        "spec": {"replicas": replicas},
        "status": {"readyReplicas": ready, "availableReplicas": ready},
    }
    lacks, numbers = capacity_lacks([body], {"a": 3}, percent)
    assert bool(lacks) is violated
    assert numbers["a"]["desired"] == replicas


def test_capacity_of_a_missing_deployment() -> None:
    lacks, _ = capacity_lacks([], {"a": 1, "b": 1}, 100)
    assert lacks == "2 Deployments below their floor; Deployment a does not exist"


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=6,
)


@given(
    conditions=st.none() | st.dictionaries(st.sampled_from(["ready", "terminating", "x"]), _JSON),
    addresses=st.none() | st.lists(st.text(max_size=15), max_size=3),
)
def test_any_conditions_are_read(conditions: Any, addresses: Any) -> None:
    found = eligible_endpoints([_slice({"addresses": addresses, "conditions": conditions})])
    assert {endpoint.address for endpoint in found} <= set(addresses or ())
