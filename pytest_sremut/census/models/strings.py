"""Methods of texts. If a text has holes, results that depend on its letters are unknown."""

from __future__ import annotations

from typing import Final

from pytest_sremut.census.interpreter.machine import Machine
from pytest_sremut.census.interpreter.texts import as_text, constant
from pytest_sremut.census.interpreter.values import (
    HOLE,
    Const,
    ListV,
    Native,
    Unknown,
    Value,
    hole,
)

__all__ = ["constant_attribute"]

Args = list[Value]


_SAFE_TEXT: Final = frozenset(
    {"strip", "lstrip", "rstrip", "lower", "upper", "title", "replace", "split", "rsplit"}
    | {"splitlines", "partition", "rpartition", "removeprefix", "removesuffix", "capitalize"}
    | {"startswith", "endswith", "isdigit", "find", "count", "isalnum", "zfill", "ljust", "rjust"}
    | {"swapcase", "isidentifier", "isalpha", "index"}
)
_DECIDING: Final = frozenset({"startswith", "endswith", "find", "count", "isdigit", "index"})


def constant_attribute(m: Machine, value: Const, name: str, quiet: bool) -> Value:
    """A method of a text; unknown for any other constant."""
    if not isinstance(value.value, str):
        return Unknown(name)
    return Native(lambda args, _kwargs: _text(value, name, args), name)


def _text(value: Const, name: str, args: Args) -> Value:
    text: str = value.value
    if name in {"encode", "decode", "expandtabs", "casefold"}:
        return value
    if name == "join":
        return _join(text, args)
    if name == "format":
        texts = [as_text(arg) or hole(f"arg{index}") for index, arg in enumerate(args)]
        for one in texts:
            text = text.replace("{}", one, 1)
        return Const(text)
    if name not in _SAFE_TEXT or (HOLE.search(text) and name in _DECIDING):
        return Unknown(name)
    return _called(text, name, args)


def _called(text: str, name: str, args: Args) -> Value:
    """The result of Python's own method."""
    raw: list[object] = [arg.value for arg in args if isinstance(arg, Const)]
    if len(raw) != len(args):
        known = [as_text(arg) for arg in args]
        if name != "replace" or None in known:
            return Const(hole(text)) if name == "replace" else Unknown(name)
        raw = list(known)
    try:
        return constant(getattr(text, name)(*raw))
    except (TypeError, ValueError):
        return Unknown(name)


def _join(separator: str, args: Args) -> Value:

    if args and isinstance(args[0], ListV):
        parts = [as_text(item) or hole("item") for item in args[0].items]
        if args[0].is_open:
            parts.append(hole("more"))
        return Const(separator.join(parts))
    return Const(hole("joined"))
