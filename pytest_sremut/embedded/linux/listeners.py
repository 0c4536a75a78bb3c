"""Which TCP ports are listened on in this network namespace, and which addresses are local.

Rules kept here:

* asked of the kernel's socket diagnosis, else read from ``/proc/net/tcp`` and ``tcp6``: no packet
  is sent, so no application sees a probe;
* the tables list listening sockets first, but the kernel walks through all its connections for each
  look: `Listeners.costly` says so, and callers look less often;
* a listener on the wildcard address answers on every local address, as it does in the kernel.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pytest_sremut.embedded.linux.sockdiag import listening

__all__ = ["Listeners", "is_local", "read_listeners", "read_tables"]

_LISTEN = "0A"
_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_MAPPED_PREFIX = "0000000000000000FFFF0000"
_WILDCARD_6 = "0" * 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Listeners:
    """Listening TCP sockets: ``(address, port)`` pairs, and ports of wildcard listeners."""

    exact: frozenset[tuple[str, int]]
    wildcard: frozenset[int]
    costly: bool = False

    def __or__(self, other: Listeners) -> Listeners:
        return Listeners(
            exact=self.exact | other.exact,
            wildcard=self.wildcard | other.wildcard,
            costly=self.costly or other.costly,
        )

    def covers(self, other: Listeners) -> bool:
        """Whether all of `other` are among these."""
        return self.exact >= other.exact and self.wildcard >= other.wildcard

    def has(self, address: str, port: int) -> bool:
        """Whether a connect to a local `address` and `port` would find a listener."""
        return port in self.wildcard or (address, port) in self.exact


def read_listeners() -> Listeners:
    """The listeners of the current network namespace.

    Raises:
        OSError: the kernel answers in neither way.
    """
    try:
        return _sorted(listening(), costly=False)
    except OSError:
        return read_tables()


def read_tables(tables: tuple[str, ...] = _TABLES) -> Listeners:
    """The listeners in files like ``/proc/net/tcp``. A missing table (no IPv6) counts as empty.

    Raises:
        OSError: a table cannot be read, or none is there.
    """
    present = [table for table in map(Path, tables) if table.exists()]
    if not present:
        raise FileNotFoundError(f"no table of sockets: {', '.join(tables)}")
    return _sorted((entry for table in present for entry in _listening(table)), costly=True)


def _sorted(entries: Iterable[tuple[str | None, int]], *, costly: bool) -> Listeners:
    exact: set[tuple[str, int]] = set()
    wildcard: set[int] = set()
    for address, port in entries:
        if address is None:
            wildcard.add(port)
        else:
            exact.add((address, port))
    return Listeners(exact=frozenset(exact), wildcard=frozenset(wildcard), costly=costly)


def _listening(table: Path) -> Iterator[tuple[str | None, int]]:
    # Unbuffered line by line would be slow, the whole table may be long: the default buffer is
    # about one page, which is what the kernel hands out at a time.
    with table.open("r", encoding="ascii", buffering=8192) as lines:
        next(lines, None)
        for line in lines:
            _slot, local, _remote, state = line.split(maxsplit=4)[:4]
            if state != _LISTEN:
                return
            digits, _, port = local.partition(":")
            known, address = _address(digits)
            if known:
                yield address, int(port, 16)


def _address(digits: str) -> tuple[bool, str | None]:
    """Whether the address matters for IPv4, and it; None is the wildcard."""
    if len(digits) == 32:
        if digits == _WILDCARD_6:
            return True, None
        if not digits.startswith(_MAPPED_PREFIX):
            return False, None
        digits = digits[24:]
    # The kernel prints the 32 bits as this machine's integer.
    raw = struct.pack("=I", int(digits, 16))
    return True, None if raw == b"\0\0\0\0" else socket.inet_ntoa(raw)


def is_local(address: str) -> bool:
    """Whether an IPv4 address belongs to this network namespace: the kernel lets us bind it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True
