"""Defect finders over the source text of graders: each finding with file:line and direction.

These finders look at one function or class at a time and report only what the text shows. Whether
the benchmark's code reaches a place is the concern of `finders.graph`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Final

from pytest_sremut.census.layout import Layout
from pytest_sremut.census.model import Direction, Finding, Place
from pytest_sremut.census.source import Module, SourceTree

__all__ = ["baseline_users", "oracle_modules", "source_findings"]

_PRINTS: Final = frozenset({"print", "debug", "info", "warning", "error", "exception", "log"})
_MUTATES: Final = frozenset({"append", "add", "extend", "update", "insert", "setdefault", "pop"})
Function = ast.FunctionDef | ast.AsyncFunctionDef


def source_findings(tree: SourceTree, layout: Layout) -> list[Finding]:
    """All findings from the text alone."""
    found: list[Finding] = []
    modules = list(oracle_modules(tree, layout))
    for module in modules:
        for cls in _classes(module):
            found += _errors_as_verdicts(module, cls)
            found += _success_on_nothing(module, cls, layout)
            found += _shared_state(module, cls)
            found += _unused_results(module, cls, layout)
    found += _uncalled_helpers(modules, layout)
    found += _without_baseline(tree, layout, modules)
    return found


def oracle_modules(tree: SourceTree, layout: Layout) -> Iterator[Module]:
    """The parsed modules below the layout's oracle directories, in path order."""
    for folder in layout.oracles:
        for file in tree.python_files(folder):
            module = tree.by_file(file)
            if module is not None:
                yield module


def _classes(module: Module) -> list[ast.ClassDef]:
    return [node for node in module.tree.body if isinstance(node, ast.ClassDef)]


def _methods(cls: ast.ClassDef) -> list[Function]:
    return [node for node in cls.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


# -- an error becomes a verdict ------------------------------------------------------------------


def _errors_as_verdicts(module: Module, cls: ast.ClassDef) -> Iterator[Finding]:
    for method in _methods(cls):
        seen: dict[str, tuple[int, str]] = {}
        for node in ast.walk(method):
            if isinstance(node, ast.ExceptHandler):
                verdict = _verdict_in(node.body)
                if verdict:
                    seen.setdefault(verdict, (node.lineno, _caught(node)))
        for verdict, (line, caught) in sorted(seen.items()):
            direction = {
                "reject": Direction.FALSE_REJECT,
                "accept": Direction.FALSE_ACCEPT,
                "nothing": Direction.EITHER,
            }[verdict]
            became = {"reject": "a rejection", "accept": "an acceptance"}.get(
                verdict, "an empty result"
            )
            yield Finding(
                finder="error-as-verdict",
                direction=direction,
                subject=f"{cls.name}.{method.name}:{verdict}",
                place=Place(module.file, line),
                sentence=f"`except {caught}` turns an error of the reading into {became}.",
            )


def _caught(node: ast.ExceptHandler) -> str:
    return ast.unparse(node.type)[:60] if node.type is not None else "(anything)"


def _verdict_in(body: Sequence[ast.stmt]) -> str:
    """The verdict of a handler's own statements: reject, accept, nothing; empty if none."""
    for node in body:
        if isinstance(node, ast.Return):
            return _verdict_of(node.value)
        if isinstance(node, ast.Assign) and _is_success_target(node.targets):
            return _verdict_of(node.value)
        if isinstance(node, ast.If):
            inner = _verdict_in(node.body) or _verdict_in(node.orelse)
            if inner:
                return inner
    return ""


def _verdict_of(value: ast.expr | None) -> str:
    match value:
        case ast.Constant(value=True):
            return "accept"
        case ast.Constant(value=False):
            return "reject"
        case ast.List(elts=[]) | ast.Tuple(elts=[]) | ast.Dict(keys=[]):
            return "nothing"
        case ast.Dict(keys=keys, values=values):
            for key, item in zip(keys, values, strict=True):
                if isinstance(key, ast.Constant) and key.value == "success":
                    return _verdict_of(item)
            return ""
        case ast.Tuple(elts=[first, *_]):
            return _verdict_of(first)
        case _:
            return ""


def _is_success_target(targets: Sequence[ast.expr]) -> bool:
    for target in targets:
        match target:
            case ast.Subscript(slice=ast.Constant(value="success")):
                return True
            case ast.Name(id=name) if name in {"success", "all_normal", "ok", "passed"}:
                return True
    return False


# -- success on an empty list --------------------------------------------------------------------


def _success_on_nothing(module: Module, cls: ast.ClassDef, layout: Layout) -> Iterator[Finding]:
    for method in _methods(cls):
        flags = _flags_set_true(method)
        guarded = _guards(method)
        for node in ast.walk(method):
            if not isinstance(node, ast.For):
                continue
            iterated = ast.unparse(node.iter)
            if any(name in iterated for name in guarded) or iterated.startswith("range("):
                continue
            rejects = _only_rejects(node, flags)
            is_verdict = method.name == layout.evaluate or _returns_flag(method, flags)
            if rejects and is_verdict and "items" in iterated:
                yield Finding(
                    finder="success-on-empty",
                    direction=Direction.FALSE_ACCEPT,
                    subject=f"{cls.name}.{method.name}",
                    place=Place(module.file, node.lineno),
                    sentence=f"Nothing in `{iterated[:60]}` means success: the list is never asked "
                    "whether it is empty.",
                )
                break


def _returns_flag(method: Function, flags: set[str]) -> bool:
    return any(
        isinstance(node, ast.Return) and node.value is not None and ast.unparse(node.value) in flags
        for node in ast.walk(method)
    )


def _flags_set_true(method: Function) -> set[str]:
    flags: set[str] = set()
    for node in ast.walk(method):
        match node:
            case ast.Assign(targets=targets, value=ast.Constant(value=True)):
                flags |= {ast.unparse(target) for target in targets}
    return flags


def _guards(method: Function) -> set[str]:
    """Names whose emptiness is tested somewhere in the function."""
    names: set[str] = set()
    for node in ast.walk(method):
        if isinstance(node, ast.If | ast.While | ast.IfExp):
            for one in ast.walk(node.test):
                if isinstance(one, ast.UnaryOp) and isinstance(one.op, ast.Not):
                    names.add(ast.unparse(one.operand))
                if isinstance(one, ast.Call) and ast.unparse(one.func) in {"len", "any"}:
                    names |= {ast.unparse(arg) for arg in one.args}
    for node in ast.walk(method):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"any", "len"}:
            for inner in ast.walk(node):
                if isinstance(inner, ast.comprehension):
                    names.add(ast.unparse(inner.iter))
    exists = {name for name in names if not name.startswith(("self.", "all_", "ok"))}
    return {name.partition(".items")[0] for name in exists if len(name) > 2}


