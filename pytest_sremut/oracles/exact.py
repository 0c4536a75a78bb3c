"""Importing the modules of one tree from their source, each time: no bytecode is read or written.

What runs then is what was hashed: a cache beside a module cannot stand in for it, and the tree
stays as it is. Standard library only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    SourceFileLoader,
)
from pathlib import Path
from types import CodeType

__all__ = ["compile_below", "exact_hook"]

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
            code: CodeType = self.source_to_code(data, file)
            return code

    def hook(entry: str) -> FileFinder:
        path = Path(entry)
        if not path.is_relative_to(tree) or "site-packages" in path.parts:
            raise ImportError(entry)
        more = [(ExtensionFileLoader, EXTENSION_SUFFIXES)] if extensions else []
        return FileFinder(entry, (Exact, SOURCE_SUFFIXES), *more)

    return hook


def _nobody(_file: str, _data: bytes) -> None:
    """Whoever asked has hashed the files before."""


def compile_below(tree: Path) -> None:
    """In this process and from here on, modules of the tree are compiled from their source."""
    resolved = tree.resolve()
    sys.path_hooks.insert(0, exact_hook(resolved, _nobody, extensions=True))
    for entry in list(sys.path_importer_cache):
        if Path(entry).is_relative_to(resolved):
            del sys.path_importer_cache[entry]
