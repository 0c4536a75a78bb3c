"""Attributes: classes and their order, instances, `super()`, properties, enumerations, and the
fields of Kubernetes objects."""

from __future__ import annotations

import ast

from pytest_sremut.census.interpreter.machine import Frame, Machine, MissingRead, Scope
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
    ListV,
    ModuleV,
    Native,
    OneOf,
    Partial,
    PathV,
    Rec,
    Super,
    Unknown,
    Value,
    camel,
    join,
)
from pytest_sremut.census.model import Reason

__all__ = ["bases_of", "class_attrs", "find_in_class", "get_attr", "is_enum", "mro_of", "set_attr"]


def bases_of(m: Machine, cls: ClassV) -> list[Value]:
    """The values of a class's bases, external ones noted on the class."""
    if cls.bases is None:
        from pytest_sremut.census.interpreter.expressions import evaluate

        cls.bases = []
        frame = Frame(module=cls.module, scope=Scope(cls.scope), line=cls.node.lineno)
        m.stack.append(frame)
        with m.aside():
            try:
                found = [evaluate(m, base, frame) for base in cls.node.bases]
            finally:
                m.stack.pop()
        for value in found:
            if isinstance(value, ClassV):
                cls.bases.append(value)
            elif isinstance(value, Ext):
                cls.foreign.append(value.path)
            elif isinstance(value, Unknown):
                cls.foreign.append("?" + value.text)
    return cls.bases


def mro_of(m: Machine, cls: ClassV) -> list[ClassV]:
    """Python's method resolution order (C3); bases that make a cycle are cut."""
    if cls.mro is None:
        cls.mro = [cls]  # a cycle finds at least this
        lists = []
        direct = [base for base in bases_of(m, cls) if isinstance(base, ClassV)]
        for base in direct:
            lists.append(list(mro_of(m, base)))
        lists.append(direct)
        order = [cls]
        while any(lists):
            lists = [one for one in lists if one]
            for candidate in (one[0] for one in lists):
                if not any(candidate in one[1:] for one in lists):
                    break
            else:
                candidate = lists[0][0]  # inconsistent: Python would refuse; keep going
            if candidate not in order:
                order.append(candidate)
            lists = [[item for item in one if item is not candidate] for one in lists]
        cls.mro = order
    return cls.mro


def class_attrs(m: Machine, cls: ClassV) -> dict[str, Value]:
    """The names that the class's own body binds."""
    if cls.attrs is None:
        from pytest_sremut.census.interpreter.statements import run_block

        scope = Scope(cls.scope)
        cls.attrs = scope
        frame = Frame(module=cls.module, scope=scope, line=cls.node.lineno)
        m.stack.append(frame)
        with m.aside():
            try:
                run_block(m, cls.node.body, frame)
            finally:
                m.stack.pop()
        m.remember_shared(scope)
        for value in scope.values():
            if isinstance(value, Func) and value.owner is None:
                value.owner = cls
    return cls.attrs


def find_in_class(
    m: Machine, cls: ClassV, name: str, after: ClassV | None = None
) -> tuple[ClassV, Value] | None:
    """The first class in order (after `after`) that binds the name, with what it binds."""
    order = mro_of(m, cls)
    if after is not None and after in order:
        order = order[order.index(after) + 1 :]
    for one in order:
        attrs = class_attrs(m, one)
        if name in attrs:
            value = attrs[name]
            return one, m.resolve(value) if isinstance(value, Lazy) else value
    return None


def _foreign(m: Machine, cls: ClassV) -> list[str]:
    return [path for one in mro_of(m, cls) for path in one.foreign]


def is_enum(m: Machine, cls: ClassV) -> bool:
    mro_of(m, cls)
    return any(path.rpartition(".")[2] in _ENUMS for path in _foreign(m, cls))


_ENUMS = frozenset({"Enum", "StrEnum", "IntEnum", "Flag"})
_HARMLESS_BASES = frozenset({"ABC", "Protocol", "Generic", "object", "NamedTuple", "TypedDict"})


def bind(m: Machine, value: Value, self: Value, owner: ClassV) -> Value:
    """What reading a class attribute through an instance gives."""
    if isinstance(value, Func):
        if value.kind == "static":
            return value
        if value.kind == "property":
            from pytest_sremut.census.interpreter.calls import call

            return call(m, Bound(value, self), [], {})
        if value.kind == "class":
            return Bound(value, self.cls if isinstance(self, Inst) else self)
        return Bound(value, self)
    return value


