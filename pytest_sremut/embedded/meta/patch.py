"""JSON Merge Patch (RFC 7386), and how the server refuses a patch of any kind."""

from __future__ import annotations

from typing import Any

from pytest_sremut.embedded.meta.errors import ApiStatus
from pytest_sremut.embedded.meta.jsonvalue import clone

__all__ = ["apply_merge_patch", "rejected"]


def rejected() -> ApiStatus:
    """422: the patch is well-formed but cannot be carried out."""
    message = "the server rejected our request due to an error in our request"
    return ApiStatus(422, "Invalid", message, details={})


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
