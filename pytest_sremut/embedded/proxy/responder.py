"""Answers in the kernel's place, for Service ports whose connections nobody accepts.

A packet socket on ``lo`` sees the SYNs to the Services' network; raw sockets answer them.

Rules kept here:

* no endpoints (*unreachable*): ICMP port unreachable, as kube-proxy's reject. A real reject reaches
  a blocking ``connect`` while the kernel holds its socket, is only noted, and the SYN sent again
  after 1 s gets the error; a non-blocking one is refused at once. Our answer comes later than that
  moment, so it waits for the second SYN where the client's socket blocks, and goes out at the
  first where it does not. Where it is limited, each SYN costs what a real node's message costs,
  also the one that is only noted, and what finds no token is not answered;
* a backend that is closed (*reset*): RST at the first SYN;
* anything else: silence, which is a black hole.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Network

from pytest_sremut.embedded.linux.bpf import attach, backend_index, drop_all, syn_program
from pytest_sremut.embedded.proxy.limit import Limit
from pytest_sremut.embedded.proxy.table import Destination

__all__ = ["Refusal", "Responder", "Syn", "parse_syn", "port_unreachable", "reset"]

_ETH_P_IP = 0x0800
_REMEMBERED = 4096
_UNREACHABLE, _PORT = 3, 3
_TCP_RST_ACK = 0x14
_IP_HEADER = struct.Struct("!BBHHHBBH4s4s")
_TCP_HEADER = struct.Struct("!HHIIBBHHH")
# Enough for any SYN: header with options, quoted in part.
_PACKET = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Syn:
    """The first packet of a connection. ``quote``: its IP header and 8 bytes, for ICMP."""

    client: tuple[str, int]
    target: Destination
    sequence: int
    quote: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """How to refuse connections to one destination.

    With ``backends`` 0 every client gets ICMP port unreachable, as often as ``limited`` lets it.
    Otherwise clients whose
    `backend_index` among ``backends`` is in ``closed`` get a reset, others nothing.
    """

    backends: int = 0
    closed: frozenset[int] = frozenset()
    sticky: bool = False
    limited: bool = False


def parse_syn(packet: bytes) -> Syn | None:
    """Read an IPv4 packet; None unless it is a whole TCP SYN."""
    if len(packet) < 20 or packet[0] >> 4 != 4:
        return None
    start = (packet[0] & 0x0F) * 4
    if start < 20 or packet[9] != socket.IPPROTO_TCP or len(packet) < start + 20:
        return None
    source_port, port, sequence = struct.unpack_from("!HHI", packet, start)
    if packet[start + 13] & 0x17 != 0x02:
        return None
    return Syn(
        client=(socket.inet_ntoa(packet[12:16]), source_port),
        target=Destination(address=socket.inet_ntoa(packet[16:20]), port=port),
        sequence=sequence,
        quote=packet[: start + 8],
    )


def port_unreachable(syn: Syn) -> bytes:
    """The ICMP message (without IP header) that says nobody is at the port."""
    message = struct.pack("!BBHI", _UNREACHABLE, _PORT, 0, 0) + syn.quote
    return message[:2] + struct.pack("!H", _checksum(message)) + message[4:]


def reset(syn: Syn) -> bytes:
    """The IPv4 packet with which a closed port answers `syn`."""
    source = socket.inet_aton(syn.target.address)
    destination = socket.inet_aton(syn.client[0])
    fields = [syn.target.port, syn.client[1], 0, (syn.sequence + 1) & 0xFFFFFFFF, 5 << 4]
    segment = _TCP_HEADER.pack(*fields, _TCP_RST_ACK, 0, 0, 0)
    pseudo = source + destination + struct.pack("!HH", socket.IPPROTO_TCP, len(segment))
    segment = _TCP_HEADER.pack(*fields, _TCP_RST_ACK, 0, _checksum(pseudo + segment), 0)
    # Length and checksum of the IP header are the kernel's to fill in (raw(7)).
    header = _IP_HEADER.pack(
        0x45, 0, 20 + len(segment), 0, 0, 64, socket.IPPROTO_TCP, 0, source, destination
    )
    return header + segment


def _checksum(data: bytes) -> int:
    data += b"\0" * (len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


class Responder:
    """Watches `network` on ``lo`` of the current network namespace.

    Args:
        network: destinations to look at.
        blocks: whether the socket from a client to a target (address, port) is a blocking one.
    """

    def __init__(
        self, network: IPv4Network, *, blocks: Callable[[tuple[str, int], tuple[str, int]], bool]
    ) -> None:
        self._network = network
        self._blocks = blocks
        self._refusals: dict[Destination, Refusal] = {}
        self._seen: OrderedDict[tuple[tuple[str, int], Destination, int], None] = OrderedDict()
        self._sockets: list[socket.socket] = []
        self._limit = Limit()

    def start(self) -> None:
        """Begin to listen, in the running loop.

        Raises:
            OSError: no packet or raw sockets here (CAP_NET_RAW in this network namespace).
        """
        watch = self._own(socket.AF_PACKET, socket.SOCK_DGRAM, 0)
        attach(watch, syn_program(self._network))
        # Bound only after the program is there, so nothing unfiltered is queued.
        watch.bind(("lo", _ETH_P_IP))
        self._watch = watch
        self._icmp = self._own(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
        # It is only sent from; what arrives would fill its queue.
        attach(self._icmp, drop_all())
        self._raw = self._own(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
        asyncio.get_running_loop().add_reader(watch, self._readable)

    def stop(self) -> None:
        """Stop listening; may be repeated."""
        if self._sockets:
            asyncio.get_running_loop().remove_reader(self._watch)
        for item in self._sockets:
            item.close()
        self._sockets.clear()

    def refuse(self, refusals: dict[Destination, Refusal]) -> None:
        """From now on refuse these destinations, and no others."""
        self._refusals = refusals

    def _own(self, family: int, kind: int, protocol: int) -> socket.socket:
        item = socket.socket(family, kind | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC, protocol)
        self._sockets.append(item)
        return item

    def _readable(self) -> None:
        while True:
            try:
                packet = self._watch.recv(_PACKET)
            except BlockingIOError:
                return
            syn = parse_syn(packet)
            if syn is not None:
                self._answer(syn)

    def _answer(self, syn: Syn) -> None:
        refusal = self._refusals.get(syn.target)
        if refusal is None:
            return
        if refusal.backends:
            index = backend_index(syn.client, refusal.backends, sticky=refusal.sticky)
            if index in refusal.closed:
                self._send(self._raw, reset(syn), syn)
        elif self._may(syn, refusal) and self._is_due(syn):
            self._send(self._icmp, port_unreachable(syn), syn)

    def _may(self, syn: Syn, refusal: Refusal) -> bool:
        if not refusal.limited:
            return True
        now = asyncio.get_running_loop().time()
        if self._limit.take((syn.client[0], syn.target.address), now):
            return True
        self._is_due(syn)  # noted, for the SYN that comes next
        return False

    @staticmethod
    def _send(sender: socket.socket, packet: bytes, syn: Syn) -> None:
        # A full queue loses the answer, as a network may; the client's next SYN asks again.
        with suppress(BlockingIOError):
            sender.sendto(packet, (syn.client[0], 0))

    def _is_due(self, syn: Syn) -> bool:
        key = (syn.client, syn.target, syn.sequence)
        if key in self._seen:
            return True
        self._seen[key] = None
        if len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)
        return not self._blocks(syn.client, (syn.target.address, syn.target.port))
