"""A schema as one function that says yes quickly, or nothing.

Validating thousands of records that are as they should be must not cost what explaining one that
is not does. `accepts` is True only for what the schema allows; False leaves the question to
`schema.validator_for`, which is the authority and explains. Only the keywords of our own schemas
are known; a schema with another one is not compiled, and then nothing is accepted quickly.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pytest_sremut.ground.formats.schema import load_schema

__all__ = ["UnknownKeywordError", "accepts", "compile_schema"]

Check = Callable[[Any], bool]


class UnknownKeywordError(Exception):
    """The schema says something that cannot be compiled here."""


def accepts(package: str, name: str, value: Any) -> bool:
    """Whether the schema `name` of a package of ours certainly allows a value.

    The value is one that `json.loads` gives: exact built-ins.
    """
    check = _compiled(package, name)
    return check is not None and check(value)


@functools.cache
def _compiled(package: str, name: str) -> Check | None:
    try:
        return compile_schema(load_schema(package, name))
    except UnknownKeywordError:
        return None


def compile_schema(schema: Mapping[str, Any]) -> Check:
    """The schema as a function. Raises UnknownKeywordError."""
    return _Compiler(schema.get("$defs", {})).check(schema)


_SILENT: Final = frozenset({"$schema", "$id", "$defs", "title", "description", "then", "else"})
_TYPES: Final[Mapping[str, Check]] = {
    "object": lambda value: type(value) is dict,
    "array": lambda value: type(value) is list,
    "string": lambda value: type(value) is str,
    "integer": lambda value: type(value) is int,
    "number": lambda value: type(value) in (int, float),
    "boolean": lambda value: type(value) is bool,
    "null": lambda value: value is None,
}


class _Compiler:
    def __init__(self, definitions: Mapping[str, Any]) -> None:
        self._definitions = definitions
        self._known: dict[str, Check] = {}

    def check(self, schema: Mapping[str, Any] | bool) -> Check:
        """All keywords of one schema together."""
        if isinstance(schema, bool):
            return lambda _value: schema
        checks: list[Check] = []
        rest = dict(schema)
        if {"properties", "required", "additionalProperties"} & rest.keys():
            checks.append(self._object(rest))
        for keyword, rule in rest.items():
            if keyword not in _SILENT:
                checks.append(self._keyword(keyword, rule, schema))
        return _every(checks)

    # One case a keyword: the table is the list of what is understood.
    def _keyword(  # noqa: C901
        self, keyword: str, rule: Any, schema: Mapping[str, Any]
    ) -> Check:
        match keyword:
            case "$ref":
                return self._reference(rule)
            case "type":
                kinds = [_TYPES[kind] for kind in ([rule] if isinstance(rule, str) else rule)]
                return kinds[0] if len(kinds) == 1 else _any(kinds)
            case "const":
                return _equals(rule)
            case "enum":
                return _among(rule)
            case "pattern":
                found = re.compile(rule).search
                return lambda value: type(value) is not str or found(value) is not None
            case "minLength":
                return lambda value: type(value) is not str or len(value) >= rule
            case "maxLength":
                return lambda value: type(value) is not str or len(value) <= rule
            case "minimum":
                return lambda value: type(value) not in (int, float) or value >= rule
            case "maximum":
                return lambda value: type(value) not in (int, float) or value <= rule
            case "items":
                inside = self.check(rule)
                return lambda value: type(value) is not list or all(map(inside, value))
            case "minItems":
                return lambda value: type(value) is not list or len(value) >= rule
            case "maxItems":
                return lambda value: type(value) is not list or len(value) <= rule
            case "uniqueItems" if rule is True:
                return _unique
            case "minProperties":
                return lambda value: type(value) is not dict or len(value) >= rule
            case "propertyNames":
                name = self.check(rule)
                return lambda value: type(value) is not dict or all(map(name, value))
            case "anyOf":
                return _any([self.check(one) for one in rule])
            case "allOf":
                return _every([self.check(one) for one in rule])
            case "if":
                return self._condition(schema)
            case _:
                raise UnknownKeywordError(keyword)

    def _reference(self, rule: str) -> Check:
        name = rule.removeprefix("#/$defs/")
        if name == rule or name not in self._definitions:
            raise UnknownKeywordError(rule)
        if name not in self._known:
            # Looked up when it is called: a definition may speak of itself.
            def later(value: Any) -> bool:
                return self._known[name](value)

            self._known[name] = later
            self._known[name] = self.check(self._definitions[name])
        return self._known[name]

    def _condition(self, schema: Mapping[str, Any]) -> Check:
        condition = self.check(schema["if"])
        yes = self.check(schema.get("then", {}))
        no = self.check(schema.get("else", {}))
        return lambda value: yes(value) if condition(value) else no(value)

    def _object(self, rest: dict[str, Any]) -> Check:
        """The keywords about keys in one go; takes them out of `rest`."""
        required: Sequence[str] = rest.pop("required", ())
        inside = {key: self.check(rule) for key, rule in rest.pop("properties", {}).items()}
        rule = rest.pop("additionalProperties", True)
        other = self.check(rule)

        def check(value: Any) -> bool:
            if type(value) is not dict:
                return True
            for key in required:
                if key not in value:
                    return False
            for key, item in value.items():  # noqa: SIM110 - a generator takes twice as long
                if not inside.get(key, other)(item):
                    return False
            return True

        return check


def _every(checks: Sequence[Check]) -> Check:
    match checks:
        case []:
            return lambda _value: True
        case [one]:
            return one
        case [one, two]:
            return lambda value: one(value) and two(value)
        case _:
            first, rest = checks[0], _every(checks[1:])
            return lambda value: first(value) and rest(value)


def _any(checks: Sequence[Check]) -> Check:
    if len(checks) == 1:
        return checks[0]
    first, rest = checks[0], _any(checks[1:])
    return lambda value: first(value) or rest(value)


def _equals(rule: Any) -> Check:
    kind = type(rule)
    if kind not in (str, int, bool, type(None)):
        raise UnknownKeywordError("const of a number or a structure")
    return lambda value: type(value) is kind and value == rule


def _among(rule: Sequence[Any]) -> Check:
    if not all(type(one) is str for one in rule):
        raise UnknownKeywordError("enum of others than texts")
    words = frozenset(rule)
    return lambda value: type(value) is str and value in words


def _unique(value: Any) -> bool:
    """Certain only of lists of text; anything else is left to the authority."""
    if type(value) is not list:
        return True
    return all(type(one) is str for one in value) and len(set(value)) == len(value)
