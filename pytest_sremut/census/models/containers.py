"""Methods of lists and mappings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pytest_sremut.census.interpreter.core import call
from pytest_sremut.census.interpreter.items import iterate, put, subscript
from pytest_sremut.census.interpreter.machine import Machine
from pytest_sremut.census.interpreter.texts import as_text
from pytest_sremut.census.interpreter.values import (
    HOLE,
    Const,
    Dict,
    ListV,
    Native,
    Unknown,
    Value,
    camel,
    join,
)

__all__ = ["MAPPING_METHODS", "list_attribute", "mapping_attribute"]

Args = list[Value]
Kwargs = dict[str, Value]
_AS_TEXT: Final = frozenset({"encode", "decode", "strip"})


def list_attribute(m: Machine, value: ListV, name: str, quiet: bool) -> Value:
    """A method of a list, tuple or set."""
    if name in _AS_TEXT:
        return Native(lambda _args, _kwargs: value, name)  # a structure is used as its own text
    method = _LIST.get(name)
    if method is None:
        return Native(lambda _args, _kwargs: Unknown(name), name)
    return Native(lambda args, kwargs: method(m, value, args, kwargs), name)


def mapping_attribute(m: Machine, value: Dict, name: str, quiet: bool) -> Value:
    """A field of a client's body (`V1Service`), or a method of a mapping."""
    if value.kind and name not in MAPPING_METHODS:
        return value.entries.get(camel(name), Unknown(name))
    if name in _AS_TEXT:
        return Native(lambda _args, _kwargs: value, name)
    method = _MAPPING.get(name)
    if method is None:
        return Native(lambda _args, _kwargs: Unknown(name), name)
    return Native(lambda args, kwargs: method(m, value, args, kwargs), name)


def _append(m: Machine, value: ListV, args: Args, kwargs: Kwargs) -> Value:
    if not args:
        return Unknown("append")
    value.items.append(args[0])
    value.is_open = value.is_open or m.may > 0
    return Const(None)


def _extend(m: Machine, value: ListV, args: Args, kwargs: Kwargs) -> Value:
    _take_in(m, value, args)
    return Const(None)


def _united(m: Machine, value: ListV, args: Args, kwargs: Kwargs) -> Value:
    """`union` and `intersection`: any of the items may be in it."""
    result = ListV(list(value.items), is_open=True)
    _take_in(m, result, args)
    return result


def _difference(m: Machine, value: ListV, args: Args, kwargs: Kwargs) -> Value:
    for arg in args:
        iterate(m, arg)  # to record its reads
    return ListV(list(value.items), is_open=True)


def _take_in(m: Machine, target: ListV, args: Args) -> None:
    for arg in args:
        items, is_all = iterate(m, arg)
        target.items += items
        target.is_open = target.is_open or not is_all or m.may > 0


def _insert(m: Machine, value: ListV, args: Args, kwargs: Kwargs) -> Value:
    if len(args) != 2:
        return Unknown("insert")
    value.items.insert(0, args[1])
    return Const(None)


def _pop_item(m: Machine, value: ListV, args: Args, kwargs: Kwargs) -> Value:
    return join(value.items) if value.items else Unknown("item")


def _copy_list(m: Machine, value: ListV, args: Args, kwargs: Kwargs) -> Value:
    return ListV(list(value.items), value.is_open)


def _sort(m: Machine, value: ListV, args: Args, kwargs: Kwargs) -> Value:
    for item in value.items if "key" in kwargs else ():
        call(m, kwargs["key"], [item], {})
    return Const(None)


def _remove(m: Machine, value: ListV, args: Args, kwargs: Kwargs) -> Value:
    value.is_open = True
    return Const(None)


def _reverse(m: Machine, value: ListV, args: Args, kwargs: Kwargs) -> Value:
    return Const(None)


_LIST: Final[dict[str, Callable[[Machine, ListV, Args, Kwargs], Value]]] = {
    "append": _append,
    "add": _append,
    "appendleft": _append,
    "extend": _extend,
    "update": _extend,
    "union": _united,
    "intersection": _united,
    "difference": _difference,
    "insert": _insert,
    "pop": _pop_item,
    "popleft": _pop_item,
    "copy": _copy_list,
    "sort": _sort,
    "reverse": _reverse,
    "remove": _remove,
    "discard": _remove,
    "clear": _remove,
}


def _get(m: Machine, value: Dict, args: Args, kwargs: Kwargs) -> Value:
    if not args:
        return Unknown("get")
    key = _plain_key(args[0])
    default = args[1] if len(args) > 1 else Const(None)
    if key in value.entries:
        return value.entries[key]
    known = isinstance(args[0], Const) and not (isinstance(key, str) and HOLE.search(key))
    if known and not value.is_open:
        return default
    found = subscript(m, value, args[0])
    return default if isinstance(found, Unknown) else join([found, default])


def _plain_key(key: Value) -> Any:
    return key.value if isinstance(key, Const) else as_text(key)


def _items(m: Machine, value: Dict, args: Args, kwargs: Kwargs) -> Value:
    pairs: Args = [ListV([Const(key), item]) for key, item in value.entries.items()]
    return ListV(pairs, value.is_open)


def _keys(m: Machine, value: Dict, args: Args, kwargs: Kwargs) -> Value:
    return ListV([Const(key) for key in value.entries], value.is_open)


def _values(m: Machine, value: Dict, args: Args, kwargs: Kwargs) -> Value:
    return ListV(list(value.entries.values()), value.is_open)


def _update(m: Machine, value: Dict, args: Args, kwargs: Kwargs) -> Value:
    for arg in args:
        if isinstance(arg, Dict):
            value.entries.update(arg.entries)
            value.is_open = value.is_open or arg.is_open
        else:
            value.is_open = True
    value.entries.update(kwargs)
    return Const(None)


def _setdefault(m: Machine, value: Dict, args: Args, kwargs: Kwargs) -> Value:
    if not args:
        return Unknown("setdefault")
    key = _plain_key(args[0])
    if key is not None and key in value.entries:
        return value.entries[key]
    default = args[1] if len(args) > 1 else Const(None)
    put(value, args[0], default)
    return default


def _pop_key(m: Machine, value: Dict, args: Args, kwargs: Kwargs) -> Value:
    if not args:
        return Unknown("pop")
    found = subscript(m, value, args[0])
    if m.may == 0 and isinstance(args[0], Const):
        value.entries.pop(args[0].value, None)
    return args[1] if isinstance(found, Unknown) and len(args) > 1 else found


def _copy_mapping(m: Machine, value: Dict, args: Args, kwargs: Kwargs) -> Value:
    return Dict(dict(value.entries), value.is_open, value.kind, value.element)


def _clear(m: Machine, value: Dict, args: Args, kwargs: Kwargs) -> Value:
    value.entries.clear()
    return Const(None)


def _to_dict(m: Machine, value: Dict, args: Args, kwargs: Kwargs) -> Value:
    return value


_MAPPING: Final[dict[str, Callable[[Machine, Dict, Args, Kwargs], Value]]] = {
    "get": _get,
    "items": _items,
    "keys": _keys,
    "values": _values,
    "update": _update,
    "setdefault": _setdefault,
    "pop": _pop_key,
    "copy": _copy_mapping,
    "clear": _clear,
    "to_dict": _to_dict,
}
MAPPING_METHODS: Final = frozenset(_MAPPING)
"""The names that are methods of a mapping, whatever fields it has."""
