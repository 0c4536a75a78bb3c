"""What the cluster DNS knows: names, their records, and whether a name exists. Pure.

Rules kept here (those of CoreDNS's kubernetes plugin):

* a Service with an address: A of it, SRV of its named ports, PTR of the address;
* a headless Service: A of its ready endpoints, SRV per endpoint; without ready endpoints the name
  does not exist. An endpoint's own name is its hostname, or its address with dashes;
* ExternalName: CNAME, and the target's records where the target is in the cluster. A target inside
  that has none makes the whole answer empty;
* ``A-B-C-D.NAMESPACE.pod.DOMAIN`` is A.B.C.D (CoreDNS's ``pods insecure``);
* a name that exists without a record of the type asked for: no error, no data. Namespaces and the
  steps between exist. Any other name of the domain does not (NXDOMAIN);
* IPv4 only; readiness is what EndpointSlices say.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from pytest_sremut.embedded.meta.jsonvalue import JsonObject
from pytest_sremut.embedded.proxy.table import PORTS, is_ipv4, service_of

__all__ = ["Answer", "Record", "Zone"]

_LONGEST_CHAIN = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One resource record. ``value``: an address or a name; SRV also has a ``port``."""

    name: str
    kind: Literal["A", "CNAME", "SRV", "PTR"]
    value: str
    port: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """``exists`` False is NXDOMAIN; an empty one of a name that exists is "no data"."""

    exists: bool
    records: tuple[Record, ...] = ()
    additional: tuple[Record, ...] = ()


@dataclass(slots=True)
class _Node:
    records: list[Record] = field(default_factory=list)


class Zone:
    """The names of `domain` for these objects. Names are lower case, without the final dot."""

    def __init__(
        self,
        domain: str,
        *,
        namespaces: Iterable[str],
        services: Iterable[JsonObject],
        slices: Iterable[JsonObject],
    ) -> None:
        self._domain = domain
        self._nodes: dict[str, _Node] = {}
        self._namespaces = frozenset(namespaces)
        for name in ("", "svc.", "pod."):
            self._node(f"{name}{domain}")
        for name in self._namespaces:
            self._node(f"{name}.svc.{domain}")
        by_service: dict[tuple[str, str], list[JsonObject]] = {}
        for piece in slices:
            if piece.get("addressType") == "IPv4":
                by_service.setdefault(service_of(piece), []).append(piece)
        for service in services:
            metadata = service["metadata"]
            key = (metadata.get("namespace") or "", metadata["name"])
            self._add(key, service.get("spec") or {}, by_service.get(key, []))

    def covers(self, name: str) -> bool:
        """Whether this zone is where to ask for `name`: the domain itself or below it."""
        return name == self._domain or name.endswith(f".{self._domain}")

    def ask(self, name: str, kind: str) -> Answer:
        """The answer for `name` (lower case, no final dot) and record type `kind`."""
        chain: list[Record] = []
        for _ in range(_LONGEST_CHAIN):
            node = self._nodes.get(name) or self._pod(name)
            if node is None:
                # What a chain of names ends in must exist for the chain to be of use.
                return Answer(exists=bool(chain))
            alias = next((record for record in node.records if record.kind == "CNAME"), None)
            if alias is None or kind == "CNAME":
                found = tuple(record for record in node.records if record.kind == kind)
                if chain and not found:
                    return Answer(exists=True)
                return Answer(
                    exists=True,
                    records=(*chain, *found),
                    additional=tuple(self._addresses_of(found)),
                )
            chain.append(alias)
            if not self.covers(alias.value):
                return Answer(exists=True, records=tuple(chain))
            name = alias.value
        return Answer(exists=True)

    def _addresses_of(self, records: Iterable[Record]) -> Iterator[Record]:
        seen: set[str] = set()
        for record in records:
            if record.kind == "SRV" and record.value not in seen:
                seen.add(record.value)
                node = self._nodes.get(record.value, _Node())
                yield from (item for item in node.records if item.kind == "A")

    def _node(self, name: str) -> _Node:
        """The node of `name`; the steps between it and the domain exist from then on, too."""
        node = self._nodes.get(name)
        if node is None:
            node = self._nodes[name] = _Node()
            if self.covers(name) and name != self._domain:
                self._node(name.partition(".")[2])
        return node

    def _put(self, record: Record) -> None:
        records = self._node(record.name).records
        if record not in records:
            records.append(record)

    def _add(self, key: tuple[str, str], spec: JsonObject, slices: list[JsonObject]) -> None:
        namespace, name = key
        base = f"{name}.{namespace}.svc.{self._domain}".lower()
        if spec.get("type") == "ExternalName":
            target = str(spec.get("externalName") or "").lower().rstrip(".")
            if target and target != base:
                self._put(Record(name=base, kind="CNAME", value=target))
            return
        endpoints = list(_endpoints(slices))
        listed = spec.get("clusterIPs") or [spec.get("clusterIP")]
        if listed[0] == "None":
            self._add_headless(base, endpoints)
            return
        addresses = [address for address in listed if is_ipv4(address)]
        for address in addresses:
            self._put(Record(name=base, kind="A", value=address))
            pointer = ipaddress.ip_address(address).reverse_pointer
            self._put(Record(name=pointer, kind="PTR", value=base))
        if addresses:
            self._add_ports(base, base, _service_ports(spec))
            for host, address, _ports in endpoints:
                self._put(Record(name=f"{host}.{base}", kind="A", value=address))

    def _add_headless(
        self, base: str, endpoints: list[tuple[str, str, Mapping[tuple[str, str], int]]]
    ) -> None:
        for host, address, ports in endpoints:
            own = f"{host}.{base}"
            self._put(Record(name=base, kind="A", value=address))
            self._put(Record(name=own, kind="A", value=address))
            self._add_ports(base, own, ports)

    def _add_ports(self, base: str, target: str, ports: Mapping[tuple[str, str], int]) -> None:
        for (label, protocol), port in ports.items():
            self._put(Record(name=base, kind="SRV", value=target, port=port))
            if label:
                name = f"_{label}._{protocol}.{base}".lower()
                self._put(Record(name=name, kind="SRV", value=target, port=port))

    def _pod(self, name: str) -> _Node | None:
        end = f".pod.{self._domain}"
        labels = name.removesuffix(end).split(".") if name.endswith(end) else []
        if not labels or labels[-1] not in self._namespaces:
            return None
        if len(labels) == 1:
            return _Node()
        if len(labels) != 2:
            return None
        try:
            address = str(ipaddress.IPv4Address(labels[0].replace("-", ".")))
        except ValueError:
            return None
        return _Node(records=[Record(name=name, kind="A", value=address)])


def _service_ports(spec: JsonObject) -> dict[tuple[str, str], int]:
    return {
        (port.get("name") or "", (port.get("protocol") or "TCP")): port["port"]
        for port in spec.get("ports") or ()
    }


def _endpoints(
    slices: Iterable[JsonObject],
) -> Iterator[tuple[str, str, Mapping[tuple[str, str], int]]]:
    """Host label, address and ports of each ready endpoint."""
    for piece in slices:
        ports = {
            (port.get("name") or "", port.get("protocol") or "TCP"): port["port"]
            for port in piece.get("ports") or ()
            if port.get("port") in PORTS
        }
        for endpoint in piece.get("endpoints") or ():
            if (endpoint.get("conditions") or {}).get("ready") is False:
                continue
            for address in filter(is_ipv4, endpoint.get("addresses") or ()):
                host = endpoint.get("hostname") or address.replace(".", "-")
                yield host.lower(), address, ports
