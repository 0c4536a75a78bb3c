"""Where the time went: per attempt as recorded, and per phase over the valid attempts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from statistics import median
from typing import Any

from pytest_sremut.ledger.figures import figure
from pytest_sremut.ledger.judge import JudgedStudy
from pytest_sremut.ledger.model import AttemptFact
from pytest_sremut.ledger.sources import Sources

__all__ = ["attempt_seconds", "timings"]

_DRIVER = "driver"
"""The phase that spans a whole attempt, if it was recorded."""


def attempt_seconds(attempt: AttemptFact) -> float | None:
    """How long an attempt took, as recorded or from its times; None if neither is known."""
    if _DRIVER in attempt.timings:
        return attempt.timings[_DRIVER]
    begin, end = _instant(attempt.opened), _instant(attempt.closed)
    return None if begin is None or end is None else (end - begin).total_seconds()


def _instant(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def timings(judged: JudgedStudy, sources: Sources) -> dict[str, Any]:
    """Seconds per phase over valid attempts, the waiting that is demanded, and the total."""
    counted = judged.counted
    whole = [s for attempt in counted if (s := attempt_seconds(attempt)) is not None]
    total = math.fsum(whole)
    return {
        "phases": _phases([attempt.timings for attempt in counted]),
        "waiting": _phases([attempt.waiting for attempt in counted]),
        "attempts": len(whole),
        "total_seconds": figure(total),
        "total_minutes": round(total / 60, 1) if whole else None,
        "from": sources.ranges(attempt.source for attempt in counted),
    }


def _phases(given: list[Mapping[str, float]]) -> list[dict[str, Any]]:
    values: dict[str, list[float]] = {}
    for one in given:
        for phase, seconds in one.items():
            values.setdefault(phase, []).append(seconds)
    return [
        {
            "phase": phase,
            "attempts": len(seconds),
            "minimum": figure(min(seconds)),
            "median": figure(median(seconds)),
            "maximum": figure(max(seconds)),
            "sum": figure(math.fsum(seconds)),
        }
        for phase, seconds in sorted(values.items())
    ]
