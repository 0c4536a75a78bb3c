"""JSON and YAML texts, read strictly.

Rules kept here:

* no NaN, no infinite numbers, no aliases, bounded nesting; keys that occur twice are reported;
* YAML is read as Kubernetes reads it: version 1.1 (``y`` is true), dates are texts;
* whatever is wrong is one `SyntaxProblemError`, worded like Go's parsers.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any

import yaml

from pytest_sremut.embedded.meta.jsonvalue import JsonObject

__all__ = ["Decoded", "SyntaxProblemError", "load_json", "load_yaml"]

MAX_DEPTH = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """Plain data of a body and the keys that stood twice in it."""

    value: Any
    duplicates: list[str]


class SyntaxProblemError(Exception):
    """The text is no JSON or YAML; the message is worded like Go's parser."""


def load_json(body: bytes) -> Decoded:
    """Read JSON.

    Raises:
        SyntaxProblemError: it cannot be read.
    """
    duplicates: list[str] = []

    def pairs(items: list[tuple[str, Any]]) -> JsonObject:
        result = dict(items)
        if len(result) != len(items):
            seen: set[str] = set()
            duplicates.extend(key for key, _ in items if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        return result

    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        text = body.decode("utf-8", "replace")
    try:
        value = json.loads(
            text, object_pairs_hook=pairs, parse_constant=_constant, parse_float=_float
        )
    except json.JSONDecodeError as error:
        raise SyntaxProblemError(_go_syntax(text, error)) from None
    except (RecursionError, ValueError) as error:
        raise SyntaxProblemError(str(error).partition("\n")[0]) from None
    if text.count("{") + text.count("[") > MAX_DEPTH:
        _check_depth(value, MAX_DEPTH)
    if "\\u" in text:
        value = _without_surrogates(value)
    return Decoded(value=value, duplicates=duplicates)


_GO_PLACES = {
    "Extra data": "after top-level value",
    "Expecting property name enclosed in double quotes": (
        "looking for beginning of object key string"
    ),
    "Expecting ':' delimiter": "after object key",
    "Expecting ',' delimiter": "after object key:value pair",
    "Invalid control character at": "in string literal",
    "Invalid \\escape": "in string escape code",
}


def _go_syntax(text: str, error: json.JSONDecodeError) -> str:
    rest = text[error.pos :]
    if not rest.strip():
        return "unexpected end of JSON input"
    place = _GO_PLACES.get(error.msg, "looking for beginning of value")
    found = rest.lstrip()[0]
    shown = {"'": "'\\''", "\n": "'\\n'", "\t": "'\\t'"}.get(found, f"'{found}'")
    return f"invalid character {shown} {place}"


def _constant(name: str) -> Any:
    raise ValueError(f"invalid character '{name[0]}' looking for beginning of value")


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"json: cannot unmarshal number {text} into Go value of type float64")
    return value


def _check_depth(value: Any, left: int) -> None:
    if left == 0:
        raise SyntaxProblemError("exceeded max depth")
    children = value.values() if isinstance(value, dict) else value
    if isinstance(value, dict | list):
        for child in children:
            _check_depth(child, left - 1)


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_surrogates(item) for item in value]
    return value


class _Loader(yaml.SafeLoader):
    """YAML 1.1 as Kubernetes reads it: no timestamps, no aliases (they can grow without bound)."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not read")
        return super().compose_node(parent, index)


_Loader.yaml_implicit_resolvers = {
    first: [
        (tag, pattern) for tag, pattern in resolvers if not tag.endswith((":timestamp", ":merge"))
    ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
# YAML 1.1, as Kubernetes reads it, takes these for booleans too; PyYAML does not.
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"[yYnN]\Z"), list("yYnN"))
_Loader.bool_values = {**yaml.SafeLoader.bool_values, "y": True, "n": False}


def load_yaml(body: bytes) -> Decoded:
    """Read one YAML document.

    Raises:
        SyntaxProblemError: it cannot be read.
    """
    try:
        value = yaml.load(body, Loader=_Loader)  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, ValueError, RecursionError, TypeError, AttributeError) as error:
        text = " ".join(str(error).split())
        raise SyntaxProblemError(f"yaml: {text}") from None
    _check_depth(value, MAX_DEPTH)
    return Decoded(value=_plain(value), duplicates=[])


def _plain(value: Any) -> Any:
    """YAML values as JSON has them: keys are strings, no dates, bytes or odd numbers."""
    if isinstance(value, dict):
        return {_key(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise SyntaxProblemError(f"json: unsupported value: {value}")
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise SyntaxProblemError(f"yaml: {type(value).__name__} has no JSON form")


def _key(key: Any) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, str | int | float):
        return str(key)
    raise SyntaxProblemError("json: unsupported type of a key")
