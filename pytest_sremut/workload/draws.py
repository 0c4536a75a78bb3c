"""Random draws that a seed decides, the same on every machine and Python.

The seed of a window comes from what names it: run, state, window, attempt. So two repetitions
draw independently, and whoever knows the names can draw the same again. Each connection of each
round has streams of its own, one for gaps and one for kinds of requests: what is drawn never
depends on how fast the system answered.

Only `Random.random` is used, whose sequence Python guarantees for a given seed.
"""

from __future__ import annotations

import hashlib
import json
import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, repeat
from random import Random

from pytest_sremut.workload.mix import Kind
from pytest_sremut.workload.plan import Distribution, Plan

__all__ = ["SEED_LIMIT", "Draws", "choices", "exponential", "script_seed", "stream", "window_seed"]

SEED_LIMIT = 2**53
"""Seeds are below it, so that every JSON and Lua number holds them exactly."""


def window_seed(*, run: str, state: str, window: str, attempt: int) -> int:
    """The seed of a window's load, from 0 to 2**53 - 1.

    It is the first 53 bits of SHA-256 over the canonical JSON
    `["sremut/window-seed/v1",RUN,STATE,WINDOW,ATTEMPT]` (ASCII, no blanks).

    Args:
        run: Id of the run, `ms-m02-r01`.
        state: `healthy`, `faulted` or `restored`.
        window: Name of the window, unique within the attempt.
        attempt: Number of the attempt, from 1.
    """
    return _number("sremut/window-seed/v1", run, state, window, attempt)


def stream(seed: int, *names: str | int) -> Random:
    """A generator of its own for what `names` name, under a seed."""
    return Random(_number("sremut/stream/v1", seed, *names))  # noqa: S311 - repeatable on purpose


def script_seed(seed: int, number: int, thread: int) -> int:
    """The seed of wrk2's script in one thread (from 1) of round `number`, below 2**53."""
    return _number("sremut/script/v1", seed, number, thread)


def _number(*parts: str | int) -> int:
    text = json.dumps(parts, separators=(",", ":"), ensure_ascii=True)
    digest = hashlib.sha256(text.encode("ascii")).digest()
    return int.from_bytes(digest[:8], "big") >> 11


def choices(weights: Sequence[int], source: Random) -> Iterator[int]:
    """Indices into `weights`, for ever: each drawn alone, with its weight."""
    bounds = list(accumulate(weights))
    total = bounds[-1]
    while True:
        yield bisect_right(bounds, source.random() * total)


def exponential(mean: float, source: Random) -> Iterator[float]:
    """Exponential gaps of that mean, for ever."""
    while True:
        yield -math.log(1.0 - source.random()) * mean


class Draws:
    """All draws of one round.

    Args:
        plan: The round's parameters.
        seed: Of the window.
        number: Of the round, from 1.
    """

    def __init__(self, plan: Plan, seed: int, number: int) -> None:
        self._plan = plan
        self._seed = seed
        self._number = number

    def gaps(self, connection: int) -> Iterator[float]:
        """Seconds from one request of a connection to its next, for ever."""
        plan = self._plan
        if plan.distribution is Distribution.FIXED:
            return repeat(plan.interval)
        source = stream(self._seed, self._number, connection, "gaps")
        return exponential(plan.interval, source)

    def kinds(self, connection: int) -> Iterator[int]:
        """Which kind each request of a connection is, for ever."""
        kinds: tuple[Kind, ...] = self._plan.kinds
        source = stream(self._seed, self._number, connection, "kinds")
        return choices([kind.weight for kind in kinds], source)
