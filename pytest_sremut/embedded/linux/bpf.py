"""Classic BPF programs for sockets; the kernel checks them.

Rules kept here:

* no privilege beyond the cluster's own network namespace is needed (some kernels want
  CAP_NET_ADMIN there);
* a listening socket's program sees the TCP header first; packet sockets (``SOCK_DGRAM``) see the
  IPv4 header first;
* a program returns 0 to drop, `KEEP` to keep;
* which backend a connection gets is a pure function of its client's port (or, sticky, address), so
  kernel (`admit_program`) and user space (`backend_index`) agree without talking.
"""

from __future__ import annotations

import ctypes
import ipaddress
import socket
import struct
from collections.abc import Collection, Sequence
from ipaddress import IPv4Network

__all__ = ["admit_all", "admit_program", "attach", "backend_index", "drop_all", "syn_program"]

Instruction = tuple[int, int, int, int]

KEEP = 0xFFFFFFFF
_SO_ATTACH_FILTER = 26
# Offsets at or above this count from the network header (SKF_NET_OFF).
_NETWORK_HEADER = 0xFFF00000
_SOURCE_ADDRESS, _DESTINATION_ADDRESS = 12, 16

_LOAD_WORD, _LOAD_HALF, _LOAD_BYTE = 0x20, 0x28, 0x30
_LOAD_HEADER_LENGTH, _LOAD_BYTE_INDEXED = 0xB1, 0x50
_SHIFT_RIGHT, _MODULO, _AND = 0x74, 0x94, 0x54
_IF_EQUAL, _RETURN = 0x15, 0x06


def backend_index(client: tuple[str, int], count: int, *, sticky: bool) -> int:
    """Which of `count` backends a client (address, port) gets.

    Ephemeral ports go up in steps of two, so half the port spreads evenly.
    """
    address, port = client
    return (int(ipaddress.IPv4Address(address)) if sticky else port >> 1) % count


def admit_all() -> list[Instruction]:
    """Keep everything."""
    return [(_RETURN, 0, 0, KEEP)]


def drop_all() -> list[Instruction]:
    """Drop everything: on a listening socket, a black hole."""
    return [(_RETURN, 0, 0, 0)]


def admit_program(count: int, admitted: Collection[int], *, sticky: bool) -> list[Instruction]:
    """For a listening socket: keep only clients whose `backend_index` is in `admitted`."""
    program: list[Instruction] = []
    if sticky:
        program.append((_LOAD_WORD, 0, 0, _NETWORK_HEADER + _SOURCE_ADDRESS))
    else:
        program += [(_LOAD_HALF, 0, 0, 0), (_SHIFT_RIGHT, 0, 0, 1)]
    program.append((_MODULO, 0, 0, count))
    for index in sorted(admitted):
        program += [(_IF_EQUAL, 0, 1, index), (_RETURN, 0, 0, KEEP)]
    return [*program, *drop_all()]


def syn_program(network: IPv4Network) -> list[Instruction]:
    """For an IPv4 packet socket: keep the first packets of TCP connections to `network`."""
    flags = 13
    tests: list[list[Instruction]] = [
        [(_LOAD_BYTE, 0, 0, 9), (_IF_EQUAL, 0, 0, socket.IPPROTO_TCP)],
        [
            (_LOAD_WORD, 0, 0, _DESTINATION_ADDRESS),
            (_AND, 0, 0, int(network.netmask)),
            (_IF_EQUAL, 0, 0, int(network.network_address)),
        ],
        # No fragments: their first bytes are not a TCP header.
        [(_LOAD_HALF, 0, 0, 6), (_AND, 0, 0, 0x3FFF), (_IF_EQUAL, 0, 0, 0)],
        # SYN without ACK, RST, FIN.
        [
            (_LOAD_HEADER_LENGTH, 0, 0, 0),
            (_LOAD_BYTE_INDEXED, 0, 0, flags),
            (_AND, 0, 0, 0x17),
            (_IF_EQUAL, 0, 0, 0x02),
        ],
    ]
    program = [instruction for test in tests for instruction in test]
    last = len(program) + 1
    aimed = [
        (code, 0, last - place - 1, value) if code == _IF_EQUAL else (code, 0, 0, value)
        for place, (code, _yes, _no, value) in enumerate(program)
    ]
    return [*aimed, *admit_all(), *drop_all()]


def attach(target: socket.socket, program: Sequence[Instruction]) -> None:
    """Give a socket a program, at once in place of the one it had.

    Raises:
        OSError: the kernel refuses the program.
    """
    code = b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    # struct sock_fprog: a length and, aligned, a pointer.
    header = struct.pack("@HP", len(program), ctypes.addressof(buffer))
    target.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, header)
