"""Statements: what each does to names, and how it ends its block."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, Final

from pytest_sremut.census.interpreter.binding import assign, assign_item
from pytest_sremut.census.interpreter.branches import follow_if, follow_match, follow_try
from pytest_sremut.census.interpreter.calls import define
from pytest_sremut.census.interpreter.core import call, evaluate, get_attr, run_block
from pytest_sremut.census.interpreter.loops import follow_for, follow_while
from pytest_sremut.census.interpreter.machine import End, Frame, Machine
from pytest_sremut.census.interpreter.modules import load_module
from pytest_sremut.census.interpreter.values import (
    ClassV,
    Const,
    Dict,
    Func,
    Inst,
    KObj,
    Lazy,
    ListV,
    Unknown,
    Value,
)

__all__ = ["STATEMENTS"]


def _expr(m: Machine, node: ast.Expr, frame: Frame) -> End:
    evaluate(m, node.value, frame)
    return None


def _assign(m: Machine, node: ast.Assign, frame: Frame) -> End:
    value = evaluate(m, node.value, frame)
    for target in node.targets:
        assign(m, target, value, frame)
    return None


def _ann_assign(m: Machine, node: ast.AnnAssign, frame: Frame) -> End:
    if node.value is not None:
        assign(m, node.target, evaluate(m, node.value, frame), frame)
    return None


def _aug_assign(m: Machine, node: ast.AugAssign, frame: Frame) -> End:
    target = node.target
    if isinstance(node.op, ast.Add | ast.BitOr):
        old = evaluate(m, _as_load(target), frame)
        value = evaluate(m, node.value, frame)
        if isinstance(old, ListV) and isinstance(value, ListV):
            old.items += value.items
            old.is_open = old.is_open or value.is_open
            return None
    both = ast.copy_location(ast.BinOp(left=_as_load(target), op=node.op, right=node.value), node)
    assign(m, target, evaluate(m, both, frame), frame)
    return None


def _as_load(target: ast.expr) -> ast.expr:
    if isinstance(target, ast.Name):
        return ast.copy_location(ast.Name(id=target.id, ctx=ast.Load()), target)
    return target  # the others are evaluated whatever their context


def _with(m: Machine, node: ast.With | ast.AsyncWith, frame: Frame) -> End:
    entered: list[Value] = []
    for item in node.items:
        value = evaluate(m, item.context_expr, frame)
        bound = value
        if isinstance(value, Inst):
            bound = call(m, get_attr(m, value, "__enter__"), [], {})
            entered.append(value)
        elif isinstance(value, ListV) and value.items:
            bound = value.items[0]  # what a @contextmanager function yields
        if item.optional_vars is not None:
            assign(m, item.optional_vars, bound, frame)
    end = run_block(m, node.body, frame)
    for value in entered:
        none: list[Value] = [Const(None)] * 3
        call(m, get_attr(m, value, "__exit__"), none, {})
    return end


def _return(m: Machine, node: ast.Return, frame: Frame) -> End:
    value = evaluate(m, node.value, frame)
    if m.handlers > frame.handlers and isinstance(value, Unknown):
        return "return"  # the text of an error is not followed further
    frame.returns.append(value)
    return "return"


def _raise(m: Machine, node: ast.Raise, frame: Frame) -> End:
    evaluate(m, node.exc, frame)
    return "raise"


def _function(m: Machine, node: ast.FunctionDef | ast.AsyncFunctionDef, frame: Frame) -> End:
    value: Value = define(m, Func(frame.module, node, frame.scope, name=node.name), frame)
    for decorator in reversed(node.decorator_list):
        value = _decorated(m, value, decorator, frame)
    frame.scope[node.name] = value
    return None


_KINDS: Final = {
    "staticmethod": "static",
    "classmethod": "class",
    "property": "property",
    "cached_property": "property",
    "functools.cached_property": "property",
}


def _decorated(m: Machine, value: Value, decorator: ast.expr, frame: Frame) -> Value:
    name = ast.unparse(decorator.func if isinstance(decorator, ast.Call) else decorator)
    if name in _KINDS and isinstance(value, Func):
        value.kind = _KINDS[name]
        return value
    if name.endswith((".setter", ".deleter", ".getter")):
        return frame.scope.get(name.partition(".")[0], value)

    made = evaluate(m, decorator, frame)
    if isinstance(made, Func | ClassV):
        result = call(m, made, [value], {})
        if isinstance(result, Func):
            result.name = value.name if isinstance(value, Func) else result.name
            return result
    return value


def _class(m: Machine, node: ast.ClassDef, frame: Frame) -> End:
    made = ClassV(frame.module, node, frame.scope)
    frame.scope[node.name] = made
    return None


def _import(m: Machine, node: ast.Import, frame: Frame) -> End:
    for alias in node.names:
        if alias.asname:
            frame.scope[alias.asname] = Lazy(alias.name)
        else:
            top = alias.name.partition(".")[0]
            frame.scope[top] = Lazy(top)
    return None


def _import_from(m: Machine, node: ast.ImportFrom, frame: Frame) -> End:
    base = node.module or ""
    if node.level:
        package = frame.module.module.package.split(".")
        kept = package[: len(package) - (node.level - 1)]
        base = ".".join([*kept, base] if base else kept)
    for alias in node.names:
        if alias.name == "*":
            star = load_module(m, base)
            if star is not None:
                public = {k: v for k, v in star.names.items() if not k.startswith("_")}
                frame.scope.update(public)
            continue
        frame.scope[alias.asname or alias.name] = Lazy(base, alias.name)
    return None


def _delete(m: Machine, node: ast.Delete, frame: Frame) -> End:
    for target in node.targets:
        if isinstance(target, ast.Subscript):
            owner = evaluate(m, target.value, frame)
            if isinstance(owner, KObj):
                assign_item(m, owner, target.slice, Const(None), frame)
            elif isinstance(owner, Dict) and m.may == 0:
                key = evaluate(m, target.slice, frame)
                if isinstance(key, Const):
                    owner.entries.pop(key.value, None)
    return None


def _names(m: Machine, node: ast.Global | ast.Nonlocal, frame: Frame) -> End:
    frame.outer_names.update(node.names)
    return None


STATEMENTS: Final[dict[type[ast.stmt], Callable[[Machine, Any, Frame], End]]] = {
    ast.Expr: _expr,
    ast.Assign: _assign,
    ast.AnnAssign: _ann_assign,
    ast.AugAssign: _aug_assign,
    ast.If: follow_if,
    ast.For: follow_for,
    ast.AsyncFor: follow_for,
    ast.While: follow_while,
    ast.Try: follow_try,
    ast.With: _with,
    ast.AsyncWith: _with,
    ast.Return: _return,
    ast.Raise: _raise,
    ast.FunctionDef: _function,
    ast.AsyncFunctionDef: _function,
    ast.ClassDef: _class,
    ast.Import: _import,
    ast.ImportFrom: _import_from,
    ast.Delete: _delete,
    ast.Global: _names,
    ast.Nonlocal: _names,
    ast.Match: follow_match,
    ast.Break: lambda _m, _node, _frame: "break",
    ast.Continue: lambda _m, _node, _frame: "continue",
}
"""Following, by the type of the statement."""
