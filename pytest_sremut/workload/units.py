"""wrk2's numbers with units, written and read.

Writing keeps wrk2's rule that a unit changes at 0.85 of the next: 850 us is `0.85ms`, 51 s is
`0.85m`. Sizes are binary (1024), rates decimal (1000).
"""

from __future__ import annotations

import math
import re

__all__ = ["format_rate", "format_size", "format_time", "parse_time"]

_SWITCH = 0.85
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_TIME = re.compile(r"(\d{1,30}(?:\.\d{1,9})?)(us|ms|s|m|h)", re.ASCII)


def _scaled(value: float, step: float, units: tuple[str, ...]) -> str:
    last = len(units) - 1
    for place, unit in enumerate(units):
        if place == last or value < step * _SWITCH:
            return f"{value:.2f}{unit}"
        value /= step
    raise AssertionError("units is never empty")


def format_time(seconds: float) -> str:
    """`320.00us`, `0.88ms`, `1.32s`, `2.00m`. Not a number is `-nanus`, as wrk2 has it."""
    if math.isnan(seconds):
        return "-nanus"
    if seconds < 1:
        return _scaled(seconds * 1e6, 1000, ("us", "ms", "s"))
    return _scaled(seconds, 60, ("s", "m", "h"))


def format_size(count: float) -> str:
    """`500.00B`, `19.81MB`."""
    return _scaled(count, 1024, ("", "K", "M", "G", "T", "P")) + "B"


def format_rate(count: float) -> str:
    """`105.00`, `1.05k`. Not a number is `-nan`."""
    return "-nan" if math.isnan(count) else _scaled(count, 1000, ("", "k", "M", "G", "T", "P"))


def parse_time(text: str) -> float | None:
    """Seconds; None for what has no unit, is not a number, or is not finite."""
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    return float(match[1]) * _SECONDS[match[2]]
