"""From Services and EndpointSlices to what each Service port should do. Pure.

Rules kept here (those of kube-proxy):

* EndpointSlices alone count, all slices of a Service together; Endpoints are mirrored into slices
  by a controller. A slice's port belongs to the Service port of the same name and protocol, and
  carries the target port resolved;
* an endpoint is used while it is ready; if none is, those that still serve while they terminate
  are. ``publishNotReadyAddresses`` reaches here as slices whose endpoints are all ready;
* no endpoint: *reject*. Endpoints, but none on this node and ``internalTrafficPolicy: Local``:
  *drop*;
* what is not in the table (other addresses, other ports, other protocols) is dropped;
* an address that is not IPv4 or a port out of range, in a slice made by hand, is no endpoint;
* headless and ExternalName Services have no address and so no routes; IPv4 only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Any, Literal, Protocol

from pytest_sremut.embedded.meta.jsonvalue import JsonObject

__all__ = [
    "Action",
    "Backend",
    "Destination",
    "Driver",
    "Route",
    "RoutingTable",
    "Source",
    "cluster_ips",
    "desired",
    "is_ipv4",
    "service_of",
]

Action = Literal["forward", "reject", "drop"]

PORTS = range(1, 65536)
SERVICE_LABEL = "kubernetes.io/service-name"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Destination:
    """One port of one Service address; protocol as in the API (``TCP``)."""

    address: str
    port: int
    protocol: str = "TCP"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Backend:
    """One endpoint's address and target port."""

    address: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """What happens to connections to one `Destination`.

    ``backends`` is sorted, without doubles, and not empty exactly if ``action`` is ``forward``.
    ``sticky`` is session affinity by client address. ``service`` is ``namespace/name:port``. Of a
    ``reject`` that is ``limited`` a client hears as often as of a real node's (`limit`).
    """

    service: str
    action: Action
    backends: tuple[Backend, ...] = ()
    sticky: bool = False
    limited: bool = False


RoutingTable = Mapping[Destination, Route]


class Source(Protocol):
    """The part of the registry that routing and DNS read."""

    def list(self, resource: str, namespace: str = "") -> list[JsonObject]:
        """All objects of a resource; shared, not to be changed."""

    def subscribe(self, callback: Callable[[Any], None], *resources: str) -> Callable[[], None]:
        """Call back after each write to one of `resources`; returns how to end that."""


class Driver(Protocol):
    """Something that makes the kernel behave as a table says."""

    async def start(self) -> None:
        """Get ready, with an empty table."""

    async def apply(self, table: RoutingTable) -> None:
        """Make `table` true. Connections that are established stay."""

    async def stop(self) -> None:
        """Leave nothing behind."""

    def facts(self) -> JsonObject:
        """What a record should say about this driver."""


def is_ipv4(address: object) -> bool:
    """Whether this is the text of an IPv4 address: what goes into rules, packets and records."""
    try:
        return isinstance(address, str) and bool(IPv4Address(address))
    except ValueError:
        return False


def service_of(piece: JsonObject) -> tuple[str, str]:
    """Namespace and name of the Service to which an EndpointSlice belongs; name may be empty."""
    metadata = piece.get("metadata") or {}
    labels = metadata.get("labels") or {}
    return metadata.get("namespace") or "", labels.get(SERVICE_LABEL) or ""


def desired(
    services: Iterable[JsonObject], slices: Iterable[JsonObject], *, node: str
) -> dict[Destination, Route]:
    """The routing table for these objects as seen from `node`."""
    by_service: dict[tuple[str, str], list[JsonObject]] = {}
    for piece in slices:
        if piece.get("addressType") == "IPv4":
            by_service.setdefault(service_of(piece), []).append(piece)
    table: dict[Destination, Route] = {}
    for service in services:
        metadata = service["metadata"]
        name = metadata["name"]
        namespace = metadata.get("namespace") or ""
        own = by_service.get((namespace, name), [])
        for port in _ports(service):
            route = _route(f"{namespace}/{name}", service["spec"], port, own, node)
            for address in cluster_ips(service["spec"]):
                destination = Destination(
                    address=address, port=port["port"], protocol=port.get("protocol") or "TCP"
                )
                table.setdefault(destination, route)
    return table


def _ports(service: JsonObject) -> list[JsonObject]:
    spec = service.get("spec") or {}
    return [] if spec.get("type") == "ExternalName" else spec.get("ports") or []


def cluster_ips(spec: JsonObject) -> list[str]:
    """The IPv4 addresses of a Service's `spec`; empty where it is headless or an alias."""
    listed = spec.get("clusterIPs") or [spec.get("clusterIP")]
    return [address for address in listed if is_ipv4(address)]


def _route(
    service: str, spec: JsonObject, port: JsonObject, slices: list[JsonObject], node: str
) -> Route:
    name = port.get("name") or ""
    label = f"{service}:{name or port['port']}"
    protocol = port.get("protocol") or "TCP"
    endpoints: list[tuple[JsonObject, int]] = []
    for piece in slices:
        for number in _target_ports(piece, name, protocol):
            endpoints += ((endpoint, number) for endpoint in piece.get("endpoints") or ())
    everywhere = _usable(endpoints)
    if not everywhere:
        return Route(service=label, action="reject")
    chosen = everywhere
    if spec.get("internalTrafficPolicy") == "Local":
        here = [entry for entry in endpoints if entry[0].get("nodeName") == node]
        chosen = _usable(here)
        if not chosen:
            return Route(service=label, action="drop")
    return Route(
        service=label,
        action="forward",
        backends=tuple(sorted(chosen)),
        sticky=spec.get("sessionAffinity") == "ClientIP",
    )


def _target_ports(piece: JsonObject, name: str, protocol: str) -> list[int]:
    return [
        port["port"]
        for port in piece.get("ports") or ()
        if (port.get("name") or "") == name
        and (port.get("protocol") or "TCP") == protocol
        and port.get("port") in PORTS
    ]


def _usable(endpoints: list[tuple[JsonObject, int]]) -> set[Backend]:
    ready: set[Backend] = set()
    leaving: set[Backend] = set()
    for endpoint, port in endpoints:
        addresses = endpoint.get("addresses") or ()
        if not addresses:
            continue
        # Several addresses of one endpoint are the same thing; kube-proxy takes the first.
        if not is_ipv4(addresses[0]):
            continue
        backend = Backend(address=addresses[0], port=port)
        conditions = endpoint.get("conditions") or {}
        is_ready = conditions.get("ready") is not False
        serving = conditions.get("serving")
        if is_ready:
            ready.add(backend)
        elif conditions.get("terminating") and (is_ready if serving is None else serving):
            leaving.add(backend)
    return ready or leaving
