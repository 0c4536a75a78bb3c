"""Statements: what a block does to names, and how it ends.

A block ends by falling through (None) or by one of return, raise, break, continue. After a test
that is not decided, names hold what either branch left.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, Final, Literal

from pytest_sremut.census.interpreter.attributes import get_attr
from pytest_sremut.census.interpreter.binding import assign, assign_item
from pytest_sremut.census.interpreter.calls import define
from pytest_sremut.census.interpreter.expressions import evaluate, iterate, truth
from pytest_sremut.census.interpreter.machine import Frame, Machine
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
    join,
)

__all__ = ["run_block"]

End = Literal["return", "raise", "break", "continue"] | None


def run_block(m: Machine, body: list[ast.stmt], frame: Frame) -> End:
    """Follow the statements in order until one ends the block."""
    for node in body:
        m.step()
        frame.line = node.lineno
        handler = _HANDLERS.get(type(node))
        end: End = handler(m, node, frame) if handler else None
        if end is not None:
            return end
    return None


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
    return target  # the context is not looked at for the others


def _if(m: Machine, node: ast.If, frame: Frame) -> End:
    holds = truth(evaluate(m, node.test, frame))
    if holds is not None:
        return run_block(m, node.body if holds else node.orelse, frame)
    return _either(m, [node.body, node.orelse], frame)


def _either(m: Machine, bodies: list[list[ast.stmt]], frame: Frame) -> End:
    """Follow each of several blocks from the same start, then join."""
    before = dict(frame.scope)
    left: list[dict[str, Value]] = []
    ends: list[End] = []
    with m.maybe():
        for body in bodies:
            frame.scope.clear()
            frame.scope.update(before)
            end = run_block(m, body, frame)
            ends.append(end)
            if end is None:
                left.append(dict(frame.scope))
            elif end in {"break", "continue"} and frame.exits:
                frame.exits[-1].append(dict(frame.scope))
    frame.scope.clear()
    frame.scope.update(_joined(left) if left else before)
    if all(end is not None for end in ends):
        return ends[0] if len(set(ends)) == 1 else "return"
    return None


def _joined(scopes: list[dict[str, Value]]) -> dict[str, Value]:
    if len(scopes) == 1:
        return scopes[0]
    result: dict[str, Value] = {}
    for scope in scopes:
        for name in scope:
            if name not in result:
                values = [one[name] for one in scopes if name in one]
                same = all(value is values[0] for value in values)
                result[name] = values[0] if same else join(values)
    return result


def _for(m: Machine, node: ast.For | ast.AsyncFor, frame: Frame) -> End:
    items, is_all = iterate(m, evaluate(m, node.iter, frame))
    with _Watch(m):
        if is_all:
            end = _loop_known(m, node, items, frame)
            if end in {"return", "raise"}:
                return end
            if end == "break":
                return None
        else:
            _loop_unknown(m, node, items, frame)
    if node.orelse:
        return run_block(m, node.orelse, frame)
    return None


def _loop_known(m: Machine, node: ast.For | ast.AsyncFor, items: list[Value], frame: Frame) -> End:
    for item in items:
        m.step()
        assign(m, node.target, item, frame)
        end = _turn(m, node.body, frame)
        if end in {"return", "raise", "break"}:
            return end
    return None


def _turn(m: Machine, body: list[ast.stmt], frame: Frame) -> End:
    """One turn of a loop; what `continue` and `break` of undecided branches left is joined in."""
    frame.exits.append([])
    end = run_block(m, body, frame)
    exits = frame.exits.pop()
    if exits:
        left = _joined([dict(frame.scope), *exits])
        frame.scope.clear()
        frame.scope.update(left)
    return end


def _loop_unknown(
    m: Machine, node: ast.For | ast.AsyncFor, items: list[Value], frame: Frame
) -> None:
    before = dict(frame.scope)
    with m.maybe():
        for item in items:
            m.step()
            assign(m, node.target, item, frame)
            _turn(m, node.body, frame)
    after = dict(frame.scope)
    frame.scope.clear()
    frame.scope.update(_joined([after, before]))


def _while(m: Machine, node: ast.While, frame: Frame) -> End:
    holds = truth(evaluate(m, node.test, frame))
    if holds is False:
        return run_block(m, node.orelse, frame)
    with _Watch(m):
        before = dict(frame.scope)
        with m.maybe():
            _turn(m, node.body, frame)
        if holds is None:
            after = dict(frame.scope)
            frame.scope.clear()
            frame.scope.update(_joined([after, before]))
    return None


class _Watch:
    """Notes a loop that sleeps and reads: that is a wait for what it reads."""

    def __init__(self, m: Machine) -> None:
        self._m = m

    def __enter__(self) -> None:
        self._sleeps = self._m.sleeps
        self._effects = len(self._m.effects)

    def __exit__(self, *_: object) -> None:
        if self._m.sleeps == self._sleeps:
            return
        seen: dict[tuple[str, str], str] = {}
        for effect in self._m.effects[self._effects :]:
            if effect.verb == "read":
                seen.setdefault((effect.kind, effect.namespace), effect.name)
        for (kind, namespace), name in sorted(seen.items()):
            self._m.effect(
                "wait",
                kind,
                namespace=namespace,
                name=name,
                via="loop",
                detail=self._m.function(),
            )


def _try(m: Machine, node: ast.Try, frame: Frame) -> End:
    before = dict(frame.scope)
    m.tries += 1
    try:
        end = run_block(m, node.body, frame)
    finally:
        m.tries -= 1
    if end is None and node.orelse:
        end = run_block(m, node.orelse, frame)
    after = dict(frame.scope)
    left = [after] if end is None else []
    handled: list[End] = [end]
    m.handlers += 1
    try:
        with m.maybe():
            for handler in node.handlers:
                frame.scope.clear()
                frame.scope.update(_joined([after, before]))
                if handler.name:
                    frame.scope[handler.name] = Unknown(handler.name)
                one = run_block(m, handler.body, frame)
                handled.append(one)
                if one is None:
                    left.append(dict(frame.scope))
    finally:
        m.handlers -= 1
    frame.scope.clear()
    frame.scope.update(_joined(left) if left else after)
    final = run_block(m, node.finalbody, frame)
    if final is not None:
        return final
    if left:
        return None
    return end if end == "return" or len(handled) == 1 else "return"


def _with(m: Machine, node: ast.With | ast.AsyncWith, frame: Frame) -> End:
    entered: list[Value] = []
    for item in node.items:
        value = evaluate(m, item.context_expr, frame)
        bound = value
        if isinstance(value, Inst):
            from pytest_sremut.census.interpreter.calls import call

            bound = call(m, get_attr(m, value, "__enter__"), [], {})
            entered.append(value)
        elif isinstance(value, ListV) and value.items:
            bound = value.items[0]  # what a @contextmanager function yields
        if item.optional_vars is not None:
            assign(m, item.optional_vars, bound, frame)
    end = run_block(m, node.body, frame)
    for value in entered:
        from pytest_sremut.census.interpreter.calls import call

        none: list[Value] = [Const(None)] * 3
        call(m, get_attr(m, value, "__exit__"), none, {})
    return end


def _return(m: Machine, node: ast.Return, frame: Frame) -> End:
    value = evaluate(m, node.value, frame)
    if m.handlers > frame.handlers and isinstance(value, Unknown):
        return "return"  # an error's text: nothing that is followed further
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
    from pytest_sremut.census.interpreter.calls import call

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
            star = m.module(base)
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


def _match(m: Machine, node: ast.Match, frame: Frame) -> End:
    subject = evaluate(m, node.subject, frame)
    bodies: list[list[ast.stmt]] = []
    for case in node.cases:
        holds = _pattern(m, case.pattern, subject, frame)
        if holds is False:
            continue
        if holds is True and case.guard is None:
            if not bodies:
                return run_block(m, case.body, frame)
            bodies.append(case.body)
            return _either(m, bodies, frame)
        bodies.append(case.body)
    return _either(m, [*bodies, []], frame)


def _pattern(m: Machine, pattern: ast.pattern, subject: Value, frame: Frame) -> bool | None:
    match pattern:
        case ast.MatchValue(value=value):
            test = ast.Compare(left=value, ops=[ast.Eq()], comparators=[value])
            other = evaluate(m, test.left, frame)
            if isinstance(subject, Const) and isinstance(other, Const):
                return bool(subject.value == other.value)
            return None
        case ast.MatchAs(pattern=None, name=name):
            if name:
                frame.scope[name] = subject
            return True
        case ast.MatchOr(patterns=patterns):
            found = [_pattern(m, one, subject, frame) for one in patterns]
            return True if True in found else (None if None in found else False)
        case _:
            return None


_HANDLERS: Final[dict[type[ast.stmt], Callable[[Machine, Any, Frame], End]]] = {
    ast.Expr: _expr,
    ast.Assign: _assign,
    ast.AnnAssign: _ann_assign,
    ast.AugAssign: _aug_assign,
    ast.If: _if,
    ast.For: _for,
    ast.AsyncFor: _for,
    ast.While: _while,
    ast.Try: _try,
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
    ast.Match: _match,
    ast.Break: lambda _m, _node, _frame: "break",
    ast.Continue: lambda _m, _node, _frame: "continue",
}
