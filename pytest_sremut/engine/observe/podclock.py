"""How far the clock that dates a pod's log is from ours, with what is known for certain.

A line that the node dated s reached us at r, our time: so it was written at s on the node's clock
and not after r on ours, and `ours - theirs <= r - s`. It was written after we had asked for the
pod, at b on our clock: so `ours - theirs >= b - s`. The tightest of each over all lines bounds the
offset; in between nothing is claimed.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pytest_sremut.workload.report import parse_timestamp

__all__ = ["PodClock"]


class PodClock:
    """Bounds the offset between two clocks from the lines of one log.

    Args:
        asked: Our time before the pod was asked for.
    """

    def __init__(self, asked: datetime) -> None:
        self._asked = asked
        self._least: float | None = None
        self._most: float | None = None
        self._lines = 0

    def see(self, stamp: str, received: datetime) -> None:
        """A line came: the node's timestamp, and our time."""
        written = parse_timestamp(stamp)
        if written is None:
            return
        self._lines += 1
        least = (self._asked - written).total_seconds()
        most = (received - written).total_seconds()
        self._least = least if self._least is None else max(self._least, least)
        self._most = most if self._most is None else min(self._most, most)

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Seconds that our clock is ahead of the node's, at least and at most; None unseen.

        The first above the second: one of the clocks was set meanwhile.
        """
        if self._least is None or self._most is None:
            return None
        return self._least, self._most

    def record(self) -> dict[str, Any] | None:
        """JSON-ready, as a state record keeps it."""
        if self.bounds is None:
            return None
        least, most = self.bounds
        return {"ahead": {"least": round(least, 6), "most": round(most, 6)}, "lines": self._lines}

    def __str__(self) -> str:
        if self.bounds is None:
            return "no line of the log tells how far the node's clock is from ours"
        least, most = self.bounds
        return f"our clock is ahead of the node's by {least:.3f} to {most:.3f} s"
