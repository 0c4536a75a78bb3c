"""When the requests of one connection are due, as each variant of wrk2 reckons it. Pure.

* `Drawn` (DeathStarBench): gap after gap from the connection's begin. What becomes of a request
  moves no later one.
* `Queued` (drain): the same due times; a request waits for the answer of the one before it.
* `Steady` (giltene): `n` answers after the begin the next is due at `n` intervals. A request that
  got no answer is due again. Behind its time, a connection sends at twice the rate at most,
  reckoned from when it fell behind.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Protocol

from pytest_sremut.workload.plan import Plan, Variant

__all__ = ["Drawn", "Pace", "Queued", "Steady", "due_within", "pace_of"]


class Pace(Protocol):
    """The due times of one connection. Times in seconds of one clock."""

    due: float
    """When the next request should be sent."""
    pipelines: bool
    """Whether a request is sent while earlier ones have no answer yet."""

    def may_send(self, now: float) -> float:
        """When the next request may go; at most `now` means at once."""

    def sent(self) -> None:
        """A request was sent."""

    def answered(self) -> None:
        """A request was answered."""

    def given_up(self) -> None:
        """No connection could be made for the request that was due: it is not tried again."""


class Drawn:
    """DeathStarBench's reckoning."""

    pipelines = True

    def __init__(self, begin: float, gaps: Iterator[float]) -> None:
        self._gaps = gaps
        self.due = begin + next(gaps)

    def may_send(self, now: float) -> float:  # noqa: ARG002 - the other pace needs it
        return self.due

    def sent(self) -> None:
        self.due += next(self._gaps)

    def answered(self) -> None:
        """Moves nothing."""

    def given_up(self) -> None:
        self.sent()


class Queued(Drawn):
    """Drawn due times of which at most one is outstanding."""

    pipelines = False


class Steady:
    """The original wrk2's reckoning."""

    pipelines = False

    def __init__(self, begin: float, interval: float) -> None:
        self._begin = begin
        self._interval = interval
        self._complete = 0
        self._behind: tuple[float, int] | None = None  # since when, and how many were complete
        self.due = begin

    def may_send(self, now: float) -> float:
        if self.due > now:
            self._behind = None
            return self.due
        if self._behind is None:
            self._behind = (now, self._complete)
            return self.due
        since, complete = self._behind
        return since + (self._complete - complete) * self._interval / 2

    def sent(self) -> None:
        """Moves nothing: answers do."""

    def answered(self) -> None:
        self._complete += 1
        self.due = self._begin + self._complete * self._interval

    def given_up(self) -> None:
        self.answered()


def pace_of(plan: Plan, begin: float, gaps: Iterator[float]) -> Pace:
    """The pace of a connection that is begun at `begin`."""
    if plan.variant is Variant.DSB:
        return Drawn(begin, gaps)
    if plan.variant is Variant.DRAIN:
        return Queued(begin, gaps)
    return Steady(begin, plan.interval)


def due_within(plan: Plan, connection: int, gaps: Iterator[float]) -> int:
    """How many requests of a connection are due before the round's duration is over."""
    left = plan.duration - plan.starts(connection)
    if plan.variant is Variant.GILTENE:
        return max(0, math.ceil(left / plan.interval))
    number, at = 0, next(gaps)
    while at < left:
        number += 1
        at += next(gaps)
    return number
