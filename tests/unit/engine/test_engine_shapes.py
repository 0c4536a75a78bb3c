"""What passes as an object can be read by everybody who reads objects, whatever else it holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_sremut.cluster.port import Absent, Listing, ObjectRef, Present
from pytest_sremut.cluster.shapes import misfit
from pytest_sremut.cluster.waiting import deployment_lacks, deployments_ready, job_finished
from pytest_sremut.contract.observations import (
    Backends,
    capacity_lacks,
    cluster_ip,
    eligible_endpoints,
    is_ready,
    routing_lacks,
)
from pytest_sremut.engine.observe.fingerprint import fingerprint
from pytest_sremut.engine.observe.stability import pod_is_ready
from pytest_sremut.engine.observe.surroundings import surroundings
from pytest_sremut.engine.steps.activation import Seen, judge
from pytest_sremut.evidence.redaction import redact
from pytest_sremut.study.names import Criterion

KINDS = ("Pod", "Service", "Endpoints", "EndpointSlice", "Deployment", "ReplicaSet", "Job", "Node")

_KEYS = st.sampled_from(
    ["spec", "status", "conditions", "type", "phase", "podIP", "podIPs", "ip", "replicas",
     "selector", "matchLabels", "clusterIP", "clusterIPs", "ports", "port", "targetPort",
     "subsets", "addresses", "targetRef", "uid", "name", "kind", "endpoints", "ready",
     "terminating", "addressType", "observedGeneration", "readyReplicas", "containerStatuses",
     "taints", "nodeInfo", "template", "env", "containers"]
)  # fmt: skip
_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-2, 9)
    | st.sampled_from(["Ready", "True", "Running", "IPv4", "10.0.0.1", "Pod", "x", ""])
)
_ANYTHING = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=10,
)
_METADATA = st.fixed_dictionaries(
    {"name": st.just("user-service"), "uid": st.just("u")},
    optional={
        "namespace": st.just("ns"),
        "labels": _ANYTHING | st.dictionaries(st.text(max_size=2), st.text(max_size=2)),
        "annotations": _ANYTHING,
        "ownerReferences": _ANYTHING
        | st.lists(
            st.fixed_dictionaries(
                {"kind": st.just("ReplicaSet")},
                optional={"uid": _SCALARS, "controller": st.booleans()},
            ),
            max_size=2,
        ),
        "generation": _SCALARS,
        "deletionTimestamp": _SCALARS,
    },
)
_BODIES = st.fixed_dictionaries(
    {"metadata": _METADATA},
    optional={
        "spec": st.dictionaries(_KEYS, _ANYTHING, max_size=5) | _ANYTHING,
        "status": st.dictionaries(_KEYS, _ANYTHING, max_size=5) | _ANYTHING,
        "subsets": st.lists(st.dictionaries(_KEYS, _ANYTHING, max_size=3), max_size=2),
        "endpoints": st.lists(st.dictionaries(_KEYS, _ANYTHING, max_size=3), max_size=2),
        "addressType": st.just("IPv4"),
    },
)


class OneObject:
    """A cluster with that object alone, of every kind."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        self._body = body

    def get(self, ref: ObjectRef) -> Present | Absent:
        return Present(body=self._body, raw=b"")

    def list(self, kind: str, namespace: str, **_: str) -> Listing:
        return Listing(items=(self._body,), resource_version="1", raw=b"")


@settings(max_examples=150)
@given(st.sampled_from(KINDS), _BODIES)
def test_what_fits_can_be_read(kind: str, body: dict[str, Any]) -> None:
    if misfit(kind, body):
        return
    match kind:
        case "Pod":
            assert is_ready(body) == pod_is_ready(body)
        case "Service":
            cluster_ip(body)
        case "EndpointSlice":
            routing_lacks(eligible_endpoints([body]), _backends([body]))
        case "Deployment":
            deployment_lacks(body)
            deployments_ready({"user-service": 1})([body])
            capacity_lacks([body], {"user-service": 1}, 100)
        case "Job":
            job_finished("user-service")([body])
    _judged(kind, body)
    api: Any = OneObject(body)
    fingerprint(api, "ns", is_probe=lambda pod: False)
    if kind == "Node":
        surroundings(api, "ns")
    redact(kind, body)


def _backends(pods: list[dict[str, Any]]) -> Backends:
    return Backends(workload="user-service", deployment=None, replica_sets=[], pods=[])


def _judged(kind: str, body: dict[str, Any]) -> None:
    ref = ObjectRef(kind="Service", namespace="ns", name="user-service")
    absent = Absent(ref=ref)
    nothing = Listing(items=(), resource_version="1", raw=b"")
    present = Present(body=body, raw=b"")
    listing = Listing(items=(body,), resource_version="1", raw=b"")
    seen = Seen(
        target=ref,
        workload="user-service",
        body={"spec": {"selector": {"a": "b"}, "ports": [{"port": 1}]}},
        written=({"kind": "Endpoints", "subsets": [{"addresses": [{"ip": "10.0.0.1"}]}]},),
        service=present if kind == "Service" else absent,
        endpoints=present if kind == "Endpoints" else absent,
        slices=listing if kind == "EndpointSlice" else nothing,
        pods=listing if kind == "Pod" else nothing,
        replica_sets=listing if kind == "ReplicaSet" else nothing,
        deployment=present if kind == "Deployment" else absent,
    )
    for criterion in Criterion:
        assert isinstance(judge(criterion, seen).holds, bool)
