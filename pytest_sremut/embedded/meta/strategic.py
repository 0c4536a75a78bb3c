"""Strategic merge patch: merge patch that knows which lists are keyed.

Rules kept here:

* lists of objects with a merge key are merged item by item, other lists replaced;
* the directives ``$patch``, ``$retainKeys``, ``$setElementOrder/…`` and
  ``$deleteFromPrimitiveList/…`` are carried out and never stored;
* the order of a merged list is the patch's, with the items that only the server has fitted in, as
  the real server orders them.
"""

from __future__ import annotations

from typing import Any

from pytest_sremut.embedded.meta.errors import ApiStatus, bad_request
from pytest_sremut.embedded.meta.jsonvalue import JsonObject, clone
from pytest_sremut.embedded.meta.schema import Field, Type, types

__all__ = ["apply_strategic_patch"]

ORDER = "$setElementOrder/"
DELETE_FROM = "$deleteFromPrimitiveList/"
RETAIN = "$retainKeys"
PATCH = "$patch"


def apply_strategic_patch(type_: Type, target: JsonObject, patch: JsonObject) -> JsonObject:
    """`target`, an object of `type_`, merged with `patch`; `target` is left as it is.

    Raises:
        ApiStatus: 400 or 422, the patch is malformed.
    """
    return _merge_object(type_, target, patch)


def _merge_object(type_: Type | None, target: Any, patch: JsonObject) -> JsonObject:
    directive = patch.get(PATCH)
    if directive == "replace":
        return _plain({key: value for key, value in patch.items() if key != PATCH})  # type: ignore[no-any-return]
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise _bad_directive(directive)
    result = dict(target) if isinstance(target, dict) else {}
    retained = patch.get(RETAIN)
    if isinstance(retained, list):
        result = {key: value for key, value in result.items() if key in retained}
    for key, value in patch.items():
        if key.startswith("$"):
            continue
        if value is None:
            result.pop(key, None)
            continue
        item = type_.fields.get(key) if type_ is not None else None
        result[key] = _merge_value(item, result.get(key), value, patch, key)
    _lists_only_named(type_, result, patch)
    return result


def _lists_only_named(type_: Type | None, result: JsonObject, patch: JsonObject) -> None:
    """Directives for lists that the patch says nothing else of."""
    for directive, value in patch.items():
        for prefix in (ORDER, DELETE_FROM):
            name = directive[len(prefix) :] if directive.startswith(prefix) else ""
            if not name or name in patch or not isinstance(value, list):
                continue
            current = result.get(name)
            item = type_.fields.get(name) if type_ is not None else None
            if not isinstance(current, list):
                continue
            if prefix == DELETE_FROM:
                result[name] = [entry for entry in current if entry not in value]
            elif item is not None:
                result[name] = _order(current, [], value, current, _merge_key(item))


def _merge_value(item: Field | None, current: Any, value: Any, patch: JsonObject, key: str) -> Any:
    if isinstance(value, dict):
        if item is not None and item.shape == ("map",):
            return _merge_object(None, current, value)
        nested = types().get(item.base) if item is not None and not item.shape else None
        return _merge_object(nested, current, value)
    if not isinstance(value, list):
        return value
    if item is None or (not item.keys and not item.unique):
        return _plain(value)
    order = patch.get(ORDER + key)
    wanted = order if isinstance(order, list) else []
    before = current if isinstance(current, list) else []
    if item.unique:
        dropped = patch.get(DELETE_FROM + key)
        kept = [entry for entry in before if not isinstance(dropped, list) or entry not in dropped]
        fresh = [entry for index, entry in enumerate(value) if entry not in value[:index]]
        return _order([entry for entry in kept if entry not in fresh], fresh, wanted, before, "")
    return _merge_list(item, before, value, wanted)


def _merge_key(item: Field) -> str:
    return item.keys[0] if item.keys else ""


def _merge_list(item: Field, before: list[Any], patch: list[Any], order: list[Any]) -> list[Any]:
    key = _merge_key(item)
    nested = types().get(item.base)
    for entry in patch:
        if not isinstance(entry, dict):
            raise bad_request(
                f"error decoding patch: expected objects with key {key} in list {item.name}"
            )
    replacing = any(entry.get(PATCH) == "replace" for entry in patch)
    if replacing:
        return [_plain(entry) for entry in patch if PATCH not in entry]
    merged: list[Any] = []
    seen: list[Any] = []
    removed: list[Any] = []
    for entry in patch:
        if key not in entry:
            raise _no_key(key, item)
        identity = entry[key]
        if entry.get(PATCH) == "delete":
            removed.append(identity)
            continue
        old = next((one for one in before if _identity(one, key) == identity), None)
        seen.append(identity)
        merged.append(_merge_object(nested, old, entry))
    rest = [
        one
        for one in before
        if _identity(one, key) not in seen and _identity(one, key) not in removed
    ]
    return _order(rest, merged, order, before, key)


def _order(
    server_only: list[Any], patched: list[Any], order: list[Any], before: list[Any], key: str
) -> list[Any]:
    """Put `patched` in the patch's order and fit `server_only` in by their old order."""
    wanted = [_identity(entry, key) for entry in (order or patched)]
    if order:
        listed = [entry for entry in server_only if _identity(entry, key) in wanted]
        patched = patched + listed
        server_only = [entry for entry in server_only if _identity(entry, key) not in wanted]
    patched = sorted(patched, key=lambda entry: _position(wanted, _identity(entry, key)))
    places = [_identity(entry, key) for entry in before]
    result: list[Any] = []
    left, right = list(server_only), list(patched)
    while left and right:
        first, second = _identity(left[0], key), _identity(right[0], key)
        known = first in places and second in places
        if known and places.index(first) < places.index(second):
            result.append(left.pop(0))
        else:
            result.append(right.pop(0))
    return result + left + right


def _position(wanted: list[Any], identity: Any) -> int:
    return wanted.index(identity) if identity in wanted else len(wanted)


def _identity(entry: Any, key: str) -> Any:
    return entry.get(key) if key and isinstance(entry, dict) else entry


def _plain(value: Any) -> Any:
    """A value taken over as it is, without directives and nulls."""
    if isinstance(value, dict):
        return {
            key: _plain(item)
            for key, item in value.items()
            if not key.startswith("$") and item is not None
        }
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return clone(value)


def _no_key(key: str, item: Field) -> ApiStatus:
    message = f"map: map[] in {item.name} does not contain declared merge key: {key}"
    return ApiStatus(422, "Invalid", message, details={})


def _bad_directive(directive: Any) -> ApiStatus:
    return bad_request(f"error decoding patch: Unknown patch type: {directive}")
