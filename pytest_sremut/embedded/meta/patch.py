"""JSON Patch (RFC 6902) and JSON Merge Patch (RFC 7386).

Rules kept here:

* the target is copied first; a patch that fails half way leaves nothing behind;
* a patch that is not well-formed is a 400, one that does not fit the object a 422, as recorded.
"""

from __future__ import annotations

from typing import Any

from pytest_sremut.embedded.meta.errors import ApiStatus, bad_request
from pytest_sremut.embedded.meta.jsonvalue import JsonObject, clone

__all__ = ["apply_json_patch", "apply_merge_patch", "rejected"]

MAX_OPERATIONS = 10_000
_MISSING = object()


class _UnfitError(Exception):
    """The operation does not fit the document."""


def rejected() -> ApiStatus:
    """422: the patch is well-formed but cannot be carried out."""
    message = "the server rejected our request due to an error in our request"
    return ApiStatus(422, "Invalid", message, details={})


def apply_json_patch(target: JsonObject, operations: Any) -> Any:
    """`target` after `operations`; `target` is left as it is.

    Raises:
        ApiStatus: 400 or 422.
    """
    if not isinstance(operations, list):
        kind = "object" if isinstance(operations, dict) else "value"
        raise bad_request(
            f"error decoding patch: json: cannot unmarshal {kind} into Go value of type "
            "[]handlers.jsonPatchOp"
        )
    if len(operations) > MAX_OPERATIONS:
        message = (
            f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, "
            f"got {len(operations)}"
        )
        raise ApiStatus(413, "RequestEntityTooLarge", message)
    document: Any = clone(target)
    for operation in operations:
        if not isinstance(operation, dict):
            raise bad_request(
                "error decoding patch: json: cannot unmarshal value into Go value of type "
                "handlers.jsonPatchOp"
            )
        try:
            document = _operate(document, operation)
        except _UnfitError:
            raise rejected() from None
    return document


def apply_merge_patch(target: Any, patch: Any) -> Any:
    """`target` merged with `patch`: ``null`` deletes, objects merge, the rest replaces."""
    if not isinstance(patch, dict):
        return clone(patch)
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = apply_merge_patch(result.get(key), value)
    return result


def _operate(document: Any, operation: JsonObject) -> Any:
    path = _pointer(operation.get("path"))
    match operation.get("op"):
        case "add":
            return _add(document, path, _operand(operation))
        case "remove":
            return _remove(document, path)[0]
        case "replace":
            value = _operand(operation)
            if not path:
                return value
            _find(document, path)
            return _set(document, path, value)
        case "test":
            found = _find(document, path, default=None)
            if not _same(found, operation.get("value")):
                raise _UnfitError
            return document
        case "copy":
            value = clone(_find(document, _pointer(operation.get("from"))))
            return _add(document, path, value)
        case "move":
            document, value = _remove(document, _pointer(operation.get("from")))
            return _add(document, path, value)
    raise _UnfitError


def _operand(operation: JsonObject) -> Any:
    if "value" not in operation:
        raise _UnfitError
    return clone(operation["value"])


def _pointer(text: Any) -> list[str]:
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise _UnfitError
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _find(document: Any, path: list[str], default: Any = _MISSING) -> Any:
    for part in path:
        if isinstance(document, dict) and part in document:
            document = document[part]
        elif isinstance(document, list) and _index(part, len(document)) is not None:
            document = document[int(part)]
        elif default is not _MISSING:
            return default
        else:
            raise _UnfitError
    return document


def _index(part: str, length: int) -> int | None:
    if part.isascii() and part.isdigit() and len(part) < 10 and int(part) < length:
        return int(part)
    return None


def _add(document: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent, last = _find(document, path[:-1]), path[-1]
    if isinstance(parent, list):
        place = len(parent) if last == "-" else _index(last, len(parent) + 1)
        if place is None:
            raise _UnfitError
        parent.insert(place, value)
    elif isinstance(parent, dict):
        parent[last] = value
    else:
        raise _UnfitError
    return document


def _set(document: Any, path: list[str], value: Any) -> Any:
    parent, last = _find(document, path[:-1]), path[-1]
    parent[int(last) if isinstance(parent, list) else last] = value
    return document


def _remove(document: Any, path: list[str]) -> tuple[Any, Any]:
    value = _find(document, path)
    if not path:
        raise _UnfitError
    parent, last = _find(document, path[:-1]), path[-1]
    del parent[int(last) if isinstance(parent, list) else last]
    return document, value


def _same(left: Any, right: Any) -> bool:
    """Equality of JSON values: ``true`` is not ``1``."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_same, left, right))
    return bool(left == right)
