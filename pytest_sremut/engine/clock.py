"""Time as the engine needs it: the evidence room's clock, and the protocol's own waiting."""

from __future__ import annotations

import threading
from typing import Protocol

from pytest_sremut.ground.durable.clock import Clock as EvidenceClock
from pytest_sremut.ground.durable.clock import SystemClock as EvidenceSystemClock
from pytest_sremut.ground.durable.clock import rfc3339

__all__ = ["Clock", "SystemClock", "rfc3339"]


class Clock(EvidenceClock, Protocol):
    """A clock that can also be waited on."""

    def wait(self, seconds: float) -> None:
        """The protocol's own waiting (settling); never used where something can be watched."""
        ...


class SystemClock(EvidenceSystemClock):
    """The machine's clocks."""

    def __init__(self) -> None:
        self._never = threading.Event()

    def wait(self, seconds: float) -> None:
        """See `Clock`."""
        if seconds > 0:
            self._never.wait(seconds)
