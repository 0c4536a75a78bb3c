"""Cluster IPs and node ports of Services.

Rules kept here:

* addresses in use are read from the Services themselves, so nothing can leak;
* addresses move on with each allocation and are used again only after the whole range: a Service
  made anew never gets the address of the one deleted before it, as good as always true of the real
  (random) allocator, and what clients of the old address see depends on it;
* the low end of each range is left to addresses that are asked for by name.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network

from pytest_sremut.embedded.meta.errors import Cause, internal, invalid
from pytest_sremut.embedded.meta.jsonvalue import JsonObject

__all__ = ["ServiceAddresses", "has_cluster_ip"]

NODE_PORTS = range(30000, 32768)
STATIC_NODE_PORTS = 86
STATIC_ADDRESSES = 256


def has_cluster_ip(service: JsonObject) -> bool:
    """Whether the Service is reached through an address of its own."""
    address = (service.get("spec") or {}).get("clusterIP")
    return bool(address) and address != "None"


class ServiceAddresses:
    """Hands out cluster IPs of `network` and node ports."""

    def __init__(self, network: IPv4Network) -> None:
        self._network = network
        first = min(STATIC_ADDRESSES, network.num_addresses // 2)
        self._next_address = first
        self._first_address = first
        self._next_port = NODE_PORTS.start + STATIC_NODE_PORTS

    def assign(
        self, service: JsonObject, old: JsonObject | None, services: Iterable[JsonObject]
    ) -> None:
        """Give `service` the addresses and node ports that its type needs, in place.

        Raises:
            ApiStatus: an address asked for is taken or outside the range, or the range is used up.
        """
        others = [item for item in services if not _same(item, service)]
        self._assign_address(service, old, others)
        self._assign_node_ports(service, others)

    def _assign_address(
        self, service: JsonObject, old: JsonObject | None, others: list[JsonObject]
    ) -> None:
        spec = service["spec"]
        if spec.get("type") == "ExternalName":
            return
        for index, family in enumerate(spec.get("ipFamilies") or ()):
            if family != "IPv4":
                message = f'Invalid value: "{family}": not configured on this cluster'
                cause = Cause(field=f"spec.ipFamilies[{index}]", message=message)
                raise invalid("Service", service["metadata"]["name"], [cause])
        wanted = spec.get("clusterIP") or ""
        if wanted == "None":
            spec["clusterIPs"] = ["None"]
        else:
            used = {item["spec"].get("clusterIP") for item in others}
            previous = (old or {}).get("spec", {}).get("clusterIP")
            if not wanted:
                wanted = self._free_address(used)
            elif wanted != previous:
                self._check(service, wanted, used)
            spec["clusterIP"] = wanted
            spec["clusterIPs"] = [wanted]
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")

    def _check(self, service: JsonObject, wanted: str, used: set[str | None]) -> None:
        why = ""
        if IPv4Address(wanted) not in self._network:
            why = "the provided network does not match the current range"
        elif wanted in used:
            why = "provided IP is already allocated"
        if why:
            message = f'Invalid value: ["{wanted}"]: failed to allocate IP {wanted}: {why}'
            cause = Cause(field="spec.clusterIPs", message=message)
            raise invalid("Service", service["metadata"]["name"], [cause])

    def _free_address(self, used: set[str | None]) -> str:
        size = self._network.num_addresses
        for _ in range(size):
            offset = self._next_address
            self._next_address = offset + 1 if offset + 2 < size else self._first_address
            address = str(self._network[offset])
            if not address.endswith((".0", ".255")) and address not in used:
                return address
        raise internal("failed to allocate a serviceIP: range is full")

    def _assign_node_ports(self, service: JsonObject, others: list[JsonObject]) -> None:
        spec = service["spec"]
        if spec.get("type") not in ("NodePort", "LoadBalancer"):
            return
        used = {port.get("nodePort") for item in others for port in item["spec"].get("ports") or ()}
        for index, port in enumerate(spec.get("ports") or ()):
            wanted = port.get("nodePort")
            if not wanted:
                port["nodePort"] = self._free_port(used)
            elif wanted in used:
                cause = Cause(
                    field=f"spec.ports[{index}].nodePort",
                    message=f"Invalid value: {wanted}: provided port is already allocated",
                )
                raise invalid("Service", service["metadata"]["name"], [cause])
            elif wanted not in NODE_PORTS:
                cause = Cause(
                    field=f"spec.ports[{index}].nodePort",
                    message=f"Invalid value: {wanted}: provided port is not in the valid range. "
                    f"The range of valid ports is {NODE_PORTS.start}-{NODE_PORTS.stop - 1}",
                )
                raise invalid("Service", service["metadata"]["name"], [cause])
            used.add(port["nodePort"])

    def _free_port(self, used: set[int | None]) -> int:
        for _ in NODE_PORTS:
            port = self._next_port
            self._next_port = port + 1 if port + 1 in NODE_PORTS else NODE_PORTS.start
            if port not in used:
                return port
        raise internal("failed to allocate a nodePort: range is full")


def _same(one: JsonObject, other: JsonObject) -> bool:
    return all(
        one["metadata"].get(key) == other["metadata"].get(key) for key in ("namespace", "name")
    )
