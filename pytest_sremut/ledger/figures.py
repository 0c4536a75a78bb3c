"""The arithmetic of the ledger. A figure over no data is None.

Everything is computed from counts. Figures are rounded once, to four decimals, when written. A
whole number is written as an integer.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from pytest_sremut.ledger.model import WindowFact

__all__ = ["INTERVAL", "figure", "mean", "percent", "retained", "wilson"]

INTERVAL: Final = "Wilson score, 95 %"
"""Name of the binomial interval: unlike the normal approximation it stays within 0 and 100 %, and
unlike Clopper-Pearson it needs no incomplete beta function, hence no other library's rounding."""

_Z: Final = 1.959963984540054  # 97.5th percentile of the standard normal distribution
_DECIMALS: Final = 4


def figure(value: float | None) -> float | int | None:
    """A number as the ledger writes it."""
    if value is None:
        return None
    rounded = round(value, _DECIMALS)
    return int(rounded) if rounded == int(rounded) else rounded


def percent(part: int, whole: int) -> float | None:
    """`part` in percent of `whole`; None if `whole` is 0."""
    return 100.0 * part / whole if whole else None


def mean(values: Iterable[float]) -> float | None:
    """The arithmetic mean; None of an empty input."""
    given = list(values)
    return math.fsum(given) / len(given) if given else None


def retained(healthy: WindowFact | None, observed: WindowFact | None) -> float | None:
    """Successful responses per round in percent of the healthy window's; None of nothing."""
    if healthy is None or observed is None:
        return None
    if not healthy.rounds or not observed.rounds or not healthy.successes:
        return None
    # One division: 100 * (a / b) / (c / d) would round three times.
    return 100.0 * (observed.successes * healthy.rounds) / (observed.rounds * healthy.successes)


def wilson(part: int, whole: int) -> tuple[float, float] | None:
    """The 95 % Wilson score interval of a proportion, in percent; None if `whole` is 0.

    Args:
        part: How many of `whole`; 0 <= part <= whole.
        whole: How many were tried.
    """
    if not whole:
        return None
    rate = part / whole
    square = _Z * _Z
    centre = rate + square / (2 * whole)
    spread = _Z * math.sqrt(rate * (1 - rate) / whole + square / (4 * whole * whole))
    scale = 1 + square / whole
    low = 0.0 if part == 0 else (centre - spread) / scale
    high = 1.0 if part == whole else (centre + spread) / scale
    return 100 * low, 100 * high
