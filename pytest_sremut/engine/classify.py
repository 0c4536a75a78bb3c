"""What a surprising reading was, decided from the sampler's timeline and never from the verdict.

Pure functions over samples. Times are seconds on the run's monotonic clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

__all__ = ["PodCondition", "Sample", "pods_during"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One look at the namespace.

    `not_running` maps pod UID to phase for every pod that was not Running; None says that this
    look failed, which is no statement about pods.
    """

    at: float
    not_running: Mapping[str, str] | None


class PodCondition(StrEnum):
    """How the pods were around a reading."""

    ALL_RUNNING = "ALL_RUNNING"
    RECOVERED = "RECOVERED"  # some pod was not Running, and each of them later was, or left
    NEVER_RECOVERED = "NEVER_RECOVERED"
    UNKNOWN = "UNKNOWN"  # no successful sample near the reading


def pods_during(
    samples: Sequence[Sample], *, begin: float, end: float, slack: float
) -> PodCondition:
    """How the namespace's pods were while a reading ran, and what became of them.

    Args:
        samples: The whole timeline, ascending.
        begin: Start of the reading.
        end: End of the reading.
        slack: How far outside the reading a sample still speaks for it (one sampling interval).
    """
    near = [s for s in samples if begin - slack <= s.at <= end + slack]
    seen = [s for s in near if s.not_running is not None]
    if not seen:
        return PodCondition.UNKNOWN
    suspects = {uid for s in seen if s.not_running for uid in s.not_running}
    if not suspects:
        return PodCondition.ALL_RUNNING
    later = [s for s in samples if s.at > end + slack and s.not_running is not None]
    if not later:
        return PodCondition.NEVER_RECOVERED
    last = later[-1].not_running
    still = suspects & set(last or ())
    return PodCondition.NEVER_RECOVERED if still else PodCondition.RECOVERED
