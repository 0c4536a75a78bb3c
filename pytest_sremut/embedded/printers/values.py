"""Printed values that several kinds share.

Rule kept here: ages are written in the two-unit form of kubectl (``4s``, ``3m22s``, ``5d``).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from pytest_sremut.embedded.meta.jsonvalue import JsonObject, parse_time

__all__ = [
    "NONE",
    "UNKNOWN",
    "Printer",
    "age",
    "containers_of",
    "duration",
    "labels_text",
    "name_of",
    "since",
    "spec_of",
    "status_of",
]

NONE = "<none>"
UNKNOWN = "<unknown>"
Printer = Callable[[JsonObject, datetime], list[Any]]
"""What one object prints, in the order of its kind's columns."""


def name_of(value: JsonObject) -> str:
    """The object's name."""
    return str(value["metadata"].get("name", ""))


def spec_of(value: JsonObject) -> JsonObject:
    """The specification, or an empty one."""
    return value.get("spec") or {}


def status_of(value: JsonObject) -> JsonObject:
    """The status, or an empty one."""
    return value.get("status") or {}


def labels_text(selector: Any) -> str:
    """Labels as ``a=b,c=d``."""
    if not isinstance(selector, dict) or not selector:
        return NONE
    return ",".join(f"{key}={item}" for key, item in sorted(selector.items()))


def containers_of(pod: JsonObject) -> list[str]:
    """Names and images of the containers of a pod specification."""
    containers = pod.get("containers") or []
    return [
        ",".join(str(item.get("name", "")) for item in containers),
        ",".join(str(item.get("image", "")) for item in containers),
    ]


def age(value: JsonObject, now: datetime) -> str:
    """Time since the object was created."""
    return since(value["metadata"].get("creationTimestamp"), now)


def since(moment: Any, now: datetime) -> str:
    """Time since an API timestamp; ``<unknown>`` when there is none."""
    if not isinstance(moment, str):
        return UNKNOWN
    try:
        return duration((now - parse_time(moment)).total_seconds())
    except ValueError:
        return UNKNOWN


def duration(total: float) -> str:
    """Seconds in the form that kubectl prints: two units at most, one when it says enough."""
    seconds = int(total)
    if seconds < -1:
        return "<invalid>"
    seconds = max(seconds, 0)
    if seconds < 120:
        return f"{seconds}s"
    minutes = seconds // 60
    if minutes < 10:
        rest = seconds % 60
        return f"{minutes}m{rest}s" if rest else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    hours = minutes // 60
    if hours < 8:
        rest = minutes % 60
        return f"{hours}h{rest}m" if rest else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    days = hours // 24
    if days < 8:
        rest = hours % 24
        return f"{days}d{rest}h" if rest else f"{days}d"
    if days < 365 * 2:
        return f"{days}d"
    years = days // 365
    rest = days % 365
    return f"{years}y{rest}d" if years < 8 and rest else f"{years}y"
