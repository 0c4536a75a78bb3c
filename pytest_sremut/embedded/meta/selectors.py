"""Label selectors.

Rules kept here:

* the syntax and the errors of ``labelSelector`` are the real server's;
* a selector is parsed once and answers `matches` for plain objects.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pytest_sremut.embedded.meta.errors import bad_request
from pytest_sremut.embedded.meta.jsonvalue import JsonObject
from pytest_sremut.embedded.meta.names import label_value, qualified_name

__all__ = [
    "LabelSelector",
    "Requirement",
    "format_label_selector",
    "parse_label_selector",
    "selector_of",
]

_WORD = re.compile(r"\s*(==|!=|=|!|,|\(|\)|<|>|[^\s=!,()<>]+)")
_OPERATORS = "in, notin, =, ==, !=, gt, lt"


@dataclass(frozen=True, slots=True)
class Requirement:
    """A condition on a label.

    `operator` is ``in``, ``notin``, ``exists``, ``!``, ``gt`` or ``lt``.
    """

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether `labels` meet the condition."""
        value = labels.get(self.key)
        match self.operator:
            case "in":
                return value is not None and value in self.values
            case "notin":
                return value is None or value not in self.values
            case "exists":
                return value is not None
            case "!":
                return value is None
            case _:
                return value is not None and _compare(value, self.values[0], self.operator)


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All requirements must hold; none at all match everything."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        """Whether `labels` are selected."""
        present = labels or {}
        return all(requirement.matches(present) for requirement in self.requirements)


def _compare(value: str, limit: str, operator: str) -> bool:
    try:
        left, right = int(value), int(limit)
    except ValueError:
        return False
    return left > right if operator == "gt" else left < right


def parse_label_selector(text: str) -> LabelSelector:
    """Parse ``app=web,tier in (a,b),!gone``.

    Raises:
        ApiStatus: 400, worded like the real server's.
    """
    return LabelSelector(tuple(_Parser(text).requirements()))


def selector_of(selector: JsonObject | None) -> LabelSelector:
    """What a ``LabelSelector`` object selects (``matchLabels``, ``matchExpressions``)."""
    found = selector or {}
    requirements = [
        Requirement(key, "in", (str(value),))
        for key, value in (found.get("matchLabels") or {}).items()
    ]
    operators = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}
    requirements += [
        Requirement(
            item.get("key", ""),
            operators.get(item.get("operator", ""), "in"),
            tuple(item.get("values") or ()),
        )
        for item in found.get("matchExpressions") or ()
    ]
    return LabelSelector(tuple(requirements))


def format_label_selector(selector: JsonObject | None) -> str:
    """A ``LabelSelector`` object as text: ``app=web,tier in (a,b)``; ``<none>`` when empty."""
    parts = []
    for requirement in sorted(selector_of(selector).requirements, key=lambda item: item.key):
        values = sorted(requirement.values)
        match requirement.operator:
            case "in" if len(values) == 1 and not _from_expression(selector, requirement.key):
                parts.append(f"{requirement.key}={values[0]}")
            case "in" | "notin":
                parts.append(f"{requirement.key} {requirement.operator} ({','.join(values)})")
            case "exists":
                parts.append(requirement.key)
            case _:
                parts.append(f"!{requirement.key}")
    return ",".join(parts) or "<none>"


def _from_expression(selector: JsonObject | None, key: str) -> bool:
    return key not in ((selector or {}).get("matchLabels") or {})


class _Parser:
    """Recursive descent over the words of a label selector."""

    def __init__(self, text: str) -> None:
        self._words = _WORD.findall(text)
        self._at = 0

    def requirements(self) -> Iterable[Requirement]:
        if not self._words:
            return
        while True:
            yield self._requirement()
            word = self._next()
            if word == "":
                return
            if word != ",":
                raise bad_request(
                    f"unable to parse requirement: found '{word}', expected: ',' or 'end of string'"
                )
            if self._peek() in ("", ","):
                found = self._peek()
                raise bad_request(f"found '{found}', expected: identifier after ','")

    def _requirement(self) -> Requirement:
        word = self._next()
        if word == "!":
            return Requirement(self._key(self._next()), "!")
        key = self._key(word)
        if self._peek() in ("", ","):
            return Requirement(key, "exists")
        operator = self._next()
        match operator:
            case "in" | "notin":
                return Requirement(key, operator, self._set())
            case "=" | "==":
                return Requirement(key, "in", (self._value(),))
            case "!=":
                return Requirement(key, "notin", (self._value(),))
            case ">" | "<":
                value = self._value()
                if not re.fullmatch(r"[+-]?\d+", value):
                    raise bad_request(
                        f"values[0][{key}]: Invalid value: \"{value}\": for 'Gt', 'Lt' operators, "
                        "the value must be an integer"
                    )
                return Requirement(key, "gt" if operator == ">" else "lt", (value,))
        raise bad_request(
            f"unable to parse requirement: found '{operator}', expected: {_OPERATORS}"
        )

    def _set(self) -> tuple[str, ...]:
        opening = self._next()
        if opening != "(":
            raise bad_request(f"unable to parse requirement: found '{opening}' expected: '('")
        values: list[str] = []
        expect_value = True
        while True:
            word = self._next()
            if word == ")":
                if expect_value:
                    values.append("")
                return tuple(sorted(set(values)))
            if word == ",":
                if expect_value:
                    values.append("")
                expect_value = True
            elif word and expect_value and word not in _SYMBOLS:
                values.append(self._checked(word))
                expect_value = False
            else:
                raise bad_request(
                    f"unable to parse requirement: found '{word}', expected: ',', or ')'"
                )

    def _value(self) -> str:
        if self._peek() in ("", ","):
            return ""
        return self._checked(self._next())

    @staticmethod
    def _checked(value: str) -> str:
        for problem in label_value(value):
            raise bad_request(
                f'unable to parse requirement: values[0]: Invalid value: "{value}": {problem}'
            )
        return value

    @staticmethod
    def _key(key: str) -> str:
        if key in _SYMBOLS:
            raise bad_request(f"unable to parse requirement: found '{key}', expected: identifier")
        for problem in qualified_name(key):
            raise bad_request(
                f'unable to parse requirement: <nil>: Invalid value: "{key}": {problem}'
            )
        return key

    def _peek(self) -> str:
        return self._words[self._at] if self._at < len(self._words) else ""

    def _next(self) -> str:
        word = self._peek()
        self._at += 1
        return word


_SYMBOLS = frozenset(("=", "==", "!=", "!", ",", "(", ")", "<", ">", ""))
