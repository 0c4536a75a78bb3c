"""How slow the cluster pretends to be: the API's delay and limit, the time a pod takes to start.

Ours answers within a millisecond and starts a pod in a tenth of a second. A real one does not, and
what waits badly shows only there. A pace changes when things happen, never what happens. All draws
come from one seed, which the cluster's facts tell.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from typing import Final

__all__ = ["REAL", "Bucket", "Pace", "PaceError", "parse_pace"]

_NUMBER = re.compile(r"\A(\d+(?:\.\d+)?)(ms|s)\Z")
_LONGEST = 60.0


class PaceError(ValueError):
    """The text is no pace; the message says what is allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Times in seconds; everything 0 is as fast as it goes."""

    delay: float = 0.0  # of each answer of the API
    jitter: float = 0.0  # added to it, drawn evenly from 0 to this
    least_start: float = 0.0  # from a pod's address to its first container
    most_start: float = 0.0  # drawn evenly between the two
    limit: int = 0  # requests a second that one user may make; more are told to come again. 0: any
    seed: int = 1

    @property
    def slows(self) -> bool:
        """Whether it is slower than nothing."""
        return bool(self.delay or self.jitter or self.most_start or self.limit)

    def facts(self) -> dict[str, float | int]:
        """JSON-ready, for the cluster's facts; empty where nothing is slowed."""
        if not self.slows:
            return {}
        return {
            "api_delay": self.delay,
            "api_jitter": self.jitter,
            "api_limit": self.limit,
            "pod_start_least": self.least_start,
            "pod_start_most": self.most_start,
            "seed": self.seed,
        }

    def draws(self, what: str) -> random.Random:
        """A source of draws of its own for each thing that draws."""
        return random.Random(f"{self.seed}/{what}")  # noqa: S311 - no secret is made of it


REAL: Final = Pace(delay=0.02, jitter=0.02, least_start=1.0, most_start=3.0)
"""What `real` stands for: about what one small node of a real cluster was seen to do."""

_ALLOWED: Final = (
    "none, real, or parts joined by commas: delay:TIME, jitter:TIME, pods:TIME-TIME, "
    "limit:REQUESTS-A-SECOND, seed:NUMBER; TIME is like 20ms or 1.5s, at most 60s"
)


def parse_pace(text: str) -> Pace:
    """A pace as a user writes it: `none`, `real`, or `delay:20ms,jitter:10ms,pods:1s-3s,limit:50`.

    Raises:
        PaceError: It is none; says what was found and what is allowed.
    """
    if text == "none":
        return Pace()
    if text == "real":
        return REAL
    values: dict[str, float | int] = {}
    for part in text.split(","):
        name, _, value = part.partition(":")
        before = len(values)
        if name in {"delay", "jitter"}:
            values[name] = _time(value, text)
        elif name == "pods":
            least, dash, most = value.partition("-")
            values["least_start"] = _time(least, text)
            values["most_start"] = _time(most if dash else least, text)
        elif name in {"limit", "seed"} and value.isascii() and value.isdigit() and len(value) < 10:
            values[name] = int(value)
        if len(values) == before:  # unknown, unreadable, or twice
            raise _error(text)
    if values.get("least_start", 0) > values.get("most_start", 0):
        raise _error(text)
    return Pace(**values)  # type: ignore[arg-type]  # `limit` and `seed` are whole, as checked


class Bucket:
    """A token bucket of one second: what comes too fast has to wait so many seconds.

    Args:
        limit: Requests a second, and how many may come at once.
        now: The time at which it is full.
    """

    def __init__(self, limit: int, now: float) -> None:
        self._limit = limit
        self._tokens = float(limit)
        self._at = now

    def take(self, now: float) -> bool:
        """Whether one more may pass now."""
        self._tokens = min(self._tokens + (now - self._at) * self._limit, float(self._limit))
        self._at = now
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True


def _time(text: str, whole: str) -> float:
    match = _NUMBER.match(text)
    if match is None:
        raise _error(whole)
    value = float(match[1]) * (0.001 if match[2] == "ms" else 1.0)
    if value > _LONGEST:
        raise _error(whole)
    return value


def _error(text: str) -> PaceError:
    return PaceError(f"found {text!r:.80}; allowed: {_ALLOWED}")
