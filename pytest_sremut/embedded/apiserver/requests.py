"""A request, without any HTTP server: method, path, query, headers and body."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pytest_sremut.embedded.meta.errors import bad_request

__all__ = ["Request", "Verb"]

Verb = Literal["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"]

TRUE = frozenset(("true", "1", "t", "T", "TRUE", "True"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request.

    Attributes:
        query: decoded pairs, in order.
        headers: by lower-case name.
    """

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    def first(self, name: str, default: str = "") -> str:
        """The first value of a query parameter."""
        return next((value for key, value in self.query if key == name), default)

    def every(self, name: str) -> list[str]:
        """All values of a query parameter."""
        return [value for key, value in self.query if key == name]

    def flag(self, name: str) -> bool:
        """Whether a query parameter is true; present without a value counts."""
        value = next((value for key, value in self.query if key == name), None)
        return value is not None and (value == "" or value in TRUE)

    def integer(self, name: str) -> int | None:
        """A whole number in the query; ``None`` when it is not there.

        Raises:
            ApiStatus: 400, it is no number.
        """
        text = self.first(name)
        if not text:
            return None
        digits = text[1:] if text[0] in "+-" else text
        if not (digits.isascii() and digits.isdigit()):
            raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
        if len(digits) > 18:
            raise bad_request(f'strconv.ParseInt: parsing "{text}": value out of range')
        return int(text)
