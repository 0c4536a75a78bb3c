"""Binding targets: names, attributes, items, several at once."""

from __future__ import annotations

import ast

from pytest_sremut.census.interpreter.attributes import set_attr
from pytest_sremut.census.interpreter.core import evaluate
from pytest_sremut.census.interpreter.fields import write_field
from pytest_sremut.census.interpreter.items import put
from pytest_sremut.census.interpreter.machine import Frame, Machine
from pytest_sremut.census.interpreter.values import (
    Const,
    Dict,
    KObj,
    ListV,
    OneOf,
    Unknown,
    Value,
    join,
)

__all__ = ["assign", "assign_item"]


def assign(m: Machine, target: ast.expr, value: Value, frame: Frame) -> None:
    """Bind a target: a name, an attribute, an item, or several at once."""
    match target:
        case ast.Name(id=name):
            if name in frame.outer_names:
                _assign_outer(frame, name, value)
            else:
                frame.scope[name] = value
        case ast.Attribute(value=owner, attr=name):
            set_attr(m, evaluate(m, owner, frame), name, value)
        case ast.Subscript(value=owner, slice=key):
            assign_item(m, evaluate(m, owner, frame), key, value, frame)
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            _unpack(m, parts, value, frame)
        case ast.Starred(value=inner):
            assign(m, inner, value, frame)
        case _:
            pass


def _assign_outer(frame: Frame, name: str, value: Value) -> None:
    scope = getattr(frame.scope, "parent", None)
    while scope is not None:
        if name in scope:
            scope[name] = value
            return
        scope = getattr(scope, "parent", None)
    frame.module.names[name] = value


def assign_item(m: Machine, owner: Value, key: ast.expr, value: Value, frame: Frame) -> None:
    """`owner[key] = value`, where the key may be unknown."""
    if isinstance(owner, OneOf):
        for option in owner.options:
            assign_item(m, option, key, value, frame)
        return
    index = Unknown("slice") if isinstance(key, ast.Slice) else evaluate(m, key, frame)
    if isinstance(owner, KObj):
        text = index.value if isinstance(index, Const) and isinstance(index.value, str) else "[]"
        write_field(m, owner, text, value)
    elif isinstance(owner, Dict):
        put(owner, index, value, ast.unparse(key)[:40])
    elif isinstance(owner, ListV):
        position = index.value if isinstance(index, Const) else None
        if isinstance(position, int) and -len(owner.items) <= position < len(owner.items):
            owner.items[position] = value
        else:
            owner.items.append(value)


def _unpack(m: Machine, parts: list[ast.expr], value: Value, frame: Frame) -> None:
    if isinstance(value, OneOf):
        lists = [one for one in value.options if isinstance(one, ListV)]
        if lists and all(len(one.items) == len(parts) for one in lists):
            for index, part in enumerate(parts):
                assign(m, part, join([one.items[index] for one in lists]), frame)
            return
    if isinstance(value, ListV) and not value.is_open:
        plain = not any(isinstance(part, ast.Starred) for part in parts)
        if plain and len(value.items) == len(parts):
            for part, item in zip(parts, value.items, strict=True):
                assign(m, part, item, frame)
            return
    if isinstance(value, KObj):
        for part in parts:
            assign(m, part, value, frame)
        return
    for part in parts:
        assign(m, part, Unknown(ast.unparse(part)[:40]), frame)
