"""Pieces of printed rows that several kinds share."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from pytest_sremut.embedded.meta.jsonvalue import JsonObject

__all__ = ["NONE", "Row", "containers_of", "labels_text", "name_of", "spec_of", "status_of"]

NONE = "<none>"
Row = Callable[[JsonObject, datetime], list[Any]]


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
