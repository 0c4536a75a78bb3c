"""Questions to the kernel's socket tables, over NETLINK_SOCK_DIAG.

Rules kept here: no packet is sent to anybody; no privilege is needed; a question costs tens of
microseconds, where ``/proc/net/tcp`` makes the kernel walk its whole hash table for milliseconds.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator

__all__ = ["listening", "socket_inode"]

_NETLINK_SOCK_DIAG = 4
_BY_FAMILY = 20
_ERROR, _DONE = 2, 3
_REQUEST, _DUMP = 0x1, 0x300
_LISTEN = 10
_ALL_STATES = 0xFFFFFFFF
_NO_COOKIE = b"\xff" * 8

_HEADER = struct.Struct("=IHHII")
_QUESTION = struct.Struct("=BBBxI")
_MAPPED = b"\0" * 10 + b"\xff\xff"
# Offsets in struct inet_diag_msg.
_SOURCE_PORT, _SOURCE, _INODE = 4, 8, 68


def listening() -> list[tuple[str | None, int]]:
    """Address and port of every listening TCP socket that IPv4 clients can reach.

    The address is None for wildcards. Of this network namespace.

    Raises:
        OSError: the kernel has no socket diagnosis for TCP.
    """
    found: list[tuple[str | None, int]] = []
    for family in (socket.AF_INET, socket.AF_INET6):
        question = _QUESTION.pack(family, socket.IPPROTO_TCP, 0, 1 << _LISTEN) + b"\0" * 48
        for answer in _ask(question, _DUMP):
            (port,) = struct.unpack_from("!H", answer, _SOURCE_PORT)
            source = answer[_SOURCE : _SOURCE + 16]
            if family == socket.AF_INET:
                found.append((_address(source[:4]), port))
            elif source == b"\0" * 16:
                found.append((None, port))
            elif source.startswith(_MAPPED):
                found.append((_address(source[12:]), port))
    return found


def socket_inode(local: tuple[str, int], remote: tuple[str, int]) -> int | None:
    """Inode of the TCP socket with these IPv4 ends; None if there is none, or no telling."""
    identity = (
        struct.pack("!HH", local[1], remote[1])
        + socket.inet_aton(local[0]).ljust(16, b"\0")
        + socket.inet_aton(remote[0]).ljust(16, b"\0")
        + b"\0" * 4
        + _NO_COOKIE
    )
    question = _QUESTION.pack(socket.AF_INET, socket.IPPROTO_TCP, 0, _ALL_STATES) + identity
    try:
        for answer in _ask(question, 0):
            return int(struct.unpack_from("=I", answer, _INODE)[0])
    except OSError:
        return None
    return None


def _address(raw: bytes) -> str | None:
    return None if raw == b"\0\0\0\0" else socket.inet_ntoa(raw)


def _ask(question: bytes, flags: int) -> Iterator[bytes]:
    """Bodies of the answers: all of a dump, the first otherwise."""
    with socket.socket(
        socket.AF_NETLINK, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC, _NETLINK_SOCK_DIAG
    ) as asker:
        length = _HEADER.size + len(question)
        asker.send(_HEADER.pack(length, _BY_FAMILY, _REQUEST | flags, 1, 0) + question)
        while True:
            data = asker.recv(1 << 16)
            place = 0
            while place < len(data):
                size, kind, *_ = _HEADER.unpack_from(data, place)
                body = data[place + _HEADER.size : place + size]
                if kind == _DONE:
                    return
                if kind == _ERROR:
                    code = -struct.unpack_from("=i", body)[0]
                    raise OSError(code, f"socket diagnosis: {os.strerror(code)}")
                yield body
                if not flags:
                    return
                place += (size + 3) & ~3
