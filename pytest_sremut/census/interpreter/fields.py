"""Fields of Kubernetes objects that were read: every read and every change is recorded."""

from __future__ import annotations

from pytest_sremut.census.interpreter.bodies import body_fields, body_values
from pytest_sremut.census.interpreter.machine import Machine
from pytest_sremut.census.interpreter.values import Dict, KObj, Value

__all__ = ["field_of", "write_field"]


def field_of(m: Machine, value: KObj, name: str) -> KObj:
    """The field of that name below an object. Records that it was read."""
    base = "" if value.path == "[]" else value.path
    path = f"{base}[]" if name == "[]" else (f"{base}.{name}" if base else name)
    root = value.root
    if path not in root.reads:
        root.reads[path] = m.cited()
    return KObj(root, path)


def write_field(m: Machine, target: KObj, name: str, value: Value | None = None) -> None:
    """Record that a field of a read object was assigned in memory.

    A later replace or apply changes that field. If the value is a structure that is known, its
    leaves are what changes.
    """
    base = "" if target.path in {"", "[]"} else target.path
    path = f"{base}[]" if name == "[]" else ".".join(part for part in (base, name) if part)
    if value is not None:
        m.written |= body_values(value)
    below: tuple[str, ...] = ()
    if isinstance(value, Dict) and value.entries and not value.kind:
        below = body_fields(value)
    for leaf in below if below and below != ("*",) else ("",):
        target.root.writes.setdefault(f"{path}.{leaf}" if leaf else path, m.cited())
