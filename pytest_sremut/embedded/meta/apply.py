"""Server-side apply.

Rules kept here:

* an apply writes the fields it names and takes away those that its manager named before, does not
  name any more, and nobody else owns;
* it conflicts with another manager only over a field whose value it would change;
* ``force`` takes the contested fields over.
"""

from __future__ import annotations

import json
from typing import Any

from pytest_sremut.embedded.meta.errors import ApiStatus
from pytest_sremut.embedded.meta.jsonvalue import JsonObject, clone
from pytest_sremut.embedded.meta.managedfields import (
    ABSENT,
    Path,
    entries_of,
    entry_paths,
    fields_of,
    is_entry,
    item_key,
    look,
    new_entry,
    paths,
    store_entries,
    tree,
)
from pytest_sremut.embedded.meta.schema import Field, Type, types

__all__ = ["apply_object"]


CLIENT_MANAGER = "kubectl"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def apply_object(
    type_: Type,
    live: JsonObject,
    applied: JsonObject,
    *,
    manager: str,
    force: bool,
    time: str,
) -> JsonObject:
    """`live` after `manager` applied `applied`; both are left as they are.

    Raises:
        ApiStatus: 409 with every conflict, unless `force`.
    """
    result: JsonObject = clone(live)
    wanted = set(paths(fields_of(type_, applied)))
    entries = [entry for entry in entries_of(live) if isinstance(entry, dict)]
    mine = next((entry for entry in entries if is_entry(entry, manager, "Apply", "")), None)
    others = [entry for entry in entries if entry is not mine]
    contested = {
        path
        for path in wanted
        if path[-1] != "." and look(type_, live, path) != look(type_, applied, path)
    }
    if not force:
        _refuse_conflicts(others, contested)
    kept = []
    for entry in others:
        owned = entry_paths(entry)
        left = owned - contested
        if left:
            kept.append(entry if left == owned else {**entry, "fieldsV1": tree(left)})
    _merge(type_, result, applied)
    if manager == CLIENT_MANAGER and _noted(live) is not None:
        result["metadata"]["annotations"][LAST_APPLIED] = _note(applied)
    previous = entry_paths(mine) if mine is not None else set()
    held = {path for entry in kept for path in entry_paths(entry)}
    for path in sorted(previous - wanted - held, key=_removal_order):
        _take_away(type_, result, path, wanted | held)
    fields = tree(wanted)
    if mine is not None and mine.get("fieldsV1") == fields and result == live:
        return live
    if wanted:
        kept.insert(0, new_entry(result, fields, manager=manager, operation="Apply", time=time))
    store_entries(result, kept)
    return result


def _removal_order(path: Path) -> tuple[bool, int, Path]:
    """Whole items first, from the outside in: an item that loses its key field first could not be
    found any more. Then single fields, from the inside out."""
    if path[-1] == ".":
        return (False, len(path), path)
    return (True, -len(path), path)


def _noted(value: JsonObject) -> Any:
    return (value["metadata"].get("annotations") or {}).get(LAST_APPLIED)


def _note(applied: JsonObject) -> str:
    """What kubectl's client-side apply would note: so that one can go back to it."""
    body = clone(applied)
    body["metadata"].pop("managedFields", None)
    (body["metadata"].get("annotations") or {}).pop(LAST_APPLIED, None)
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    for char in "<>&":  # as the real server's encoder does
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text + "\n"


def _refuse_conflicts(others: list[JsonObject], contested: set[Path]) -> None:
    causes = []
    for entry in others:
        name = f'"{entry.get("manager", "")}"'
        if entry.get("operation") == "Update":
            name += f" using {entry.get('apiVersion', '')}"
        for path in sorted(entry_paths(entry) & contested):
            causes.append((name, _dotted(path)))
    if not causes:
        return
    count = f"{len(causes)} conflict" + ("s" if len(causes) > 1 else "")
    if len(causes) == 1:
        listed = f"conflict with {causes[0][0]}: {causes[0][1]}"
    else:
        listed = "conflicts with " + "\nconflicts with ".join(
            f"{name}:\n" + "\n".join(f"- {path}" for other, path in causes if other == name)
            for name in dict.fromkeys(name for name, _ in causes)
        )
    raise ApiStatus(
        409,
        "Conflict",
        f"Apply failed with {count}: {listed}",
        details={
            "causes": [
                {
                    "reason": "FieldManagerConflict",
                    "message": f"conflict with {name}",
                    "field": path,
                }
                for name, path in causes
            ]
        },
    )


def _dotted(path: Path) -> str:
    text = ""
    for key in path:
        kind, _, rest = key.partition(":")
        if kind == "f":
            text += f".{rest}"
        elif kind == "k":
            pairs = json.loads(rest)
            text += (
                "[" + ",".join(f"{name}={json.dumps(item)}" for name, item in pairs.items()) + "]"
            )
        elif kind == "v":
            text += f"[={rest}]"
    return text


def _merge(type_: Type, target: JsonObject, applied: JsonObject) -> None:
    for key, value in applied.items():
        field = type_.fields.get(key)
        if field is None:
            continue
        target[key] = _merged(field, target.get(key), value)


def _merged(field: Field, current: Any, value: Any) -> Any:
    nested = types().get(field.base)
    if field.atomic:
        return clone(value)
    if field.shape == ("map",) and isinstance(current, dict) and isinstance(value, dict):
        return {**current, **clone(value)}
    if not field.shape and nested is not None and isinstance(value, dict):
        result = dict(current) if isinstance(current, dict) else {}
        _merge(nested, result, value)
        return result
    if field.shape == ("list",) and isinstance(current, list) and isinstance(value, list):
        if field.unique:
            return current + [item for item in value if item not in current]
        if field.keys and nested is not None:
            return _merged_list(field, nested, current, value)
    return clone(value)


def _merged_list(field: Field, nested: Type, current: list[Any], value: list[Any]) -> list[Any]:
    result = list(current)
    places = {item_key(field, item): at for at, item in enumerate(current)}
    for item in value:
        at = places.get(item_key(field, item))
        if at is None:
            result.append(clone(item))
        else:
            merged = dict(result[at])
            _merge(nested, merged, item)
            result[at] = merged
    return result


def _take_away(type_: Type, value: JsonObject, path: Path, owned: set[Path]) -> None:
    """Remove what is at `path`, unless something below it is still owned."""
    if path[-1] == ".":
        path = path[:-1]
        if any(other[: len(path)] == path for other in owned):
            return
    parent = _parent(type_, value, path)
    kind, _, rest = path[-1].partition(":")
    if kind == "f" and isinstance(parent, dict):
        parent.pop(rest, None)
    elif kind == "v" and isinstance(parent, list) and json.loads(rest) in parent:
        parent.remove(json.loads(rest))
    elif kind == "k" and isinstance(parent, list):
        pairs = json.loads(rest)
        parent[:] = [
            item
            for item in parent
            if not (isinstance(item, dict) and all(item.get(k) == v for k, v in pairs.items()))
        ]


def _parent(type_: Type, value: JsonObject, path: Path) -> Any:
    found = look(type_, value, path[:-1]) if len(path) > 1 else value
    return None if found is ABSENT else found
