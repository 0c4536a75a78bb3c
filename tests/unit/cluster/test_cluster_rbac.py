"""The rights of an audit: as a manifest, as a table, and as questions to the server."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from fake_kube import FakeKube
from http_script import HttpScript, http, ok, status
from kubeconfigs import write_kubeconfig

from pytest_sremut.cluster import rbac
from pytest_sremut.cluster.client import load
from pytest_sremut.cluster.port import Failed, Right
from pytest_sremut.errors import UsageError


def granted(namespace: str, account: str) -> str:
    """Everything that can be granted."""
    return rbac.manifest(namespace, account, observe=True, configmaps=True)


def everything(namespace: str) -> list[Right]:
    return [*rbac.required(namespace, configmaps=True), *rbac.observed(namespace)]


def test_the_manifest_creates_what_its_bindings_bind() -> None:
    documents = list(yaml.safe_load_all(granted("shop", "auditor")))
    made = {
        (item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"])
        for item in documents
    }
    assert len(made) == len(documents)
    assert ("ServiceAccount", "shop", "auditor") in made
    bindings = [item for item in documents if item["kind"].endswith("Binding")]
    assert len(bindings) == 5
    for item in bindings:
        reference, where = item["roleRef"], item["metadata"].get("namespace", "")
        assert (reference["kind"], where, reference["name"]) in made
        subjects = [{"kind": "ServiceAccount", "name": "auditor", "namespace": "shop"}]
        assert item["subjects"] == subjects


def test_every_write_lies_in_the_namespace() -> None:
    writes = {"create", "delete", "update", "patch", "deletecollection"}
    for right in everything("shop"):
        assert right.verb not in writes or right.namespace == "shop", right
        assert "*" not in (right.verb, right.group, right.resource)
        assert right.resource != "secrets"


def test_no_right_is_required_twice() -> None:
    rights = everything("shop")
    assert len(set(rights)) == len(rights)


@pytest.mark.parametrize(
    ("namespace", "account"), [("Shop", "a"), ("shop", "a\nkind: x"), ("", "a")]
)
def test_a_name_that_cannot_be_one(namespace: str, account: str) -> None:
    with pytest.raises(UsageError, match="allowed: up to 63 lower-case letters"):
        rbac.manifest(namespace, account)


@pytest.mark.parametrize(
    ("right", "told"),
    [
        (Right(verb="create", group="", resource="pods/exec", namespace="x"),
         "create pods/exec in namespace x"),
        (Right(verb="list", group="apps", resource="deployments", namespace="x"),
         "list deployments.apps in namespace x"),
        (Right(verb="get", group="", resource="namespaces", namespace="kube-system",
               name="kube-system"), "get namespaces kube-system"),
        (rbac.CREATE_NAMESPACE, "create namespaces at the cluster scope"),
    ],
)  # fmt: skip
def test_how_a_right_is_told(right: Right, told: str) -> None:
    assert str(right) == told


def test_exactly_what_is_missing_is_named() -> None:
    for right in rbac.required("shop"):
        kube = FakeKube()
        kube.forbidden.add(str(right))
        assert rbac.lacking(kube, "shop") == [str(right)]
    assert rbac.lacking(FakeKube(), "shop", create=True) == []
    kube = FakeKube()
    kube.forbidden.add("create namespaces at the cluster scope")
    assert rbac.lacking(kube, "shop") == []
    assert rbac.lacking(kube, "shop", create=True) == ["create namespaces at the cluster scope"]


def test_config_maps_are_written_only_where_the_application_has_any() -> None:
    def of_config_maps(rights: list[Right]) -> set[str]:
        return {right.verb for right in rights if right.resource == "configmaps"}

    assert of_config_maps(rbac.required("shop")) == {"list"}
    more = rbac.required("shop", configmaps=True)
    assert of_config_maps(more) == {"create", "delete", "get", "list", "watch"}
    assert set(rbac.required("shop")) < set(more)
    kube = FakeKube()
    kube.forbidden.add("delete configmaps in namespace shop")
    assert rbac.lacking(kube, "shop") == []
    assert rbac.lacking(kube, "shop", configmaps=True) == ["delete configmaps in namespace shop"]


def test_a_server_that_does_not_say_is_no_permission() -> None:
    kube = FakeKube()
    kube.break_next("review", status=403, reason="Forbidden")
    assert isinstance(rbac.lacking(kube, "shop"), Failed)


def test_how_the_server_is_asked(server: HttpScript, tmp_path: Path) -> None:
    client = load(write_kubeconfig(tmp_path, server.address), "test")
    right = Right(verb="get", group="", resource="pods/log", namespace="x")
    server.reply(ok({"status": {"allowed": True}}, 201), ok({"status": {"allowed": False}}, 201))
    assert client.allowed(right) is True
    assert client.allowed(right) is False
    request = server.requests[0]
    assert (request.method, request.path) == (
        "POST",
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    )
    assert request.json["spec"] == {
        "resourceAttributes": {
            "verb": "get",
            "resource": "pods",
            "subresource": "log",
            "namespace": "x",
        }
    }
    for answer in (
        status(403, "Forbidden"),
        ok({"status": {}}, 201),
        ok({"status": {"allowed": "true"}}, 201),
        ok({"status": []}, 201),
        http(201, b"[]"),
        http(200, b"\xff"),
    ):
        server.reply(answer)
        assert isinstance(client.allowed(right), Failed)
    client.close()
