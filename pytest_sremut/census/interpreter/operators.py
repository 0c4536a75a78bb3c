"""Binary operators on partly known values. Texts keep their holes, and numbers stay small."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any, Final

from pytest_sremut.census.interpreter.texts import as_text
from pytest_sremut.census.interpreter.values import Const, Dict, ListV, PathV, Unknown, Value, hole

__all__ = ["LONG_TEXT", "combine"]

LONG_TEXT: Final = 200_000


_BINARY: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitOr: operator.or_,
    ast.BitAnd: operator.and_,
}


def combine(node: ast.BinOp, left: Value, right: Value) -> Value:
    """The value of a binary operation: unknown, or a text with holes, if a side is unknown."""
    if isinstance(node.op, ast.Div) and isinstance(left, PathV):
        text = as_text(right)
        below = hole(ast.unparse(node.right)) if text is None else text
        return PathV(below if below.startswith("/") else f"{left.text.rstrip('/')}/{below}")
    if isinstance(node.op, ast.Add):
        added = _added(node, left, right)
        if added is not None:
            return added
    if isinstance(node.op, ast.Mod) and isinstance(left, Const) and isinstance(left.value, str):
        return Const(_percent(left.value, right))
    if isinstance(node.op, ast.BitOr) and isinstance(left, Dict) and isinstance(right, Dict):
        return Dict({**left.entries, **right.entries}, left.is_open or right.is_open)
    if isinstance(left, Const) and isinstance(right, Const):
        result = _computed(node.op, left, right)
        if result is not None:
            return Const(result)
    return Unknown(ast.unparse(node)[:60] if len(ast.dump(node)) < 2000 else "expression")


def _added(node: ast.BinOp, left: Value, right: Value) -> Value | None:
    """The sum if a side is a list, or exactly one side is a text; None otherwise."""
    if isinstance(left, ListV):
        if isinstance(right, ListV):
            return ListV([*left.items, *right.items], left.is_open or right.is_open)
        return ListV(list(left.items), is_open=True)
    strings = [isinstance(side, Const) and isinstance(side.value, str) for side in (left, right)]
    if any(strings) and not all(strings):
        sides = ((left, node.left), (right, node.right))
        return Const("".join(_shown(value, part) for value, part in sides))
    return None


def _shown(value: Value, node: ast.expr) -> str:
    text = as_text(value)
    return hole(ast.unparse(node)[:48]) if text is None else text


def _computed(op: ast.operator, left: Const, right: Const) -> Any:
    """What Python computes; None if it raises or the result could be huge."""
    function = _BINARY.get(type(op))
    if function is None or not _small(left, right):
        return None
    try:
        return function(left.value, right.value)
    except (TypeError, ValueError, ArithmeticError):
        return None


def _small(left: Const, right: Const) -> bool:
    """Whether the result of an operation cannot be huge."""
    for side in (left.value, right.value):
        if isinstance(side, str | bytes) and len(side) > LONG_TEXT:
            return False
        if isinstance(side, int) and abs(side) > 10**12:
            return False
    kinds = {type(left.value), type(right.value)}
    return not (kinds & {str, bytes} and kinds & {int} and max(_ints(left, right)) > 1000)


def _ints(*sides: Const) -> list[int]:
    return [side.value for side in sides if isinstance(side.value, int)] or [0]


def _percent(pattern: str, right: Value) -> str:
    items = right.items if isinstance(right, ListV) else [right]
    texts = [as_text(item) or hole("value") for item in items]
    for text in texts:
        for mark in ("%s", "%d", "%r"):
            if mark in pattern:
                pattern = pattern.replace(mark, text, 1)
                break
    return pattern
