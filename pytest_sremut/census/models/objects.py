"""Kubernetes objects that were read, used as objects, mappings, lists or text."""

from __future__ import annotations

from typing import Final

from pytest_sremut.census.interpreter.fields import field_of, write_field
from pytest_sremut.census.interpreter.items import subscript
from pytest_sremut.census.interpreter.machine import Machine
from pytest_sremut.census.interpreter.values import (
    Const,
    Dict,
    KObj,
    ListV,
    Native,
    Unknown,
    Value,
    camel,
)
from pytest_sremut.census.models.containers import MAPPING_METHODS

__all__ = ["object_attribute"]

Args = list[Value]
_TEXT: Final = frozenset(
    {"strip", "lstrip", "rstrip", "decode", "encode", "lower", "upper", "split", "splitlines"}
    | {"replace", "startswith", "endswith", "partition", "rpartition", "isdigit", "join", "count"}
    | {"removeprefix", "removesuffix", "find"}
)
_LIST: Final = frozenset({"append", "extend", "insert", "remove", "clear", "sort", "index"})
_METHODS: Final = _TEXT | MAPPING_METHODS | _LIST
_CHANGES: Final = frozenset(
    {"append", "extend", "insert", "remove", "clear", "sort", "pop", "update"}
)
_UNKNOWN: Final = frozenset({"startswith", "endswith", "isdigit", "count", "find", "index"})


def object_attribute(m: Machine, value: KObj, name: str, quiet: bool) -> Value:
    """A field of the object, or a method of what it is used as."""
    if value.is_list and name == "items":
        return KObj(value.root, "[]", is_list=True)
    if name in _METHODS:
        # It depends on the arguments. `x.items` of a client's list was handled above.
        return Native(lambda args, _kwargs: _method(m, value, name, args), name)
    return field_of(m, value, camel(name))


def _method(m: Machine, value: KObj, name: str, args: Args) -> Value:
    if name in {"get", "setdefault", "items", "keys", "values"}:
        return _looked_up(m, value, name, args)
    if name in _CHANGES:
        return _changed(m, value, name, args)
    if name in {"splitlines", "split"}:
        return ListV([value], is_open=True)
    if name in _UNKNOWN:
        return Unknown(name)
    return value  # strip, decode, lower, to_dict, copy: the same object


def _looked_up(m: Machine, value: KObj, name: str, args: Args) -> Value:
    if name in {"get", "setdefault"} and args and isinstance(args[0], Const):
        return subscript(m, value, args[0])
    if name == "setdefault":
        return value
    below = field_of(m, value, "[]")
    if name == "get":
        return below
    item: Value = below
    if name == "keys":
        item = Unknown("key")
    elif name == "items":
        item = ListV([Unknown("key"), below])
    return ListV([item], is_open=True)


def _changed(m: Machine, value: KObj, name: str, args: Args) -> Value:
    first = args[0] if args else None
    if name == "pop" and isinstance(first, Const) and isinstance(first.value, str):
        write_field(m, value, first.value)
        return field_of(m, value, first.value)
    if name == "update" and isinstance(first, Dict):
        for key in first.entries:
            write_field(m, value, str(key))
    else:
        write_field(m, value, "")
    return Const(None)
