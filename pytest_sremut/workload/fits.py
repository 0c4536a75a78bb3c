"""A report held against itself, and against what was asked. Pure.

A report prints its rate and its time with few digits; what they leave open is no contradiction.
"""

from __future__ import annotations

import math
import re

from pytest_sremut.workload.delivery import Asked
from pytest_sremut.workload.units import parse_time

__all__ = ["as_asked", "consistent"]

_DIGITS = re.compile(r"\d+(?:\.(\d+))?([a-z]+)", re.ASCII)
_LOOK = 2.0  # wrk2 ends at an answer or at its next look, which is every two seconds
_BUSY = 0.25  # seconds by which the embedded generator may end late
_SCATTER = 6.0  # standard deviations of a count of drawn arrivals


def consistent(requests: int, took: str, rate: float | None) -> bool:
    """Whether the count over the time is the rate, as far as their digits go.

    True without a time or a rate that could be compared.

    Args:
        requests: Completed.
        took: The time as the report prints it, `10.01s`.
        rate: Requests a second as the report prints it, with two decimals.
    """
    seconds = parse_time(took)
    if rate is None or not seconds:
        return True
    half = _half_digit(took)
    least = requests / (seconds + half) - 0.01
    most = requests / (seconds - half) + 0.01 if seconds > half else math.inf
    return least * 0.999 <= rate <= most * 1.001


def _half_digit(took: str) -> float:
    """Half of the last digit that is printed, in seconds."""
    match = _DIGITS.fullmatch(took)
    assert match is not None, "parse_time took it"
    unit = parse_time(f"1{match[2]}")
    assert unit is not None
    return float(0.5 * unit * 10.0 ** -len(match[1] or ""))


def as_asked(
    asked: Asked,
    *,
    requests: int,
    duration: float,
    announced: float | None,
    connections: int | None,
    embedded: bool,
    drain: float = 0.0,
) -> bool:
    """Whether a report can be of the load that was asked for. A system that answers less than it is
    asked contradicts nothing; one that answers more does.

    Args:
        asked: What was asked for.
        requests: Completed.
        duration: Seconds that the round took.
        announced: Seconds that the report's head announces; None: it has no such line.
        connections: As the report's head has it; None: it has no such line.
        embedded: Whether the embedded generator drove it, which ends more punctually than wrk2.
        drain: Seconds for which it may have waited for answers after the round's duration.
    """
    longest = 1.1 * asked.duration + (_BUSY if embedded else _LOOK + 0.1) + drain
    if not 0.9 * asked.duration - 0.05 <= duration <= longest:
        return False
    if announced is not None and not math.isclose(announced, asked.duration, rel_tol=0.01):
        return False
    if connections is not None and connections != asked.connections:
        return False
    drawn = 1.1 * asked.requests + _SCATTER * math.sqrt(asked.requests) + asked.connections
    return requests <= drawn * max(1.0, duration / asked.duration)
