from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonpointer import resolve_pointer

from pytest_sremut.errors import HarnessError, InputError
from pytest_sremut.study.model import Mutant, Study
from pytest_sremut.study.mutants import (
    POD_ADDRESSES,
    build_body,
    differing_paths,
    resolve_templates,
    strip_server_fields,
    template_workloads,
)

GOLDEN = Path(__file__).parents[4] / "shared" / "k8s-golden" / "operators-v1.36.2"

LIVE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {
        "name": "user-service",
        "namespace": "social-network",
        "labels": {"service": "user-service"},
        "annotations": {"team": "x"},
        "uid": "u",
        "resourceVersion": "1",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "generation": 1,
        "managedFields": [{}],
        "selfLink": "/x",
        "deletionTimestamp": "2026-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 0,
    },
    "spec": {
        "type": "ClusterIP",
        "clusterIP": "10.96.0.7",
        "clusterIPs": ["10.96.0.7"],
        "healthCheckNodePort": 30000,
        "selector": {"service": "user-service"},
        "ports": [
            {"name": "9090", "port": 9090, "protocol": "TCP", "targetPort": 9090, "nodePort": 31}
        ],
    },
    "status": {"loadBalancer": {}},
}


def mutant(**changes: Any) -> Mutant:
    fields: dict[str, Any] = {
        "id": "M",
        "slug": "m",
        "models": "",
        "absent": False,
        "patch": (),
        "creates": (),
        "activation": (),
        "differs": (),
    }
    return Mutant(**{**fields, **changes})


def test_server_managed_fields_go_and_everything_else_stays() -> None:
    before = copy.deepcopy(LIVE)
    assert strip_server_fields(LIVE) == {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "user-service",
            "namespace": "social-network",
            "labels": {"service": "user-service"},
            "annotations": {"team": "x"},
        },
        "spec": {
            "type": "ClusterIP",
            "selector": {"service": "user-service"},
            "ports": [{"name": "9090", "port": 9090, "protocol": "TCP", "targetPort": 9090}],
        },
    }
    assert before == LIVE
    assert strip_server_fields({}) == {}


def test_the_copy_is_deep() -> None:
    strip_server_fields(LIVE)["spec"]["selector"]["service"] = "changed"
    assert LIVE["spec"]["selector"] == {"service": "user-service"}


def test_a_pod_keeps_what_only_a_service_loses() -> None:
    pod = {"kind": "Pod", "spec": {"clusterIP": "x"}, "metadata": {"uid": "u", "name": "p"}}
    assert strip_server_fields(pod)["spec"] == {"clusterIP": "x"}


def test_the_shipped_mutants_differ_in_one_field_each(study: Study) -> None:
    bodies = {one.id: build_body(one, study.registry.captured) for one in study.mutants}
    captured = dict(study.registry.captured)
    assert bodies["MS-M01"] is None
    assert differing_paths(captured, bodies["MS-M02"]) == ("/spec/selector",)
    assert differing_paths(captured, bodies["MS-M03"]) == ("/spec/ports/0/targetPort",)


def test_a_mutant_of_the_live_object_differs_where_the_reference_does(study: Study) -> None:
    body = build_body(study.mutant("MS-M02"), LIVE)
    assert differing_paths(strip_server_fields(LIVE), body) == ("/spec/selector",)
    assert body is not None
    assert body["metadata"]["annotations"] == {"team": "x"}
    assert "uid" not in body["metadata"]


@pytest.mark.parametrize(
    ("operation", "told"),
    [
        ({"op": "replace", "path": "/spec/nope", "value": 1}, "replace /spec/nope"),
        ({"op": "remove", "path": "/spec/ports/7"}, "remove /spec/ports/7"),
        ({"op": "add", "path": "/spec/ports/x", "value": 1}, "add /spec/ports/x"),
        ({"op": "test", "path": "/spec/type", "value": "NodePort"}, "test /spec/type"),
        ({"op": "add", "path": "/kind/deeper/still", "value": 1}, "add /kind/deeper/still"),
        ({"op": "move", "from": "/nope", "path": "/spec/x"}, "move /spec/x"),
        ({"op": "copy", "from": "/spec", "path": "no-slash"}, "copy no-slash"),
        ({"op": "frobnicate", "path": "/spec"}, "frobnicate /spec"),
        ({"op": "replace", "path": "", "value": [1]}, "leaves no object"),
        ({"op": "remove", "path": ""}, "remove "),
    ],
)
def test_an_operation_that_does_not_apply_is_named(operation: dict[str, Any], told: str) -> None:
    fine = {"op": "remove", "path": "/spec/selector"}
    with pytest.raises(InputError) as caught:
        build_body(mutant(patch=(fine, operation)), LIVE)
    assert caught.value.place == "M: patch[1]"
    assert told in caught.value.found


