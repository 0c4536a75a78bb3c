from __future__ import annotations

from typing import Any

import api_kit
import pytest

from pytest_sremut.embedded.meta.managedfields import fields_of
from pytest_sremut.embedded.meta.schema import type_of

TARGET = "/api/v1/namespaces/default/services/web"


@pytest.fixture
def caller() -> api_kit.Caller:
    return api_kit.Caller()


def apply(
    caller: api_kit.Caller, manager: str, spec: Any, *, force: bool = False, **metadata: Any
) -> tuple[int, Any]:
    body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", **metadata}}
    if spec:
        body["spec"] = spec
    query = f"?fieldManager={manager}" + ("&force=true" if force else "")
    return caller.answer("PATCH", TARGET + query, body, content_type="application/apply-patch+yaml")


PORTS = {"ports": [{"port": 80, "name": "http", "targetPort": 8080}], "selector": {"a": "b"}}


def test_applying_creates_then_changes_nothing_then_changes(caller: api_kit.Caller) -> None:
    status, made = apply(caller, "one", PORTS)
    assert status == 201
    assert made["spec"]["clusterIP"]
    status, again = apply(caller, "one", PORTS)
    assert status == 200
    assert again["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    changed = {**PORTS, "selector": {"a": "c"}}
    status, third = apply(caller, "one", changed)
    assert status == 200
    assert third["spec"]["selector"] == {"a": "c"}
    assert third["spec"]["clusterIP"] == made["spec"]["clusterIP"]


def test_what_a_manager_stops_naming_goes(caller: api_kit.Caller) -> None:
    apply(caller, "one", PORTS, labels={"x": "1", "y": "2"})
    _, value = apply(caller, "one", PORTS, labels={"x": "1"})
    assert value["metadata"]["labels"] == {"x": "1"}
    two = {**PORTS, "ports": [*PORTS["ports"], {"port": 81, "name": "more"}]}
    _, value = apply(caller, "one", two)
    assert [port["port"] for port in value["spec"]["ports"]] == [80, 81]
    assert "labels" not in value["metadata"]
    _, value = apply(caller, "one", PORTS)
    assert [port["port"] for port in value["spec"]["ports"]] == [80]


def test_whole_items_are_taken_away_before_their_fields() -> None:
    """In whatever order a set gives them: without its key an item cannot be found any more."""
    from pytest_sremut.embedded.meta.apply import _removal_order

    item = ("f:spec", "f:ports", 'k:{"port":81,"protocol":"TCP"}')
    paths = [(*item, "f:name"), (*item, "f:port"), (*item, "."), ("f:spec", "f:selector")]
    for _ in range(3):
        paths.append(paths.pop(0))
        assert sorted(paths, key=_removal_order)[0] == (*item, ".")
        assert sorted(paths, key=_removal_order)[-1] == ("f:spec", "f:selector")


def test_what_another_manager_owns_stays(caller: api_kit.Caller) -> None:
    apply(caller, "one", PORTS, labels={"x": "1"})
    apply(caller, "two", {}, labels={"x": "1", "z": "3"})
    _, value = apply(caller, "one", PORTS)
    assert value["metadata"]["labels"] == {"x": "1", "z": "3"}


def test_conflicts_and_force(caller: api_kit.Caller) -> None:
    apply(caller, "one", PORTS, labels={"x": "1"})
    status, body = apply(caller, "two", {}, labels={"x": "2"})
    assert status == 409
    assert body["message"] == (
        'Apply failed with 1 conflict: conflict with "one": .metadata.labels.x'
    )
    assert body["details"]["causes"] == [
        {
            "reason": "FieldManagerConflict",
            "message": 'conflict with "one"',
            "field": ".metadata.labels.x",
        }
    ]
    status, value = apply(caller, "two", {}, force=True, labels={"x": "2"})
    assert (status, value["metadata"]["labels"]) == (200, {"x": "2"})
    status, _ = apply(caller, "one", PORTS, labels={"x": "1"})
    assert status == 409


def test_updates_own_what_they_change(caller: api_kit.Caller) -> None:
    apply(caller, "one", PORTS, labels={"x": "1"})
    caller.patch(TARGET, {"metadata": {"labels": {"x": "9"}}})
    status, body = apply(caller, "one", PORTS, labels={"x": "1"})
    assert status == 409
    assert 'conflict with "unknown" using v1' in body["message"]
    keyed = {**PORTS, "ports": [{"port": 80, "name": "http", "targetPort": 1}]}
    caller.patch(TARGET, {"spec": {"ports": [{"port": 80, "name": "http", "targetPort": 9}]}})
    status, body = apply(caller, "one", keyed)
    assert status == 409
    assert '.spec.ports[port=80,protocol="TCP"].targetPort' in body["message"]


@pytest.mark.parametrize(
    ("query", "body", "code", "part"),
    [
        ("", {}, 422, "fieldManager: Required value"),
        ("?fieldManager=x", {"kind": "Pod", "apiVersion": "v1"}, 400, "invalid object type"),
        ("?fieldManager=x", [], 400, "must be an object"),
        (
            "?fieldManager=x",
            {
                "kind": "Service",
                "apiVersion": "v1",
                "metadata": {"managedFields": [{"manager": "a"}]},
            },
            400,
            "managedFields must be nil",
        ),
        (
            "?fieldManager=x&fieldValidation=Strict",
            {"kind": "Service", "apiVersion": "v1", "spec": {"nope": 1}},
            400,
            "field not declared in schema",
        ),
        (
            "?fieldManager=x",
            {"kind": "Service", "apiVersion": "v1", "metadata": {"name": "other"}},
            400,
            "does not match the name on the URL",
        ),
    ],
)
def test_bad_applies(caller: api_kit.Caller, query: str, body: Any, code: int, part: str) -> None:
    media = {"content_type": "application/apply-patch+yaml"}
    status, answer = caller.answer("PATCH", TARGET + query, body, **media)
    assert status == code, answer
    assert part in answer["message"]


def test_nonsense_in_managed_fields_does_no_harm(caller: api_kit.Caller) -> None:
    apply(caller, "one", PORTS, labels={"x": "1"})
    nonsense = [
        {"manager": "m", "operation": "Update", "fieldsV1": {"k:nope": {}, "v:{": {}, "f:a": 1}},
        {"manager": "n", "fieldsV1": []},
    ]
    caller.patch(TARGET, {"metadata": {"managedFields": nonsense}})
    status, _ = apply(caller, "one", PORTS, labels={"x": "2"})
    assert status == 200


def test_field_sets_in_the_recorded_form() -> None:
    value = {
        "kind": "Service",
        "metadata": {"name": "web", "labels": {"a": "b"}, "finalizers": ["x/y"]},
        "spec": {
            "ports": [{"port": 80, "protocol": "TCP", "name": "http"}],
            "selector": {"a": "b"},
        },
        "status": {"loadBalancer": {}},
    }
    assert fields_of(type_of("v1", "Service"), value) == {
        "f:metadata": {
            "f:labels": {".": {}, "f:a": {}},
            "f:finalizers": {".": {}, 'v:"x/y"': {}},
        },
        "f:spec": {
            "f:ports": {
                ".": {},
                'k:{"port":80,"protocol":"TCP"}': {
                    ".": {}, "f:port": {}, "f:protocol": {}, "f:name": {},
                },
            },
            "f:selector": {},
        },
    }  # fmt: skip
