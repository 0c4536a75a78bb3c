from __future__ import annotations

from typing import Any

import api_kit
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sremut.embedded.meta.errors import ApiStatus
from pytest_sremut.embedded.meta.jsonvalue import clone
from pytest_sremut.embedded.meta.resources import RESOURCES
from pytest_sremut.embedded.registry import defaults
from pytest_sremut.embedded.registry.registry import Registry

LABELS = {"app": "web"}


@pytest.fixture
def registry() -> Registry:
    return api_kit.make_registry()


def causes(registry: Registry, key: str, body: Any) -> dict[str, str]:
    """What is wrong with a new object, by field."""
    with pytest.raises(ApiStatus) as caught:
        registry.create(key, "default" if RESOURCES[key].namespaced else "", body)
    assert caught.value.code == 422, caught.value.message
    assert caught.value.details is not None
    return {item["field"]: item["message"] for item in caught.value.details["causes"]}


def container(**fields: Any) -> Any:
    return api_kit.pod(containers=[{"name": "c", "image": "i", **fields}])


def job(**spec: Any) -> Any:
    pod = {**api_kit.pod()["spec"], "restartPolicy": "Never"}
    return {"metadata": {"name": "j"}, "spec": {"template": {"spec": pod}, **spec}}


TWO_PORTS = [{"port": 80, "name": "a"}, {"port": 80, "name": "b"}]


