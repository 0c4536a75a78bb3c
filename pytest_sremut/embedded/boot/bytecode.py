"""Bytecode of a cluster's own modules, kept before its file system becomes read-only.

The daemon and the zygote import theirs when nothing can be written any more. In a checkout, whose
modules nobody compiled, each cluster would compile some 120 of them again, a third of what its
start costs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from importlib.machinery import SourceFileLoader
from importlib.util import cache_from_source, find_spec
from pathlib import Path

__all__ = ["folders_of", "keep_bytecode"]

_PACKAGE = Path(__file__).parents[1]


def folders_of(modules: Iterable[str]) -> set[Path]:
    """This package's folder, and those in which the modules lie; of one that is not there, none."""
    found = {_PACKAGE}
    for name in modules:
        with suppress(ImportError, ValueError):
            spec = find_spec(name)
            if spec is not None and spec.origin is not None and spec.has_location:
                found.add(Path(spec.origin).parent)
    return found


def keep_bytecode(folders: Iterable[Path]) -> int:
    """Compile the sources below whose bytecode is missing or older, where bytecode may be kept.

    It never raises: whoever imports a module next sees what is wrong with it.

    Returns:
        How many were compiled.
    """
    compiled = 0
    for folder in folders:
        if sys.dont_write_bytecode or not os.access(folder, os.W_OK):
            continue
        for source in folder.rglob("*.py"):
            if _is_kept(source):
                continue
            with suppress(Exception):  # an ImportError, a SyntaxError, whatever a source may cause
                SourceFileLoader(source.stem, str(source)).get_code(source.stem)
                compiled += 1
    return compiled


def _is_kept(source: Path) -> bool:
    """Whether there is bytecode that is not older than its source. An import looks closer."""
    try:
        kept = Path(cache_from_source(str(source))).stat()
        return kept.st_mtime_ns >= source.stat().st_mtime_ns
    except (OSError, NotImplementedError):
        return False
