"""Each activation criterion on looks that hold, that do not, and that could not be read."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from world import NS, deployment, pod, replica_set, slice_of

from pytest_sremut.cluster.port import Absent, Failed, Listing, ObjectRef, Present
from pytest_sremut.engine.steps.activation import Seen, judge
from pytest_sremut.study.names import Criterion

TARGET = ObjectRef(kind="Service", namespace=NS, name="user-service")
FAILED = Failed(what="get", status=503, reason="ServiceUnavailable", message="away")
PORTS = [{"name": "9090", "protocol": "TCP", "port": 9090, "targetPort": 9090}]


def service(selector: dict[str, str] | None, ports: list[dict[str, Any]] = PORTS) -> dict[str, Any]:
    spec: dict[str, Any] = {"ports": ports}
    if selector is not None:
        spec["selector"] = selector
    return {"kind": "Service", "metadata": {"name": "user-service", "uid": "s1"}, "spec": spec}


def present(body: dict[str, Any]) -> Present:
    return Present(body=body, raw=b"")


def listing(*items: dict[str, Any]) -> Listing:
    return Listing(items=items, resource_version="1", raw=b"")


def backend(address: str = "10.244.0.5") -> dict[str, Any]:
    body = pod("user-service-1", address, workload="user-service")
    body["metadata"]["uid"] = "pod-1"
    return body


def endpoints(*addresses: str) -> dict[str, Any]:
    return {
        "kind": "Endpoints",
        "metadata": {"name": "user-service"},
        "subsets": [{"addresses": [{"ip": a} for a in addresses], "ports": [{"port": 9090}]}],
    }


WANTED = service({"service": "user-service"})
HEALTHY = Seen(
    target=TARGET,
    workload="user-service",
    body=WANTED,
    written=(endpoints("10.244.0.5"),),
    service=present(WANTED),
    endpoints=present(endpoints("10.244.0.5")),
    slices=listing(slice_of("ctl", [backend()])),
    pods=listing(backend()),
    replica_sets=listing(replica_set("user-service")),
    deployment=present(deployment("user-service", 1)),
)


def seen(**changes: Any) -> Seen:
    return dataclasses.replace(HEALTHY, **changes)


ABSENT = Absent(ref=TARGET)
NO_SELECTOR = present(service(None))
WRONG = present(service({"sremut": "x"}))

CASES: list[tuple[Criterion, dict[str, Any], bool]] = [
    (Criterion.SERVICE_ABSENT, {"service": ABSENT}, True),
    (Criterion.SERVICE_ABSENT, {}, False),
    (Criterion.SELECTOR_EXACT, {}, True),
    (Criterion.SELECTOR_EXACT, {"service": WRONG}, False),
    (Criterion.SELECTOR_EXACT, {"service": ABSENT}, False),
    (
        Criterion.SELECTOR_EXACT,  # one label more selects less
        {"service": present(service({"service": "user-service", "tier": "x"}))},
        False,
    ),
    (Criterion.SELECTOR_ABSENT, {"service": NO_SELECTOR}, True),
    (Criterion.SELECTOR_ABSENT, {"service": present(service({}))}, True),
    (Criterion.SELECTOR_ABSENT, {}, False),
    (Criterion.SELECTOR_ABSENT, {"service": ABSENT}, False),
    (Criterion.PORTS_EXACT, {}, True),
    (
        Criterion.PORTS_EXACT,
        {"service": present(service({}, [{**PORTS[0], "targetPort": 65535}]))},
        False,
    ),
    (
        Criterion.PORTS_EXACT,  # the text "9090" is not the number
        {"service": present(service({}, [{**PORTS[0], "targetPort": "9090"}]))},
        False,
    ),
    (Criterion.PORTS_EXACT, {"service": ABSENT}, False),
    (Criterion.NO_POD_MATCHES_SELECTOR, {"service": WRONG}, True),
    (Criterion.NO_POD_MATCHES_SELECTOR, {}, False),
    (Criterion.NO_POD_MATCHES_SELECTOR, {"service": NO_SELECTOR}, False),
    (Criterion.NO_ELIGIBLE_ENDPOINT, {"slices": listing()}, True),
    (Criterion.NO_ELIGIBLE_ENDPOINT, {}, False),
    (Criterion.ELIGIBLE_ENDPOINT_OWNED_BY_TARGET, {}, True),
    (Criterion.ELIGIBLE_ENDPOINT_OWNED_BY_TARGET, {"slices": listing()}, False),
    (
        Criterion.ELIGIBLE_ENDPOINT_OWNED_BY_TARGET,  # somebody else's pod
        {"replica_sets": listing()},
        False,
    ),
    (Criterion.ELIGIBLE_ENDPOINT_OWNED_BY_TARGET, {"deployment": ABSENT}, False),
    (Criterion.ENDPOINTS_PINNED, {}, True),
    (Criterion.ENDPOINTS_PINNED, {"endpoints": present(endpoints("10.244.0.9"))}, False),
    (Criterion.ENDPOINTS_PINNED, {"endpoints": ABSENT}, False),
    (Criterion.ENDPOINTS_PINNED, {"written": ()}, False),
]


@pytest.mark.parametrize(("criterion", "changes", "holds"), CASES)
def test_criterion(criterion: Criterion, changes: dict[str, Any], holds: bool) -> None:
    result = judge(criterion, seen(**changes))
    assert result.holds is holds, result.observed
    assert result.observed


def test_every_criterion_is_tested_both_ways() -> None:
    for criterion in Criterion:
        assert {holds for name, _, holds in CASES if name is criterion} == {True, False}


@pytest.mark.parametrize("criterion", list(Criterion))
def test_a_failed_read_makes_nothing_hold(criterion: Criterion) -> None:
    """Neither absence nor presence follows from an answer that never came."""
    result = judge(
        criterion,
        seen(service=FAILED, endpoints=FAILED, slices=FAILED, pods=FAILED, deployment=FAILED),
    )
    assert not result.holds
    assert "cannot be told" in result.observed