@pytest.mark.parametrize(
    ("key", "body", "field", "part"),
    [
        ("pods", api_kit.pod("Bad"), "metadata.name", "RFC 1123 subdomain"),
        ("pods", api_kit.pod("a" * 254), "metadata.name", "no more than 253"),
        ("services", api_kit.service("a.b"), "metadata.name", "RFC 1123 label"),
        ("namespaces", {"metadata": {"name": "a.b"}}, "metadata.name", "RFC 1123 label"),
        ("pods", container(image=""), "spec.containers[0].image", "Required value"),
        ("pods", container(name="A"), "spec.containers[0].name", "RFC 1123 label"),
        ("pods", container(image=" x"), "spec.containers[0].image", "whitespace"),
        ("pods", container(ports=[{}]), "spec.containers[0].ports[0].containerPort", "Required"),
        (
            "pods", container(ports=[{"containerPort": 70000}]),
            "spec.containers[0].ports[0].containerPort", "between 1 and 65535",
        ),
        (
            "pods", container(ports=[{"containerPort": 1, "name": "--"}]),
            "spec.containers[0].ports[0].name", "hyphen",
        ),
        (
            "pods", container(volumeMounts=[{"name": "v", "mountPath": "/x"}]),
            "spec.containers[0].volumeMounts[0].name", 'Not found: "v"',
        ),
        ("pods", container(env=[{"name": "a=b"}]), "spec.containers[0].env[0].name", "valid env"),
        (
            "pods", container(readinessProbe={}), "spec.containers[0].readinessProbe",
            "must specify a handler type",
        ),
        (
            "pods", container(livenessProbe={"tcpSocket": {"port": 0}}),
            "spec.containers[0].livenessProbe.tcpSocket.port", "between 1 and 65535",
        ),
        (
            "pods", container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
            "spec.containers[0].resources.requests", "less than or equal to cpu limit of 1",
        ),
        (
            "pods", container(resources={"limits": {"cpu": "-1"}}),
            "spec.containers[0].resources.limits[cpu]", "greater than or equal to 0",
        ),
        ("pods", container(imagePullPolicy="Often"), "spec.containers[0].imagePullPolicy", "Often"),
        ("pods", api_kit.pod(restartPolicy="Often"), "spec.restartPolicy", "supported values"),
        ("pods", api_kit.pod(activeDeadlineSeconds=0), "spec.activeDeadlineSeconds", "between 1"),
        (
            "pods", api_kit.pod(volumes=[{"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}]),
            "spec.volumes[0].hostPath", "more than 1 volume type",
        ),
        ("services", api_kit.service(ports=[]), "spec.ports", "Required value"),
        ("services", api_kit.service(ports=TWO_PORTS), "spec.ports[1]", "Duplicate value"),
        (
            "services", api_kit.service(ports=[{"port": 80, "protocol": "X"}]),
            "spec.ports[0].protocol", 'supported values: "SCTP", "TCP", "UDP"',
        ),
        (
            "services", api_kit.service(ports=[{"port": 80, "nodePort": 30000}]),
            "spec.ports[0].nodePort", "may not be used when `type` is 'ClusterIP'",
        ),
        (
            "services", api_kit.service(ports=[{"port": 80, "targetPort": "a_b"}]),
            "spec.ports[0].targetPort", "alpha-numeric",
        ),
        ("services", api_kit.service(clusterIP="x"), "spec.clusterIPs[0]", "valid IP address"),
        ("services", api_kit.service(type="Odd"), "spec.type", "supported values"),
        ("services", api_kit.service(type="ExternalName"), "spec.externalName", "Required value"),
        (
            "services", api_kit.service(type="NodePort", clusterIP="None"),
            "spec.clusterIPs[0]", "may not be set to 'None'",
        ),
        ("services", api_kit.service(selector={"a": "b c"}), "spec.selector", "valid label"),
        (
            "endpoints", {"metadata": {"name": "e"}, "subsets": [{"ports": [{"port": 1}]}]},
            "subsets[0]", "must specify `addresses` or `notReadyAddresses`",
        ),
        *(
            (
                "endpoints",
                {"metadata": {"name": "e"}, "subsets": [{"addresses": [{"ip": ip}]}]},
                "subsets[0].addresses[0].ip", part,
            )
            for ip, part in (
                ("127.0.0.1", "loopback"), ("0.0.0.0", "unspecified"),
                ("169.254.1.1", "link-local"), ("224.0.0.1", "multicast"),
                ("x", "valid IP address"),
            )
        ),
        (
            "endpointslices.discovery.k8s.io",
            {"metadata": {"name": "e"}, "addressType": "IPv4", "endpoints": [{"addresses": []}]},
            "endpoints[0].addresses", "at least 1",
        ),
        (
            "endpointslices.discovery.k8s.io", {"metadata": {"name": "e"}, "endpoints": []},
            "addressType", "Required value",
        ),
        ("configmaps", {"metadata": {"name": "c"}, "data": {"a/b": ""}}, "data[a/b]", "config key"),
        (
            "deployments.apps", api_kit.deployment(selector=None),
            "spec.selector", "Required value",
        ),
        ("deployments.apps", api_kit.deployment(selector={}), "spec.selector", "empty selector"),
        (
            "deployments.apps",
            api_kit.deployment(strategy={"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}),
            "spec.strategy.rollingUpdate", "Recreate",
        ),
        (
            "deployments.apps",
            api_kit.deployment(strategy={"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}}),
            "spec.strategy.rollingUpdate.maxUnavailable", "may not be 0 when `maxSurge` is 0",
        ),
        (
            "deployments.apps",
            api_kit.deployment(strategy={"rollingUpdate": {"maxSurge": "many"}}),
            "spec.strategy.rollingUpdate.maxSurge", "valid percent string",
        ),
        (
            "deployments.apps", api_kit.deployment(progressDeadlineSeconds=5, minReadySeconds=5),
            "spec.progressDeadlineSeconds", "greater than minReadySeconds",
        ),
        ("jobs.batch", job(parallelism=-1), "spec.parallelism", "greater than or equal to 0"),
        (
            "jobs.batch",
            {"metadata": {"name": "j"}, "spec": {"template": {"spec": api_kit.pod()["spec"]}}},
            "spec.template.spec.restartPolicy", 'supported values: "Never", "OnFailure"',
        ),
        (
            "persistentvolumeclaims", {"metadata": {"name": "p"}, "spec": {}},
            "spec.accessModes", "at least 1",
        ),
        (
            "poddisruptionbudgets.policy",
            {"metadata": {"name": "p"}, "spec": {"minAvailable": 1, "maxUnavailable": 1}},
            "spec", "cannot be both set",
        ),
        (
            "configmaps", {"metadata": {"name": "c", "labels": {"a b": "c"}}},
            "metadata.labels", "name part must consist",
        ),
        (
            "configmaps", {"metadata": {"name": "c", "annotations": {"/": "c"}}},
            "metadata.annotations", "name part must consist",
        ),
        (
            "configmaps", {"metadata": {"name": "c", "ownerReferences": [{"kind": "Pod"}]}},
            "metadata.ownerReferences[0].uid", "must not be empty",
        ),
        (
            "roles.rbac.authorization.k8s.io", {"metadata": {"name": "a/b"}},
            "metadata.name", "may not contain '/'",
        ),
    ],
)  # fmt: skip
def test_broken_rules(registry: Registry, key: str, body: Any, field: str, part: str) -> None:
    found = causes(registry, key, body)
    assert part in found.get(field, ""), found


def test_every_broken_rule_is_listed(registry: Registry) -> None:
    body = api_kit.service(ports=[{"port": 0, "targetPort": 1, "protocol": "X"}], type="Odd")
    found = causes(registry, "services", body)
    assert list(found) == ["spec.ports[0].port", "spec.ports[0].protocol", "spec.type"]


@pytest.mark.parametrize(
    ("key", "body", "change", "field"),
    [
        (
            "deployments.apps", api_kit.deployment(),
            {"spec": {"selector": {"matchLabels": {"app": "x"}}}}, "spec.selector",
        ),
        ("services", api_kit.service(), {"spec": {"clusterIP": "10.96.9.9"}}, "spec.clusterIPs[0]"),
        ("pods", api_kit.pod(), {"spec": {"hostname": "x"}}, "spec"),
        ("jobs.batch", job(), {"spec": {"completions": 5}}, "spec.completions"),
        ("secrets", {"metadata": {"name": "s"}}, {"type": "other"}, "type"),
        (
            "configmaps", {"metadata": {"name": "c"}, "immutable": True}, {"data": {"a": "b"}},
            "data",
        ),
    ],
)  # fmt: skip
def test_what_may_not_change(
    registry: Registry, key: str, body: Any, change: Any, field: str
) -> None:
    created = registry.create(key, "default", body)
    value = clone(created)
    for part, item in change.items():
        value[part] = {**value.get(part, {}), **item} if isinstance(item, dict) else item
    with pytest.raises(ApiStatus) as caught:
        registry.update(key, value, external=True)
    assert caught.value.details is not None
    assert field in [item["field"] for item in caught.value.details["causes"]]


def test_what_of_a_pod_may_change(registry: Registry) -> None:
    value = clone(registry.create("pods", "default", api_kit.pod()))
    value["spec"]["containers"][0]["image"] = "busybox:2"
    value["spec"]["activeDeadlineSeconds"] = 5
    value["spec"]["tolerations"].append({"key": "x", "operator": "Exists"})
    value["metadata"]["labels"] = {"a": "b"}
    assert registry.update("pods", value, external=True)["metadata"]["generation"] == 2


# Defaults


def test_defaults_applied_twice_change_nothing(registry: Registry) -> None:
    bodies = {
        "pods": api_kit.pod(volumes=[{"name": "v"}, {"name": "s", "secret": {"secretName": "s"}}]),
        "deployments.apps": api_kit.deployment(),
        "services": api_kit.service(type="LoadBalancer", sessionAffinity="ClientIP"),
        "jobs.batch": job(),
    }
    for key, body in bodies.items():
        value = registry.create(key, "default", body)
        again = clone(value)
        defaults.apply(RESOURCES[key], again)
        assert again == value


def test_pull_policies(registry: Registry) -> None:
    for number, (image, policy) in enumerate(
        (
            ("busybox", "Always"), ("busybox:latest", "Always"), ("busybox:1", "IfNotPresent"),
            ("host:5000/x", "Always"), ("host:5000/x:1", "IfNotPresent"),
            ("x@sha256:" + "0" * 64, "IfNotPresent"),
        )
    ):  # fmt: skip
        body = container(image=image)
        body["metadata"]["name"] = f"p{number}"
        spec = registry.create("pods", "default", body)["spec"]
        assert spec["containers"][0]["imagePullPolicy"] == policy, image


def test_quality_of_service(registry: Registry) -> None:
    both = {"cpu": "1", "memory": "1Gi"}
    for number, (resources, quality) in enumerate(
        (
            ({}, "BestEffort"), ({"requests": {"cpu": "1"}}, "Burstable"),
            ({"limits": both}, "Guaranteed"), ({"limits": both, "requests": both}, "Guaranteed"),
            ({"limits": both, "requests": {"cpu": "500m"}}, "Burstable"),
        )
    ):  # fmt: skip
        body = container(resources=resources)
        body["metadata"]["name"] = f"p{number}"
        assert registry.create("pods", "default", body)["status"]["qosClass"] == quality


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2)
    | st.dictionaries(
        st.sampled_from(["spec", "template", "containers", "ports", "strategy", "volumes", "env",
                         "rollingUpdate", "type", "metadata", "resources", "endpoints", "subsets"]),
        inner, max_size=3,
    ),
    max_leaves=8,
)  # fmt: skip


@given(st.dictionaries(st.sampled_from(["spec", "subsets", "endpoints", "ports", "data"]), values))
def test_defaults_leave_odd_values_alone(value: Any) -> None:
    for table in RESOURCES.values():
        body = {**clone(value), "metadata": {"name": "x", "uid": "u"}}
        defaults.prepare_create(table, body)
        defaults.apply(table, body)
