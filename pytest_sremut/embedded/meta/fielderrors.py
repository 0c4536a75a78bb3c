"""Field errors: what is wrong with the fields of an object, in the server's words."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from pytest_sremut.embedded.meta.errors import Cause

__all__ = ["FieldErrors", "shown"]


def shown(value: Any) -> str:
    """A value as an error message shows it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


class FieldErrors:
    """The errors found so far, in order; the server calls them causes."""

    def __init__(self) -> None:
        self.causes: list[Cause] = []

    def invalid(self, field: str, value: Any, why: str) -> None:
        """The value breaks a rule."""
        self.causes.append(Cause(field=field, message=f"Invalid value: {shown(value)}: {why}"))

    def each_invalid(self, field: str, value: Any, whys: Iterable[str]) -> None:
        """The value breaks several rules."""
        for why in whys:
            self.invalid(field, value, why)

    def required(self, field: str, why: str = "") -> None:
        """The value must be there."""
        message = f"Required value: {why}" if why else "Required value"
        self.causes.append(Cause(field=field, reason="FieldValueRequired", message=message))

    def unsupported(self, field: str, value: Any, allowed: Iterable[str]) -> None:
        """The value is none of those that are known."""
        listed = ", ".join(f'"{item}"' for item in sorted(allowed))
        message = f"Unsupported value: {shown(value)}: supported values: {listed}"
        self.causes.append(Cause(field=field, reason="FieldValueNotSupported", message=message))

    def duplicate(self, field: str, value: Any) -> None:
        """The value occurs twice."""
        message = f"Duplicate value: {shown(value)}"
        self.causes.append(Cause(field=field, reason="FieldValueDuplicate", message=message))

    def forbidden(self, field: str, why: str) -> None:
        """The field may not be set, or not be changed so."""
        self.causes.append(
            Cause(field=field, reason="FieldValueForbidden", message=f"Forbidden: {why}")
        )

    def not_found(self, field: str, value: Any) -> None:
        """What the value names does not exist."""
        message = f"Not found: {shown(value)}"
        self.causes.append(Cause(field=field, reason="FieldValueNotFound", message=message))

    def at_least_zero(self, field: str, value: Any) -> None:
        """Numbers must not be negative."""
        if isinstance(value, int) and value < 0:
            self.invalid(field, value, "must be greater than or equal to 0")

    def port(self, field: str, value: Any) -> None:
        """Port numbers are 1 to 65535."""
        if not isinstance(value, int) or not 1 <= value <= 65535:
            self.invalid(field, value, "must be between 1 and 65535, inclusive")

    def one_of(self, field: str, value: Any, allowed: Iterable[str]) -> None:
        """The value must be one of those that are known; absent is missing."""
        known = tuple(allowed)
        if not value:
            self.required(field)
        elif value not in known:
            self.unsupported(field, value, known)
