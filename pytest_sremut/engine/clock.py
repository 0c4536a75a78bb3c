"""Time as the engine needs it: both clocks, waiting, and whether the wall clock was set.

Deadlines and durations rest on the monotonic clock, which nobody sets. But the lines of a log, the
journal and the tokens of a registration are dated by wall clocks, and two such dates decide which
rounds of load began after the mutant was in place. If a clock was set between them, or the machine
slept, that comparison is worthless, and the numbers look as good as any.
"""

from __future__ import annotations

import threading
from typing import Final, Protocol

from pytest_sremut.ground.durable.clock import Clock as EvidenceClock
from pytest_sremut.ground.durable.clock import SystemClock as EvidenceSystemClock
from pytest_sremut.ground.durable.clock import rfc3339

__all__ = ["TOLERANCE", "Clock", "ClockWatch", "SystemClock", "rfc3339"]

TOLERANCE: Final = 1.0
"""Seconds. A clock that is being slewed (at most 0.5 ms a second) stays below; a step does not."""


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


class ClockWatch:
    """Compares the wall clock with the monotonic one from the moment it is made."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._begun = (clock.now(), clock.monotonic())

    @property
    def stepped(self) -> float:
        """Seconds by which the wall clock was set since then; 0.0 within the tolerance."""
        wall, monotonic = self._begun
        passed = (self._clock.now() - wall).total_seconds()
        drift = passed - (self._clock.monotonic() - monotonic)
        return drift if abs(drift) > TOLERANCE else 0.0
