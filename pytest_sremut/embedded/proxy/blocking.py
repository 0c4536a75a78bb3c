"""Whether a connecting client's socket blocks.

Rules kept here:

* only what the kernel says counts: the socket's inode, its owner's open file flags in
  ``/proc/PID/fdinfo``;
* what cannot be found (a process of another user, one that is gone, a kernel that does not tell)
  counts as blocking, the mode of the tools whose timing was recorded.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from pytest_sremut.embedded.linux.sockdiag import socket_inode

__all__ = ["socket_blocks"]

_PROC = Path("/proc")


def socket_blocks(client: tuple[str, int], server: tuple[str, int]) -> bool:
    """Whether the IPv4 TCP socket from `client` to `server` (address, port) is a blocking one."""
    inode = socket_inode(client, server)
    flags = None if not inode else _flags(f"socket:[{inode}]")
    return flags is None or not flags & os.O_NONBLOCK


def _flags(target: str) -> int | None:
    """Open file flags of whichever process has `target` open."""
    with os.scandir(_PROC) as entries:
        processes = [entry.name for entry in entries if entry.name.isdecimal()]
    for process in processes:
        # A process may end, or belong to somebody else, at any moment in between.
        with suppress(OSError, ValueError):
            folder = f"{_PROC}/{process}/fd"
            for name in os.listdir(folder):  # noqa: PTH208 - the names alone, many times
                if os.readlink(f"{folder}/{name}") == target:  # noqa: PTH115 - same
                    info = (_PROC / process / "fdinfo" / name).read_text(encoding="ascii")
                    fields = dict(line.split(":", 1) for line in info.splitlines() if ":" in line)
                    return int(fields["flags"], 8)
    return None
