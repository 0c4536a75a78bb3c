"""The state of one interpretation: modules, frames, effects, trails, and the bound on steps.

The interpreter follows the benchmark's own code on partly known values. Rules kept here: a test
whose outcome is known takes one branch, any other takes both and joins what they leave; a loop
over known items takes them all (up to a bound), any other runs its body once; nothing is executed
and nothing of the benchmark is imported. What cannot be followed is a `Trail` with its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pytest_sremut.census.interpreter.values import (
    Const,
    Dict,
    Ext,
    Func,
    KObj,
    Lazy,
    ListV,
    ModuleV,
    OneOf,
    Root,
    Unknown,
    Value,
    copied,
)
from pytest_sremut.census.model import Effect, Place, Reason, Trail

if TYPE_CHECKING:
    from pytest_sremut.census.rules import Rules
    from pytest_sremut.census.source import SourceTree

__all__ = ["MAX_DEPTH", "BudgetError", "Comparison", "Frame", "Machine", "MissingRead", "Scope"]

MAX_DEPTH: Final = 48
MAX_STEPS: Final = 400_000


class BudgetError(Exception):
    """The bound on steps was reached; caught where a phase begins."""


class Scope(dict[str, Value]):
    """Local names, and the scope around them."""

    __slots__ = ("parent",)

    def __init__(self, parent: dict[str, Value] | None = None) -> None:
        super().__init__()
        self.parent = parent


@dataclass(slots=True, eq=False)
class Frame:
    """One function being followed."""

    module: ModuleV
    scope: Scope
    func: Func | None = None
    self: Value | None = None
    line: int = 0
    returns: list[Value] = field(default_factory=list)
    yields: list[Value] = field(default_factory=list)
    outer_names: set[str] = field(default_factory=set)  # global and nonlocal
    exits: list[list[dict[str, Value]]] = field(default_factory=list)  # of the loops around
    handlers: int = 0  # how many exception handlers surround the call


@dataclass(frozen=True, slots=True)
class MissingRead:
    """An attribute read from an instance whose class never sets it."""

    cls: str
    attribute: str
    place: Place
    in_try: bool


@dataclass(frozen=True, slots=True)
class Comparison:
    """A field of a read object compared with a constant. `is_equal`: by `==` or `in`."""

    kind: str
    field: str
    value: str
    is_equal: bool
    place: Place


@dataclass(slots=True, eq=False)
class Machine:
    """Everything an interpretation shares. `plumbing` names files whose lines are not cited when
    a caller outside them exists (a wrapper around kubectl)."""

    tree: SourceTree
    rules: Rules
    plumbing: tuple[str, ...] = ()
    effects: list[Effect] = field(default_factory=list)
    roots: list[Root] = field(default_factory=list)
    trails: list[Trail] = field(default_factory=list)
    missing: list[MissingRead] = field(default_factory=list)
    calls: set[Place] = field(default_factory=set)  # the functions that were entered
    comparisons: list[Comparison] = field(default_factory=list)
    written: set[str] = field(default_factory=set)  # constants that were written to the cluster
    shared: list[tuple[dict[str, Value], dict[str, Value]]] = field(default_factory=list)
    stack: list[Frame] = field(default_factory=list)
    modules: dict[str, ModuleV] = field(default_factory=dict)
    files: dict[str, Value] = field(default_factory=dict)  # written during interpretation, by path
    may: int = 0  # how many undecided branches we are inside
    handlers: int = 0
    tries: int = 0
    sleeps: int = 0
    steps: int = 0
    order: int = 0
    limit: int = MAX_STEPS
    follow: Callable[[], None] | None = None

    # -- places ------------------------------------------------------------------------------

    def here(self) -> Place:
        """Where the interpreter is: the innermost line."""
        frame = self.stack[-1]
        return Place(frame.module.module.file, frame.line)

    def cited(self) -> Place:
        """The innermost line outside the plumbing."""
        for frame in reversed(self.stack):
            if frame.module.module.file not in self.plumbing:
                return Place(frame.module.module.file, frame.line)
        return self.here()

    def function(self) -> str:
        """The name of the function being followed."""
        func = self.stack[-1].func
        return func.name if func is not None else ""

    # -- what is recorded --------------------------------------------------------------------

    def effect(
        self,
        verb: str,
        kind: str,
        *,
        namespace: str = "",
        name: str = "",
        fields: tuple[str, ...] = (),
        via: str = "api",
        detail: str = "",
    ) -> None:
        self.order += 1
        self.effects.append(
            Effect(
                verb=verb,
                kind=kind,
                namespace=namespace,
                name=name,
                fields=fields,
                place=self.cited(),
                sink=self.here(),
                via=via,
                detail=detail,
                is_handler=self.handlers > 0,
                order=self.order,
            )
        )

    def read(
        self, kind: str, *, namespace: str, name: str, is_list: bool, selector: str = ""
    ) -> KObj:
        """A read of the cluster: its answer, whose fields are then watched."""
        root = Root(
            kind=kind,
            namespace=namespace,
            name=name,
            place=self.cited(),
            is_list=is_list,
            selector=selector,
        )
        self.roots.append(root)
        self.effect("read", kind, namespace=namespace, name=name)
        return KObj(root, is_list=is_list)

    def trail(self, reason: Reason, what: str) -> None:
        trail = Trail(reason=reason, place=self.cited(), what=what[:160])
        if trail not in self.trails:
            self.trails.append(trail)

    def compared(self, left: Value, right: Value, *, is_equal: bool) -> None:
        """Note which constants the fields of read objects are compared with."""
        for one, two in ((left, right), (right, left)):
            fields = [item for item in _members(one) if isinstance(item, KObj) and item.path]
            values = [
                item.value
                for item in _members(two)
                if isinstance(item, Const) and isinstance(item.value, str | int)
            ]
            for item in fields:
                for value in values:
                    self.comparisons.append(
                        Comparison(item.root.kind, item.path, str(value), is_equal, self.cited())
                    )

    def step(self) -> None:
        self.steps += 1
        if self.steps > self.limit:
            raise BudgetError

    @contextmanager
    def maybe(self) -> Iterator[None]:
        """Inside: what happens may not happen."""
        self.may += 1
        try:
            yield
        finally:
            self.may -= 1

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Inside: the top level of a module or a class body is followed. It runs once, whoever
        needs it first, so nothing of it may be recorded in that one's phase."""
        kept = (self.effects, self.roots, self.trails, self.missing, self.calls, self.comparisons)
        counts = (self.may, self.handlers, self.tries, self.sleeps, self.order)
        self.effects, self.roots, self.trails, self.missing = [], [], [], []
        self.calls, self.comparisons = set(), []
        self.may = self.handlers = self.tries = 0
        try:
            yield
        finally:
            (self.effects, self.roots, self.trails, self.missing) = kept[:4]
            (self.calls, self.comparisons) = kept[4:]
            self.may, self.handlers, self.tries, self.sleeps, self.order = counts

    def remember_shared(self, scope: dict[str, Value]) -> None:
        """Note the lists and mappings that a module or class holds, as they are now."""
        mutable: dict[str, Value] = {
            name: value for name, value in scope.items() if isinstance(value, ListV | Dict)
        }
        if mutable:
            self.shared.append((scope, mutable))
            self._renew(scope, mutable)

    def fresh_problem(self) -> None:
        """Give the next problem the modules and classes as they were first: what one problem
        appends to a class's list must not change the row of another."""
        for scope, mutable in self.shared:
            self._renew(scope, mutable)
        self.files = {}
        self.order = 0
        self.fresh_phase()

    def _renew(self, scope: dict[str, Value], mutable: dict[str, Value]) -> None:
        for name, value in mutable.items():
            scope[name] = copied(value)

    def fresh_phase(self) -> None:
        """Forget what was recorded, keep the heap: the next phase begins."""
        self.effects = []
        self.roots = []
        self.trails = []
        self.missing = []
        self.calls = set()
        self.comparisons = []
        self.written = set()
        self.steps = 0
        self.sleeps = 0

    # -- modules -----------------------------------------------------------------------------

    def module(self, name: str) -> ModuleV | None:
        """The module with its top level followed; None when it has no readable file."""
        if name in self.modules:
            return self.modules[name]
        module = self.tree.module(name)
        if module is None:
            return None
        from pytest_sremut.census.interpreter.statements import run_block

        value = ModuleV(module)
        self.modules[name] = value
        scope = Scope()
        value.names = scope
        scope["__name__"] = Const(name)
        scope["__file__"] = Const(module.file)
        value.is_running = True
        frame = Frame(module=value, scope=scope)
        self.stack.append(frame)
        with self.aside():
            try:
                run_block(self, module.tree.body, frame)
            finally:
                self.stack.pop()
                value.is_running = False
        self.remember_shared(scope)
        return value

    def resolve(self, lazy: Lazy) -> Value:
        """What an import stands for."""
        module = self.module(lazy.module)
        if module is not None:
            if not lazy.name:
                return module
            if lazy.name in module.names:
                found = module.names[lazy.name]
                return self.resolve(found) if isinstance(found, Lazy) else found
            below = self.module(f"{lazy.module}.{lazy.name}")
            if below is not None:
                return below
            return self._unresolved(lazy)
        if lazy.name:
            below = self.module(f"{lazy.module}.{lazy.name}")
            if below is not None:
                return below
        if self.tree.knows(lazy.module):
            if not lazy.name and self.tree.has_package(lazy.module):
                return Ext(lazy.module)  # a namespace package: attributes are its modules
            return self._unresolved(lazy)
        return Ext(f"{lazy.module}.{lazy.name}" if lazy.name else lazy.module)

    def _unresolved(self, lazy: Lazy) -> Value:
        name = f"{lazy.module}.{lazy.name}" if lazy.name else lazy.module
        for part in (name, lazy.module):
            base = part.replace(".", "/")
            for file in (f"{base}.py", f"{base}/__init__.py"):
                if file in self.tree.broken:
                    self.trail(Reason.BROKEN_FILE, str(self.tree.broken[file].place))
                    return Unknown(name, is_trail=True)
        if self.stack:
            self.trail(Reason.MISSING_MODULE, f"import of {name}")
        return Unknown(name, is_trail=True)


def _members(value: Value) -> list[Value]:
    """The value, or the items of a list or the alternatives it may be."""
    if isinstance(value, ListV):
        return [one for item in value.items for one in _members(item)]
    if isinstance(value, OneOf):
        return [one for item in value.options for one in _members(item)]
    return [value]
