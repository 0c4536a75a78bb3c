"""Making instances: initialisers, and the fields of dataclasses and named tuples."""

from __future__ import annotations

import ast

from pytest_sremut.census.interpreter.classes import find_in_class, is_enum, mro_of
from pytest_sremut.census.interpreter.core import call, evaluate
from pytest_sremut.census.interpreter.machine import Frame, Machine, Scope
from pytest_sremut.census.interpreter.values import ClassV, Inst, Unknown, Value

__all__ = ["instantiate"]


def instantiate(m: Machine, cls: ClassV, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Make an instance and follow its initialiser."""

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

    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("field"):
        for keyword in node.keywords:
            if keyword.arg == "default":
                return evaluate(m, keyword.value, frame)
            if keyword.arg == "default_factory":
                return call(m, evaluate(m, keyword.value, frame), [], {})
    return value
