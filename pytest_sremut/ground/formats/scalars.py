"""What a plain YAML scalar means to us: one reading, or none.

YAML 1.1 and YAML 1.2 read some plain scalars differently (`on`, `1:30`, `0777`, `2026-11-30`).
A frozen file must mean the same to every reader, so a scalar on which they disagree is refused
with the advice to quote it. So are numbers that JSON cannot carry exactly.
"""

from __future__ import annotations

import math
import re
from typing import Final

from yaml.nodes import ScalarNode
from yaml.resolver import Resolver

__all__ = ["MAX_INTEGER", "AmbiguousScalarError", "plain"]

MAX_INTEGER: Final = 2**53 - 1
"""Largest integer that every JSON reader keeps exactly."""

_NULL: Final = frozenset({"", "~", "null"})
_BOOLEAN: Final = {"true": True, "false": False}
_INTEGER: Final = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_FLOAT: Final = re.compile(r"[-+]?(0|[1-9][0-9]*)\.[0-9]+")
_TAG: Final = "tag:yaml.org,2002:"
# What only YAML 1.2's core schema takes for a number.
_CORE_ONLY: Final = re.compile(r"0o[0-7]+|[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)[eE][-+]?[0-9]+")

_RESOLVER: Final = Resolver()
_KINDS: Final = {
    "bool": "a boolean",
    "int": "a number",
    "float": "a number",
    "timestamp": "a date",
    "merge": "a merge key",
    "value": "a default value",
    "null": "nothing",
}


class AmbiguousScalarError(ValueError):
    """A plain scalar without one meaning; `allowed` says what to write instead."""

    def __init__(self, found: str, allowed: str) -> None:
        self.found = found
        self.allowed = allowed
        super().__init__(found)


def plain(text: str) -> str | int | float | bool | None:
    """The value of a plain (unquoted) scalar.

    Raises:
        AmbiguousScalarError: YAML versions disagree, or JSON could not carry the number.
    """
    if text in _NULL:
        return None
    if text in _BOOLEAN:
        return _BOOLEAN[text]
    if _INTEGER.fullmatch(text):
        return _integer(text)
    if _FLOAT.fullmatch(text):
        number = float(text)
        if math.isinf(number):  # more than 308 digits
            raise AmbiguousScalarError("a number too large", "a number that a float can hold")
        return number
    kind = _yaml_1_1_kind(text)
    if kind != "str":
        what = _KINDS.get(kind, kind)
        raise AmbiguousScalarError(
            f"`{text}`, which is {what} in YAML 1.1 and not in plain JSON",
            "text in quotes, true, false, or a plain decimal number",
        )
    if _CORE_ONLY.fullmatch(text):
        raise AmbiguousScalarError(
            f"`{text}`, which is a number in YAML 1.2 and text in YAML 1.1",
            "text in quotes or a plain decimal number",
        )
    return text


def _integer(text: str) -> int:
    # The length first: int() of thousands of digits is an error of its own.
    if len(text) > 17 or abs(int(text)) > MAX_INTEGER:
        raise AmbiguousScalarError("a number too large", f"integers up to {MAX_INTEGER}")
    return int(text)


def _yaml_1_1_kind(text: str) -> str:
    # PyYAML's own table, asked directly.
    tag = str(_RESOLVER.resolve(ScalarNode, text, (True, False)))  # type: ignore[no-untyped-call]
    return tag.removeprefix(_TAG)
