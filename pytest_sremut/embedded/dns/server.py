"""The cluster DNS: answers for the cluster's names, over UDP and TCP.

Rules kept here:

* what is answered is `zone`'s matter, always made from the registry as it is at that moment;
* TTL 5 seconds, as CoreDNS; negative answers carry the zone's SOA;
* names outside the cluster's domain do not exist (NXDOMAIN): the cluster has no way out;
* no packet, however malformed, ends the server or a later answer: it gets FORMERR if it has a
  header, and silence otherwise. Responses are never answered;
* answers that do not fit are truncated over UDP (the client comes again over TCP).
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterable
from contextlib import suppress
from typing import cast

from dnslib import (
    CNAME,
    EDNS0,
    PTR,
    QTYPE,
    RCODE,
    RR,
    SOA,
    SRV,
    A,
    DNSError,
    DNSHeader,
    DNSRecord,
)

from pytest_sremut.embedded.dns.zone import Record, Zone
from pytest_sremut.embedded.meta.jsonvalue import JsonObject
from pytest_sremut.embedded.proxy.addresses import DNS_ADDRESS
from pytest_sremut.embedded.proxy.table import Source

__all__ = ["TTL", "DnsServer"]

TTL = 5
_HEADER_SIZE = 12
_PLAIN_SIZE = 512
_EDNS_SIZE = 1232
_OPT = 41
_CLASS_IN = 1
_IDLE = 10.0
_MALFORMED = (DNSError, struct.error, ValueError, LookupError, RecursionError)

_WATCHED = ("services", "endpointslices.discovery.k8s.io", "namespaces")


class DnsServer:
    """Serves the names of `registry`'s objects in `domain`.

    Args:
        registry: where Services, EndpointSlices and Namespaces are.
        address: to listen on, local in this network namespace.
        port: for UDP and TCP; 0 takes a free one, see `port` after `start`.
        domain: the cluster's domain.
    """

    def __init__(
        self,
        registry: Source,
        *,
        address: str = DNS_ADDRESS,
        port: int = 53,
        domain: str = "cluster.local",
    ) -> None:
        self.address = address
        self.port = port
        self.domain = domain.lower().strip(".")
        self._registry = registry
        self._zone: Zone | None = None
        self._hidden: tuple[list[JsonObject], list[JsonObject], list[str]] = ([], [], [])
        self._transport: asyncio.DatagramTransport | None = None
        self._server: asyncio.Server | None = None
        self._clients: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def start(self) -> None:
        """Listen.

        Raises:
            OSError: the address is not local, or the port taken or forbidden.
        """
        loop = asyncio.get_running_loop()
        self._unsubscribe = self._registry.subscribe(lambda _event: self._forget(), *_WATCHED)
        self._server = await asyncio.start_server(self._talk, self.address, self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        self._transport, _ = await loop.create_datagram_endpoint(
            lambda: _Datagrams(self), local_addr=(self.address, self.port)
        )

    async def stop(self) -> None:
        """Stop listening; may be repeated."""
        if self._server is None or self._transport is None:
            return
        self._unsubscribe()
        self._transport.close()
        self._server.close()
        # A closed connection is the end of its input, and with that of its task.
        for writer in self._clients.values():
            writer.close()
        await asyncio.gather(*self._clients)
        await self._server.wait_closed()
        self._server = self._transport = None

    def hide(
        self,
        services: Iterable[JsonObject],
        slices: Iterable[JsonObject],
        namespaces: Iterable[str] = (),
    ) -> None:
        """Know these too, which no registry holds; the self-test's. Replaces earlier ones."""
        self._hidden = (list(services), list(slices), list(namespaces))
        self._forget()

    def answer(self, packet: bytes, *, over_udp: bool = True) -> bytes | None:
        """The reply to one message; None for one that gets none."""
        if len(packet) < _HEADER_SIZE or packet[2] & 0x80:
            return None
        try:
            request = DNSRecord.parse(packet)
        except _MALFORMED:
            return self._error(packet, RCODE.FORMERR)
        if request.header.opcode != 0:
            return self._error(packet, RCODE.NOTIMP)
        if len(request.questions) != 1:
            return self._error(packet, RCODE.FORMERR)
        return self._reply(request, over_udp=over_udp)

    def _forget(self) -> None:
        self._zone = None

    def _current(self) -> Zone:
        if self._zone is None:
            services, slices, namespaces = self._hidden
            known = self._registry.list("namespaces")
            self._zone = Zone(
                self.domain,
                namespaces=[*(item["metadata"]["name"] for item in known), *namespaces],
                services=[*self._registry.list("services"), *services],
                slices=[*self._registry.list("endpointslices.discovery.k8s.io"), *slices],
            )
        return self._zone

    def _reply(self, request: DNSRecord, *, over_udp: bool) -> bytes:
        question = request.q
        zone = self._current()
        name = str(question.qname).rstrip(".").lower()
        reply = DNSRecord(
            DNSHeader(id=request.header.id, qr=1, aa=1, rd=request.header.rd, ra=1), q=question
        )
        if question.qclass != _CLASS_IN:
            reply.header.rcode = RCODE.REFUSED
        else:
            self._fill(reply, zone, name)
        limit = self._negotiate(request, reply)
        packed = bytes(reply.pack())
        if over_udp and len(packed) > limit:
            packed = bytes(reply.truncate().pack())
        return packed

    def _fill(self, reply: DNSRecord, zone: Zone, name: str) -> None:
        question = reply.q
        kind = QTYPE.forward.get(question.qtype, str(question.qtype))
        answer = zone.ask(name, kind)
        for record in answer.records:
            # The name asked for is given back in the asker's own spelling.
            spelled = question.qname if record.name == name else record.name
            reply.add_answer(_resource(spelled, record))
        for record in answer.additional:
            reply.add_ar(_resource(record.name, record))
        if not answer.exists:
            reply.header.rcode = RCODE.NXDOMAIN
        if not answer.records and (zone.covers(name) or answer.exists):
            if kind == "SOA" and name == self.domain:
                reply.add_answer(self._authority())
            else:
                reply.add_auth(self._authority())

    def _authority(self) -> RR:
        primary = f"ns.dns.{self.domain}"
        contact = f"hostmaster.{self.domain}"
        times = (1, 7200, 1800, 86400, TTL)
        return RR(self.domain, QTYPE.SOA, ttl=TTL, rdata=SOA(primary, contact, times))

    @staticmethod
    def _negotiate(request: DNSRecord, reply: DNSRecord) -> int:
        """The size that the asker takes; says the one that we take where it spoke of sizes."""
        for record in request.ar:
            if record.rtype == _OPT:
                reply.add_ar(EDNS0(udp_len=_EDNS_SIZE))
                return min(max(int(record.rclass), _PLAIN_SIZE), _EDNS_SIZE)
        return _PLAIN_SIZE

    @staticmethod
    def _error(packet: bytes, rcode: int) -> bytes:
        # Only the header is known to be sound: identity, operation, "recursion desired".
        flags = 0x8000 | (int.from_bytes(packet[2:4], "big") & 0x7900) | rcode
        return packet[:2] + struct.pack("!HHHHH", flags, 0, 0, 0, 0)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._clients[task] = writer
        try:
            # A client that goes away or stalls ends its own connection, nothing else.
            with suppress(asyncio.IncompleteReadError, ConnectionError, TimeoutError):
                while True:
                    async with asyncio.timeout(_IDLE):
                        size = int.from_bytes(await reader.readexactly(2), "big")
                        packet = await reader.readexactly(size)
                    reply = self.answer(packet, over_udp=False)
                    if reply is None:
                        return
                    writer.write(len(reply).to_bytes(2, "big") + reply)
                    async with asyncio.timeout(_IDLE):
                        await writer.drain()
        finally:
            del self._clients[task]
            writer.close()


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self, server: DnsServer) -> None:
        self._answer = server.answer
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        reply = self._answer(data)
        if reply is not None and self._transport is not None:
            self._transport.sendto(reply, addr)


def _resource(name: object, record: Record) -> RR:
    match record.kind:
        case "A":
            data = A(record.value)
        case "CNAME":
            data = CNAME(record.value)
        case "PTR":
            data = PTR(record.value)
        case "SRV":
            data = SRV(priority=0, weight=100, port=record.port, target=record.value)
    return RR(name, getattr(QTYPE, record.kind), ttl=TTL, rdata=data)
