"""The manifests: complete, consistent, and printable for kubectl."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Any

import pytest
import yaml

from pytest_sremut.demo.manifests import main, manifests
from pytest_sremut.demo.roles import NAMES, ROLES


def of_kind(kind: str) -> dict[str, dict[str, Any]]:
    return {
        body["metadata"]["name"]: body
        for body in manifests("social-network")
        if body["kind"] == kind
    }


def test_27_deployments_and_as_many_services() -> None:
    assert sorted(of_kind("Deployment")) == sorted(of_kind("Service")) == sorted(NAMES)
    assert {body["kind"] for body in manifests("a")} == {"Deployment", "Service"}
    assert {body["metadata"]["namespace"] for body in manifests("a")} == {"a"}


@pytest.mark.parametrize("name", NAMES)
def test_service_selects_the_pods_of_its_deployment(name: str) -> None:
    service, deployment = of_kind("Service")[name], of_kind("Deployment")[name]
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"] == {"service": name}
    assert service["spec"]["selector"].items() <= labels.items()
    assert deployment["spec"]["selector"]["matchLabels"].items() <= labels.items()
    (port,) = service["spec"]["ports"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert port["protocol"] == "TCP"
    assert port["port"] == port["targetPort"] == ROLES[name].port
    assert container["ports"][0]["containerPort"] == ROLES[name].port
    assert container["readinessProbe"]["httpGet"] == {
        "path": "/healthz",
        "port": ROLES[name].port,
    }
    assert container["args"] == [f"--name={name}"]
    assert container["env"] == [
        {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    ]


def test_the_target_is_the_captured_service() -> None:
    spec = of_kind("Service")["user-service"]["spec"]
    assert spec["selector"] == {"service": "user-service"}
    assert [(p["port"], p["protocol"], p["targetPort"]) for p in spec["ports"]] == [
        (9090, "TCP", 9090)
    ]


def test_objects_are_not_shared() -> None:
    first, second = manifests("a"), manifests("a")
    first[0]["spec"]["selector"]["service"] = "other"
    assert second[0]["spec"]["selector"] != first[0]["spec"]["selector"]


def test_printed_for_kubectl(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["staging", "--image", "registry.example/demo:2"]) == 0
    printed = list(yaml.safe_load_all(capsys.readouterr().out))
    assert printed == manifests("staging", image="registry.example/demo:2")


@pytest.mark.parametrize("namespace", ["", "Not-A-Label", "a.b", "-a", "a" * 64])
def test_bad_namespace(namespace: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--", namespace]) == 2
    assert "allowed: a DNS label" in capsys.readouterr().err


def test_the_dockerfile_is_part_of_the_package() -> None:
    lines = (files("pytest_sremut.demo") / "Dockerfile").read_text().splitlines()
    (base,) = (line for line in lines if line.startswith("FROM "))
    assert re.fullmatch(r"FROM python:3\.\d+-slim-\w+@sha256:[0-9a-f]{64}", base)
    assert any(line.startswith("USER ") and "root" not in line for line in lines)
