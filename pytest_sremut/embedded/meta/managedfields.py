"""Who owns which field: ``managedFields``.

Rules kept here:

* a set of fields is kept in the ``FieldsV1`` form (``f:name``, ``k:{...}``, ``v:...``), which is
  also how it is stored and sent;
* a write owns the fields that it changed, and takes them from those who owned them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pytest_sremut.embedded.meta.jsonvalue import JsonObject
from pytest_sremut.embedded.meta.schema import Field, Type, types

__all__ = [
    "ABSENT",
    "Fields",
    "Path",
    "entries_of",
    "entry_paths",
    "fields_of",
    "is_entry",
    "item_key",
    "look",
    "new_entry",
    "paths",
    "record_update",
    "store_entries",
    "tree",
]

Fields = dict[str, Any]
Path = tuple[str, ...]

# Set by the server, owned by nobody.
_UNOWNED = frozenset(
    (
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "generateName",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "managedFields",
        "selfLink",
    )
)


def fields_of(type_: Type, value: JsonObject, *, status: bool = False) -> Fields:
    """The fields that `value`, an object of `type_`, sets.

    Args:
        status: look at the status instead of everything else.
    """
    result: Fields = {}
    for key, item in value.items():
        field = type_.fields.get(key)
        if key in ("apiVersion", "kind") or field is None or (key == "status") is not status:
            continue
        if key == "metadata":
            item = {name: part for name, part in item.items() if name not in _UNOWNED}  # noqa: PLW2901
            if not item:
                continue
        result[f"f:{key}"] = _value_fields(field, item)
    return result


def _value_fields(field: Field, value: Any) -> Fields:
    """The fields below one field; empty for a leaf."""
    if field.atomic or field.base == "any":
        return {}
    nested = types().get(field.base)
    if field.shape == ("map",) and isinstance(value, dict):
        return {".": {}, **{f"f:{key}": {} for key in value}} if value else {}
    if field.shape == ("list",) and isinstance(value, list):
        return _list_fields(field, nested, value)
    if not field.shape and nested is not None and isinstance(value, dict):
        return _struct_fields(nested, value)
    return {}


def _struct_fields(type_: Type, value: JsonObject) -> Fields:
    return {
        f"f:{key}": _value_fields(type_.fields[key], item)
        for key, item in value.items()
        if key in type_.fields
    }


def _list_fields(field: Field, nested: Type | None, value: list[Any]) -> Fields:
    if field.unique:
        return {".": {}, **{f"v:{json.dumps(item)}": {} for item in value}}
    if not field.keys or nested is None:
        return {}
    result: Fields = {".": {}}
    for item in value:
        if isinstance(item, dict):
            result[item_key(field, item)] = {".": {}, **_struct_fields(nested, item)}
    return result


def item_key(field: Field, item: JsonObject) -> str:
    """``k:{...}``: how an item of a keyed list is named."""
    defaults = {"protocol": "TCP"}
    keys = {key: item.get(key, defaults.get(key)) for key in sorted(field.keys)}
    return "k:" + json.dumps(keys, separators=(",", ":"))


# Sets of paths


def paths(fields: Any, prefix: Path = ()) -> Iterator[Path]:
    """Every path of a set of fields: leaves, and containers that are owned themselves."""
    if not isinstance(fields, dict):
        return
    for key, below in fields.items():
        path = (*prefix, key)
        if not below:
            yield path
        else:
            yield from paths(below, path)


def tree(owned: set[Path]) -> Fields:
    """The set of fields that these paths make up."""
    result: Fields = {}
    for path in sorted(owned):
        node = result
        for key in path:
            node = node.setdefault(key, {})
    return result


def entry_paths(entry: JsonObject) -> set[Path]:
    """The paths that an entry of ``managedFields`` owns; clients can write nonsense, skip it."""
    fields = entry.get("fieldsV1")
    return {path for path in paths(fields) if all(map(_well_formed, path))}


def _well_formed(key: str) -> bool:
    kind, _, rest = key.partition(":")
    if kind in (".", "f"):
        return True
    try:
        value = json.loads(rest)
    except ValueError:
        return False
    return kind == "v" or (kind == "k" and isinstance(value, dict))


# Updates


def record_update(
    type_: Type,
    old: JsonObject | None,
    new: JsonObject,
    *,
    manager: str,
    time: str,
    subresource: str = "",
) -> None:
    """Note in `new` that `manager` changed `old` into it, in place."""
    status = subresource == "status"
    before = set(paths(fields_of(type_, old, status=status))) if old is not None else set()
    after = set(paths(fields_of(type_, new, status=status)))
    changed = {
        path
        for path in after
        if path not in before
        or (old is not None and look(type_, old, path) != look(type_, new, path))
    }
    gone = before - after
    entries = [entry for entry in entries_of(new) if isinstance(entry, dict)]
    if not changed and not gone:
        return
    mine = None
    kept = []
    for entry in entries:
        owned = entry_paths(entry)
        if is_entry(entry, manager, "Update", subresource):
            mine = entry
            continue
        if entry.get("subresource", "") == subresource:
            left = owned - changed - gone
            if left != owned:
                entry = {**entry, "fieldsV1": tree(left)}  # noqa: PLW2901
            if not left:
                continue
        kept.append(entry)
    owned = (entry_paths(mine) if mine is not None else set()) - gone | changed
    if owned:
        kept.append(
            new_entry(
                new,
                tree(owned),
                manager=manager,
                operation="Update",
                time=time,
                subresource=subresource,
            )
        )
    store_entries(new, kept)


def entries_of(value: JsonObject) -> list[Any]:
    """``managedFields`` of an object."""
    found = value["metadata"].get("managedFields")
    return found if isinstance(found, list) else []


def store_entries(value: JsonObject, entries: list[JsonObject]) -> None:
    """Write ``managedFields`` of an object, in place."""
    if entries:
        value["metadata"]["managedFields"] = entries
    else:
        value["metadata"].pop("managedFields", None)


def is_entry(entry: JsonObject, manager: str, operation: str, subresource: str) -> bool:
    """Whether `entry` is that of `manager` for that operation."""
    return (
        entry.get("manager") == manager
        and entry.get("operation") == operation
        and entry.get("subresource", "") == subresource
    )


def new_entry(
    value: JsonObject,
    fields: Fields,
    *,
    manager: str,
    operation: str,
    time: str,
    subresource: str = "",
) -> JsonObject:
    """One entry of ``managedFields``."""
    entry: JsonObject = {
        "manager": manager,
        "operation": operation,
        "apiVersion": value.get("apiVersion", ""),
        "time": time,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
    if subresource:
        entry["subresource"] = subresource
    return entry


ABSENT = object()


def look(type_: Type, value: Any, path: Path) -> Any:
    """The value at `path`, or a mark that there is none; containers are equal when both exist."""
    field: Field | None = None
    current: Type | None = type_
    for key in path:
        kind, _, rest = key.partition(":")
        if kind == ".":
            return True
        if kind == "f":
            if not isinstance(value, dict) or rest not in value:
                return ABSENT
            value = value[rest]
            if current is not None and (field is None or not field.shape):
                field = current.fields.get(rest)
                current = types().get(field.base) if field is not None else None
            else:
                field, current = None, None
        elif kind == "k" and field is not None:
            value = _find_item(field, value, key)
            field = None
        else:
            return True if isinstance(value, list) and json.loads(rest) in value else ABSENT
        if value is ABSENT:
            return ABSENT
    return value


def _find_item(field: Field, value: Any, key: str) -> Any:
    if isinstance(value, list):
        for item in value:
            if isinstance(item, dict) and item_key(field, item) == key:
                return item
    return ABSENT
