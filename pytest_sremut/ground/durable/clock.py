"""Time as evidence needs it: passed in, so that a test decides what it is."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol

__all__ = ["Clock", "SystemClock", "rfc3339"]


class Clock(Protocol):
    """`now` is aware and in UTC; `monotonic` is seconds since some fixed moment of this boot."""

    def now(self) -> datetime: ...

    def monotonic(self) -> float: ...


class SystemClock:
    """The machine's clocks."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()


def rfc3339(instant: datetime) -> str:
    """`2026-08-29T10:22:09.623818Z`, always with microseconds, always UTC."""
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
