"""What a delete request does to an object.

Rules kept here:

* preconditions first, then grace, then finalizers, as the API server orders them;
* a pod that runs on a node is marked and stays; a finished, unscheduled or forced one goes at once;
* a namespace is marked ``Terminating`` and stays for its controller.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from pytest_sremut.embedded.meta.errors import conflict
from pytest_sremut.embedded.meta.jsonvalue import JsonObject, clone, parse_time, timestamp
from pytest_sremut.embedded.meta.resources import Resource

__all__ = [
    "FOREGROUND_FINALIZER",
    "ORPHAN_FINALIZER",
    "Deletion",
    "delete_object",
    "finish_deletion",
]

FOREGROUND_FINALIZER = "foregroundDeletion"
ORPHAN_FINALIZER = "orphan"
DEFAULT_GRACE = 30
FINISHED = ("Succeeded", "Failed")
ORPHANS_BY_DEFAULT = frozenset({"jobs.batch", "cronjobs.batch"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """The options of a delete request; see `Registry.delete`."""

    uid: str | None = None
    resource_version: str | None = None
    grace_period: int | None = None
    propagation: str | None = None


def delete_object(
    table: Resource, old: JsonObject, request: Deletion, now: datetime
) -> tuple[JsonObject, bool]:
    """Apply `request` to `old`.

    Returns:
        The object afterwards (`old` itself if nothing changes), and whether it is gone.

    Raises:
        ApiStatus: a precondition fails.
    """
    _check_preconditions(table, old, request)
    if table.key == "namespaces":
        return _delete_namespace(old, now)
    value = clone(old)
    metadata = value["metadata"]
    grace = _grace(table, old, request)
    finalizers = _finalizers(table, metadata, request.propagation)
    if finalizers:
        metadata["finalizers"] = finalizers
    else:
        metadata.pop("finalizers", None)
    if "deletionTimestamp" in metadata:
        _shorten(metadata, grace, now)
    elif grace > 0 or finalizers or table.key == "pods":
        metadata["deletionTimestamp"] = timestamp(now + timedelta(seconds=grace))
        metadata["deletionGracePeriodSeconds"] = grace
        if "generation" in metadata:
            metadata["generation"] += 1
    gone = not finalizers and not metadata.get("deletionGracePeriodSeconds")
    return (old, False) if value == old and not gone else (value, gone)


def finish_deletion(old: JsonObject, value: JsonObject) -> bool:
    """Whether the update from `old` to `value` takes away what held a deleted object."""
    metadata = value["metadata"]
    if "deletionTimestamp" not in metadata or metadata.get("finalizers"):
        return False
    if not old["metadata"].get("finalizers"):
        return False
    if (value.get("spec") or {}).get("finalizers") and value.get("kind") == "Namespace":
        return False
    return not metadata.get("deletionGracePeriodSeconds")


def _check_preconditions(table: Resource, old: JsonObject, request: Deletion) -> None:
    metadata = old["metadata"]
    name, uid, version = metadata["name"], metadata["uid"], metadata["resourceVersion"]
    if request.uid and request.uid != uid:
        raise conflict(
            table.qualified_kind,
            name,
            f"the UID in the precondition ({request.uid}) does not match the UID in record "
            f"({uid}). The object might have been deleted and then recreated",
        )
    if request.resource_version and request.resource_version != version:
        raise conflict(
            table.qualified_kind,
            name,
            f"the ResourceVersion in the precondition ({request.resource_version}) does not match "
            f"the ResourceVersion in record ({version}). The object might have been modified",
        )


def _delete_namespace(old: JsonObject, now: datetime) -> tuple[JsonObject, bool]:
    if "deletionTimestamp" in old["metadata"]:
        return old, False
    value = clone(old)
    value["metadata"]["deletionTimestamp"] = timestamp(now)
    value.setdefault("status", {})["phase"] = "Terminating"
    return value, False


def _grace(table: Resource, old: JsonObject, request: Deletion) -> int:
    if table.key != "pods":
        return 0
    spec = old.get("spec") or {}
    if not spec.get("nodeName") or (old.get("status") or {}).get("phase") in FINISHED:
        return 0
    grace = request.grace_period
    if grace is None:
        grace = spec.get("terminationGracePeriodSeconds", DEFAULT_GRACE)
    return 1 if grace < 0 else int(grace)


def _shorten(metadata: JsonObject, grace: int, now: datetime) -> None:
    """A second delete of a terminating object may only bring its end nearer."""
    current = metadata.get("deletionGracePeriodSeconds", 0)
    if grace >= current:
        return
    if grace == 0:
        metadata["deletionTimestamp"] = timestamp(now)
    else:
        due = parse_time(metadata["deletionTimestamp"])
        metadata["deletionTimestamp"] = timestamp(due - timedelta(seconds=current - grace))
    metadata["deletionGracePeriodSeconds"] = grace


def _finalizers(table: Resource, metadata: JsonObject, propagation: str | None) -> list[str]:
    """The finalizers after the request: propagation is kept as one of two finalizers."""
    current: list[str] = list(metadata.get("finalizers") or [])
    if propagation is None:
        if FOREGROUND_FINALIZER in current or ORPHAN_FINALIZER in current:
            return current
        propagation = "Orphan" if table.key in ORPHANS_BY_DEFAULT else "Background"
    kept = [item for item in current if item not in (FOREGROUND_FINALIZER, ORPHAN_FINALIZER)]
    if propagation == "Orphan":
        kept.append(ORPHAN_FINALIZER)
    elif propagation == "Foreground":
        kept.append(FOREGROUND_FINALIZER)
    return kept