def _only_rejects(node: ast.For, flags: set[str]) -> bool:
    for one in ast.walk(node):
        if isinstance(one, ast.Assign) and isinstance(one.value, ast.Constant):
            targets = {ast.unparse(target) for target in one.targets}
            if one.value.value is False and targets & flags:
                return True
        if isinstance(one, ast.Return) and _verdict_of(one.value) == "reject" and flags:
            return True
    return False


# -- state shared between evaluations ------------------------------------------------------------


def _shared_state(module: Module, cls: ast.ClassDef) -> Iterator[Finding]:
    shared: dict[str, int] = {}
    for node in cls.body:
        value = getattr(node, "value", None)
        if isinstance(node, ast.Assign | ast.AnnAssign) and _is_mutable(value):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            shared |= {one.id: node.lineno for one in targets if isinstance(one, ast.Name)}
    own = _assigned_on_self(cls)
    for name, line in sorted(shared.items()):
        where = None if name in own else _mutated(cls, name)
        if where is not None:
            yield Finding(
                finder="shared-state",
                direction=Direction.EITHER,
                subject=f"{cls.name}.{name}",
                place=Place(module.file, line),
                sentence=f"`{name}` belongs to the class and is changed at line {where}: one "
                "evaluation leaves it to the next.",
            )


def _is_mutable(value: ast.expr | None) -> bool:
    if isinstance(value, ast.List | ast.Dict | ast.Set):
        return True
    return isinstance(value, ast.Call) and ast.unparse(value.func) in {
        "list",
        "dict",
        "set",
        "defaultdict",
        "collections.defaultdict",
    }


def _assigned_on_self(cls: ast.ClassDef) -> set[str]:
    return {
        target.attr
        for node in ast.walk(cls)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self"
    }


def _mutated(cls: ast.ClassDef, name: str) -> int | None:
    owners = {f"self.{name}", f"cls.{name}", f"{cls.name}.{name}"}
    for node in ast.walk(cls):
        match node:
            case ast.Call(func=ast.Attribute(value=owner, attr=attr)) if attr in _MUTATES:
                if ast.unparse(owner) in owners:
                    return node.lineno
            case ast.Assign(targets=[ast.Subscript(value=owner)]):
                if ast.unparse(owner) in owners:
                    return node.lineno
    return None


# -- helpers -------------------------------------------------------------------------------------


