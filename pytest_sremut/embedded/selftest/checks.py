"""One finding about this machine. See `doctor`."""

from __future__ import annotations

import os
from dataclasses import dataclass

__all__ = ["OPTIONAL", "TOOLS", "TRIED", "Check", "failed"]

TOOLS = ("nslookup", "nc", "wget")
TRIED = (
    "user namespace",
    "network namespace",
    "mount namespace",
    "pid namespace",
    "cluster addresses",
    "packet sockets",
    "raw sockets",
    "Service routing",
    "nft",
    *(f"machine's {tool}" for tool in TOOLS),
)
OPTIONAL = {"nft", *(f"machine's {tool}" for tool in TOOLS)}
"""Names of the findings made in a child process, in order; `OPTIONAL` ones are not needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing looked at.

    ``needed``: the embedded cluster does not work without it. ``step`` and ``errno``: what failed;
    empty and 0 where nothing did. ``advice``: what to do, empty if nothing.
    """

    name: str
    ok: bool
    detail: str
    needed: bool = True
    step: str = ""
    errno: int = 0
    advice: str = ""


def failed(
    name: str, step: str, error: Exception, *, needed: bool = True, advice: str = ""
) -> Check:
    """The finding that `step` ended in `error`."""
    number = error.errno or 0 if isinstance(error, OSError) else 0
    return Check(
        name=name,
        ok=False,
        needed=needed,
        detail=os.strerror(number) if number else str(error),
        step=step,
        errno=number,
        advice=advice,
    )
