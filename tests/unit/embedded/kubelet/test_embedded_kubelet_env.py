"""Environment, arguments and the words for what is missing."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sremut.embedded.kubelet.environment import (
    ConfigError,
    arguments,
    environment,
    expand,
    field_value,
    service_variables,
)

Json = dict[str, Any]


class Objects:
    """A registry that is a dictionary."""

    def __init__(self, **kinds: dict[str, Json]) -> None:
        self.kinds = kinds

    def get(self, resource: str, namespace: str, name: str) -> Json | None:
        return self.kinds.get(resource, {}).get(f"{namespace}/{name}")

    def list(self, resource: str, namespace: str = "") -> list[Json]:
        prefix = f"{namespace}/"
        return [v for k, v in self.kinds.get(resource, {}).items() if k.startswith(prefix)]


def pod(container: Json, **spec: Any) -> Json:
    return {
        "metadata": {
            "name": "web-1",
            "namespace": "shop",
            "uid": "u",
            "labels": {"app": "web", "a/b": "c"},
        },
        "spec": {"nodeName": "node-1", "serviceAccountName": "default", **spec},
    } | {"container": container}


def env_of(container: Json, objects: Objects | None = None, **spec: Any) -> dict[str, str]:
    return environment(
        objects or Objects(),
        pod(container, **spec),
        container,
        pod_ip="10.244.0.2",
        host_ip="192.0.2.2",
    )


def test_a_bare_container_has_path_hostname_and_home() -> None:
    assert env_of({}) == {"PATH": "/.sremut/bin", "HOSTNAME": "web-1", "HOME": "/root"}
    assert env_of({}, hostname="db-0")["HOSTNAME"] == "db-0"


def test_fields_of_the_pod() -> None:
    fields = {
        "A": "status.podIP",
        "B": "metadata.name",
        "C": "metadata.namespace",
        "D": "spec.nodeName",
        "E": "metadata.labels['a/b']",
        "F": "status.hostIP",
        "G": "metadata.labels['none']",
        "H": "metadata.uid",
        "I": "spec.serviceAccountName",
        "J": "metadata.annotations['none']",
    }
    entries = [
        {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
        for name, path in fields.items()
    ]
    env = env_of({"env": entries})
    assert [env[name] for name in "ABCDEFGHIJ"] == [
        "10.244.0.2",
        "web-1",
        "shop",
        "node-1",
        "c",
        "192.0.2.2",
        "",
        "u",
        "default",
        "",
    ]
    with pytest.raises(ConfigError, match=r"unsupported fieldPath: spec\.secret"):
        field_value(pod({}), "spec.secret", pod_ip="", host_ip="")


def test_references_are_to_what_stands_before() -> None:
    container = {
        "env": [
            {"name": "A", "value": "1"},
            {"name": "B", "value": "$(A)/$(C)/$$(A)/$A"},
            {"name": "C", "value": "3"},
        ],
        "command": ["run", "$(C)"],
        "args": ["$(B)", "$(NONE)"],
    }
    env = env_of(container)
    assert env["B"] == "1/$(C)/$(A)/$A"
    assert arguments(container, env) == (["run", "3"], ["1/$(C)/$(A)/$A", "$(NONE)"])
    assert arguments({}, env) == ([], [])


@given(st.text())
def test_text_without_a_dollar_sign_is_left_alone(text: str) -> None:
    plain = text.replace("$", "")
    assert expand(plain, {"A": "x"}) == plain
    assert expand(plain.replace("$", "") + "$(A)", {"A": "x"}) == plain + "x"


def test_config_maps_and_secrets() -> None:
    secret = {"data": {"k": base64.b64encode(b"s3cret").decode()}}
    config = {"data": {"a": "1", "2bad key": "x"}, "binaryData": {"b": "Yg=="}}
    objects = Objects(configmaps={"shop/c": config}, secrets={"shop/s": secret})
    container = {
        "envFrom": [
            {"configMapRef": {"name": "c"}, "prefix": "P_"},
            {"secretRef": {"name": "s"}},
            {"secretRef": {"name": "none", "optional": True}},
        ],
        "env": [
            {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "a"}}},
            {"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
            {
                "name": "O",
                "valueFrom": {"secretKeyRef": {"name": "s", "key": "none", "optional": True}},
            },
            {"name": "R", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory"}}},
        ],
        "resources": {"limits": {"memory": "1Mi"}},
    }
    env = env_of(container, objects)
    assert {k: v for k, v in env.items() if k not in ("PATH", "HOSTNAME", "HOME")} == {
        "P_a": "1",
        "P_b": "b",
        "k": "s3cret",
        "A": "1",
        "S": "s3cret",
        "R": "1Mi",
    }


@pytest.mark.parametrize(
    ("container", "message"),
    [
        ({"envFrom": [{"configMapRef": {"name": "nope"}}]}, 'configmap "nope" not found'),
        (
            {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "nope", "key": "k"}}}]},
            'secret "nope" not found',
        ),
        (
            {
                "env": [
                    {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "nope"}}}
                ]
            },
            "couldn't find key nope in ConfigMap shop/c",
        ),
    ],
)
def test_what_is_missing_is_said_in_the_recorded_words(container: Json, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        env_of(container, Objects(configmaps={"shop/c": {}}))
    assert str(caught.value) == message


def service(name: str, address: str, *ports: Json) -> Json:
    return {"metadata": {"name": name}, "spec": {"clusterIP": address, "ports": list(ports)}}


def test_services_are_variables() -> None:
    api = service("kubernetes", "10.96.0.1", {"name": "https", "port": 443, "protocol": "TCP"})
    objects = Objects(
        services={
            "default/kubernetes": api,
            "shop/user-db": service(
                "user-db",
                "10.96.0.7",
                {"name": "a-b", "port": 1, "protocol": "TCP"},
                {"port": 2, "protocol": "UDP"},
            ),
            "shop/headless": service("headless", "None", {"port": 1}),
        }
    )
    env = service_variables(objects, "shop", links=True)
    assert env["KUBERNETES_SERVICE_HOST"] == "10.96.0.1"
    assert env["KUBERNETES_SERVICE_PORT"] == env["KUBERNETES_SERVICE_PORT_HTTPS"] == "443"
    assert env["USER_DB_SERVICE_HOST"] == "10.96.0.7"
    assert env["USER_DB_SERVICE_PORT_A_B"] == "1"
    assert env["USER_DB_PORT"] == env["USER_DB_PORT_1_TCP"] == "tcp://10.96.0.7:1"
    assert env["USER_DB_PORT_2_UDP_PROTO"] == "udp"
    assert not any(key.startswith("HEADLESS") for key in env)
    assert set(service_variables(objects, "shop", links=False)) == {
        key for key in env if key.startswith("KUBERNETES")
    }
