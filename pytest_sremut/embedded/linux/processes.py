"""Processes by pid and start time, so that a reused pid is never taken for the one meant.

And what a program did that ran to its end (`Observed`).
"""

from __future__ import annotations

import os
import select
from dataclasses import dataclass
from pathlib import Path
from typing import Self


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessIdentity:
    """A process. `started` is in the kernel's clock ticks since boot, as text."""

    pid: int
    started: str

    @classmethod
    def of(cls, pid: int) -> Self:
        """The process that has this pid now; one that is gone has no start time."""
        return cls(pid=pid, started=_start_time(pid) or "")

    def alive(self) -> bool:
        """Whether it is there and has not ended."""
        return bool(self.started) and _start_time(self.pid) == self.started

    def wait_gone(self, seconds: float) -> bool:
        """Wait until it has ended; False if it has not by then."""
        try:
            handle = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return True
        try:
            if not self.alive():
                return True
            return bool(select.select([handle], [], [], seconds)[0])
        finally:
            os.close(handle)

    def signal(self, number: int) -> None:
        """Send a signal if it is still there."""
        try:
            handle = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return
        try:
            if self.alive():
                os.kill(self.pid, number)
        except ProcessLookupError:
            return
        finally:
            os.close(handle)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What a program did; ``elapsed`` in seconds."""

    exit_code: int
    stdout: str
    stderr: str
    elapsed: float


def _start_time(pid: int) -> str | None:
    """When a process began; None where there is none, or only its exit status is left."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] == "Z" else fields[19]
