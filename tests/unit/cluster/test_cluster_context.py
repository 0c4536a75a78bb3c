"""Existing clusters by context."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fake_kube import FakeKube
from http_script import HttpScript, ok, status
from hypothesis import given
from hypothesis import strategies as st
from kubeconfigs import write_kubeconfig

from pytest_sremut.cluster.client import load
from pytest_sremut.cluster.context import ContextBackend, kubeconfig_path
from pytest_sremut.cluster.observing import NOT_OBSERVABLE, cluster_facts
from pytest_sremut.cluster.port import Cluster, ObjectRef
from pytest_sremut.cluster.resources import READ_ONLY
from pytest_sremut.errors import ClusterUnavailableError, UsageError


@pytest.fixture
def cluster(server: HttpScript, tmp_path: Path) -> Cluster:
    path = write_kubeconfig(tmp_path, server.address)
    return ContextBackend.open(context="test", allowed={"test"}, kubeconfig=path)


def _namespace(uid: str) -> bytes:
    return ok({"kind": "Namespace", "metadata": {"name": "kube-system", "uid": uid}})


def test_a_context_that_was_not_allowed_is_refused(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path)
    with pytest.raises(UsageError, match=r"'test' is not allowed \(allowed: none\)"):
        ContextBackend.open(context="test", allowed=(), kubeconfig=path)
    with pytest.raises(UsageError, match="--sremut-allow-context=test"):
        ContextBackend.open(context="test", allowed={"staging"}, kubeconfig=path)


def test_an_allowed_context_must_exist(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nope"):
        ContextBackend.open(context="nope", allowed={"nope"}, kubeconfig=write_kubeconfig(tmp_path))


def test_the_identity_is_read_each_time(cluster: Cluster, server: HttpScript) -> None:
    version = ok({"gitVersion": "v1.36.2"})
    server.reply(_namespace("u1"), version, _namespace("u2"), version, _namespace("u3"))
    assert cluster.identity().kube_system_uid == "u1"
    second = cluster.identity()
    assert (second.kube_system_uid, second.server_version) == ("u2", "v1.36.2")
    assert cluster.kube_system_uid() == "u3"
    assert second.server == server.address


@pytest.mark.parametrize(
    "answers",
    [
        [status(404, "NotFound", name="kube-system", kind="namespaces")],
        [status(403, "Forbidden")],
        [_namespace("u1"), status(500, "InternalError")],
        [_namespace(""), ok({"gitVersion": "v1"})],
        [_namespace("u1"), ok({})],
    ],
)
def test_no_identity_is_an_error(
    cluster: Cluster, server: HttpScript, answers: list[bytes]
) -> None:
    server.reply(*answers)
    with pytest.raises(ClusterUnavailableError):
        cluster.identity()


def _nodes(*ready: str) -> bytes:
    items = [
        {
            "metadata": {"name": f"n{number}", "uid": f"u{number}", "resourceVersion": "1"},
            "status": {"conditions": [{"type": "Ready", "status": value}]},
        }
        for number, value in enumerate(ready)
    ]
    return ok({"kind": "NodeList", "metadata": {"resourceVersion": "1"}, "items": items})


def test_fit_for_verdicts(cluster: Cluster, server: HttpScript) -> None:
    server.reply(_nodes("True", "True"), _nodes("True", "Unknown"), _nodes(), status(500, "x"))
    server.always(status(403, "Forbidden"))
    assert cluster.fit_for_verdicts(timeout=1) == []
    assert cluster.fit_for_verdicts(timeout=1) == ["node n1 is not Ready"]
    assert cluster.fit_for_verdicts(timeout=1) == ["the cluster has no node"]
    assert len(cluster.fit_for_verdicts(timeout=1)) == 1
    assert cluster.fit_for_verdicts(timeout=1) == []  # a Role cannot grant it


def _listed(kind: str, *items: dict[str, Any]) -> bytes:
    return ok({"kind": f"{kind}List", "metadata": {"resourceVersion": "1"}, "items": list(items)})


def _named(name: str, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": f"u-{name}", "resourceVersion": "1", **metadata}}


def _proxy(text: str) -> bytes:
    metadata = _named("kube-proxy", namespace="kube-system")["metadata"]
    return ok({"kind": "ConfigMap", "metadata": metadata, "data": {"config.conf": text}})


def test_facts_hold_no_address(cluster: Cluster, server: HttpScript) -> None:
    daemons = _listed("DaemonSet", _named("kube-proxy"), _named("kindnet"))
    server.reply(ok({"gitVersion": "v1.36.2"}), _nodes("True"), daemons, _proxy("mode: nftables"))
    facts = cluster.facts()
    assert (facts.kind, facts.name, facts.context) == ("context", "test", "test")
    assert facts.values == {
        "server_version": "v1.36.2",
        "nodes": 1,
        "cni": "kindnet",
        "proxy_mode": "nftables",
    }
    assert server.address not in repr(facts)
    assert cluster.facts() == facts  # read once
    assert len(server.requests) == 4
    cluster.close()


def test_what_may_not_be_read_is_not_observable(cluster: Cluster, server: HttpScript) -> None:
    server.always(status(403, "Forbidden"))
    assert set(cluster.facts().values.values()) == {NOT_OBSERVABLE}


@pytest.mark.parametrize(
    ("answer", "mode"),
    [
        (_proxy('mode: ""'), "iptables (the default)"),
        (_proxy("mode: ipvs"), "ipvs"),
        (_proxy("mode: 7"), NOT_OBSERVABLE),
        (_proxy("[mode"), NOT_OBSERVABLE),
        (_proxy("- mode"), NOT_OBSERVABLE),
        (_proxy("other: x"), NOT_OBSERVABLE),
        (status(404, "NotFound", name="kube-proxy", kind="configmaps"), "no kube-proxy"),
        (status(500, "InternalError"), NOT_OBSERVABLE),
    ],
)
def test_the_proxys_mode(cluster: Cluster, server: HttpScript, answer: bytes, mode: str) -> None:
    server.reply(ok({"gitVersion": "v1"}), _nodes("True"), _listed("DaemonSet"), answer)
    assert cluster.facts().values["proxy_mode"] == mode


@given(st.text(max_size=80) | st.sampled_from(["mode: 2020-99-99", "[" * 5000, "a: *x", "1: 2"]))
def test_whatever_stands_in_its_configuration(text: str) -> None:
    kube = FakeKube(
        {
            "kind": "ConfigMap",
            "metadata": {"name": "kube-proxy", "namespace": "kube-system"},
            "data": {"config.conf": text},
        }
    )
    assert isinstance(cluster_facts(kube)["proxy_mode"], str)


def test_nodes_tell_the_network_where_no_daemon_does(cluster: Cluster, server: HttpScript) -> None:
    marks = {"projectcalico.org/IPv4Address": "10.0.0.1", "example.org/x": ""}
    nodes = _listed("Node", _named("n", annotations=marks))
    server.reply(ok({"gitVersion": "v1"}), nodes, status(403, "Forbidden"), _proxy("mode: x"))
    assert cluster.facts().values["cni"] == "calico"


def test_kinds_of_the_cluster_are_never_written(tmp_path: Path) -> None:
    client = load(write_kubeconfig(tmp_path), "test")
    for kind in READ_ONLY:
        body = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "x"}}
        for write in (client.create, client.replace):
            with pytest.raises(ValueError, match=f"'{kind}' is not one of ConfigMap, "):
                write(body, namespace="x")
        with pytest.raises(ValueError, match="never written"):
            client.delete(ObjectRef(kind=kind, namespace="x", name="x"), uid="u")
    client.close()


def test_which_kubeconfig(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path)
    assert kubeconfig_path({"KUBECONFIG": str(path)}) == path
    assert kubeconfig_path({"KUBECONFIG": f"{path}:"}) == path
    with pytest.raises(UsageError, match="several files"):
        kubeconfig_path({"KUBECONFIG": f"{path}:{path}"})
    with pytest.raises(UsageError, match="no kubeconfig"):
        kubeconfig_path({"KUBECONFIG": str(tmp_path / "nope")})
