"""Classes of the benchmark: their bases, their order, and the names that they bind."""

from __future__ import annotations

from pytest_sremut.census.interpreter.core import evaluate, run_block
from pytest_sremut.census.interpreter.machine import Frame, Machine, Scope
from pytest_sremut.census.interpreter.modules import resolve
from pytest_sremut.census.interpreter.values import ClassV, Ext, Func, Lazy, Unknown, Value

__all__ = ["class_attrs", "find_in_class", "foreign_bases", "is_enum", "mro_of"]

_ENUMS = frozenset({"Enum", "StrEnum", "IntEnum", "Flag"})


def _bases_of(m: Machine, cls: ClassV) -> list[Value]:
    """The values of a class's bases. The external ones are recorded in `foreign`."""
    if cls.bases is None:
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
        cls.mro = [cls]  # what a cycle of bases finds
        lists = []
        direct = [base for base in _bases_of(m, cls) if isinstance(base, ClassV)]
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
                candidate = lists[0][0]  # inconsistent bases: Python would refuse them
            if candidate not in order:
                order.append(candidate)
            lists = [[item for item in one if item is not candidate] for one in lists]
        cls.mro = order
    return cls.mro


def class_attrs(m: Machine, cls: ClassV) -> dict[str, Value]:
    """The names that the class's own body binds."""
    if cls.attrs is None:
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
    """The first class in the order, after `after`, that binds the name; and the value."""
    order = mro_of(m, cls)
    if after is not None and after in order:
        order = order[order.index(after) + 1 :]
    for one in order:
        attrs = class_attrs(m, one)
        if name in attrs:
            value = attrs[name]
            return one, resolve(m, value) if isinstance(value, Lazy) else value
    return None


def foreign_bases(m: Machine, cls: ClassV) -> list[str]:
    return [path for one in mro_of(m, cls) for path in one.foreign]


def is_enum(m: Machine, cls: ClassV) -> bool:
    mro_of(m, cls)
    return any(path.rpartition(".")[2] in _ENUMS for path in foreign_bases(m, cls))
