"""Which pods a Service reaches, and at which ports: what Endpoints and EndpointSlices share.

Rules kept here:

* a named target port is looked up in each pod for itself; a pod without it offers no such port;
* ``publishNotReadyAddresses`` is what makes a pod that is not ready, or going, count as ready;
* when something last changed is read from the pods' ``Ready`` conditions and the Service, as real
  controllers do for their ``last-change-trigger-time``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from pytest_sremut.embedded.controllers.index import ObjectIndex
from pytest_sremut.embedded.controllers.objects import (
    Key,
    condition,
    deleting,
    key_of,
    labels_of,
    pod_ready,
    pod_terminal,
)
from pytest_sremut.embedded.meta.jsonvalue import JsonObject, parse_time, timestamp
from pytest_sremut.embedded.registry.registry import Event

__all__ = [
    "HEADLESS_LABEL",
    "MANAGED_BY",
    "SERVICE_NAME",
    "TRIGGER_TIME",
    "PortList",
    "TriggerTimes",
    "is_headless",
    "pod_ports",
    "port_order",
    "publishes_not_ready",
    "selected_pods",
    "services_of",
    "shown_hostname",
    "target_reference",
]

HEADLESS_LABEL = "service.kubernetes.io/headless"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
SERVICE_NAME = "kubernetes.io/service-name"
TRIGGER_TIME = "endpoints.kubernetes.io/last-change-trigger-time"

PortList = tuple[tuple[str, int, str, str], ...]
"""Name, number, protocol and application protocol of each port."""


def is_headless(service: JsonObject) -> bool:
    """Whether the Service has no address of its own by choice."""
    return bool(service["spec"].get("clusterIP") == "None")


def publishes_not_ready(service: JsonObject) -> bool:
    """Whether pods that are not ready count as ready."""
    return bool(service["spec"].get("publishNotReadyAddresses"))


def selected_pods(service: JsonObject, pods: ObjectIndex) -> list[JsonObject]:
    """Pods of the Service's selector, by name."""
    selector = service["spec"].get("selector") or {}
    namespace = service["metadata"]["namespace"]
    found = [
        pod for pod in pods.in_namespace(namespace) if selector.items() <= labels_of(pod).items()
    ]
    return sorted(found, key=lambda pod: str(pod["metadata"]["name"]))


def services_of(event: Event, services: ObjectIndex) -> Iterator[Key]:
    """Services whose Endpoints a pod's event may change."""
    old, pod = event.old, event.object
    if event.type == "MODIFIED" and old is not None and _face(old) == _face(pod):
        return
    sides: list[Mapping[str, str]] = [labels_of(pod)]
    if old is not None and labels_of(old) != labels_of(pod):
        sides.append(labels_of(old))
    for service in services.in_namespace(pod["metadata"]["namespace"]):
        selector = service["spec"].get("selector")
        if selector and any(selector.items() <= labels.items() for labels in sides):
            yield key_of(service)


def _face(pod: JsonObject) -> tuple[object, ...]:
    """All that a Service shows of a pod."""
    spec, status, metadata = pod["spec"], pod.get("status") or {}, pod["metadata"]
    return (
        status.get("podIP"),
        spec.get("nodeName"),
        spec.get("hostname"),
        pod_ready(pod),
        pod_terminal(pod),
        deleting(pod),
        metadata.get("labels"),
    )


def pod_ports(service: JsonObject, pod: JsonObject) -> PortList:
    """The ports that `pod` offers to `service`; named ones that it has not are left out."""
    found = []
    for port in service["spec"].get("ports") or ():
        protocol = port.get("protocol", "TCP")
        number = _target(port, protocol, pod)
        if number is not None:
            found.append((port.get("name", ""), number, protocol, port.get("appProtocol", "")))
    return tuple(sorted(dict.fromkeys(found), key=port_order))


def _target(port: JsonObject, protocol: str, pod: JsonObject) -> int | None:
    target = port.get("targetPort", port.get("port"))
    if isinstance(target, int):
        return target or int(port["port"])
    spec = pod["spec"]
    sidecars = [
        item for item in spec.get("initContainers") or () if item.get("restartPolicy") == "Always"
    ]
    for container in (*(spec.get("containers") or ()), *sidecars):
        for offered in container.get("ports") or ():
            if offered.get("name") == target and offered.get("protocol", "TCP") == protocol:
                return int(offered["containerPort"])
    return None


def port_order(port: tuple[str, int, str, str]) -> str:
    """Sort key of ports: a hash of their Go form, which is the order Kubernetes shows them in."""
    name, number, protocol, application = port
    pointer = f"(*string){application}" if application else "(*string)<nil>"
    form = (
        f"(v1.EndpointPort){{Name:(string){name} Port:(int32){number} "
        f"Protocol:(v1.Protocol){protocol} AppProtocol:{pointer}}}"
    )
    return hashlib.md5(form.encode(), usedforsecurity=False).hexdigest()


def target_reference(pod: JsonObject) -> JsonObject:
    """A reference to `pod`, as addresses carry it."""
    metadata = pod["metadata"]
    return {
        "kind": "Pod",
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
    }


def shown_hostname(service: JsonObject, pod: JsonObject) -> str:
    """The host name under which DNS knows `pod` below `service`; empty if it does not."""
    spec = pod["spec"]
    if spec.get("subdomain") != service["metadata"]["name"]:
        return ""
    return str(spec.get("hostname", ""))


class TriggerTimes:
    """When the last change to a Service's pods or to the Service itself came about."""

    def __init__(self) -> None:
        self._seen: dict[Key, tuple[str, dict[str, datetime]]] = {}

    def compute(self, service: JsonObject, pods: Iterable[JsonObject]) -> str | None:
        """The earliest change not seen in an earlier call, as a timestamp; ``None`` without one."""
        key = key_of(service)
        uid = service["metadata"]["uid"]
        before_uid, before = self._seen.get(key, ("", {}))
        changes: list[datetime] = []
        if before_uid != uid:
            before = {}
            changes.append(parse_time(service["metadata"]["creationTimestamp"]))
        now: dict[str, datetime] = {}
        for pod in pods:
            ready = condition(pod, "Ready")
            if ready is None or not ready.get("lastTransitionTime"):
                continue
            name = pod["metadata"]["name"]
            moment = now[name] = parse_time(ready["lastTransitionTime"])
            if name not in before or moment > before[name]:
                changes.append(moment)
        self._seen[key] = (uid, now)
        return timestamp(min(changes)) if changes else None

    def forget(self, key: Key) -> None:
        """The Service is gone."""
        self._seen.pop(key, None)
