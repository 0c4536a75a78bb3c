"""Following the registry's problems one by one: constructor, injector, oracle.

The order of the phases is the benchmark's own: construct, capture the baseline, inject, evaluate.
Problems share parsed source and modules; all other values belong to one problem.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from pytest_sremut.census.interpreter.classes import find_in_class
from pytest_sremut.census.interpreter.core import call, get_attr
from pytest_sremut.census.interpreter.machine import (
    BudgetError,
    Comparison,
    Frame,
    Machine,
    MissingRead,
    Scope,
)
from pytest_sremut.census.interpreter.modules import load_module
from pytest_sremut.census.interpreter.texts import as_text
from pytest_sremut.census.interpreter.values import (
    ClassV,
    Dict,
    Inst,
    ModuleV,
    Unknown,
    Value,
)
from pytest_sremut.census.judge.surfaces import observations, perturbations
from pytest_sremut.census.judge.verdicts import Judgement, judge
from pytest_sremut.census.layout import Layout
from pytest_sremut.census.model import (
    Effect,
    Observation,
    Place,
    Reason,
    Row,
    Trail,
    Verdict,
)
from pytest_sremut.census.models.language import LANGUAGE
from pytest_sremut.census.rules import Rules
from pytest_sremut.census.source import SourceTree
from pytest_sremut.census.survey.alerts import alert_aspects
from pytest_sremut.census.survey.details import (
    application_of,
    arguments_of,
    is_set_somewhere,
    key_places,
    oracle_use,
)
from pytest_sremut.errors import InputError

__all__ = ["Followed", "Survey"]

_RECURSION: Final = 12_000


@dataclass(slots=True, kw_only=True)
class Followed:
    """One problem with everything that was recorded while following it."""

    row: Row
    problem: Inst | None = None
    oracle: Inst | None = None
    missing: Sequence[MissingRead] = ()
    calls: frozenset[Place] = frozenset()  # functions of the oracle that were entered
    effects: Sequence[Effect] = ()  # of the oracle
    comparisons: Sequence[Comparison] = ()
    injected: frozenset[str] = frozenset()  # constants that the injector writes
    has_window: bool = False


@dataclass(slots=True, kw_only=True)
class Survey:
    """The survey of one checkout: its source, the rules, its layout, and one machine."""

    tree: SourceTree
    rules: Rules
    layout: Layout
    machine: Machine = field(init=False)
    aspects: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self.machine = Machine(
            self.tree, self.rules, LANGUAGE, plumbing=tuple(self.layout.plumbing)
        )
        self.aspects = alert_aspects(self.tree, self.rules, self.layout)

    def registry(self) -> dict[str, tuple[Value, Place]]:
        """Problem id → (factory, place of the id). Raises InputError if there is no registry."""
        m = self.machine
        name, _, path = self.layout.registry.partition(":")
        with self._deep(), self._top(name) as module:
            holder: Value = module
            for part in path.split("."):
                holder = get_attr(m, holder, part)
                if isinstance(holder, ClassV):
                    holder = call(m, holder, [], {})
            if not isinstance(holder, Dict) or not holder.entries:
                raise InputError(
                    file=module.module.file,
                    place=path,
                    found="no mapping of problem ids that could be followed",
                    allowed="a mapping whose keys are determined by the source",
                )
            if holder.is_open:
                raise InputError(
                    file=module.module.file,
                    place=path,
                    found="a registry with ids that are not determined by the source",
                    allowed="a mapping whose keys are determined by the source",
                )
            places = key_places(module, holder)
            return {str(key): (value, places[str(key)]) for key, value in holder.entries.items()}

    def follow(self, problem: str, factory: Value, place: Place, *, oracle: str = "") -> Followed:
        """One row. `oracle` names another oracle class to attach (a proposed pairing)."""
        m = self.machine
        m.fresh_problem()
        name = self.layout.registry.partition(":")[0]
        with self._deep(), self._top(name):
            made = self._phase(lambda: call(m, factory, [], {}))
            building = list(m.trails)
            if not isinstance(made, Inst):
                reason = building[0].reason if building else Reason.UNRESOLVED_FACTORY
                end = building[0].place if building else place
                return Followed(row=_unfollowed(problem, place, reason, end))
            attached = self._attach(made, oracle)
            return self._row(problem, place, made, attached, factory)

    # -- phases ------------------------------------------------------------------------------

    def _row(
        self, problem: str, place: Place, made: Inst, attached: Inst | None, factory: Value
    ) -> Followed:
        m = self.machine
        m.fresh_phase()
        if attached is not None and self._has(attached, self.layout.baseline):
            self._phase(lambda: call(m, get_attr(m, attached, self.layout.baseline), [], {}))
        m.fresh_phase()
        has_injector = self._has(made, self.layout.inject)
        if has_injector:
            self._phase(lambda: call(m, get_attr(m, made, self.layout.inject), [], {}))
        side = perturbations(m.effects, self.rules, self.layout.workload)
        inject_trails = list(m.trails)
        injected = frozenset(m.written)
        m.fresh_phase()
        seen: list[Observation] = []
        if attached is not None:
            self._phase(lambda: call(m, get_attr(m, attached, self.layout.evaluate), [], {}))
            seen = observations(m.effects, m.roots, self.layout.workload)
        oracle_trails = list(m.trails)
        has_window = any(one.verb in {"sleep", "wait"} for one in m.effects)
        judgement = self._unjudged(attached, has_injector=has_injector) or judge(
            seen,
            side,
            inject_trails,
            oracle_trails,
            rules=self.rules,
            aspects=self.aspects,
            has_window=has_window,
        )
        row = Row(
            problem=problem,
            place=place,
            cls=made.cls.name,
            arguments=arguments_of(factory, made),
            application=application_of(made),
            namespace=as_text(get_attr(m, made, "namespace", quiet=True)) or "",
            oracle=oracle_use(m, made, attached, self.layout),
            verdict=judgement.verdict,
            rule=judgement.rule,
            sentence=judgement.sentence,
            would_have_to_observe=judgement.would_have_to_observe,
            observations=seen,
            perturbations=sorted(side.perturbations),
            symptoms=judgement.symptoms,
            trails=sorted([*inject_trails, *oracle_trails], key=lambda one: (one.place, one.what)),
            reason=judgement.reason,
            trail_end=judgement.trail_end,
        )
        return Followed(
            row=row,
            problem=made,
            oracle=attached,
            missing=[one for one in m.missing if not is_set_somewhere(m, made, one)],
            calls=frozenset(m.calls),
            effects=list(m.effects),
            comparisons=list(m.comparisons),
            injected=injected,
            has_window=has_window,
        )

    def _unjudged(self, attached: Inst | None, *, has_injector: bool) -> Judgement | None:
        if attached is not None and has_injector:
            return None
        reason = Reason.NO_ORACLE if attached is None else Reason.NO_INJECTOR
        what = "oracle is attached" if attached is None else "injector is defined"
        return Judgement(
            verdict=Verdict.UNCERTAIN,
            rule=reason.value,
            sentence=f"No {what}.",
            would_have_to_observe="",
            symptoms=(),
            reason=reason,
        )

    def _phase(self, run: Callable[[], Value]) -> Value:
        m = self.machine
        depth = len(m.stack)
        saved = (m.may, m.handlers, m.tries)
        try:
            return run()
        except BudgetError:
            place = m.here()
            trail = Trail(reason=Reason.BUDGET, place=place, what="the bound on steps")
            m.trails.append(trail)
            return Unknown("budget", is_trail=True)
        finally:
            m.may, m.handlers, m.tries = saved
            del m.stack[depth:]

    def _attach(self, made: Inst, oracle: str) -> Inst | None:
        m = self.machine
        if oracle:
            cls = self.oracle_class(oracle)
            built = self._phase(lambda: call(m, cls, [], {self.layout.subject: made}))
        else:
            built = get_attr(m, made, self.layout.oracle, quiet=True)
        if isinstance(built, Inst):
            return built
        options = getattr(built, "options", [])
        instances = [one for one in options if isinstance(one, Inst)]
        return instances[0] if len(instances) == 1 else None

    def oracle_class(self, name: str) -> ClassV:
        """An oracle class by its name, anywhere below the layout's oracle directories."""
        m = self.machine
        for folder in self.layout.oracles:
            for file in self.tree.python_files(folder):
                module = self.tree.by_file(file)
                if module is None or name not in (self.tree.text(file) or ""):
                    continue
                loaded = load_module(m, module.name)
                found = loaded.names.get(name) if loaded is not None else None
                if isinstance(found, ClassV) and found.node.name == name:
                    return found
        raise InputError(
            file=str(self.tree.root),
            place=f"--pair …={name}",
            found=f"no class {name} below {', '.join(self.layout.oracles)}",
            allowed="the name of an oracle class",
        )

    def _has(self, inst: Inst, name: str) -> bool:
        return name in inst.attrs or find_in_class(self.machine, inst.cls, name) is not None

    @contextmanager
    def _top(self, name: str) -> Iterator[ModuleV]:
        m = self.machine
        module = load_module(m, name)
        if module is None:
            broken = self.tree.broken.get(name.replace(".", "/") + ".py")
            raise InputError(
                file=name.replace(".", "/") + ".py",
                place=f"line {broken.place.line}" if broken else "",
                found=broken.why if broken else "no such file",
                allowed="the module with the registry of problems",
            )
        m.stack.append(Frame(module=module, scope=Scope()))
        try:
            yield module
        finally:
            m.stack.clear()

    @contextmanager
    def _deep(self) -> Iterator[None]:
        """Raise Python's recursion limit for nested calls, and restore it afterwards."""
        before = sys.getrecursionlimit()
        sys.setrecursionlimit(max(before, _RECURSION))
        try:
            yield
        finally:
            sys.setrecursionlimit(before)


def _unfollowed(problem: str, place: Place, reason: Reason, end: Place) -> Row:
    return Row(
        problem=problem,
        place=place,
        cls="",
        arguments={},
        application="",
        namespace="",
        oracle=None,
        verdict=Verdict.UNCERTAIN,
        rule=reason.value,
        sentence=f"The registry's entry could not be followed to a problem (see {end}).",
        would_have_to_observe="",
        observations=(),
        perturbations=(),
        symptoms=(),
        trails=(),
        reason=reason,
        trail_end=end,
    )
