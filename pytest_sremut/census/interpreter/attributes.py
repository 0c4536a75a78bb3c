"""Attributes of what the benchmark defines: instances, classes, modules, `super()`, properties."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pytest_sremut.census.interpreter.classes import (
    class_attrs,
    find_in_class,
    foreign_bases,
    is_enum,
)
from pytest_sremut.census.interpreter.core import call, get_attr
from pytest_sremut.census.interpreter.fields import write_field
from pytest_sremut.census.interpreter.machine import Machine, MissingRead
from pytest_sremut.census.interpreter.modules import resolve
from pytest_sremut.census.interpreter.texts import is_none
from pytest_sremut.census.interpreter.values import (
    Bound,
    ClassV,
    Const,
    Dict,
    Ext,
    Func,
    Inst,
    KObj,
    Lazy,
    ModuleV,
    Native,
    OneOf,
    Rec,
    Super,
    Unknown,
    Value,
    camel,
    join,
)
from pytest_sremut.census.model import Reason

__all__ = ["ATTRIBUTES", "set_attr"]

_HARMLESS_BASES = frozenset({"ABC", "Protocol", "Generic", "object", "NamedTuple", "TypedDict"})


def _bind(m: Machine, value: Value, self: Value) -> Value:
    """The value of a class attribute that is read through an instance."""
    if isinstance(value, Func):
        if value.kind == "static":
            return value
        if value.kind == "property":
            return call(m, Bound(value, self), [], {})
        if value.kind == "class":
            return Bound(value, self.cls if isinstance(self, Inst) else self)
        return Bound(value, self)
    return value


def _of_module(m: Machine, module: ModuleV, name: str, quiet: bool) -> Value:
    if name in module.names:
        found = module.names[name]
        return resolve(m, found) if isinstance(found, Lazy) else found
    return resolve(m, Lazy(module.module.name, name))


def _of_one_of(m: Machine, value: OneOf, name: str, quiet: bool) -> Value:
    options = [option for option in value.options if not is_none(option)]
    return join([get_attr(m, option, name, quiet=quiet) for option in options])


def _of_record(m: Machine, value: Rec, name: str, quiet: bool) -> Value:
    if name in value.attrs:
        return value.attrs[name]
    return Unknown(f"{value.text}.{name}")


def _of_function(m: Machine, value: Func, name: str, quiet: bool) -> Value:
    return Const(value.name) if name == "__name__" else Unknown(name)


def _of_bound(m: Machine, value: Bound, name: str, quiet: bool) -> Value:
    func = value.func
    return _of_function(m, func, name, quiet) if isinstance(func, Func) else Unknown(name)


def _of_unknown(m: Machine, value: Unknown, name: str, quiet: bool) -> Value:
    return Unknown(f"{value.text}.{name}", is_trail=value.is_trail)


def _of_instance(m: Machine, inst: Inst, name: str, quiet: bool) -> Value:
    if name in inst.attrs:
        return inst.attrs[name]
    if name == "__class__":
        return inst.cls
    if name == "__dict__":
        return Dict(dict(inst.attrs))
    found = find_in_class(m, inst.cls, name)
    if found is not None:
        return _bind(m, found[1], inst)
    foreign = [
        path
        for path in foreign_bases(m, inst.cls)
        if path.rpartition(".")[2] not in _HARMLESS_BASES
    ]
    if foreign:
        base = foreign[0]
        if base.startswith("?"):
            m.trail(Reason.MISSING_MODULE, f"base class {base[1:]} of {inst.cls.name}")
            return Unknown(f"{base[1:]}.{name}", is_trail=True)
        return Ext(f"{base}().{name}")
    if not quiet:
        m.missing.append(MissingRead(inst.cls.name, name, m.here(), m.tries > 0))
    return Unknown(f"{inst.cls.name}.{name}")


def _of_class(m: Machine, cls: ClassV, name: str, quiet: bool) -> Value:
    if name == "__name__":
        return Const(cls.name)
    found = find_in_class(m, cls, name)
    if found is None:
        foreign = foreign_bases(m, cls)
        if foreign and not foreign[0].startswith("?"):
            return Ext(f"{foreign[0]}.{name}")
        return Unknown(f"{cls.name}.{name}")
    owner, value = found
    if isinstance(value, Func):
        return Bound(value, cls) if value.kind == "class" else value
    if is_enum(m, owner) and not name.startswith("_"):
        text = value if isinstance(value, Const) else Const(name)
        return Rec({"value": text, "name": Const(name)}, text=str(getattr(text, "value", name)))
    return value


def _of_super(m: Machine, value: Super, name: str, quiet: bool) -> Value:
    cls = value.self.cls if isinstance(value.self, Inst) else value.self
    if isinstance(cls, ClassV):
        found = find_in_class(m, cls, name, after=value.after)
        if found is not None:
            return _bind(m, found[1], value.self)
        unknown = [path[1:] for path in foreign_bases(m, cls) if path.startswith("?")]
        if unknown:
            m.trail(Reason.MISSING_MODULE, f"base class {unknown[0]} of {cls.name}")
            return Unknown(name, is_trail=True)
    return Native(lambda _args, _kwargs: Const(None), name)


def _of_external(m: Machine, value: Ext, name: str, quiet: bool) -> Value:
    path = f"{value.path}.{name}"
    if m.tree.knows(value.path) and "(" not in value.path:
        return resolve(m, Lazy(path))
    return Ext(path, value.about)


ATTRIBUTES: Final[dict[type[Value], Callable[[Machine, Any, str, bool], Value]]] = {
    Inst: _of_instance,
    Ext: _of_external,
    ModuleV: _of_module,
    ClassV: _of_class,
    Super: _of_super,
    OneOf: _of_one_of,
    Rec: _of_record,
    Func: _of_function,
    Bound: _of_bound,
    Unknown: _of_unknown,
}
"""Reading an attribute, by the type of the value that has it."""


def set_attr(m: Machine, target: Value, name: str, value: Value) -> None:
    """`target.name = value`."""
    match target:
        case Inst():
            old = target.attrs.get(name)
            target.attrs[name] = value if m.may == 0 or old is None else join([old, value])
        case KObj():
            write_field(m, target, camel(name), value)
        case Dict() if target.kind:
            target.entries[camel(name)] = value
        case ClassV():
            class_attrs(m, target)[name] = value
        case Rec():
            target.attrs[name] = value
        case OneOf():
            for option in target.options:
                set_attr(m, option, name, value)
        case ModuleV():
            target.names[name] = value
        case _:
            pass
