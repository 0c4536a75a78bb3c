"""Endpoints: the addresses behind each Service with a selector.

Rules kept here:

* a pod that is being deleted leaves at once; one that is not ready stays, as not ready;
* a Service without a selector, and an ``ExternalName``, keep the Endpoints that they have;
* Endpoints that somebody deletes are made again; ones that somebody changes stay changed until the
  Service or its pods change, as recorded from real Kubernetes;
* Endpoints go with the Service of their name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pytest_sremut.embedded.controllers.base import Context, Controller
from pytest_sremut.embedded.controllers.networking.serviceports import (
    HEADLESS_LABEL,
    TRIGGER_TIME,
    TriggerTimes,
    is_headless,
    pod_ports,
    port_order,
    publishes_not_ready,
    selected_pods,
    services_of,
    shown_hostname,
    target_reference,
)
from pytest_sremut.embedded.controllers.objects import Key, deleting, pod_ready, pod_terminal
from pytest_sremut.embedded.controllers.workloads.podcontrol import namespace_going
from pytest_sremut.embedded.meta.errors import ApiStatus
from pytest_sremut.embedded.meta.jsonvalue import JsonObject, encode
from pytest_sremut.embedded.registry.registry import Event

__all__ = ["EndpointsController", "subsets_of"]

MANAGED_LABEL = "endpoints.kubernetes.io/managed-by"


class EndpointsController(Controller[Key]):
    """Keeps the Endpoints of each Service."""

    name = "endpoint-controller"
    watches = ("services", "pods", "endpoints")

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._trigger_times = TriggerTimes()

    def on_event(self, event: Event) -> None:
        """Services, what they show of pods, and Endpoints that somebody deletes."""
        if event.resource == "services":
            self.queue.add(event.key)
        elif event.resource == "pods":
            for key in services_of(event, self.context.services):
                self.queue.add(key)
        elif event.type == "DELETED" and not self.working:
            self.queue.add(event.key)

    def reconcile(self, key: Key) -> None:
        """See the module."""
        service = self.context.services.get(*key)
        present = self.registry.get("endpoints", *key)
        if service is None:
            self._trigger_times.forget(key)
            if present is not None:
                self.registry.delete("endpoints", *key, uid=present["metadata"]["uid"])
            return
        spec = service["spec"]
        if not spec.get("selector") or spec.get("type") == "ExternalName":
            return
        pods = selected_pods(service, self.context.pods)
        changed = self._trigger_times.compute(service, pods)
        subsets = subsets_of(service, pods)
        labels = dict(service["metadata"].get("labels") or {})
        labels[MANAGED_LABEL] = self.name
        labels.pop(HEADLESS_LABEL, None)
        if is_headless(service):
            labels[HEADLESS_LABEL] = ""
        if present is None:
            self._create(key, subsets, labels, changed)
        elif (present.get("subsets") or []) != subsets or present["metadata"].get(
            "labels"
        ) != labels:
            self.registry.mutate(
                "endpoints", *key, lambda value: _fill(value, subsets, labels, changed)
            )

    def _create(
        self, key: Key, subsets: list[JsonObject], labels: dict[str, str], changed: str | None
    ) -> None:
        body: JsonObject = {
            "apiVersion": "v1",
            "kind": "Endpoints",
            "metadata": {"name": key[1], "namespace": key[0]},
        }
        _fill(body, subsets, labels, changed)
        try:
            self.registry.create("endpoints", key[0], body)
        except ApiStatus as refused:
            if not namespace_going(refused):
                raise


def _fill(
    value: JsonObject, subsets: list[JsonObject], labels: dict[str, str], changed: str | None
) -> None:
    metadata = value["metadata"]
    metadata["labels"] = labels
    annotations = dict(metadata.get("annotations") or {})
    annotations.pop(TRIGGER_TIME, None)
    if changed is not None:
        annotations[TRIGGER_TIME] = changed
    if annotations:
        metadata["annotations"] = annotations
    else:
        metadata.pop("annotations", None)
    if subsets:
        value["subsets"] = subsets
    else:
        value.pop("subsets", None)


def subsets_of(service: JsonObject, pods: Iterable[JsonObject]) -> list[JsonObject]:
    """The subsets for `pods`: ports that the same addresses offer share a subset."""
    tolerant = publishes_not_ready(service)
    ready: dict[str, JsonObject] = {}
    waiting: dict[str, JsonObject] = {}
    by_port: dict[tuple[str, int, str, str] | None, set[str]] = {}
    for pod in pods:
        if not _belongs(pod, tolerant=tolerant):
            continue
        uid = pod["metadata"]["uid"]
        ports: Sequence[tuple[str, int, str, str] | None] = pod_ports(service, pod)
        if not service["spec"].get("ports") and is_headless(service):
            ports = (None,)
        side = ready if tolerant or pod_ready(pod) else waiting
        side[uid] = _address(service, pod)
        for port in ports:
            by_port.setdefault(port, set()).add(uid)
    subsets = []
    for together, members in _same_addresses(by_port).items():
        subset: dict[str, Any] = {}
        for field, side in (("addresses", ready), ("notReadyAddresses", waiting)):
            found = [side[uid] for uid in together if uid in side]
            if found:
                subset[field] = sorted(found, key=lambda x: (x["ip"], x["targetRef"]["uid"]))
        if members:
            subset["ports"] = [_port(port) for port in sorted(members, key=port_order)]
        subsets.append(subset)
    return sorted(subsets, key=lambda subset: encode(subset.get("ports")))


def _belongs(pod: JsonObject, *, tolerant: bool) -> bool:
    """Whether a pod is in the Endpoints at all, ready or not."""
    if not (pod.get("status") or {}).get("podIP") or pod_terminal(pod):
        return False
    return tolerant or not deleting(pod)


def _same_addresses(
    by_port: Mapping[tuple[str, int, str, str] | None, set[str]],
) -> dict[frozenset[str], list[tuple[str, int, str, str]]]:
    """The ports that the same pods offer, by those pods."""
    groups: dict[frozenset[str], list[tuple[str, int, str, str]]] = {}
    for port, uids in by_port.items():
        group = groups.setdefault(frozenset(uids), [])
        if port is not None:
            group.append(port)
    return groups


def _address(service: JsonObject, pod: JsonObject) -> JsonObject:
    address: JsonObject = {"ip": pod["status"]["podIP"]}
    hostname = shown_hostname(service, pod)
    if hostname:
        address["hostname"] = hostname
    if pod["spec"].get("nodeName"):
        address["nodeName"] = pod["spec"]["nodeName"]
    address["targetRef"] = target_reference(pod)
    return address


def _port(port: tuple[str, int, str, str]) -> JsonObject:
    name, number, protocol, application = port
    value: JsonObject = {"name": name} if name else {}
    value.update(port=number, protocol=protocol)
    if application:
        value["appProtocol"] = application
    return value
