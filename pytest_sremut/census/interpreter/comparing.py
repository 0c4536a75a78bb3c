"""Comparisons of partly known values: true, false, or not known (None)."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any, Final

from pytest_sremut.census.interpreter.texts import is_none
from pytest_sremut.census.interpreter.values import (
    HOLE,
    ClassV,
    Const,
    Dict,
    Ext,
    Func,
    Inst,
    ListV,
    Native,
    OneOf,
    PathV,
    Rec,
    Value,
)

__all__ = ["NOT_PLAIN", "compared", "plain_constant"]


def compared(op: ast.cmpop, left: Value, right: Value) -> bool | None:
    """Whether the comparison holds; None if that is not known."""
    if isinstance(op, ast.Is | ast.IsNot):
        same = _identical(left, right)
        return same if same is None or isinstance(op, ast.Is) else not same
    if isinstance(op, ast.In | ast.NotIn):
        inside = _contained(left, right)
        return inside if inside is None or isinstance(op, ast.In) else not inside
    first, second = plain_constant(left), plain_constant(right)
    if first is NOT_PLAIN or second is NOT_PLAIN:
        return None
    try:
        if isinstance(op, ast.Eq):
            return bool(first == second)
        if isinstance(op, ast.NotEq):
            return bool(first != second)
        return bool(_ORDER[type(op)](first, second))
    except (TypeError, KeyError):
        return None


_ORDER: Final[dict[type[ast.cmpop], Callable[[Any, Any], Any]]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


NOT_PLAIN: Final = object()


def plain_constant(value: Value) -> Any:
    """The Python value, if it is known in full; otherwise `NOT_PLAIN`."""
    if isinstance(value, Const):
        if isinstance(value.value, str) and HOLE.search(value.value):
            return NOT_PLAIN
        return value.value
    if isinstance(value, PathV):
        return NOT_PLAIN if HOLE.search(value.text) else value.text
    if isinstance(value, Rec) and "value" in value.attrs:
        return plain_constant(value.attrs["value"])
    return NOT_PLAIN


def _identical(left: Value, right: Value) -> bool | None:
    if is_none(left) or is_none(right):
        other = right if is_none(left) else left
        if is_none(other):
            return True
        if isinstance(other, OneOf):
            return None
        known = (Const, ListV, Dict, Inst, ClassV, Func, PathV, Native, Ext)
        return False if isinstance(other, known) else None
    first, second = plain_constant(left), plain_constant(right)
    if isinstance(first, bool) and isinstance(second, bool):
        return first is second
    if isinstance(left, Inst | ClassV) and isinstance(right, Inst | ClassV):
        return left is right
    return None


def _contained(left: Value, right: Value) -> bool | None:
    item = plain_constant(left)
    if item is NOT_PLAIN:
        return None
    if isinstance(right, ListV):
        found = [plain_constant(one) for one in right.items]
        if item in found:
            return True
        return None if right.is_open or NOT_PLAIN in found else False
    if isinstance(right, Dict):
        try:
            inside = item in right.entries
        except TypeError:
            return None
        return True if inside else (None if right.is_open else False)
    text = plain_constant(right)
    if isinstance(item, str) and isinstance(text, str):
        return item in text
    return None
