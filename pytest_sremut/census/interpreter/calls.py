"""Calls: evaluating and binding arguments, following functions of the benchmark.

A function is entered at most twice on one stack, and the stack has a bound. A call beyond that
gives an unknown value.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, Final

from pytest_sremut.census.interpreter.classes import find_in_class
from pytest_sremut.census.interpreter.core import call, evaluate, run_block
from pytest_sremut.census.interpreter.instances import instantiate
from pytest_sremut.census.interpreter.items import iterate
from pytest_sremut.census.interpreter.machine import MAX_DEPTH, Frame, Machine, Scope
from pytest_sremut.census.interpreter.values import (
    Bound,
    ClassV,
    Const,
    Dict,
    Func,
    Inst,
    KObj,
    ListV,
    Native,
    OneOf,
    Partial,
    Super,
    Unknown,
    Value,
    join,
)
from pytest_sremut.census.model import Place, Reason

__all__ = ["CALLS", "call_node", "define"]


def call_node(m: Machine, node: ast.Call, frame: Frame) -> Value:
    """The value of a call expression."""
    m.step()
    if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args:
        owner = _owner_of(frame)
        if owner is not None and frame.self is not None:
            return Super(frame.self, owner)
    func = evaluate(m, node.func, frame)
    args: list[Value] = []
    for arg in node.args:
        if isinstance(arg, ast.Starred):
            inner = evaluate(m, arg.value, frame)
            args += iterate(m, inner)[0] if isinstance(inner, ListV | Dict) else []
        else:
            args.append(evaluate(m, arg, frame))
    kwargs = _keywords(m, node, frame)
    frame.line = node.lineno
    return call(m, func, args, kwargs)


def _keywords(m: Machine, node: ast.Call, frame: Frame) -> dict[str, Value]:
    kwargs: dict[str, Value] = {}
    for keyword in node.keywords:
        value = evaluate(m, keyword.value, frame)
        if keyword.arg is not None:
            kwargs[keyword.arg] = value
        elif isinstance(value, Dict):
            kwargs.update({str(key): item for key, item in value.entries.items()})
    return kwargs


def _owner_of(frame: Frame) -> ClassV | None:
    return frame.func.owner if frame.func is not None else None


def _bound(m: Machine, func: Bound, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return call(m, func.func, [func.self, *args], kwargs)


def _native(m: Machine, func: Native, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return func.call(args, kwargs)


def _partial(m: Machine, func: Partial, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return call(m, func.func, [*func.args, *args], {**func.kwargs, **kwargs})


def _one_of(m: Machine, func: OneOf, args: list[Value], kwargs: dict[str, Value]) -> Value:
    callable_ = [one for one in func.options if not isinstance(one, Const)]
    if len(callable_) == 1 and len(func.options) <= 2:
        return call(m, callable_[0], args, kwargs)
    with m.maybe():
        return join([call(m, one, args, kwargs) for one in callable_])


def _instance(m: Machine, func: Inst, args: list[Value], kwargs: dict[str, Value]) -> Value:
    found = find_in_class(m, func.cls, "__call__")
    if found is not None:
        return call(m, found[1], [func, *args], kwargs)
    return Unknown(func.cls.name)


def _unknown(m: Machine, func: Unknown, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return Unknown(f"{func.text}()", is_trail=func.is_trail)


def _object(m: Machine, func: KObj, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return func


def _enter(m: Machine, func: Func, args: list[Value], kwargs: dict[str, Value]) -> Value:

    node = func.node
    self = args[0] if args and func.owner is not None and func.kind != "static" else None
    depth = sum(1 for one in m.stack if one.func is not None and one.func.node is node)
    if depth >= 2 or len(m.stack) >= MAX_DEPTH:
        return Unknown(f"{func.name}()")
    scope = Scope(func.scope)
    frame = Frame(
        module=func.module,
        scope=scope,
        func=func,
        self=self,
        line=node.lineno,
        handlers=m.handlers,
    )
    _bind(func, args, kwargs, frame)
    if isinstance(node, ast.Lambda):
        frame.self = frame.self or _captured_self(func)
        m.stack.append(frame)
        try:
            return evaluate(m, node.body, frame)
        finally:
            m.stack.pop()
    if frame.self is None:
        frame.self = _captured_self(func)
    m.calls.add(Place(func.module.module.file, node.lineno))
    m.stack.append(frame)
    try:
        end = run_block(m, node.body, frame)
    except RecursionError:
        m.trail(Reason.BUDGET, f"{func.name} is nested too deep")
        return Unknown(f"{func.name}()", is_trail=True)
    finally:
        m.stack.pop()
    if frame.yields:
        return ListV(frame.yields, is_open=True)
    if end is None and frame.returns:
        return join([*frame.returns, Const(None)])
    return join(frame.returns)


def _captured_self(func: Func) -> Value | None:
    scope: Any = func.scope
    while scope is not None:
        if "self" in scope:
            found: Value = scope["self"]
            return found
        scope = getattr(scope, "parent", None)
    return None


def define(m: Machine, func: Func, frame: Frame) -> Func:
    """Evaluate a function's defaults where it is defined, as Python does."""

    spec = func.node.args
    names = [arg.arg for arg in (*spec.posonlyargs, *spec.args)]
    pairs = [*zip(names[len(names) - len(spec.defaults) :], spec.defaults, strict=True)]
    pairs += [
        (arg.arg, default)
        for arg, default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True)
        if default is not None
    ]
    func.defaults = {name: evaluate(m, default, frame) for name, default in pairs}
    return func


def _bind(func: Func, args: list[Value], kwargs: dict[str, Value], frame: Frame) -> None:
    """Bind the parameters to the arguments."""
    spec = func.node.args
    names = [arg.arg for arg in (*spec.posonlyargs, *spec.args)]
    rest = dict(kwargs)
    for index, name in enumerate(names):
        if index < len(args):
            frame.scope[name] = args[index]
            rest.pop(name, None)
        elif name in rest:
            frame.scope[name] = rest.pop(name)
        elif name in func.defaults:
            frame.scope[name] = func.defaults[name]
        else:
            frame.scope[name] = Unknown(name)
    for arg in spec.kwonlyargs:
        if arg.arg in rest:
            frame.scope[arg.arg] = rest.pop(arg.arg)
        elif arg.arg in func.defaults:
            frame.scope[arg.arg] = func.defaults[arg.arg]
        else:
            frame.scope[arg.arg] = Unknown(arg.arg)
    if spec.vararg is not None:
        frame.scope[spec.vararg.arg] = ListV(args[len(names) :])
    if spec.kwarg is not None:
        frame.scope[spec.kwarg.arg] = Dict(dict(rest))


CALLS: Final[dict[type[Value], Callable[[Machine, Any, list[Value], dict[str, Value]], Value]]] = {
    Bound: _bound,
    Func: _enter,
    Native: _native,
    ClassV: instantiate,
    Partial: _partial,
    OneOf: _one_of,
    Inst: _instance,
    Unknown: _unknown,
    KObj: _object,
}
"""Calling, by the type of the callee."""
