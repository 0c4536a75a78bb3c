"""What a Job's pods and clock say of the Job.

Rules kept here:

* pure: objects and the moment in, decisions out;
* a pod counts as failed when its containers failed or when it is deleted before it succeeded; it is
  counted once, for as long as it carries the tracking finalizer;
* a Job that is to end says why first (``SuccessCriteriaMet``, ``FailureTarget``) and ends
  (``Complete``, ``Failed``) when its last pod is gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pytest_sremut.embedded.controllers.objects import (
    condition,
    container_statuses,
    deleting,
    finalizers,
    pod_terminal,
)
from pytest_sremut.embedded.meta.jsonvalue import JsonObject, parse_time, timestamp

__all__ = [
    "TRACKING",
    "Verdict",
    "backoff",
    "failed",
    "finish_time",
    "finished",
    "job_condition",
    "ordered",
    "succeeded",
    "tracked",
    "verdict",
    "wanted_active",
]

TRACKING = "batch.kubernetes.io/job-tracking"
FIRST_BACKOFF, LAST_BACKOFF = 10.0, 600.0

_ORDER = (
    "conditions",
    "startTime",
    "completionTime",
    "active",
    "succeeded",
    "failed",
    "terminating",
    "completedIndexes",
    "uncountedTerminatedPods",
    "ready",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Why a Job is to end: the condition that says so first, and the one that ends it."""

    target: str
    final: str
    reason: str
    message: str


def tracked(pod: JsonObject) -> bool:
    """Whether the pod's end is yet to be counted."""
    return TRACKING in finalizers(pod)


def succeeded(pod: JsonObject) -> bool:
    """Whether the pod ended well."""
    return bool((pod.get("status") or {}).get("phase") == "Succeeded")


def failed(pod: JsonObject) -> bool:
    """Whether the pod will not end well."""
    return not succeeded(pod) and (pod_terminal(pod) or deleting(pod))


def finished(job: JsonObject) -> JsonObject | None:
    """The condition that ended the Job, or ``None``."""
    for type_ in ("Complete", "Failed"):
        present = condition(job, type_)
        if present is not None and present.get("status") == "True":
            return present
    return None


def finish_time(pod: JsonObject, now: datetime) -> datetime:
    """When the last container of the pod stopped; `now` if it is not known."""
    times = [
        parse_time(ended["finishedAt"])
        for item in container_statuses(pod)
        if (ended := (item.get("state") or {}).get("terminated")) and ended.get("finishedAt")
    ]
    return max(times, default=now)


def backoff(failures: int) -> timedelta:
    """How long to wait after `failures` failures in a row: 10 s, 20 s, 40 s ... 10 minutes."""
    if failures <= 0:
        return timedelta(0)
    return timedelta(seconds=min(FIRST_BACKOFF * 2 ** min(failures - 1, 10), LAST_BACKOFF))


def job_condition(
    type_: str, reason: str, message: str, now: datetime, status: str = "True"
) -> JsonObject:
    """A condition of a Job."""
    moment = timestamp(now)
    return {
        "type": type_,
        "status": status,
        "lastProbeTime": moment,
        "lastTransitionTime": moment,
        "reason": reason,
        "message": message,
    }


def ordered(status: dict[str, Any]) -> JsonObject:
    """`status` with its fields in the order of the API, zero counts left out."""
    kept = {field: status[field] for field in _ORDER if field in status}
    for field in ("active", "succeeded", "failed", "conditions", "completedIndexes"):
        if not kept.get(field):
            kept.pop(field, None)
    return kept


def verdict(
    job: JsonObject,
    status: JsonObject,
    pods: Sequence[JsonObject],
    *,
    won: int,
    lost: int,
    active: int,
    now: datetime,
) -> Verdict | None:
    """Why the Job is to end, or ``None``.

    Args:
        status: the Job's status as it is about to be written.
        won: pods (or indexes) that succeeded so far.
        lost: pods that failed so far.
        active: pods that still run.
    """
    told = {item["type"]: item for item in status.get("conditions") or ()}
    for target, final in (("FailureTarget", "Failed"), ("SuccessCriteriaMet", "Complete")):
        if target in told:
            reason, message = told[target]["reason"], told[target]["message"]
            return Verdict(target=target, final=final, reason=reason, message=message)
    spec = job["spec"]
    if lost > spec.get("backoffLimit", 6) or _restarted_too_often(spec, pods):
        return _failure("BackoffLimitExceeded", "Job has reached the specified backoff limit")
    limit = spec.get("activeDeadlineSeconds")
    start = status.get("startTime")
    if limit is not None and start and parse_time(start) + timedelta(seconds=limit) <= now:
        return _failure("DeadlineExceeded", "Job was active longer than specified deadline")
    total = spec.get("completions")
    enough = won >= total if total is not None else won > 0 and active == 0
    if not enough or spec.get("suspend"):
        return None
    return Verdict(
        target="SuccessCriteriaMet",
        final="Complete",
        reason="CompletionsReached",
        message="Reached expected number of succeeded pods",
    )


def _failure(reason: str, message: str) -> Verdict:
    return Verdict(target="FailureTarget", final="Failed", reason=reason, message=message)


def _restarted_too_often(spec: JsonObject, pods: Sequence[JsonObject]) -> bool:
    if spec["template"]["spec"].get("restartPolicy") != "OnFailure":
        return False
    restarts = sum(
        item.get("restartCount", 0)
        for pod in pods
        if not pod_terminal(pod)
        for item in container_statuses(pod)
    )
    limit = spec.get("backoffLimit", 6)
    return bool(restarts > 0 if limit == 0 else restarts >= limit)


def wanted_active(job: JsonObject, won: int, active: int) -> int:
    """How many pods should run now."""
    parallel = int(job["spec"].get("parallelism", 1))
    total = job["spec"].get("completions")
    if total is None:
        return active if won else parallel
    return max(0, min(parallel, int(total) - won))
