"""The benchmark's source text: files by module name, parsed once, never imported, never run.

Only regular files inside the named directory are read, each up to a bound. A file that does not
parse is recorded with its place; it does not end the census. Directories that cannot have audited
code, such as virtual environments and version control, are not walked. Nothing depends on the order
in which a file system lists its entries.
"""

from __future__ import annotations

import ast
import hashlib
import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pytest_sremut.census.model import Place
from pytest_sremut.errors import InputError

__all__ = ["MAX_BYTES", "Broken", "Module", "SourceTree"]

MAX_BYTES: Final = 8 * 1024 * 1024
_NOT_WALKED: Final = frozenset(
    {".git", ".hg", ".venv", "venv", "node_modules", "__pycache__", ".tox", ".mypy_cache"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """A Python file that could not be parsed, and where the parser stopped."""

    place: Place
    why: str


@dataclass(slots=True, kw_only=True, eq=False)
class Module:
    """One parsed file. `name` is dotted (`pkg.sub.mod`); `package` is what `.` refers to."""

    name: str
    file: str
    tree: ast.Module
    is_package: bool

    @property
    def package(self) -> str:
        return self.name if self.is_package else self.name.rpartition(".")[0]


@dataclass(slots=True, eq=False)
class SourceTree:
    """A benchmark's checkout.

    Args:
        root: Its directory. `InputError` when it is none.
    """

    root: Path
    broken: dict[str, Broken] = field(default_factory=dict)
    _modules: dict[str, Module | None] = field(default_factory=dict)
    _texts: dict[str, str | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.root.is_dir():
            raise InputError(
                file=str(self.root), found="no directory", allowed="a benchmark's checkout"
            )
        self.root = self.root.resolve()

    def module(self, name: str) -> Module | None:
        """The module of that dotted name; None if there is no such file or it does not parse."""
        if name not in self._modules:
            self._modules[name] = self._load(name)
        return self._modules[name]

    def has_package(self, name: str) -> bool:
        """Whether a directory of that dotted name holds Python files (a namespace package)."""
        directory = self.root.joinpath(*name.split("."))
        return directory.is_dir() and any(directory.glob("*.py"))

    def knows(self, name: str) -> bool:
        """Whether the name's first part is a package or module of this checkout."""
        top = name.split(".", maxsplit=1)[0]
        return (self.root / f"{top}.py").is_file() or self.has_package(top)

    def by_file(self, file: str) -> Module | None:
        """The module of a file given relative to the root."""
        path = file.removesuffix(".py")
        name = path.removesuffix("/__init__").replace("/", ".")
        if all(part.isidentifier() for part in name.split(".")):
            return self.module(name)
        if name not in self._modules:  # a script such as `run-it.py`
            text = self.text(file)
            parsed = None if text is None else self._parse(name, file, text, is_package=False)
            self._modules[name] = parsed
        return self._modules[name]

    def python_files(self, under: str = "") -> Iterator[str]:
        """Relative paths of all Python files below `under`, sorted."""
        found: list[str] = []
        for directory, names, files in os.walk(self.root / under):
            names[:] = sorted(name for name in names if name not in _NOT_WALKED)
            base = Path(directory).relative_to(self.root)
            found += [(base / name).as_posix() for name in files if name.endswith(".py")]
        yield from sorted(found)

    def text(self, file: str) -> str | None:
        """The text of a file of the checkout; None if absent, outside, too large or no text."""
        if file not in self._texts:
            self._texts[file] = self._read(file)
        return self._texts[file]

    def digest(self) -> str:
        """SHA-256 over path and content of everything that was read, in path order."""
        total = hashlib.sha256()
        for file, text in sorted(self._texts.items()):
            if text is not None:
                content = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
                total.update(f"{content}  {file}\n".encode())
        return total.hexdigest()

    def _read(self, file: str) -> str | None:
        try:
            path = (self.root / file).resolve()
            if not path.is_relative_to(self.root) or not path.is_file():
                return None
            if path.stat().st_size > MAX_BYTES:
                return None
            return path.read_text(encoding="utf-8")
        except (OSError, ValueError, RuntimeError):
            return None

    def _load(self, name: str) -> Module | None:
        if not name or not all(part.isidentifier() for part in name.split(".")):
            return None
        base = name.replace(".", "/")
        for file, is_package in ((f"{base}.py", False), (f"{base}/__init__.py", True)):
            text = self.text(file)
            if text is not None:
                return self._parse(name, file, text, is_package=is_package)
        return None

    def _parse(self, name: str, file: str, text: str, *, is_package: bool) -> Module | None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # invalid escapes are the benchmark's business
                tree = ast.parse(text, filename=file)
        except SyntaxError as error:
            why = f"syntax error: {error.msg}"
            self.broken[file] = Broken(place=Place(file, error.lineno or 1), why=why)
            return None
        except (ValueError, RecursionError, MemoryError) as error:
            self.broken[file] = Broken(place=Place(file, 1), why=f"not parsed: {error}")
            return None
        return Module(name=name, file=file, tree=tree, is_package=is_package)
