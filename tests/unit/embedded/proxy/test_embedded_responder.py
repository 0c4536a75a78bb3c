"""Packets read and made: against the kernel's own, and against rubbish."""

from __future__ import annotations

import asyncio
import socket
import struct

import pytest
from embedded_netns import connecting, in_namespace
from hypothesis import given
from hypothesis import strategies as st

from pytest_sremut.embedded.linux.bpf import backend_index
from pytest_sremut.embedded.proxy.addresses import ClusterAddresses
from pytest_sremut.embedded.proxy.responder import (
    Refusal,
    Responder,
    parse_syn,
    port_unreachable,
    reset,
)
from pytest_sremut.embedded.proxy.table import Destination

AT = Destination(address="10.96.1.1", port=80)
PATIENCE = 0.25


def syn(*, flags: int = 0x02, options: bytes = b"", protocol: int = 6) -> bytes:
    header_length = 20 + len(options)
    header = struct.pack(
        "!BBHHHBBH4s4s",
        0x40 | header_length // 4,
        0,
        header_length + 20,
        1,
        0,
        64,
        protocol,
        0,
        socket.inet_aton("192.0.2.2"),
        socket.inet_aton("10.96.1.1"),
    )
    return header + options + struct.pack("!HHIIBBHHH", 40000, 80, 7, 0, 0x50, flags, 100, 0, 0)


def total(data: bytes) -> int:
    """The Internet checksum of data that includes its own checksum: 0 if that is right."""
    data += b"\0" * (len(data) % 2)
    value = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while value > 0xFFFF:
        value = (value & 0xFFFF) + (value >> 16)
    return ~value & 0xFFFF


@pytest.mark.parametrize("options", [b"", b"\x01" * 4, b"\0" * 40])
def test_a_syn_is_read(options: bytes) -> None:
    found = parse_syn(syn(options=options))
    assert found is not None
    assert (found.client, found.target, found.sequence) == (("192.0.2.2", 40000), AT, 7)
    assert len(found.quote) == 20 + len(options) + 8


@pytest.mark.parametrize("flags", [0x00, 0x10, 0x12, 0x04, 0x03, 0x11])
def test_other_segments_are_not_syns(flags: int) -> None:
    assert parse_syn(syn(flags=flags)) is None


def test_other_protocols_and_stubs_are_not_syns() -> None:
    assert parse_syn(syn(protocol=17)) is None
    assert all(parse_syn(syn()[:size]) is None for size in range(40))


@given(st.binary(max_size=100))
def test_rubbish_is_not_a_syn_and_no_error(packet: bytes) -> None:
    parse_syn(packet)


@given(st.integers(0, 39), st.integers(0, 255))
def test_damage_is_no_error(place: int, value: int) -> None:
    damaged = bytearray(syn())
    damaged[place] = value
    parse_syn(bytes(damaged))


def test_what_is_made_has_sound_checksums() -> None:
    found = parse_syn(syn())
    assert found is not None
    message = port_unreachable(found)
    assert message[:2] == bytes([3, 3])
    assert total(message) == 0
    assert message[8:] == syn()[:28]
    packet = reset(found)
    segment = packet[20:]
    pseudo = packet[12:20] + struct.pack("!HH", 6, len(segment))
    assert total(pseudo + segment) == 0
    assert struct.unpack_from("!HHIIBB", segment) == (80, 40000, 0, 8, 0x50, 0x14)


def responder(blocks: bool = True) -> tuple[Responder, ClusterAddresses]:
    addresses = ClusterAddresses()
    addresses.prepare()
    return Responder(addresses.service_network, blocks=lambda _client, _server: blocks), addresses


@in_namespace
async def test_only_what_is_listed_is_answered() -> None:
    made, addresses = responder(blocks=False)
    made.start()
    made.refuse({AT: Refusal()})
    assert (await connecting("10.96.1.1", 80)).result == "refused"
    for other in (("10.96.1.1", 81), ("10.96.1.2", 80)):
        assert (await connecting(*other, patience=PATIENCE)).result == "timed out"
    made.refuse({})
    assert (await connecting("10.96.1.1", 80, patience=PATIENCE)).result == "timed out"
    made.refuse({AT: Refusal()})
    made.stop()
    made.stop()
    assert (await connecting("10.96.1.1", 80, patience=PATIENCE)).result == "timed out"
    addresses.close()


@in_namespace
async def test_blocking_clients_are_answered_at_their_second_syn() -> None:
    made, addresses = responder()
    made.start()
    made.refuse({AT: Refusal()})
    assert (await connecting("10.96.1.1", 80, patience=0.5)).result == "timed out"
    assert (await connecting("10.96.1.1", 80)).result == "refused"
    made.stop()
    addresses.close()


@in_namespace
async def test_closed_backends_reset_their_share() -> None:
    made, addresses = responder()
    made.start()
    made.refuse({AT: Refusal(backends=3, closed=frozenset({1}))})

    async def one(port: int) -> tuple[int, str]:
        with socket.socket() as client:
            client.bind(("192.0.2.2", port))
            client.setblocking(False)
            try:
                await asyncio.wait_for(
                    asyncio.get_running_loop().sock_connect(client, ("10.96.1.1", 80)), PATIENCE
                )
            except ConnectionRefusedError:
                return port, "refused"
            except TimeoutError:
                return port, "timed out"
        return port, "connected"

    for port, met in await asyncio.gather(*(one(port) for port in range(42000, 42024))):
        mine = backend_index(("192.0.2.2", port), 3, sticky=False) == 1
        assert met == ("refused" if mine else "timed out")
    made.stop()
    addresses.close()


@in_namespace
async def test_without_the_right_it_is_an_error_that_leaves_nothing() -> None:
    made, addresses = responder()
    import ctypes

    # Give CAP_NET_RAW (13) up: capset with everything but that bit.
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    data = (ctypes.c_uint32 * 6)()
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.capget(header, data) == 0
    data[0] &= ~(1 << 13)
    assert libc.capset(header, data) == 0
    with pytest.raises(PermissionError):
        made.start()
    made.stop()
    addresses.close()
