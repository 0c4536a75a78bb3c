"""Defaults of pods and pod templates, and the quality of service class.

Rules kept here:

* templates get the defaults of a pod specification only; pods also what pod creation adds;
* a value of the wrong JSON type is left alone: decoding or validation names it.
"""

from __future__ import annotations

from typing import Any

from pytest_sremut.embedded.meta.jsonvalue import JsonObject

__all__ = ["default_container_claims", "default_pod", "default_pod_template", "qos_class"]

FILE_MODE = 420
PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
CONTAINER_LISTS = ("initContainers", "containers", "ephemeralContainers")


def default_pod(value: JsonObject) -> None:
    """Fill in the defaults of a Pod."""
    spec = value.get("spec")
    if not isinstance(spec, dict):
        return
    default_pod_spec(spec)
    spec.setdefault("enableServiceLinks", True)
    for key in ("initContainers", "containers"):
        for container in _objects(spec.get(key)):
            resources = container.get("resources")
            if not isinstance(resources, dict):
                continue
            limits = resources.get("limits")
            if isinstance(limits, dict) and limits:
                requests = resources.setdefault("requests", {})
                if isinstance(requests, dict):
                    for name, quantity in limits.items():
                        requests.setdefault(name, quantity)


def default_pod_template(spec: JsonObject) -> None:
    """Fill in the defaults of ``spec.template``."""
    template = spec.get("template")
    if not isinstance(template, dict):
        return
    template.setdefault("metadata", {})
    pod = template.get("spec")
    if isinstance(pod, dict):
        default_pod_spec(pod)


def default_pod_spec(spec: JsonObject) -> None:
    """Fill in the defaults of a pod specification."""
    for volume in _objects(spec.get("volumes")):
        _volume(volume)
    for key in CONTAINER_LISTS:
        for container in _objects(spec.get(key)):
            _container(container)
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = account
        spec["serviceAccount"] = account
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")


def default_container_claims(limit: JsonObject) -> None:
    """Defaults of one entry of a LimitRange: limits and requests follow from each other."""
    if limit.get("type") != "Container":
        return
    for source, target in (
        ("max", "default"),
        ("default", "defaultRequest"),
        ("min", "defaultRequest"),
    ):
        values = limit.get(source)
        if isinstance(values, dict) and values:
            into = limit.setdefault(target, {})
            if isinstance(into, dict):
                for name, quantity in values.items():
                    into.setdefault(name, quantity)


def qos_class(spec: JsonObject) -> str:
    """``Guaranteed``, ``Burstable`` or ``BestEffort`` by the claims of the containers."""
    requests: set[str] = set()
    limits: set[str] = set()
    guaranteed = True
    for key in ("initContainers", "containers"):
        for container in _objects(spec.get(key)):
            resources = container.get("resources")
            claims = resources if isinstance(resources, dict) else {}
            asked = _counted(claims.get("requests"))
            most = _counted(claims.get("limits"))
            requests |= asked.keys()
            limits |= most.keys()
            if most.keys() != {"cpu", "memory"} or any(
                asked.get(name, quantity) != quantity for name, quantity in most.items()
            ):
                guaranteed = False
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _counted(claims: Any) -> JsonObject:
    if not isinstance(claims, dict):
        return {}
    return {name: claims[name] for name in ("cpu", "memory") if claims.get(name) not in (None, "0")}


def _container(container: JsonObject) -> None:
    for port in _objects(container.get("ports")):
        port.setdefault("protocol", "TCP")
    for variable in _objects(container.get("env")):
        source = variable.get("valueFrom")
        reference = source.get("fieldRef") if isinstance(source, dict) else None
        if isinstance(reference, dict):
            reference.setdefault("apiVersion", "v1")
    container.setdefault("resources", {})
    for name in PROBES:
        probe = container.get(name)
        if isinstance(probe, dict):
            _probe(probe)
    lifecycle = container.get("lifecycle")
    if isinstance(lifecycle, dict):
        for handler in ("postStart", "preStop"):
            action = lifecycle.get(handler)
            if isinstance(action, dict):
                _http_get(action.get("httpGet"))
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = _pull_policy(container.get("image"))


def _pull_policy(image: Any) -> str:
    if not isinstance(image, str) or "@" in image:
        return "IfNotPresent"
    _, colon, tag = image.rpartition(":")
    tagged = colon and "/" not in tag
    return "IfNotPresent" if tagged and tag != "latest" else "Always"


def _probe(probe: JsonObject) -> None:
    probe.setdefault("timeoutSeconds", 1)
    probe.setdefault("periodSeconds", 10)
    probe.setdefault("successThreshold", 1)
    probe.setdefault("failureThreshold", 3)
    _http_get(probe.get("httpGet"))
    grpc = probe.get("grpc")
    if isinstance(grpc, dict):
        grpc.setdefault("service", "")


def _http_get(action: Any) -> None:
    if isinstance(action, dict):
        action.setdefault("path", "/")
        action.setdefault("scheme", "HTTP")


def _volume(volume: JsonObject) -> None:
    if set(volume) <= {"name"}:
        volume["emptyDir"] = {}
    for kind in ("secret", "configMap", "downwardAPI", "projected"):
        source = volume.get(kind)
        if isinstance(source, dict):
            source.setdefault("defaultMode", FILE_MODE)
            _field_references(source.get("items"))
    host_path = volume.get("hostPath")
    if isinstance(host_path, dict):
        host_path.setdefault("type", "")
    projected = volume.get("projected")
    if isinstance(projected, dict):
        for source in _objects(projected.get("sources")):
            token = source.get("serviceAccountToken")
            if isinstance(token, dict):
                token.setdefault("expirationSeconds", 3600)
            downward = source.get("downwardAPI")
            if isinstance(downward, dict):
                _field_references(downward.get("items"))


def _field_references(items: Any) -> None:
    for item in _objects(items):
        reference = item.get("fieldRef")
        if isinstance(reference, dict):
            reference.setdefault("apiVersion", "v1")


def _objects(value: Any) -> list[JsonObject]:
    if not isinstance(value, list):
        return []
    return [item for item in value if isinstance(item, dict)]