@given(
    st.fixed_dictionaries(
        {
            "op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]),
            "path": st.text(alphabet="/specortslfmiata0123-~\0é", max_size=20),
            "from": st.text(alphabet="/spec0~", max_size=10),
            "value": st.none() | st.integers() | st.lists(st.integers(), max_size=2),
        }
    )
)
def test_whatever_the_operation_only_input_errors_come_out(operation: dict[str, Any]) -> None:
    try:
        body = build_body(mutant(patch=(operation,)), LIVE)
    except InputError:
        return
    assert isinstance(body, dict)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(alphabet="ab~/", max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(alphabet="ab~/", max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(json_values, json_values)
def test_differing_paths_are_pointers_and_empty_only_for_equals(one: Any, other: Any) -> None:
    found = differing_paths(one, other)
    assert bool(found) == (json.dumps(one, sort_keys=True) != json.dumps(other, sort_keys=True))
    for pointer in found:
        missing = object()
        seen = [resolve_pointer(value, pointer, missing) for value in (one, other)]
        assert (
            seen[0] is missing
            or seen[1] is missing
            or seen[0] != seen[1]
            or (json.dumps(seen[0]) != json.dumps(seen[1]))
        )


@pytest.mark.parametrize(
    ("one", "other", "paths"),
    [
        ({"a": 1}, {"a": 1}, ()),
        ({"a": 1, "b": 2}, {"a": 3, "b": 2}, ("/a",)),
        ({"a": 1, "b": 2}, {"a": 3, "b": 4}, ("/a", "/b")),
        ({"s": {"x": 1}}, {"s": {"y": 1}}, ("/s",)),
        ({"s": {"x": 1}}, {"s": {}}, ("/s",)),
        ({"s": {"x": 1}}, {"s": {"x": 1, "y": 2}}, ("/s/y",)),
        ({"s": 1}, {}, ("",)),
        ({"s": 1, "t": 1}, {"t": 1}, ("/s",)),
        ({"l": [1, 2]}, {"l": [1, 3]}, ("/l/1",)),
        ({"l": [1, 2]}, {"l": [1]}, ("/l",)),
        ({"a/b": 1, "c~d": 1}, {"a/b": 2, "c~d": 2}, ("/a~1b", "/c~0d")),
        ({"a": True}, {"a": 1}, ("/a",)),
        ({"a": 1}, {"a": 1.0}, ()),
        (1, {}, ("",)),
    ],
)
def test_where_two_values_differ(one: Any, other: Any, paths: tuple[str, ...]) -> None:
    assert differing_paths(one, other) == paths


def pod(name: str, ip: str, **status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "social-network", "uid": f"uid-{name}"},
        "status": {"podIP": ip, **status},
    }


TEMPLATE = {
    "kind": "Endpoints",
    "metadata": {"name": "user-service"},
    "subsets": [{"addresses": {POD_ADDRESSES: "Deployment/u"}, "ports": [{"port": 9090}]}],
}


def test_addresses_are_written_as_they_were_recorded() -> None:
    pods = [pod("b", "10.0.0.10"), pod("a", "10.0.0.9")]
    (resolved,) = resolve_templates((TEMPLATE,), {"Deployment/u": pods})
    assert template_workloads((TEMPLATE,)) == ("Deployment/u",)
    assert resolved["subsets"][0]["addresses"] == [
        {
            "ip": ip,
            "targetRef": {
                "kind": "Pod",
                "namespace": "social-network",
                "name": name,
                "uid": f"uid-{name}",
            },
        }
        for ip, name in (("10.0.0.9", "a"), ("10.0.0.10", "b"))
    ]
    assert TEMPLATE["subsets"] == [
        {"addresses": {POD_ADDRESSES: "Deployment/u"}, "ports": [{"port": 9090}]}
    ]


@pytest.mark.parametrize(
    "pods",
    [
        {},
        {"Deployment/u": []},
        {"Deployment/u": [pod("a", "")]},
        {"Deployment/u": [pod("a", "::1")]},
    ],
)
def test_nothing_to_pin_is_an_error_and_never_an_empty_list(pods: dict[str, Any]) -> None:
    with pytest.raises(HarnessError):
        resolve_templates((TEMPLATE,), pods)


@pytest.mark.skipif(not GOLDEN.is_dir(), reason="the recorded corpus is not here")
def test_the_pinned_endpoints_are_those_of_the_recorded_repair() -> None:
    recorded = json.loads((GOLDEN / "manual-ep-ref.json").read_text())
    wanted = recorded["state"]["endpoints"]["object"]["subsets"]
    pods = [
        {
            "metadata": {key: address["targetRef"][key] for key in ("name", "namespace", "uid")},
            "status": {"podIP": address["ip"]},
        }
        for address in wanted[0]["addresses"]
    ]
    template = {"subsets": [{"addresses": {POD_ADDRESSES: "D"}, "ports": wanted[0]["ports"]}]}
    (resolved,) = resolve_templates((template,), {"D": pods})
    by_ip = {address["ip"]: address for address in wanted[0]["addresses"]}
    assert {one["ip"]: one for one in resolved["subsets"][0]["addresses"]} == by_ip
    assert resolved["subsets"][0]["ports"] == wanted[0]["ports"]
