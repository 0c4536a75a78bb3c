"""The values of the interpreter: known in full, in part, or not at all.

A text that is known in part is a `Const` whose string has *holes* (`⟦name⟧`), so that the shell
parser, paths and comparisons know which part is known. A Kubernetes object from an API or from
`kubectl get` is a `KObj`. Its root records which of its fields are read or written.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from pytest_sremut.census.model import Place
from pytest_sremut.census.source import Module

__all__ = [
    "HOLE",
    "Bound",
    "ClassV",
    "Const",
    "Dict",
    "Ext",
    "Func",
    "Inst",
    "KObj",
    "Lazy",
    "ListV",
    "ModuleV",
    "Native",
    "OneOf",
    "Partial",
    "PathV",
    "Rec",
    "Root",
    "Super",
    "Unknown",
    "Value",
    "camel",
    "copied",
    "hole",
    "join",
]

HOLE: Final = re.compile(r"⟦[^⟦⟧]*⟧")
_MAX_ALTERNATIVES: Final = 8
_DEEP: Final = 30


class Value:
    """Base of all values."""

    __slots__ = ()


@dataclass(slots=True, eq=False)
class Const(Value):
    """A Python constant; a string may have holes."""

    value: Any


@dataclass(slots=True, eq=False)
class PathV(Value):
    """A file path, as text that may have holes."""

    text: str


@dataclass(slots=True, eq=False)
class ListV(Value):
    """A list, tuple or set; `is_open` if there may be more items than known."""

    items: list[Value]
    is_open: bool = False


@dataclass(slots=True, eq=False)
class Dict(Value):
    """A mapping with constant keys; `is_open` if there may be more.

    `kind` is the client class that it stands for, such as `V1Service`.
    """

    entries: dict[Any, Value]
    is_open: bool = False
    kind: str = ""
    element: Value | None = None  # a typical value, if keys are not known


@dataclass(slots=True, eq=False)
class Rec(Value):
    """An object of an external library whose attributes matter, such as a finished process."""

    attrs: dict[str, Value]
    text: str = ""


@dataclass(slots=True, eq=False, repr=False)
class Lazy(Value):
    """An import that has not been followed yet: `name` of `module`, or the module itself."""

    module: str
    name: str = ""


@dataclass(slots=True, eq=False, repr=False)
class ModuleV(Value):
    """A module of the benchmark and its global names."""

    module: Module
    names: dict[str, Value] = field(default_factory=dict)


@dataclass(slots=True, eq=False, repr=False)
class ClassV(Value):
    """A class of the benchmark; its body is evaluated when first needed."""

    module: ModuleV
    node: ast.ClassDef
    scope: dict[str, Value]
    attrs: dict[str, Value] | None = None
    bases: list[Value] | None = None
    mro: list[ClassV] | None = None
    foreign: list[str] = field(default_factory=list)  # external bases by path

    @property
    def name(self) -> str:
        return self.node.name


@dataclass(slots=True, eq=False, repr=False)
class Func(Value):
    """A function, method or lambda with the scope it closes over."""

    module: ModuleV
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    scope: dict[str, Value]
    owner: ClassV | None = None
    kind: str = ""  # static | class | property | ""
    name: str = "<lambda>"
    defaults: dict[str, Value] = field(default_factory=dict)  # as they were at the definition


@dataclass(slots=True, eq=False)
class Bound(Value):
    """A function with its first argument."""

    func: Value
    self: Value


@dataclass(slots=True, eq=False)
class Partial(Value):
    """`functools.partial`."""

    func: Value
    args: list[Value]
    kwargs: dict[str, Value]


@dataclass(slots=True, eq=False)
class Native(Value):
    """Modelled behaviour, called with positional and keyword values."""

    call: Callable[[list[Value], dict[str, Value]], Value]
    name: str = ""


@dataclass(slots=True, eq=False, repr=False)
class Inst(Value):
    """An instance of a class of the benchmark."""

    cls: ClassV
    attrs: dict[str, Value] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Super(Value):
    """`super()`: the attributes of `self` that come after `after` in its order."""

    self: Value
    after: ClassV


@dataclass(slots=True, eq=False)
class Ext(Value):
    """A name of an external library by its path (`kubernetes.client.CoreV1Api().list_node`)."""

    path: str
    about: Value | None = None  # what it was made with, if that matters


@dataclass(slots=True, eq=False)
class Root:
    """One read of the cluster, and what was then done with the answer."""

    kind: str
    namespace: str
    name: str
    place: Place
    is_list: bool = False
    selector: str = ""
    reads: dict[str, Place] = field(default_factory=dict)
    writes: dict[str, Place] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class KObj(Value):
    """A Kubernetes object, or the part of it at `path` (`spec.template.spec.containers[]`)."""

    root: Root
    path: str = ""
    is_list: bool = False


@dataclass(slots=True, eq=False)
class OneOf(Value):
    """One of a few values."""

    options: list[Value]


@dataclass(slots=True, eq=False)
class Unknown(Value):
    """An unknown value; `text` says what it was in the source."""

    text: str = "?"
    is_trail: bool = False  # the reason has been recorded where the trail ended


def hole(text: str) -> str:
    """A hole named after the expression it stands for."""
    return "⟦" + re.sub(r"[^\w.\-\[\]]+", "_", text)[:48] + "⟧"


def camel(name: str) -> str:
    """`ready_replicas` as the API spells it: `readyReplicas`."""
    if "_" not in name.strip("_"):
        return name
    head, *tail = name.strip("_").split("_")
    special = {"ip": "IP", "ips": "IPs", "id": "ID", "dns": "DNS", "pid": "PID", "ipc": "IPC"}
    return head + "".join(special.get(part, part[:1].upper() + part[1:]) for part in tail)


def join(values: list[Value]) -> Value:
    """One value that stands for several possible ones."""
    flat: list[Value] = []
    seen: set[Any] = set()
    for value in values:
        for option in value.options if isinstance(value, OneOf) else (value,):
            key: Any = id(option)
            if isinstance(option, Const):
                try:
                    key = (type(option.value), hash(option.value), option.value)
                except TypeError:
                    key = id(option)
            elif isinstance(option, Unknown):
                key = "?"
            elif isinstance(option, KObj):
                key = (id(option.root), option.path, option.is_list)
            if key not in seen:
                seen.add(key)
                flat.append(option)
    if not flat:
        return Const(None)
    return flat[0] if len(flat) == 1 else OneOf(flat[:_MAX_ALTERNATIVES])


def copied(value: Value) -> Value:
    """A deep copy of what can be changed. Reads of a copied object count for the original."""
    return _copied(value, {}, 0)


def _copied(value: Value, roots: dict[int, Root], depth: int) -> Value:
    if depth > _DEEP:
        return value
    if isinstance(value, KObj):
        old = value.root
        if id(old) not in roots:
            roots[id(old)] = Root(
                kind=old.kind,
                namespace=old.namespace,
                name=old.name,
                place=old.place,
                is_list=old.is_list,
                reads=old.reads,  # reads of the copy count for the original
                writes=dict(old.writes),
            )
        return KObj(roots[id(old)], value.path, value.is_list)
    if isinstance(value, Dict):
        entries = {key: _copied(item, roots, depth + 1) for key, item in value.entries.items()}
        return Dict(entries, value.is_open, value.kind, value.element)
    if isinstance(value, ListV):
        return ListV([_copied(item, roots, depth + 1) for item in value.items], value.is_open)
    return value
