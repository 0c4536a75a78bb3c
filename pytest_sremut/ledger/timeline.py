"""How the pods were around a reading, from the sampler's timeline and never from the verdict.

Pure functions over samples. Times are seconds on the run's monotonic clock. Rules:

- A failed sample says nothing about pods.
- A pod is suspect if a sample during the reading found it not Running. The reading is extended by
  one sampling interval on either side.
- A suspect pod *recovered by itself* if the last sample before our next change of the cluster finds
  it Running or gone. What only our own restoration repaired did not recover.
- Not of the application: the connectivity-check pods of the grader under audit, our own pods, and
  pods that were marked as a probe's in the sample (`engine.own_pods`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

__all__ = ["PodCondition", "Sample", "application_down", "parse_timeline", "pods_during"]

_PROBES: Final = ("service-connectivity-check", "sremut-")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One sample of the namespace.

    `not_running` maps pod UID to phase for every pod that was not Running. It is None if the sample
    failed, which says nothing about pods.
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
    samples: Sequence[Sample], *, begin: float, end: float, slack: float, until: float = math.inf
) -> PodCondition:
    """How the namespace's pods were while a reading ran, and what became of them.

    Args:
        samples: The whole timeline, ascending.
        begin: Start of the reading.
        end: End of the reading.
        slack: How far outside the reading a sample still counts for it (one sampling interval).
        until: When we next changed the cluster ourselves; later samples show our own changes.
    """
    seen = [s for s in samples if s.not_running is not None and begin - slack <= s.at <= until]
    near = [s for s in seen if s.at <= end + slack]
    if not near:
        return PodCondition.UNKNOWN
    suspects = {uid for s in near for uid in s.not_running or ()}
    if not suspects:
        return PodCondition.ALL_RUNNING
    still = suspects.intersection(seen[-1].not_running or ())
    return PodCondition.NEVER_RECOVERED if still else PodCondition.RECOVERED


def parse_timeline(data: bytes) -> tuple[Sample, ...]:
    """The samples of a `sampler.jsonl`, ascending in time.

    A sample without readable pods is a failed one. A line without a time is no sample; a crash can
    leave a torn last line. Never raises, whatever the bytes are.
    """
    samples: list[Sample] = []
    for line in data.split(b"\n"):
        if not line:
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        at = _seconds(value.get("monotonic")) if isinstance(value, dict) else None
        if at is not None:
            samples.append(Sample(at=at, not_running=application_down(value.get("pods"))))
    return tuple(sorted(samples, key=lambda sample: sample.at))


def _seconds(value: Any) -> float | None:
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        return None
    return seconds if math.isfinite(seconds) else None


def application_down(pods: Any) -> dict[str, str] | None:
    """UID to phase of the application's pods that a sample found not Running; None if it failed.

    Args:
        pods: The `pods` of a sample.
    """
    if not isinstance(pods, dict) or not isinstance(pods.get("not_running"), list):
        return None
    found: dict[str, str] = {}
    for pod in _mappings(pods["not_running"]):
        name, uid = str(pod.get("name", "")), str(pod.get("uid", ""))
        if not (name.startswith(_PROBES) or pod.get("probe") is True):
            found[uid] = str(pod.get("phase", ""))
    return found


def _mappings(items: Iterable[Any]) -> Iterable[Mapping[str, Any]]:
    return (item for item in items if isinstance(item, Mapping))
