"""Modules of the benchmark and what their imports stand for."""

from __future__ import annotations

from pytest_sremut.census.interpreter.core import run_block
from pytest_sremut.census.interpreter.machine import Frame, Machine, Scope
from pytest_sremut.census.interpreter.values import Const, Ext, Lazy, ModuleV, Unknown, Value
from pytest_sremut.census.model import Reason

__all__ = ["load_module", "resolve"]


def load_module(m: Machine, name: str) -> ModuleV | None:
    """The module of that dotted name, its top level followed; None without a readable file."""
    if name in m.modules:
        return m.modules[name]
    module = m.tree.module(name)
    if module is None:
        return None

    value = ModuleV(module)
    m.modules[name] = value
    scope = Scope()
    value.names = scope
    scope["__name__"] = Const(name)
    scope["__file__"] = Const(module.file)
    frame = Frame(module=value, scope=scope)
    m.stack.append(frame)
    with m.aside():
        try:
            run_block(m, module.tree.body, frame)
        finally:
            m.stack.pop()
    m.remember_shared(scope)
    return value


def resolve(m: Machine, lazy: Lazy) -> Value:
    """What an import stands for."""
    module = load_module(m, lazy.module)
    if module is not None:
        if not lazy.name:
            return module
        if lazy.name in module.names:
            found = module.names[lazy.name]
            return resolve(m, found) if isinstance(found, Lazy) else found
        below = load_module(m, f"{lazy.module}.{lazy.name}")
        if below is not None:
            return below
        return _unresolved(m, lazy)
    if lazy.name:
        below = load_module(m, f"{lazy.module}.{lazy.name}")
        if below is not None:
            return below
    if m.tree.knows(lazy.module):
        if not lazy.name and m.tree.has_package(lazy.module):
            return Ext(lazy.module)  # a namespace package: attributes are its modules
        return _unresolved(m, lazy)
    return Ext(f"{lazy.module}.{lazy.name}" if lazy.name else lazy.module)


def _unresolved(m: Machine, lazy: Lazy) -> Value:
    name = f"{lazy.module}.{lazy.name}" if lazy.name else lazy.module
    for part in (name, lazy.module):
        base = part.replace(".", "/")
        for file in (f"{base}.py", f"{base}/__init__.py"):
            if file in m.tree.broken:
                m.trail(Reason.BROKEN_FILE, str(m.tree.broken[file].place))
                return Unknown(name, is_trail=True)
    if m.stack:
        m.trail(Reason.MISSING_MODULE, f"import of {name}")
    return Unknown(name, is_trail=True)
