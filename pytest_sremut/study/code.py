"""The code that decides in a study and is not ours: graders, and plugins that bring more of them.

Nothing is imported to find it: modules are looked up as an import would, and their source is read
for what it imports. Seen are `import` statements anywhere, and `import_module` and `__import__` of
a constant name. Not seen is what code makes up while it runs, and files that it reads as data.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pytest_sremut.study.model import Study

__all__ = [
    "PYTHON_USE",
    "CodeFile",
    "as_digests",
    "code_of",
    "file_code",
    "grader_modules",
    "imported_names",
    "module_file",
    "names_bound",
    "with_parents",
]

PYTHON_USE: Final = re.compile(r"python:(?P<module>[^\W\d]\w*(\.[^\W\d]\w*)*):(?P<name>[^\W\d]\w*)")
"""`use` of a grader that is a class of anybody's."""

_OURS: Final = "pytest_sremut"
_INSTALLED: Final = frozenset({"site-packages", "dist-packages"})
_LIMIT: Final = 5_000  # modules
_UNPARSED: Final = (SyntaxError, ValueError, RecursionError, MemoryError)
_BINDS: Final = frozenset({"exec", "globals", "locals", "setattr", "vars"})
"""Calls by which names can come to be bound that nobody sees in the source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeFile:
    """A module of somebody's, as it lies on disk now."""

    module: str
    path: Path  # resolved
    sha256: str


def grader_modules(study: Study) -> tuple[str, ...]:
    """The modules that the study's `python:` graders stand in, sorted. No benchmark's."""
    benchmarks = {"own", "pinned"}
    found = {
        match["module"]
        for spec in study.oracles
        if not benchmarks & set(spec.instruments) and (match := PYTHON_USE.fullmatch(spec.use))
    }
    return tuple(sorted(found))


def code_of(
    modules: Iterable[str], root: Path, *, beside: Iterable[Path] = ()
) -> dict[str, CodeFile]:
    """Modules and what they import from the project or from their own package, by name.

    Args:
        modules: Where to begin; those that cannot be found are left out.
        root: The project's root.
        beside: Directories that are looked through where Python does not find a module.
    """
    begun = list(modules)
    packages = {name.partition(".")[0] for name in begun}
    return _followed(begun, _Search(root.resolve(), tuple(map(str, beside))), packages)


def module_file(module: str, root: Path) -> CodeFile | None:
    """The file of one module alone; None where it has none, or cannot be found."""
    spec = _Search(root.resolve(), ()).spec(module)
    return None if spec is None or not spec.origin else _file(module, Path(spec.origin))


def file_code(path: Path, root: Path, *, beside: Iterable[Path] = ()) -> dict[str, CodeFile]:
    """A file that is no module of anybody's (a `conftest.py`), by its path, and what it imports."""
    name = path.relative_to(root).as_posix()
    own = _file(name, path)
    if own is None:
        return {}
    search = _Search(root.resolve(), tuple(map(str, beside)))
    return {name: own, **_followed(_imports_of(own, package=""), search, set())}


@dataclass(frozen=True, slots=True)
class _Search:
    """Where modules are looked for besides Python's own path."""

    tree: Path  # the project, resolved
    beside: tuple[str, ...]

    def holds(self, path: Path) -> bool:
        """Whether a file belongs to the project."""
        return path.is_relative_to(self.tree) and not _INSTALLED & set(path.parts)

    def spec(self, module: str) -> ModuleSpec | None:
        """Where an import would find the module; its packages are not imported."""
        search: list[str] | None = None
        spec: ModuleSpec | None = None
        for part in with_parents(module):
            spec = _found(part, search)
            if spec is None and search is None:
                spec = PathFinder.find_spec(part, [str(self.tree), *self.beside])
            if spec is None:
                return None
            search = list(spec.submodule_search_locations or ())
        return spec


def _followed(modules: Iterable[str], search: _Search, packages: set[str]) -> dict[str, CodeFile]:
    waiting = [part for module in modules for part in with_parents(module)]
    seen: set[str] = set()
    found: dict[str, CodeFile] = {}
    while waiting and len(seen) < _LIMIT:
        module = waiting.pop()
        if module in seen:
            continue
        seen.add(module)
        top = module.partition(".")[0]
        if top == _OURS:
            continue
        spec = search.spec(module)
        code = None if spec is None else _file(module, Path(spec.origin or ""))
        if code is None or not (top in packages or search.holds(code.path)):
            continue
        found[module] = code
        is_package = spec is not None and spec.submodule_search_locations is not None
        package = module if is_package else module.rpartition(".")[0]
        for name in _imports_of(code, package=package):
            waiting += with_parents(name)
    return dict(sorted(found.items()))


def _found(name: str, search: list[str] | None) -> ModuleSpec | None:
    for finder in sys.meta_path:
        look: Any = getattr(finder, "find_spec", None)
        if look is None:
            continue
        spec: ModuleSpec | None = None
        with contextlib.suppress(Exception):  # a foreign finder may raise anything
            spec = look(name, search, None)
        if spec is not None:
            return spec
    return None


def _file(module: str, path: Path) -> CodeFile | None:
    try:
        data = path.read_bytes()
    except OSError:
        return None
    return CodeFile(module=module, path=path.resolve(), sha256=hashlib.sha256(data).hexdigest())


def _imports_of(code: CodeFile, *, package: str) -> tuple[str, ...]:
    if code.path.suffix != ".py":
        return ()
    try:
        data = code.path.read_bytes()
    except OSError:
        return ()
    return _parsed(data, package)


@lru_cache(maxsize=512)
def _parsed(data: bytes, package: str) -> tuple[str, ...]:
    try:
        return tuple(dict.fromkeys(imported_names(ast.parse(data), package)))
    except _UNPARSED:
        return ()  # whoever imports it is told


def imported_names(tree: ast.AST, package: str) -> Iterator[str]:
    """Names of modules that a module's source imports anywhere; more than exist.

    Args:
        tree: Of the source.
        package: The package that relative imports begin at.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*(above if node.level else []), *filter(None, [node.module])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and node.args and _imports_by_name(node.func):
            first = node.args[0]
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield first.value.lstrip(".") or package
        elif isinstance(node, ast.Assign) and _names_plugins(node):
            yield from (
                one.value
                for one in ast.walk(node.value)
                if isinstance(one, ast.Constant) and isinstance(one.value, str)
            )


def _imports_by_name(function: ast.expr) -> bool:
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name in {"import_module", "__import__"}


def _names_plugins(node: ast.Assign) -> bool:
    return any(isinstance(one, ast.Name) and one.id == "pytest_plugins" for one in node.targets)


def names_bound(path: Path) -> frozenset[str] | None:
    """The names that a module's source binds; None where that cannot be told without running it."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, *_UNPARSED):
        return None
    bound: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            bound.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.add(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            if any(alias.name == "*" for alias in node.names):
                return None
            bound |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in _BINDS:
            return None
    return None if "__getattr__" in bound else frozenset(bound)


def with_parents(module: str) -> Iterator[str]:
    """`a`, `a.b` and `a.b.c` of `a.b.c`."""
    parts = module.split(".")
    for count in range(1, len(parts) + 1):
        yield ".".join(parts[:count])


def as_digests(code: Mapping[str, CodeFile]) -> dict[str, str]:
    """Module -> SHA-256."""
    return {name: one.sha256 for name, one in code.items()}
