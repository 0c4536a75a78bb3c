"""Whether a connecting client's socket blocks, read from ``/proc``.

Rules kept here:

* only what the kernel says counts: the socket's inode from ``/proc/net/tcp``, its owner's open file
  flags from ``/proc/PID/fdinfo``;
* what cannot be found (a process of another user, one that is gone) counts as blocking, the mode of
  the tools whose timing was recorded.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

__all__ = ["socket_blocks"]

_PROC = Path("/proc")


def socket_blocks(client: tuple[str, int], proc: Path = _PROC) -> bool:
    """Whether the IPv4 TCP socket with local address and port `client` is a blocking one."""
    inode = _inode(client, proc)
    if inode is None:
        return True
    target = f"socket:[{inode}]"
    for flags in _flags(target, proc):
        return not flags & os.O_NONBLOCK
    return True


def _inode(client: tuple[str, int], proc: Path) -> str | None:
    address, port = client
    (number,) = struct.unpack("=I", socket.inet_aton(address))
    local = f" {number:08X}:{port:04X} "
    with suppress(OSError):
        for table in ("tcp", "tcp6"):
            text = (proc / "net" / table).read_text(encoding="ascii")
            # Clients that bound a mapped IPv6 socket end in the same digits.
            place = text.find(local if table == "tcp" else local[1:])
            if place >= 0:
                line = text[text.rfind("\n", 0, place) + 1 :].split("\n", 1)[0]
                return line.split()[9]
    return None


def _flags(target: str, proc: Path) -> Iterator[int]:
    with os.scandir(proc) as entries:
        processes = [entry.name for entry in entries if entry.name.isdecimal()]
    for process in processes:
        # A process may end, or belong to somebody else, at any moment in between.
        with suppress(OSError, ValueError):
            folder = proc / process / "fd"
            for name in os.listdir(folder):  # noqa: PTH208 - the names alone, many times
                if os.readlink(f"{folder}/{name}") == target:  # noqa: PTH115 - same
                    info = (proc / process / "fdinfo" / name).read_text(encoding="ascii")
                    for line in info.splitlines():
                        if line.startswith("flags:"):
                            yield int(line.split()[1], 8)
