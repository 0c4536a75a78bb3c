"""Bodies, patches and manifests: their documents, and the paths of the fields that they set.

A path is written as `spec.template.spec.containers[].image`.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

import yaml

from pytest_sremut.census.interpreter.texts import as_text
from pytest_sremut.census.interpreter.values import HOLE, Const, Dict, KObj, ListV, OneOf, Value

__all__ = [
    "body_fields",
    "body_values",
    "documents",
    "json_pointer",
    "kind_of_body",
    "manifests",
]

_MAX_DATA: Final = 2 * 1024 * 1024
_MAX_FIELDS: Final = 60
_DEEP: Final = 24
# These fields name the object. Setting them perturbs nothing.
_IDENTITY: Final = frozenset({"apiVersion", "kind", "metadata.name", "metadata.namespace"})


def documents(text: str) -> list[Any]:
    """The documents of a JSON or YAML text; empty when it is neither. Holes stay as text."""
    if len(text) > _MAX_DATA:
        return []
    try:
        return [json.loads(text)]
    except (ValueError, RecursionError):
        pass
    try:
        return [one for one in yaml.safe_load_all(text) if one is not None]
    except (yaml.YAMLError, ValueError, RecursionError, AttributeError, TypeError):
        return []


def body_fields(value: Value) -> tuple[str, ...]:
    """The leaf fields that a body sets; `*` alone when nothing is known about it."""
    if isinstance(value, KObj):
        return tuple(sorted(value.root.writes)) or ("*",)
    if isinstance(value, OneOf):
        found = {field for option in value.options for field in body_fields(option)}
        return tuple(sorted(found - {"*"})) or ("*",)
    if isinstance(value, Const) and isinstance(value.value, str):
        parsed = documents(value.value)
        if len(parsed) == 1 and isinstance(parsed[0], list):
            return _operations(parsed[0])
        found = set()
        for one in parsed:
            if isinstance(one, dict):
                _plain_leaves(one, "", found)
        return _named(found)
    if isinstance(value, ListV):
        paths = [item.entries.get("path") for item in value.items if isinstance(item, Dict)]
        pointers = {
            json_pointer(path.value)
            for path in paths
            if isinstance(path, Const) and isinstance(path.value, str)
        }
        return tuple(sorted(pointers)) or ("*",)
    found = set()
    _leaves(value, "", found, set())
    return _named(found)


def body_values(value: Value) -> set[str]:
    """The constants that a body, patch or manifest writes, as text."""
    found: set[str] = set()
    _constants(value, found, 0)
    return found


def _constants(value: Value, found: set[str], depth: int) -> None:
    if depth > _DEEP:
        return
    if isinstance(value, Dict | ListV | OneOf):
        for item in _parts(value):
            _constants(item, found, depth + 1)
    elif isinstance(value, Const) and isinstance(value.value, str) and depth == 0:
        for one in documents(value.value):
            _plain_constants(one, found)
    elif isinstance(value, Const) and isinstance(value.value, str | int | float):
        found.add(str(value.value))


def _parts(value: Dict | ListV | OneOf) -> list[Value]:
    if isinstance(value, Dict):
        return list(value.entries.values())
    return value.items if isinstance(value, ListV) else value.options


def _plain_constants(value: Any, found: set[str]) -> None:
    if isinstance(value, dict):
        for item in value.values():
            _plain_constants(item, found)
    elif isinstance(value, list):
        for item in value:
            _plain_constants(item, found)
    elif isinstance(value, str | int | float):
        found.add(str(value))


def _named(found: set[str]) -> tuple[str, ...]:
    return tuple(sorted(found - _IDENTITY)[:_MAX_FIELDS]) or ("*",)


def _leaves(value: Value, path: str, found: set[str], seen: set[int]) -> None:
    if id(value) in seen or len(found) > _MAX_FIELDS:
        return
    seen = seen | {id(value)}
    if isinstance(value, Dict) and value.entries:
        for key, item in value.entries.items():
            text = str(key)
            _leaves(item, f"{path}.{text}" if path else text, found, seen)
    elif isinstance(value, ListV) and value.items:
        for item in value.items:
            _leaves(item, f"{path}[]", found, seen)
    elif isinstance(value, OneOf):
        for item in value.options:
            _leaves(item, path, found, seen)
    elif isinstance(value, KObj) and value.root.writes:
        found.update(_below(write, value.path, path) for write in value.root.writes)
    elif path:
        found.add(path)


def _below(write: str, source: str, path: str) -> str:
    """The path of a write to a part of a read object, after that part was put at `path`."""
    if source and source != "[]" and path and write.startswith(source):
        return path + write[len(source) :]
    return write


def _plain_leaves(value: Any, path: str, found: set[str]) -> None:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            _plain_leaves(item, f"{path}.{key}" if path else str(key), found)
    elif isinstance(value, list) and value:
        for item in value:
            _plain_leaves(item, f"{path}[]", found)
    elif path:
        found.add(path)


def _operations(operations: list[Any]) -> tuple[str, ...]:
    paths = {json_pointer(str(one.get("path", ""))) for one in operations if isinstance(one, dict)}
    return tuple(sorted(path for path in paths if path)) or ("*",)


def json_pointer(pointer: str) -> str:
    """`/spec/ports/0/targetPort` as `spec.ports[].targetPort`."""
    result = ""
    for part in pointer.strip("/").split("/"):
        text = part.replace("~1", "/").replace("~0", "~")
        if text.isdigit() or text == "-" or HOLE.fullmatch(text):
            result += "[]"
        else:
            result += f".{text}" if result else text
    return result


def manifests(value: Value) -> list[tuple[str, str, str, tuple[str, ...]]]:
    """(kind, namespace, name, fields) of each object in a manifest; empty if not known."""
    if isinstance(value, KObj):
        root = value.root
        return [(root.kind, root.namespace, root.name, body_fields(value))]
    if isinstance(value, OneOf):
        return [one for option in value.options for one in manifests(option)]
    if isinstance(value, Dict):
        kind = kind_of_body(value)
        if kind == "List" and isinstance(value.entries.get("items"), ListV):
            items = value.entries["items"]
            assert isinstance(items, ListV)
            return [one for item in items.items for one in manifests(item)]
        meta = value.entries.get("metadata")
        return [(kind, _name_of(meta, "namespace"), _name_of(meta, "name"), body_fields(value))]
    if isinstance(value, ListV):
        return [one for item in value.items for one in manifests(item)]
    if isinstance(value, Const) and isinstance(value.value, str):
        result = []
        for one in documents(value.value):
            if isinstance(one, dict) and "kind" in one:
                given = one.get("metadata")
                named: dict[str, Any] = given if isinstance(given, dict) else {}
                found: set[str] = set()
                _plain_leaves(one, "", found)
                namespace, name = str(named.get("namespace", "")), str(named.get("name", ""))
                result.append((str(one["kind"]), namespace, name, _named(found)))
        return result
    return []


def _name_of(meta: Value | None, key: str) -> str:

    if isinstance(meta, Dict) and key in meta.entries:
        text = as_text(meta.entries[key])
        return text if text is not None else f"⟦{key}⟧"
    return ""


def kind_of_body(value: Value) -> str:
    """The kind of a body: its `kind`, or the client class that made it (`V1Service`)."""
    if isinstance(value, Dict):
        kind = value.entries.get("kind")
        if isinstance(kind, Const) and isinstance(kind.value, str):
            return kind.value
        return re.sub(r"^V\d+((alpha|beta)\d+)?", "", value.kind) or "?"
    if isinstance(value, KObj):
        return value.root.kind
    return "?"
