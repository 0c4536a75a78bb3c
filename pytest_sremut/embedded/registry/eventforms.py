"""Events in their two forms: core/v1, in which they are stored, and events.k8s.io/v1."""

from __future__ import annotations

from pytest_sremut.embedded.meta.jsonvalue import JsonObject

__all__ = ["to_core", "to_events"]

_NAMES = (
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("count", "deprecatedCount"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("source", "deprecatedSource"),
)


def to_events(value: JsonObject) -> JsonObject:
    """A core/v1 Event as events.k8s.io/v1."""
    renamed = dict(_NAMES)
    result = {renamed.get(key, key): item for key, item in value.items()}
    return {**result, "apiVersion": "events.k8s.io/v1"}


def to_core(value: JsonObject) -> JsonObject:
    """An events.k8s.io/v1 Event as core/v1."""
    renamed = {new: old for old, new in _NAMES}
    result = {renamed.get(key, key): item for key, item in value.items()}
    return {**result, "apiVersion": "v1"}
