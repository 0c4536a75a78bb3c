"""Whether a process runs when it should: a timer that notices that it came late."""

from __future__ import annotations

import asyncio

__all__ = ["Pulse"]

_BEAT = 0.01  # seconds between two beats
_LATE = 0.02  # a beat that comes later than that was held up, not just queued


class Pulse:
    """Beats from now on; adds up by how long beats came late.

    A loop that does not run cannot see that answers wait for it, so its own timers must tell.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._stalled = 0.0
        self._expected = loop.time() + _BEAT
        self._handle = loop.call_at(self._expected, self._beat)

    def stop(self) -> float:
        """Ends it. Returns seconds that the loop was held up, the present moment included."""
        self._handle.cancel()
        self._note()
        return self._stalled

    def _note(self) -> None:
        lag = self._loop.time() - self._expected
        if lag > _LATE:
            self._stalled += lag

    def _beat(self) -> None:
        self._note()
        self._expected = self._loop.time() + _BEAT
        self._handle = self._loop.call_at(self._expected, self._beat)
