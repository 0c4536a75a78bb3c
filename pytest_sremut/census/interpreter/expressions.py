"""Expressions on partly known values: an operation on unknown values is unknown."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, Final

from pytest_sremut.census.interpreter.binding import assign
from pytest_sremut.census.interpreter.calls import call_node, define
from pytest_sremut.census.interpreter.comparing import compared, plain_constant
from pytest_sremut.census.interpreter.comprehensions import comprehension
from pytest_sremut.census.interpreter.core import evaluate, get_attr
from pytest_sremut.census.interpreter.items import iterate, put, subscript, truth
from pytest_sremut.census.interpreter.machine import Frame, Machine
from pytest_sremut.census.interpreter.modules import resolve
from pytest_sremut.census.interpreter.operators import LONG_TEXT, combine
from pytest_sremut.census.interpreter.texts import as_text
from pytest_sremut.census.interpreter.values import (
    HOLE,
    Const,
    Dict,
    Func,
    KObj,
    Lazy,
    ListV,
    Unknown,
    Value,
    hole,
    join,
)

__all__ = ["EXPRESSIONS"]


def _name(m: Machine, node: ast.Name, frame: Frame) -> Value:
    """The value of a name: local scopes outwards, the module, the builtins."""
    name = node.id
    scope: Any = frame.scope
    while scope is not None:
        if name in scope:
            return _resolved(m, scope[name])
        scope = getattr(scope, "parent", None)
    names = frame.module.names
    if name in names:
        return _resolved(m, names[name])
    found = m.language.builtin(m, name)
    return Unknown(name) if found is None else found


def _resolved(m: Machine, value: Value) -> Value:
    return resolve(m, value) if isinstance(value, Lazy) else value


def _attribute(m: Machine, node: ast.Attribute, frame: Frame) -> Value:
    frame.line = node.lineno
    return get_attr(m, evaluate(m, node.value, frame), node.attr)


def _joined(m: Machine, node: ast.JoinedStr, frame: Frame) -> Value:
    parts: list[str] = []
    for part in node.values:
        if isinstance(part, ast.FormattedValue):
            value = evaluate(m, part.value, frame)
            parts.append(_formatted(m, value, part))
        elif isinstance(part, ast.Constant):
            parts.append(str(part.value))
    return Const("".join(parts)[:LONG_TEXT])


def _formatted(m: Machine, value: Value, node: ast.FormattedValue) -> str:
    text = as_text(value)
    if text is None or (node.format_spec is not None and HOLE.search(text)):
        return hole(ast.unparse(node.value))
    if node.format_spec is not None:
        return text if isinstance(value, Const) and isinstance(value.value, str) else hole(text)
    if node.conversion == ord("r"):
        return repr(text)
    return text


def _binary(m: Machine, node: ast.BinOp, frame: Frame) -> Value:
    # A long chain `a + b + c + …` nests to the left, so it is followed without recursion.
    chain: list[ast.BinOp] = []
    left: ast.expr = node
    while isinstance(left, ast.BinOp):
        chain.append(left)
        left = left.left
    value = evaluate(m, left, frame)
    for link in reversed(chain):
        value = combine(link, value, evaluate(m, link.right, frame))
    return value


def _bool(m: Machine, node: ast.BoolOp, frame: Frame) -> Value:
    is_or = isinstance(node.op, ast.Or)
    possible: list[Value] = []
    for item in node.values:
        value = evaluate(m, item, frame)
        holds = truth(value)
        if holds is None:
            possible.append(value)
            continue
        if holds is is_or:
            possible.append(value)
            break
        if item is node.values[-1]:
            possible.append(value)
    objects = [value for value in possible if isinstance(value, KObj)]
    if is_or and objects and isinstance(possible[0], KObj):
        return possible[0]  # `status.conditions or []`
    return join(possible)


def _compare(m: Machine, node: ast.Compare, frame: Frame) -> Value:
    left = evaluate(m, node.left, frame)
    results: list[bool | None] = []
    for op, right_node in zip(node.ops, node.comparators, strict=True):
        right = evaluate(m, right_node, frame)
        m.compared(left, right, is_equal=isinstance(op, ast.Eq | ast.In))
        results.append(compared(op, left, right))
        left = right
    if any(result is False for result in results):
        return Const(False)
    if all(result is True for result in results):
        return Const(True)
    return Unknown("comparison")


def _ifexp(m: Machine, node: ast.IfExp, frame: Frame) -> Value:
    holds = truth(evaluate(m, node.test, frame))
    if holds is not None:
        return evaluate(m, node.body if holds else node.orelse, frame)
    with m.maybe():
        return join([evaluate(m, node.body, frame), evaluate(m, node.orelse, frame)])


def _list(m: Machine, node: ast.List | ast.Tuple | ast.Set, frame: Frame) -> Value:
    items: list[Value] = []
    is_open = False
    for item in node.elts:
        if isinstance(item, ast.Starred):
            inner = evaluate(m, item.value, frame)
            if isinstance(inner, ListV | Dict):
                found, is_all = iterate(m, inner)
                items += found
                is_open = is_open or not is_all
            else:
                is_open = True
        else:
            items.append(evaluate(m, item, frame))
    return ListV(items, is_open)


def _dict(m: Machine, node: ast.Dict, frame: Frame) -> Value:
    result = Dict({})
    for key, item in zip(node.keys, node.values, strict=True):
        value = evaluate(m, item, frame)
        if key is None:
            if isinstance(value, Dict):
                result.entries.update(value.entries)
                result.is_open = result.is_open or value.is_open
            else:
                result.is_open = True
            continue
        put(result, evaluate(m, key, frame), value, ast.unparse(key)[:40])
    return result


def _lambda(m: Machine, node: ast.Lambda, frame: Frame) -> Value:
    owner = frame.func.owner if frame.func else None
    return define(m, Func(frame.module, node, frame.scope, owner=owner), frame)


def _subscript(m: Machine, node: ast.Subscript, frame: Frame) -> Value:
    value = evaluate(m, node.value, frame)
    if isinstance(node.slice, ast.Slice):
        return _sliced(m, value, node.slice, frame)
    return subscript(m, value, evaluate(m, node.slice, frame))


def _sliced(m: Machine, value: Value, node: ast.Slice, frame: Frame) -> Value:
    bounds = [
        None if part is None else plain_constant(evaluate(m, part, frame))
        for part in (node.lower, node.upper, node.step)
    ]
    if isinstance(value, KObj):
        return value
    if all(bound is None or isinstance(bound, int) for bound in bounds):
        part = slice(*bounds)
        if isinstance(value, ListV) and not value.is_open:
            return ListV(value.items[part])
        if isinstance(value, Const) and isinstance(value.value, str):
            return value if HOLE.search(value.value) else Const(value.value[part])
    if isinstance(value, ListV):
        return ListV(list(value.items), is_open=True)
    return Unknown("slice")


def _unary(m: Machine, node: ast.UnaryOp, frame: Frame) -> Value:
    value = evaluate(m, node.operand, frame)
    if isinstance(node.op, ast.Not):
        holds = truth(value)
        return Unknown("not") if holds is None else Const(not holds)
    if isinstance(value, Const) and isinstance(value.value, int | float):
        return Const(-value.value if isinstance(node.op, ast.USub) else value.value)
    return Unknown("number")


def _walrus(m: Machine, node: ast.NamedExpr, frame: Frame) -> Value:

    value = evaluate(m, node.value, frame)
    assign(m, node.target, value, frame)
    return value


def _yield(m: Machine, node: ast.Yield | ast.YieldFrom, frame: Frame) -> Value:
    value = evaluate(m, node.value, frame)
    target = next((one for one in reversed(m.stack) if one.func is frame.func), frame)
    if isinstance(node, ast.YieldFrom):
        target.yields += iterate(m, value)[0]
    else:
        target.yields.append(value)
    return Unknown("sent")


EXPRESSIONS: Final[dict[type[ast.expr], Callable[[Machine, Any, Frame], Value]]] = {
    ast.Constant: lambda _m, node, _frame: Const(node.value),
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.JoinedStr: _joined,
    ast.BinOp: _binary,
    ast.BoolOp: _bool,
    ast.Compare: _compare,
    ast.IfExp: _ifexp,
    ast.List: _list,
    ast.Tuple: _list,
    ast.Set: _list,
    ast.Dict: _dict,
    ast.Lambda: _lambda,
    ast.Subscript: _subscript,
    ast.ListComp: comprehension,
    ast.SetComp: comprehension,
    ast.GeneratorExp: comprehension,
    ast.DictComp: comprehension,
    ast.UnaryOp: _unary,
    ast.NamedExpr: _walrus,
    ast.Yield: _yield,
    ast.YieldFrom: _yield,
    ast.Await: lambda m, node, frame: evaluate(m, node.value, frame),
    ast.Starred: lambda m, node, frame: evaluate(m, node.value, frame),
    ast.Call: call_node,
}
"""Evaluating, by the type of the syntax node."""
