"""Calls: binding arguments, following functions of the benchmark, making instances.

A function is entered at most twice on one stack for the same receiver, and never deeper than a
bound: recursion then gives an unknown value.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from pytest_sremut.census.interpreter.machine import MAX_DEPTH, Frame, Machine, Scope
from pytest_sremut.census.interpreter.values import (
    Bound,
    ClassV,
    Const,
    Dict,
    Ext,
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

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["call", "call_node", "define", "instantiate"]


def call_node(m: Machine, node: ast.Call, frame: Frame) -> Value:
    """The value of a call expression."""
    from pytest_sremut.census.interpreter.expressions import evaluate, iterate

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
    kwargs: dict[str, Value] = {}
    for keyword in node.keywords:
        value = evaluate(m, keyword.value, frame)
        if keyword.arg is not None:
            kwargs[keyword.arg] = value
        elif isinstance(value, Dict):
            kwargs.update({str(key): item for key, item in value.entries.items()})
    frame.line = node.lineno
    return call(m, func, args, kwargs)


def _owner_of(frame: Frame) -> ClassV | None:
    return frame.func.owner if frame.func is not None else None


def call(m: Machine, func: Value, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    """Call a value. Calling what is not determined is unknown."""
    positional = list(args)
    match func:
        case Bound():
            return call(m, func.func, [func.self, *positional], kwargs)
        case Func():
            return _enter(m, func, positional, kwargs)
        case Native():
            return func.call(positional, kwargs)
        case ClassV():
            return instantiate(m, func, positional, kwargs)
        case Partial():
            return call(m, func.func, [*func.args, *positional], {**func.kwargs, **kwargs})
        case Ext():
            from pytest_sremut.census.models.kubernetes import call_external

            return call_external(m, func, positional, kwargs)
        case OneOf():
            callable_ = [one for one in func.options if not isinstance(one, Const)]
            if len(callable_) == 1 and len(func.options) <= 2:
                return call(m, callable_[0], positional, kwargs)
            with m.maybe():
                return join([call(m, one, positional, kwargs) for one in callable_])
        case Inst():
            from pytest_sremut.census.interpreter.attributes import find_in_class

            found = find_in_class(m, func.cls, "__call__")
            if found is not None:
                return call(m, found[1], [func, *positional], kwargs)
            return Unknown(func.cls.name)
        case Unknown(text=text):
            return Unknown(f"{text}()", is_trail=func.is_trail)
        case KObj():
            return func
        case _:
            return Unknown("call")


def _enter(m: Machine, func: Func, args: list[Value], kwargs: dict[str, Value]) -> Value:
    from pytest_sremut.census.interpreter.expressions import evaluate
    from pytest_sremut.census.interpreter.statements import run_block

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
    from pytest_sremut.census.interpreter.expressions import evaluate

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
    """Parameters from arguments."""
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


def instantiate(m: Machine, cls: ClassV, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """An instance, its initialiser followed."""
    from pytest_sremut.census.interpreter.attributes import find_in_class, is_enum, mro_of

    if is_enum(m, cls):
        return args[0] if args else Unknown(cls.name)
    inst = Inst(cls)
    found = find_in_class(m, cls, "__init__")
    if found is not None:
        call(m, found[1], [inst, *args], kwargs)
        return inst
    fields = _dataclass_fields(m, cls)
    if fields:
        _fill(m, inst, fields, args, kwargs)
    elif any(one.foreign for one in mro_of(m, cls)):
        inst.attrs.update(dict(kwargs.items()))
    return inst


def _dataclass_fields(m: Machine, cls: ClassV) -> list[tuple[ClassV, str, ast.expr | None]]:
    from pytest_sremut.census.interpreter.attributes import mro_of

    fields: dict[str, tuple[ClassV, str, ast.expr | None]] = {}
    for one in reversed(mro_of(m, cls)):
        marked = any("dataclass" in ast.unparse(item) for item in one.node.decorator_list)
        if not marked and not any(path.endswith("NamedTuple") for path in one.foreign):
            continue
        for item in one.node.body:
            if not isinstance(item, ast.AnnAssign) or not isinstance(item.target, ast.Name):
                continue
            if "ClassVar" not in ast.unparse(item.annotation):
                fields[item.target.id] = (one, item.target.id, item.value)
    return list(fields.values())


def _fill(
    m: Machine,
    inst: Inst,
    fields: list[tuple[ClassV, str, ast.expr | None]],
    args: list[Value],
    kwargs: dict[str, Value],
) -> None:
    from pytest_sremut.census.interpreter.attributes import find_in_class
    from pytest_sremut.census.interpreter.expressions import evaluate

    for index, (owner, name, default) in enumerate(fields):
        if index < len(args):
            inst.attrs[name] = args[index]
        elif name in kwargs:
            inst.attrs[name] = kwargs[name]
        elif default is not None:
            frame = Frame(module=owner.module, scope=Scope(owner.scope), line=owner.node.lineno)
            inst.attrs[name] = _default(m, evaluate(m, default, frame), default, frame)
        else:
            inst.attrs[name] = Unknown(name)
    after = find_in_class(m, inst.cls, "__post_init__")
    if after is not None:
        call(m, after[1], [inst], {})


def _default(m: Machine, value: Value, node: ast.expr, frame: Frame) -> Value:
    """`field(default=…)` and `field(default_factory=…)`."""
    from pytest_sremut.census.interpreter.expressions import evaluate

    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("field"):
        for keyword in node.keywords:
            if keyword.arg == "default":
                return evaluate(m, keyword.value, frame)
            if keyword.arg == "default_factory":
                return call(m, evaluate(m, keyword.value, frame), [], {})
    return value
