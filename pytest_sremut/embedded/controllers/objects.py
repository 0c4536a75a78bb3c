"""Questions that every controller asks of objects, answered in one way.

Rules kept here:

* pure: no registry, no clock but the moment handed in;
* objects are read as they come: fields that the API leaves out are absent, never assumed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from pytest_sremut.embedded.meta.jsonvalue import JsonObject, parse_time
from pytest_sremut.embedded.meta.selectors import selector_of

__all__ = [
    "Key",
    "add_owner",
    "condition",
    "container_statuses",
    "controller_of",
    "decimal_hash",
    "deleting",
    "finalizers",
    "key_of",
    "labels_of",
    "matches",
    "owner_reference",
    "pod_active",
    "pod_available",
    "pod_ready",
    "pod_terminal",
    "pod_terminating",
    "ready_since",
    "resolve_count",
    "safe_hash",
    "whole",
    "without_owner",
]

Key = tuple[str, str]
"""Namespace and name of an object; the namespace of a cluster-wide one is empty."""

MAX_DIGITS = 18
HASH_CHARACTERS = "bcdfghjklmnpqrstvwxz2456789"
FNV32_OFFSET, FNV32_PRIME = 0x811C9DC5, 0x01000193


def key_of(value: JsonObject) -> Key:
    """Namespace and name."""
    metadata = value["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def labels_of(value: JsonObject) -> Mapping[str, str]:
    """The labels of an object, perhaps none."""
    return value["metadata"].get("labels") or {}


def deleting(value: JsonObject) -> bool:
    """Whether deletion of the object was asked for."""
    return "deletionTimestamp" in value["metadata"]


def finalizers(value: JsonObject) -> Sequence[str]:
    """What holds the object when it is deleted."""
    return value["metadata"].get("finalizers") or ()


# Owners


def controller_of(value: JsonObject) -> JsonObject | None:
    """The owner reference of the controller, or ``None``."""
    for reference in value["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            found: JsonObject = reference
            return found
    return None


def owner_reference(owner: JsonObject) -> JsonObject:
    """A controller reference to `owner`, as controllers write it."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def add_owner(value: JsonObject, owner: JsonObject) -> None:
    """Make `owner` the controller of `value`, in place."""
    value["metadata"].setdefault("ownerReferences", []).append(owner_reference(owner))


def without_owner(value: JsonObject, uid: str) -> None:
    """Take the references to `uid` away, in place; an empty list goes too."""
    metadata = value["metadata"]
    kept = [item for item in metadata.get("ownerReferences") or () if item.get("uid") != uid]
    if kept:
        metadata["ownerReferences"] = kept
    else:
        metadata.pop("ownerReferences", None)


# Selectors


def matches(selector: JsonObject | None, labels: Mapping[str, str]) -> bool:
    """Whether a ``LabelSelector`` selects `labels`; an absent one none, an empty one all."""
    if selector is None:
        return False
    for key, wanted in (selector.get("matchLabels") or {}).items():
        if labels.get(key) != wanted:
            return False
    expressions = selector.get("matchExpressions")
    return not expressions or selector_of({"matchExpressions": expressions}).matches(labels)


# Pods


def condition(value: JsonObject, type_: str) -> JsonObject | None:
    """The condition of that type, or ``None``."""
    for item in (value.get("status") or {}).get("conditions") or ():
        if item.get("type") == type_:
            found: JsonObject = item
            return found
    return None


def pod_terminal(pod: JsonObject) -> bool:
    """Whether its containers have stopped for good."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def pod_active(pod: JsonObject) -> bool:
    """Whether it counts as a replica: neither finished nor being deleted."""
    return not pod_terminal(pod) and not deleting(pod)


def pod_terminating(pod: JsonObject) -> bool:
    """Whether it is being deleted and its containers still run."""
    return deleting(pod) and not pod_terminal(pod)


def pod_ready(pod: JsonObject) -> bool:
    """Whether its ``Ready`` condition is true."""
    ready = condition(pod, "Ready")
    return ready is not None and ready.get("status") == "True"


def ready_since(pod: JsonObject) -> datetime | None:
    """When ``Ready`` last changed, if it is true."""
    ready = condition(pod, "Ready")
    if ready is None or ready.get("status") != "True" or not ready.get("lastTransitionTime"):
        return None
    return parse_time(ready["lastTransitionTime"])


def pod_available(pod: JsonObject, min_ready_seconds: int, now: datetime) -> bool:
    """Whether it has been ready for `min_ready_seconds`."""
    if not pod_ready(pod):
        return False
    if min_ready_seconds == 0:
        return True
    since = ready_since(pod)
    return since is not None and since + timedelta(seconds=min_ready_seconds) <= now


def container_statuses(pod: JsonObject) -> Iterable[JsonObject]:
    """Statuses of its init and ordinary containers."""
    status = pod.get("status") or {}
    yield from status.get("initContainerStatuses") or ()
    yield from status.get("containerStatuses") or ()


# Numbers and hashes


def whole(text: str) -> int | None:
    """The number that `text` writes in plain digits; ``None`` if it writes none of sane length."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS else None


def resolve_count(value: Any, total: int, *, round_up: bool) -> int:
    """An int-or-percent (``3``, ``"25%"``) of `total`; what is neither counts as zero."""
    if isinstance(value, int):
        return value
    percent = whole(value[:-1]) if isinstance(value, str) and value.endswith("%") else None
    if percent is None:
        return 0
    share = percent * total
    return -(-share // 100) if round_up else share // 100


def decimal_hash(value: Any, collisions: int = 0) -> str:
    """FNV-1a of a JSON value, in decimal; differs with `collisions`."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    if collisions:
        text += f"#{collisions}"
    result = FNV32_OFFSET
    for byte in text.encode("utf-8", "surrogatepass"):
        result = ((result ^ byte) * FNV32_PRIME) & 0xFFFFFFFF
    return str(result)


def safe_hash(value: Any, collisions: int = 0) -> str:
    """`decimal_hash` in the characters that Kubernetes uses for hashes: ``5fc7c7b6b``."""
    digits = decimal_hash(value, collisions)
    return "".join(HASH_CHARACTERS[ord(digit) % len(HASH_CHARACTERS)] for digit in digits)
