"""Whether the wall clock went on by itself: a state's times are told by it.

Deadlines and durations rest on the monotonic clock, which nobody sets. But a log's lines, the
journal and the tokens of a registration are dated by wall clocks, and which rounds of load began
after the mutant was in place is decided by comparing two such dates. A clock that was set between
them, or a machine that slept, makes that comparison worthless; the numbers would look as good as
any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pytest_sremut.engine.clock import Clock

__all__ = ["TOLERANCE", "ClockWatch"]

TOLERANCE: Final = 1.0
"""Seconds. A clock that is being slewed (at most 0.5 ms a second) stays below; a step does not."""


class ClockWatch:
    """Compares both clocks from the moment it is made."""

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