def _unused_results(module: Module, cls: ast.ClassDef, layout: Layout) -> Iterator[Finding]:
    """A helper's verdict that is only printed."""
    for method in _methods(cls):
        if method.name != layout.evaluate:
            continue
        for node in ast.walk(method):
            match node:
                case ast.Assign(
                    targets=[ast.Name(id=name)],
                    value=ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=helper)),
                ) if not _is_used(method, name):
                    yield Finding(
                        finder="result-only-printed",
                        direction=Direction.FALSE_ACCEPT,
                        subject=f"{cls.name}.{method.name}:{helper}",
                        place=Place(module.file, node.lineno),
                        sentence=f"The result of `{helper}()` is printed and decides nothing.",
                    )


def _is_used(method: Function, name: str) -> bool:
    """Whether the name is read anywhere but inside a call that prints or logs."""
    printed: set[int] = set()
    for node in ast.walk(method):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in _PRINTS:
            printed |= {id(inner) for inner in ast.walk(node)}
    return any(
        isinstance(node, ast.Name)
        and node.id == name
        and isinstance(node.ctx, ast.Load)
        and id(node) not in printed
        for node in ast.walk(method)
    )


def _uncalled_helpers(modules: Sequence[Module], layout: Layout) -> Iterator[Finding]:
    """A method that is never called, while other classes call theirs of the same name."""
    owners: dict[str, list[tuple[Module, ast.ClassDef, Function]]] = {}
    for module in modules:
        for cls in _classes(module):
            for method in _methods(cls):
                owners.setdefault(method.name, []).append((module, cls, method))
    names = {layout.evaluate, layout.baseline}
    for name, places in sorted(owners.items()):
        if name in names or name.startswith("__") or len(places) < 2:
            continue
        callers = [one for one in places if _refers(one[1], name)]
        for module, cls, method in places:
            if callers and not _refers(cls, name) and not _is_inherited(cls, name, modules):
                example = callers[0][1].name
                yield Finding(
                    finder="helper-never-called",
                    direction=Direction.FALSE_ACCEPT,
                    subject=f"{cls.name}.{name}",
                    place=Place(module.file, method.lineno),
                    sentence=f"`{name}` is defined and never called; {len(callers)} other classes "
                    f"(such as {example}) call theirs.",
                )


def _refers(cls: ast.ClassDef, name: str) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr == name for node in ast.walk(cls))


def _is_inherited(cls: ast.ClassDef, name: str, modules: Sequence[Module]) -> bool:
    """Whether a base calls the method (a hook), or a class below does."""
    bases = {ast.unparse(base).rpartition(".")[2] for base in cls.bases}
    for module in modules:
        for other in _classes(module):
            below = {ast.unparse(base).rpartition(".")[2] for base in other.bases}
            if (other.name in bases or cls.name in below) and _refers(other, name):
                return True
    return False


# -- evaluation without a baseline ---------------------------------------------------------------


def _without_baseline(
    tree: SourceTree, layout: Layout, modules: Sequence[Module]
) -> Iterator[Finding]:
    users = baseline_users(modules, layout)
    if not users:
        return
    for folder in layout.runners:
        for file in tree.python_files(folder):
            if file.removeprefix(folder).strip("/").count("/") > 0:
                continue  # a runner is a file of the folder itself
            module = tree.by_file(file)
            if module is not None:
                yield from _runner(module, layout, users)


def baseline_users(modules: Sequence[Module], layout: Layout) -> list[str]:
    """The oracle classes whose baseline method does something."""
    return sorted(
        cls.name
        for module in modules
        for cls in _classes(module)
        for method in _methods(cls)
        if method.name == layout.baseline and _does_something(method)
    )


def _does_something(method: Function) -> bool:
    return any(
        isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.For)
        for node in ast.walk(method)
    )


def _runner(module: Module, layout: Layout, users: Sequence[str]) -> Iterator[Finding]:
    calls = [node for node in ast.walk(module.tree) if isinstance(node, ast.Call)]
    named = [
        (node, node.func.attr, ast.unparse(node.func.value))
        for node in calls
        if isinstance(node.func, ast.Attribute)
    ]
    if any(attr == layout.baseline for _, attr, _ in named):
        return
    for node, attr, receiver in named:
        if attr == layout.evaluate and layout.oracle in receiver:
            yield Finding(
                finder="evaluate-without-baseline",
                direction=Direction.FALSE_ACCEPT,
                subject=module.file,
                place=Place(module.file, node.lineno),
                sentence=f"`{layout.evaluate}()` is reached and `{layout.baseline}()` is called "
                f"nowhere in this file: what {', '.join(users[:4])} compare with is empty.",
            )
