"""The state of one interpretation: modules, frames, effects, trails, and the bound on steps.

The interpreter follows the benchmark's own code on partly known values. Its rules:

- If the outcome of a test is known, one branch is followed. Otherwise both are, and what they
  leave is joined.
- A loop over known items takes every item, up to a bound. Any other loop runs its body once.
- Nothing is executed, and nothing of the benchmark is imported.
- What cannot be followed is a `Trail` with its place.

`Language` holds the tables of handlers: what to do for each kind of syntax and of value. The
handlers call each other through `core`, which looks them up here; so no handler's module needs to
import another's.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from pytest_sremut.census.interpreter.values import (
    Const,
    Dict,
    Func,
    KObj,
    ListV,
    ModuleV,
    OneOf,
    Root,
    Value,
    copied,
)
from pytest_sremut.census.model import Effect, Place, Reason, Trail
from pytest_sremut.census.rules import Rules
from pytest_sremut.census.source import SourceTree

__all__ = [
    "MAX_DEPTH",
    "BudgetError",
    "Comparison",
    "End",
    "Frame",
    "Language",
    "Machine",
    "MissingRead",
    "Scope",
]

MAX_DEPTH: Final = 48
MAX_STEPS: Final = 400_000

End = Literal["return", "raise", "break", "continue"] | None
"""How a block ends; None when execution falls through."""


class BudgetError(Exception):
    """The bound on steps was reached. It is caught where a phase begins."""


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
    handlers: int = 0  # the number of exception handlers around the call


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """The tables of handlers, by the type of syntax node or of value.

    Handlers of `attributes` get the name, and whether the program asks if the attribute exists
    (`getattr` with a default). `builtin` gives the builtin of a name, None when there is none.
    """

    expressions: Mapping[type[ast.expr], Callable[[Machine, Any, Frame], Value]]
    statements: Mapping[type[ast.stmt], Callable[[Machine, Any, Frame], End]]
    calls: Mapping[type[Value], Callable[[Machine, Any, list[Value], dict[str, Value]], Value]]
    attributes: Mapping[type[Value], Callable[[Machine, Any, str, bool], Value]]
    builtin: Callable[[Machine, str], Value | None]


@dataclass(slots=True, eq=False)
class Machine:
    """Everything that an interpretation shares.

    `plumbing` names files, such as a wrapper around kubectl: a line in one of them is not cited if
    a caller outside them exists.
    """

    tree: SourceTree
    rules: Rules
    language: Language
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
    may: int = 0  # the number of undecided branches around
    handlers: int = 0
    tries: int = 0
    sleeps: int = 0
    steps: int = 0
    order: int = 0
    limit: int = MAX_STEPS

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
        """Record that something is done to, or asked of, the cluster."""
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
        """Record a read of the cluster. Returns its answer, whose fields are then watched."""
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
        """Record, once, that following the source ends here."""
        trail = Trail(reason=reason, place=self.cited(), what=what[:160])
        if trail not in self.trails:
            self.trails.append(trail)

    def compared(self, left: Value, right: Value, *, is_equal: bool) -> None:
        """Record which constants the fields of read objects are compared with."""
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
        """Count a step. Raises BudgetError when the bound is reached."""
        self.steps += 1
        if self.steps > self.limit:
            raise BudgetError

    @contextmanager
    def maybe(self) -> Iterator[None]:
        """Inside: it is not known whether this happens."""
        self.may += 1
        try:
            yield
        finally:
            self.may -= 1

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Inside: the top level of a module or of a class body is followed.

        It runs once, for whoever needs it first. So nothing that it does is recorded in the phase
        of that first user.
        """
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
        """Keep the lists and mappings that a module or class holds now."""
        mutable: dict[str, Value] = {
            name: value for name, value in scope.items() if isinstance(value, ListV | Dict)
        }
        if mutable:
            self.shared.append((scope, mutable))
            self._renew(scope, mutable)

    def fresh_problem(self) -> None:
        """Give the next problem the modules and classes as they were at first.

        What one problem appends to a class's list must not change the row of another.
        """
        for scope, mutable in self.shared:
            self._renew(scope, mutable)
        self.files = {}
        self.order = 0
        self.fresh_phase()

    def _renew(self, scope: dict[str, Value], mutable: dict[str, Value]) -> None:
        for name, value in mutable.items():
            scope[name] = copied(value)

    def fresh_phase(self) -> None:
        """Begin the next phase: forget what was recorded, keep the values."""
        self.effects = []
        self.roots = []
        self.trails = []
        self.missing = []
        self.calls = set()
        self.comparisons = []
        self.written = set()
        self.steps = 0
        self.sleeps = 0


def _members(value: Value) -> list[Value]:
    """The value itself, the items of a list, or the alternatives."""
    if isinstance(value, ListV):
        return [one for item in value.items for one in _members(item)]
    if isinstance(value, OneOf):
        return [one for item in value.options for one in _members(item)]
    return [value]
