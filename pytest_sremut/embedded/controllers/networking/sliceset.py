"""The EndpointSlices of one Service: from what is wanted to the fewest writes.

Rules kept here:

* a slice is of one list of ports and holds at most 100 endpoints;
* slices are kept and changed rather than replaced: the one with the same ports first, then any
  other; what is left over is deleted;
* no endpoints at all is one empty slice, if the caller wants one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address

from pytest_sremut.embedded.controllers.networking.serviceports import TRIGGER_TIME, PortList
from pytest_sremut.embedded.controllers.objects import key_of, owner_reference
from pytest_sremut.embedded.meta.jsonvalue import JsonObject
from pytest_sremut.embedded.registry.registry import Registry

__all__ = ["SliceSet"]

MAX_ENDPOINTS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceSet:
    """What the slices of a Service should be.

    Attributes:
        owner: the object that owns them.
        name: of the Service.
        labels: of each slice.
        annotations: of each slice, but for the trigger time.
        groups: endpoints by the ports that they offer; an endpoint is as in the API.
        placeholder: whether there is an empty slice when there are no endpoints.
        trigger_time: when what is written came about; ``None`` if it is not known.
    """

    owner: JsonObject
    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    groups: Mapping[PortList, Sequence[JsonObject]]
    placeholder: bool
    trigger_time: str | None

    def apply(self, registry: Registry, present: Sequence[JsonObject]) -> None:
        """Write what differs; `present` are the slices there are.

        Raises:
            ApiStatus: a write is refused.
        """
        free = list(present)
        chunks = self._chunks()
        matched = [(chunk, _take(free, chunk[0])) for chunk in chunks]
        for (ports, endpoints), found in matched:
            item = found if found is not None else _take(free, None)
            if item is None:
                self._create(registry, ports, endpoints)
            else:
                self._update(registry, item, ports, endpoints)
        for item in free:
            uid = item["metadata"]["uid"]
            registry.delete("endpointslices.discovery.k8s.io", *key_of(item), uid=uid)

    def _chunks(self) -> list[tuple[PortList, list[JsonObject]]]:
        chunks = []
        for ports, endpoints in sorted(self.groups.items()):
            ordered = sorted(endpoints, key=_address_order)
            for start in range(0, len(ordered), MAX_ENDPOINTS):
                chunks.append((ports, ordered[start : start + MAX_ENDPOINTS]))
        if not chunks and self.placeholder:
            chunks.append(((), []))
        return chunks

    def _create(self, registry: Registry, ports: PortList, endpoints: Sequence[JsonObject]) -> None:
        namespace = self.owner["metadata"]["namespace"]
        annotations = dict(self.annotations)
        if self.trigger_time is not None:
            annotations[TRIGGER_TIME] = self.trigger_time
        metadata: JsonObject = {
            "generateName": f"{self.name}-",
            "namespace": namespace,
            "labels": dict(self.labels),
        }
        if annotations:
            metadata["annotations"] = annotations
        metadata["ownerReferences"] = [owner_reference(self.owner)]
        body = {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": metadata,
            "addressType": "IPv4",
            **_content(ports, endpoints),
        }
        registry.create("endpointslices.discovery.k8s.io", namespace, body)

    def _update(
        self,
        registry: Registry,
        item: JsonObject,
        ports: PortList,
        endpoints: Sequence[JsonObject],
    ) -> None:
        content = _content(ports, endpoints)
        same = all((item.get(field) or None) == value for field, value in content.items())
        if same and item["metadata"].get("labels") == self.labels:
            return

        def change(value: JsonObject) -> None:
            value.update(content)
            metadata = value["metadata"]
            metadata["labels"] = dict(self.labels)
            annotations = dict(self.annotations)
            if self.trigger_time is not None:
                annotations[TRIGGER_TIME] = self.trigger_time
            if annotations:
                metadata["annotations"] = annotations
            else:
                metadata.pop("annotations", None)

        registry.mutate("endpointslices.discovery.k8s.io", *key_of(item), change)


def _take(free: list[JsonObject], ports: PortList | None) -> JsonObject | None:
    """Take the first slice with those ports, or any slice, out of `free`."""
    for place, item in enumerate(free):
        if ports is None or _ports_of(item) == ports:
            return free.pop(place)
    return None


def _content(ports: PortList, endpoints: Sequence[JsonObject]) -> JsonObject:
    return {"endpoints": list(endpoints) or None, "ports": [_port(port) for port in ports] or None}


def _port(port: tuple[str, int, str, str]) -> JsonObject:
    name, number, protocol, application = port
    value: JsonObject = {"name": name, "protocol": protocol, "port": number}
    if application:
        value["appProtocol"] = application
    return value


def _ports_of(item: JsonObject) -> PortList:
    return tuple(
        (
            port.get("name") or "",
            port.get("port") or 0,
            port.get("protocol") or "TCP",
            port.get("appProtocol") or "",
        )
        for port in item.get("ports") or ()
    )


def _address_order(endpoint: JsonObject) -> tuple[int, str]:
    address = endpoint["addresses"][0]
    return int(ip_address(address)), (endpoint.get("targetRef") or {}).get("uid", "")