def get_attr(m: Machine, value: Value, name: str, *, quiet: bool = False) -> Value:
    """`value.name`. `quiet` when the program asks whether it is there (`getattr` with default)."""
    match value:
        case Inst():
            return _of_instance(m, value, name, quiet=quiet)
        case KObj():
            return _of_object(m, value, name)
        case Ext():
            return _of_external(m, value, name)
        case ModuleV():
            if name in value.names:
                found = value.names[name]
                return m.resolve(found) if isinstance(found, Lazy) else found
            return m.resolve(Lazy(value.module.name, name))
        case ClassV():
            return _of_class(m, value, name)
        case Super():
            return _of_super(m, value, name)
        case OneOf():
            options = [option for option in value.options if not _is_none(option)]
            return join([get_attr(m, option, name, quiet=quiet) for option in options])
        case Rec():
            if name in value.attrs:
                return value.attrs[name]
            return Unknown(f"{value.text}.{name}")
        case Bound(func=Func() as func) | (Func() as func) if name == "__name__":
            return Const(func.name)
        case Func() | Partial():
            return Unknown(name)
        case Dict() if value.kind and name not in _DICT_METHODS:
            return value.entries.get(camel(name), Unknown(name))
        case Unknown():
            return Unknown(f"{value.text}.{name}", is_trail=value.is_trail)
        case Const() | PathV() | ListV() | Dict() | Bound() | Native():
            from pytest_sremut.census.models.methods import method_of

            return method_of(m, value, name)
        case _:
            return Unknown(name)


_DICT_METHODS = frozenset(
    {"get", "items", "keys", "values", "pop", "setdefault", "update", "copy", "clear", "to_dict"}
)


def _is_none(value: Value) -> bool:
    return isinstance(value, Const) and value.value is None


def _of_instance(m: Machine, inst: Inst, name: str, *, quiet: bool) -> Value:
    if name in inst.attrs:
        return inst.attrs[name]
    if name == "__class__":
        return inst.cls
    if name == "__dict__":
        return Dict(dict(inst.attrs))
    found = find_in_class(m, inst.cls, name)
    if found is not None:
        return bind(m, found[1], inst, found[0])
    foreign = [
        path for path in _foreign(m, inst.cls) if path.rpartition(".")[2] not in _HARMLESS_BASES
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


def _of_class(m: Machine, cls: ClassV, name: str) -> Value:
    if name == "__name__":
        return Const(cls.name)
    found = find_in_class(m, cls, name)
    if found is None:
        foreign = _foreign(m, cls)
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


def _of_super(m: Machine, value: Super, name: str) -> Value:
    cls = value.self.cls if isinstance(value.self, Inst) else value.self
    if isinstance(cls, ClassV):
        found = find_in_class(m, cls, name, after=value.after)
        if found is not None:
            return bind(m, found[1], value.self, found[0])
        unknown = [path[1:] for path in _foreign(m, cls) if path.startswith("?")]
        if unknown:
            m.trail(Reason.MISSING_MODULE, f"base class {unknown[0]} of {cls.name}")
            return Unknown(name, is_trail=True)
    return Native(lambda _args, _kwargs: Const(None), name)


def _of_external(m: Machine, value: Ext, name: str) -> Value:
    path = f"{value.path}.{name}"
    if m.tree.knows(value.path) and "(" not in value.path:
        return m.resolve(Lazy(path))
    return Ext(path, value.about)


def _of_object(m: Machine, value: KObj, name: str) -> Value:
    from pytest_sremut.census.models.methods import TEXT_METHODS, object_method

    if value.is_list and name == "items":
        return KObj(value.root, "[]", is_list=True)
    if name in TEXT_METHODS or name in _DICT_METHODS or name in _LIST_METHODS:
        # Decided when it is called; `x.items` of a client list was handled above.
        return Native(lambda args, kwargs: object_method(m, value, name, args, kwargs), f"{name}")
    return field_of(m, value, camel(name))


_LIST_METHODS = frozenset({"append", "extend", "insert", "remove", "clear", "sort", "index"})


def field_of(m: Machine, value: KObj, name: str) -> KObj:
    """A field below, and the note that it was read."""
    base = "" if value.path == "[]" else value.path
    path = f"{base}[]" if name == "[]" else (f"{base}.{name}" if base else name)
    root = value.root
    if path not in root.reads:
        root.reads[path] = m.cited()
    return KObj(root, path)


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


def write_field(m: Machine, target: KObj, name: str, value: Value | None = None) -> None:
    """A field of a read object was assigned in memory: what a later replace or apply changes.
    Of a structure that is known, its leaves are what changes."""
    base = "" if target.path in {"", "[]"} else target.path
    path = f"{base}[]" if name == "[]" else ".".join(part for part in (base, name) if part)
    if value is not None:
        from pytest_sremut.census.models.fields import body_values

        m.written |= body_values(value)
    below: tuple[str, ...] = ()
    if isinstance(value, Dict) and value.entries and not value.kind:
        from pytest_sremut.census.models.fields import body_fields

        below = body_fields(value)
    for leaf in below if below and below != ("*",) else ("",):
        target.root.writes.setdefault(f"{path}.{leaf}" if leaf else path, m.cited())


def function_names(node: ast.ClassDef) -> set[str]:
    """The functions that a class body defines."""
    return {
        item.name for item in node.body if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def unresolved(m: Machine, value: Value, what: str) -> Unknown:
    """Calling something that is not determined, with the trail's end recorded once."""
    if not (isinstance(value, Unknown) and value.is_trail):
        m.trail(Reason.UNRESOLVED_CALL, what)
    return Unknown(what, is_trail=True)
