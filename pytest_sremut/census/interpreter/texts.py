"""Values as text and as plain data, with holes for what is not known."""

from __future__ import annotations

import json
from typing import Any, Final

from pytest_sremut.census.interpreter.values import (
    Const,
    Dict,
    KObj,
    ListV,
    OneOf,
    PathV,
    Rec,
    Value,
    hole,
)

__all__ = ["as_text", "constant", "external_text", "is_none", "plain", "structure_text"]

_LONG_STRUCTURE: Final = 60_000


_DEEP: Final = 24


def as_text(value: Value) -> str | None:
    """`str(value)`, with holes; None if nothing is known."""
    match value:
        case Const(value=raw):
            return raw if isinstance(raw, str) else str(raw)
        case PathV(text=text):
            return text
        case Rec(attrs=attrs) if "value" in attrs:
            return as_text(attrs["value"])
        case OneOf(options=options):
            texts = [as_text(option) for option in options if not is_none(option)]
            found = [text for text in texts if text is not None]
            return found[0] if len(found) == 1 else None
        case KObj(path=path, root=root):
            if not path and root.writes:
                return structure_text(value)
            return hole(path or root.kind)
        case Dict() | ListV():
            return structure_text(value)
        case _:
            return None


def structure_text(value: Value) -> str | None:
    """A structure as JSON text, with holes for what is not known."""
    text = json.dumps(plain(value, 0), ensure_ascii=False)
    return text if len(text) <= _LONG_STRUCTURE else None


def plain(value: Value, depth: int) -> Any:
    """A value as JSON data. A Kubernetes object gives its identity and what was written to it."""
    if depth > _DEEP:
        return hole("deep")
    match value:
        case Dict(entries=entries):
            return {str(key): plain(item, depth + 1) for key, item in entries.items()}
        case ListV(items=items):
            return [plain(item, depth + 1) for item in items]
        case Const(value=raw) if raw is None or isinstance(raw, str | int | float | bool):
            return raw
        case KObj(root=root, path="") if root.writes:
            data: dict[str, Any] = {"kind": root.kind}
            data["metadata"] = {"name": root.name, "namespace": root.namespace}
            for path in sorted(root.writes):
                _put_path(data, path)
            return data
        case _:
            text = as_text(value)
            return hole("value") if text is None else text


def _put_path(data: dict[str, Any], path: str) -> None:
    here: Any = data
    *parents, last = path.replace("[]", ".[]").strip(".").split(".")
    for part, after in zip(parents, [*parents[1:], last], strict=True):
        below: Any = [] if after == "[]" else {}
        if part == "[]":
            if not here:
                here.append(below)
            here = here[0]
        else:
            here = here.setdefault(part, below)
        if not isinstance(here, dict | list):
            return
    if last == "[]" or isinstance(here, list):
        if isinstance(here, list):
            here.append(hole("value"))
    else:
        here.setdefault(last, hole("value"))


def is_none(value: Value) -> bool:
    return isinstance(value, Const) and value.value is None


def constant(raw: Any) -> Value:
    """A Python value from JSON or YAML as a `Value`."""
    if isinstance(raw, dict):
        return Dict({key: constant(item) for key, item in raw.items()})
    if isinstance(raw, list | tuple):
        return ListV([constant(item) for item in raw])
    return Const(raw)


def external_text(value: Value | None) -> str:
    if value is None or (isinstance(value, Const) and value.value is None):
        return ""
    text = as_text(value)
    return text if text is not None else hole(getattr(value, "text", "unknown"))
