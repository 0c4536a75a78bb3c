"""Truth, items and iteration of partly known values."""

from __future__ import annotations

from typing import Any, Final

from pytest_sremut.census.interpreter.classes import class_attrs, is_enum
from pytest_sremut.census.interpreter.core import get_attr
from pytest_sremut.census.interpreter.fields import field_of
from pytest_sremut.census.interpreter.machine import Machine
from pytest_sremut.census.interpreter.texts import as_text, is_none
from pytest_sremut.census.interpreter.values import (
    HOLE,
    ClassV,
    Const,
    Dict,
    Ext,
    Func,
    Inst,
    KObj,
    ListV,
    ModuleV,
    Native,
    OneOf,
    PathV,
    Unknown,
    Value,
    hole,
    join,
)

__all__ = ["iterate", "put", "subscript", "truth"]

MAX_ITEMS: Final = 48


def truth(value: Value) -> bool | None:
    """Whether a test holds; None if that is not known."""
    match value:
        case Const(value=raw):
            if isinstance(raw, str) and HOLE.search(raw):
                return True if HOLE.sub("", raw) else None
            return bool(raw)
        case ListV(items=items, is_open=is_open):
            return None if is_open else bool(items)
        case Dict(entries=entries, is_open=is_open, kind=kind):
            return True if kind else (None if is_open else bool(entries))
        case Inst() | ClassV() | Func() | ModuleV() | Native() | PathV():
            return True
        case OneOf(options=options):
            found = {truth(option) for option in options}
            return found.pop() if len(found) == 1 else None
        case _:
            return None


def put(target: Dict, key: Value, value: Value, text: str = "key") -> None:
    """`target[key] = value` where the key may be unknown."""
    plain = key.value if isinstance(key, Const) else as_text(key)
    try:
        hash(plain)
    except TypeError:
        plain = None
    if plain is None and not is_none(key):
        target.is_open = True
        target.element = value if target.element is None else join([target.element, value])
        target.entries.setdefault(hole(text), value)
        return
    target.entries[plain] = value


def subscript(m: Machine, value: Value, key: Value) -> Value:
    """`value[key]`."""
    match value:
        case KObj():
            return _item_of_object(m, value, key)
        case Dict():
            return _item_of_mapping(value, key)
        case ListV():
            return _item_of_list(value, key)
        case OneOf(options=options):
            return join([subscript(m, one, key) for one in options if not is_none(one)])
        case Ext() if value.path == "os.environ":
            return Unknown(f"environ_{as_text(key) or ''}")
        case ClassV():
            found = get_attr(m, value, as_text(key) or "")
            return value if isinstance(found, Unknown) else found  # Generic[T], Enum["x"]
        case _:
            return Unknown("item")


def _item_of_object(m: Machine, value: KObj, key: Value) -> Value:
    if value.is_list:
        if value.path == "" and isinstance(key, Const) and key.value == "items":
            return KObj(value.root, "[]", is_list=True)
        return KObj(value.root, "")
    if isinstance(key, Const) and isinstance(key.value, str):
        return field_of(m, value, key.value if not HOLE.search(key.value) else "[]")
    return KObj(value.root, value.path if value.path.endswith("[]") else f"{value.path}[]")


def _item_of_mapping(value: Dict, key: Value) -> Value:
    entries = value.entries
    plain = key.value if isinstance(key, Const) else as_text(key)
    try:
        if plain in entries:
            return entries[plain]
    except TypeError:
        pass
    partly = [item for key_, item in entries.items() if _has_hole(key_)]
    if value.element is not None:
        return join([value.element, *partly])
    if partly:
        return join(partly)
    if isinstance(key, OneOf | Unknown | KObj) and entries:
        return join(list(entries.values()))
    return Unknown("item")


def _item_of_list(value: ListV, key: Value) -> Value:
    items = value.items
    if isinstance(key, Const) and isinstance(key.value, int):
        try:
            return items[key.value]
        except IndexError:
            return Unknown("item")
    return join(items) if items else Unknown("item")


def _has_hole(key: Any) -> bool:
    return isinstance(key, str) and bool(HOLE.search(key))


def iterate(m: Machine, value: Value) -> tuple[list[Value], bool]:
    """The known items of a value, and whether there are no others."""
    match value:
        case ListV(items=items, is_open=is_open):
            known = items[:MAX_ITEMS]
            if is_open and not known:
                return [Unknown("item")], False
            return known, not is_open and len(known) == len(items)
        case Dict(entries=entries, is_open=is_open):
            keys: list[Value] = [Const(key) for key in list(entries)[:MAX_ITEMS]]
            if is_open and not keys:
                return [Unknown("key")], False
            return keys, not is_open and len(keys) == len(entries)
        case KObj():
            path = value.path if value.path.endswith("[]") else f"{value.path}[]"
            return [KObj(value.root, "" if value.is_list else path)], False
        case Const(value=str() as text) if not HOLE.search(text) and len(text) <= MAX_ITEMS:
            return [Const(letter) for letter in text], True
        case OneOf():
            return _items_of_options(m, value), False
        case ClassV() if is_enum(m, value):
            names = [name for name in class_attrs(m, value) if not name.startswith("_")]
            return [get_attr(m, value, name) for name in names][:MAX_ITEMS], True
        case _:
            return [Unknown("item")], False


def _items_of_options(m: Machine, value: OneOf) -> list[Value]:
    items: list[Value] = []
    for option in value.options:
        items += iterate(m, option)[0] if not is_none(option) else []
    return items[:MAX_ITEMS] or [Unknown("item")]
