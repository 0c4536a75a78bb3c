"""Importing the modules of one tree from their source, each time: no bytecode is read or written.

What runs then is what was hashed: a cache beside a module cannot stand in for it, and the tree
stays as it is. A process that others are forked from compiles for them, and keeps what it compiled
by the bytes of the source. Standard library only.
"""

from __future__ import annotations

import contextlib
import hashlib
import sys
from collections.abc import Callable, Iterable
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    SourceFileLoader,
)
from pathlib import Path
from types import CodeType

__all__ = ["compile_below", "exact_hook", "prepare"]

_MOST_KNOWN = 5_000  # modules
_known: dict[tuple[str, bytes], CodeType] = {}
_PACKAGE = str(Path(__file__).resolve().parents[1])


def exact_hook(
    tree: Path, seen: Callable[[str, bytes], object], *, extensions: bool = False
) -> Callable[[str], FileFinder]:
    """For `sys.path_hooks`: finds modules below a directory, and compiles what it found.

    Args:
        tree: The directory, resolved.
        seen: Called with each file and the very bytes that are compiled.
        extensions: Whether compiled extensions are found, too.
    """

    class Exact(SourceFileLoader):
        def get_code(self, fullname: str) -> CodeType | None:
            file = self.get_filename(fullname)
            if file.startswith(_PACKAGE + "/"):
                return super().get_code(fullname)  # ours is no part of what is graded
            data = self.get_data(file)
            seen(file, data)
            return _compiled(file, data)

    def hook(entry: str) -> FileFinder:
        path = Path(entry)
        if not path.is_relative_to(tree) or "site-packages" in path.parts:
            raise ImportError(entry)
        more = [(ExtensionFileLoader, EXTENSION_SUFFIXES)] if extensions else []
        return FileFinder(entry, (Exact, SOURCE_SUFFIXES), *more)

    return hook


def prepare(files: Iterable[str]) -> None:
    """Compile sources beforehand, for processes that are forked from this one. Runs none of them.

    What cannot be read or compiled is left to whoever imports it.
    """
    for file in files:
        with contextlib.suppress(OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            _compiled(file, Path(file).read_bytes())


def _compiled(file: str, data: bytes) -> CodeType:
    """The code of a source; that of other bytes under the same name is another one."""
    key = (file, hashlib.sha256(data).digest())
    if key not in _known:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        _known[key] = SourceFileLoader("", file).source_to_code(data, file)
    return _known[key]


def _nobody(_file: str, _data: bytes) -> None:
    """Whoever asked has hashed the files before."""


def compile_below(tree: Path) -> None:
    """In this process and from here on, modules of the tree are compiled from their source."""
    resolved = tree.resolve()
    sys.path_hooks.insert(0, exact_hook(resolved, _nobody, extensions=True))
    for entry in list(sys.path_importer_cache):
        if Path(entry).is_relative_to(resolved):
            del sys.path_importer_cache[entry]
