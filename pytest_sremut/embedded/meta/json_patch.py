"""JSON Patch (RFC 6902), carried out by jsonpatch within the API server's limits.

Rules kept here:

* the target is copied first; a patch that fails half way leaves nothing behind;
* a patch that is not well-formed is a 400, one that does not fit the object a 422, as recorded;
* the number of operations and the bytes that ``copy`` adds are limited as in Kubernetes. A request
  body is limited too, so the result is never much larger than the object and the request.

The server's library differs from jsonpatch in three points, and this module follows the server:
``test`` compares JSON text (``true`` is not ``1``), what is absent equals ``null`` there, and an
index may have leading zeros.
"""

from __future__ import annotations

import json
from typing import Any

from jsonpatch import JsonPatch, JsonPatchException
from jsonpointer import JsonPointer, JsonPointerException

from pytest_sremut.embedded.meta.errors import ApiStatus, bad_request
from pytest_sremut.embedded.meta.jsonvalue import JsonObject, clone
from pytest_sremut.embedded.meta.patch import rejected

__all__ = ["MAX_COPIED", "MAX_OPERATIONS", "apply_json_patch"]

MAX_OPERATIONS = 10_000
MAX_COPIED = 3 * 1024 * 1024
"""Bytes of JSON that all ``copy`` operations of one patch may add (``JSONPatchMaxCopyBytes``)."""

# jsonpatch lets Python's own errors through where a document does not fit, or is nested too deeply.
_UNFIT = (
    JsonPatchException, JsonPointerException, KeyError, TypeError, IndexError, RecursionError,
)  # fmt: skip
_OPERATIONS = frozenset({"add", "remove", "replace", "test", "copy", "move"})


class _Pointer(JsonPointer):
    """A pointer that enters objects and lists only: for jsonpointer a text is a list, too."""

    def to_last(self, doc: Any) -> tuple[Any, Any]:
        if not self.parts:
            return doc, None
        for part in self.parts[:-1]:
            doc = self.walk(doc, part)
        return doc, _key(doc, self.parts[-1])

    def walk(self, doc: Any, part: str | int) -> Any:
        try:
            return doc[_key(doc, str(part))]
        except (KeyError, IndexError, TypeError):  # TypeError: "-" of a list
            raise JsonPointerException(f"nothing at {part!r}") from None


def _key(value: Any, part: str) -> str | int:
    """What a part of a pointer is in an object or a list; ``-`` is the place after a list's end."""
    if isinstance(value, dict) or (isinstance(value, list) and part == "-"):
        return part
    if isinstance(value, list) and part.isascii() and part.isdigit() and len(part) < 10:
        return int(part)
    raise JsonPointerException(f"no place {part!r} here")


def apply_json_patch(target: JsonObject, operations: Any) -> Any:
    """`target` after `operations`; `target` is left as it is.

    Raises:
        ApiStatus: 400 or 422; 413 for too many operations.
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
    copied = 0
    for operation in operations:
        if not isinstance(operation, dict):
            raise bad_request(
                "error decoding patch: json: cannot unmarshal value into Go value of type "
                "handlers.jsonPatchOp"
            )
        try:
            if operation.get("op") == "copy":
                # Before the copy is made: a few operations can double an object many times.
                copied += len(_text(_Pointer(operation["from"]).resolve(document)))
                if copied > MAX_COPIED:
                    raise rejected()
            document = _operate(document, operation)
        except _UNFIT:
            raise rejected() from None
    return document


def _operate(document: Any, operation: JsonObject) -> Any:
    if operation.get("op") not in _OPERATIONS or not isinstance(operation.get("path"), str):
        raise JsonPatchException
    if operation["op"] == "test":
        found = _Pointer(operation["path"]).resolve(document, None)
        if _text(found) != _text(operation.get("value")):
            raise JsonPatchException
        return document
    if operation["op"] == "move" and operation.get("from") == "":
        raise JsonPatchException  # an object cannot be moved into itself
    patch = JsonPatch([clone(operation)], pointer_cls=_Pointer)
    return patch.apply(document, in_place=True)


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
