"""What a Deployment's status says of its ReplicaSets.

Rules kept here:

* pure: objects and the moment in, a status out;
* conditions change as recorded: a condition that says the same with the same reason stays as it is;
  one that changes goes to the end of the list and keeps its transition time while its status stays;
* a rollout is complete, progressing, or stuck after ``progressDeadlineSeconds`` without progress;
  zero counts are left out, but for the terminating ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from pytest_sremut.embedded.controllers.objects import condition
from pytest_sremut.embedded.controllers.workloads.rollout import available, max_unavailable, wanted
from pytest_sremut.embedded.meta.jsonvalue import JsonObject, parse_time, timestamp

__all__ = [
    "COMPLETE",
    "TIMED_OUT",
    "calculate",
    "complete",
    "deadline_left",
    "has_deadline",
    "paused_condition",
    "set_condition",
    "set_progress",
]

COMPLETE = "NewReplicaSetAvailable"
TIMED_OUT = "ProgressDeadlineExceeded"
PROGRESSING = "ReplicaSetUpdated"
NO_DEADLINE = 2**31 - 1


def calculate(
    deployment: JsonObject, everything: Sequence[JsonObject], new: JsonObject | None, now: datetime
) -> JsonObject:
    """Counts and the ``Available`` condition; other conditions as they are."""
    serving = available(everything)
    total = wanted(deployment)
    old = deployment.get("status") or {}
    status: dict[str, Any] = {"observedGeneration": deployment["metadata"]["generation"]}
    counts = {
        "replicas": _sum(everything, "replicas"),
        "updatedReplicas": _sum([new] if new is not None else [], "replicas"),
        "readyReplicas": _sum(everything, "readyReplicas"),
        "availableReplicas": serving,
        "unavailableReplicas": max(0, sum(map(wanted, everything)) - serving),
    }
    status.update({field: count for field, count in counts.items() if count})
    status["terminatingReplicas"] = _sum(everything, "terminatingReplicas")
    if "collisionCount" in old:
        status["collisionCount"] = old["collisionCount"]
    status["conditions"] = list(old.get("conditions") or ())
    if serving >= total - max_unavailable(deployment):
        value, reason = "True", "MinimumReplicasAvailable"
        message = "Deployment has minimum availability."
    else:
        value, reason = "False", "MinimumReplicasUnavailable"
        message = "Deployment does not have minimum availability."
    set_condition(status, "Available", value=value, reason=reason, message=message, now=now)
    return status


def _sum(replicasets: Sequence[JsonObject], field: str) -> int:
    return sum((item.get("status") or {}).get(field, 0) for item in replicasets)


def set_condition(
    status: JsonObject, type_: str, *, value: str, reason: str, message: str, now: datetime
) -> None:
    """Set a condition of `status` in place, by the rules of the module."""
    conditions = status.setdefault("conditions", [])
    present = next((item for item in conditions if item["type"] == type_), None)
    if present and present["status"] == value and present["reason"] == reason:
        return
    changed = timestamp(now)
    same = present is not None and present["status"] == value
    fresh = {
        "type": type_,
        "status": value,
        "lastUpdateTime": changed,
        "lastTransitionTime": present["lastTransitionTime"] if present and same else changed,
        "reason": reason,
        "message": message,
    }
    status["conditions"] = [*(item for item in conditions if item["type"] != type_), fresh]


def _drop_condition(status: JsonObject, type_: str) -> None:
    status["conditions"] = [item for item in status["conditions"] if item["type"] != type_]


def complete(deployment: JsonObject, status: JsonObject) -> bool:
    """Whether all replicas are of the new template and available."""
    total = wanted(deployment)
    return bool(
        status.get("updatedReplicas", 0) == total
        and status.get("replicas", 0) == total
        and status.get("availableReplicas", 0) == total
        and status.get("observedGeneration", 0) >= deployment["metadata"]["generation"]
    )


def set_progress(
    deployment: JsonObject,
    status: JsonObject,
    everything: Sequence[JsonObject],
    new: JsonObject | None,
    now: datetime,
) -> None:
    """Set ``Progressing`` and ``ReplicaFailure`` of `status` in place."""
    present = condition(deployment, "Progressing")
    if not has_deadline(deployment):
        _drop_condition(status, "Progressing")
    elif not _settled(status, present):
        subject = (
            f'ReplicaSet "{new["metadata"]["name"]}"'
            if new
            else (f'Deployment "{deployment["metadata"]["name"]}"')
        )
        value, reason, ending = _progress(deployment, status, present, now)
        if reason == PROGRESSING:
            _drop_condition(status, "Progressing")  # even if it says the same: it was progress
        if reason:
            message = f"{subject} {ending}"
            set_condition(
                status, "Progressing", value=value, reason=reason, message=message, now=now
            )
        if reason == PROGRESSING and present and present["status"] == "True":
            status["conditions"][-1]["lastTransitionTime"] = present["lastTransitionTime"]
    failure = next(filter(None, (condition(item, "ReplicaFailure") for item in everything)), None)
    if failure is None:
        _drop_condition(status, "ReplicaFailure")
    else:
        set_condition(
            status,
            "ReplicaFailure",
            value=failure["status"],
            reason=failure.get("reason", ""),
            message=failure.get("message", ""),
            now=now,
        )


def _progress(
    deployment: JsonObject, status: JsonObject, present: JsonObject | None, now: datetime
) -> tuple[str, str, str]:
    """Status, reason and end of the sentence of ``Progressing``; no reason when nothing is new."""
    if complete(deployment, status):
        return "True", COMPLETE, "has successfully progressed."
    if _progressing(deployment.get("status") or {}, status):
        return "True", PROGRESSING, "is progressing."
    if _timed_out(deployment, present, now):
        return "False", TIMED_OUT, "has timed out progressing."
    return "", "", ""


def _settled(status: JsonObject, present: JsonObject | None) -> bool:
    """Whether the rollout was reported complete: scaling afterwards is no rollout."""
    if present is None or present.get("reason") != COMPLETE:
        return False
    return bool(status.get("replicas", 0) == status.get("updatedReplicas", 0))


def _progressing(old: JsonObject, new: JsonObject) -> bool:
    def count(status: JsonObject, field: str) -> int:
        return int(status.get(field, 0))

    def outdated(status: JsonObject) -> int:
        return count(status, "replicas") - count(status, "updatedReplicas")

    return (
        count(new, "updatedReplicas") > count(old, "updatedReplicas")
        or outdated(new) < outdated(old)
        or count(new, "readyReplicas") > count(old, "readyReplicas")
        or count(new, "availableReplicas") > count(old, "availableReplicas")
    )


def has_deadline(deployment: JsonObject) -> bool:
    """Whether the Deployment reports its progress at all."""
    return _deadline(deployment) is not None


def _deadline(deployment: JsonObject) -> timedelta | None:
    seconds = deployment["spec"].get("progressDeadlineSeconds")
    return None if seconds is None or seconds >= NO_DEADLINE else timedelta(seconds=seconds)


def _timed_out(deployment: JsonObject, present: JsonObject | None, now: datetime) -> bool:
    if present is None or present.get("reason") == COMPLETE:
        return False
    if present.get("reason") == TIMED_OUT:
        return True
    deadline = _deadline(deployment)
    return deadline is not None and parse_time(present["lastUpdateTime"]) + deadline < now


def deadline_left(deployment: JsonObject, status: JsonObject, now: datetime) -> float | None:
    """Seconds until a rollout that does not progress is stuck; ``None`` if it cannot become so."""
    present = next((item for item in status["conditions"] if item["type"] == "Progressing"), None)
    deadline = _deadline(deployment)
    if present is None or deadline is None or complete(deployment, status):
        return None
    if present["reason"] in (TIMED_OUT, COMPLETE):
        return None
    return (parse_time(present["lastUpdateTime"]) + deadline - now).total_seconds()


def paused_condition(deployment: JsonObject) -> tuple[str, str] | None:
    """Reason and message that pausing or resuming brings to ``Progressing``, if any."""
    present = condition(deployment, "Progressing")
    if _deadline(deployment) is None or (present and present.get("reason") == TIMED_OUT):
        return None
    told = present is not None and present.get("reason") == "DeploymentPaused"
    paused = bool(deployment["spec"].get("paused"))
    if paused and not told:
        return "DeploymentPaused", "Deployment is paused"
    if told and not paused:
        return "DeploymentResumed", "Deployment is resumed"
    return None
