"""The way of a cell, as docs/architecture.md lists it."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from typing import Any

__all__ = ["HEADING", "resolve", "way_of_a_cell"]

HEADING = "## The way of a cell"
ARCHITECTURE = Path(__file__).parents[3] / "docs" / "architecture.md"


def way_of_a_cell() -> list[str]:
    """The names, `module:qualname`, in the order of the list."""
    text = ARCHITECTURE.read_text(encoding="utf-8")
    section = text.split(f"{HEADING}\n", maxsplit=1)[1].split("\n## ", maxsplit=1)[0]
    items = re.findall(r"^(\d+)\. `([\w.]+:[\w.]+)`", section, re.MULTILINE)
    assert [int(number) for number, _ in items] == list(range(1, len(items) + 1))
    assert len(items) == len(re.findall(r"^\d+\.", section, re.MULTILINE))
    return [name for _, name in items]


def resolve(name: str) -> Callable[..., Any]:
    """The function of a name. Raises ImportError and AttributeError."""
    module, qualname = name.split(":")
    found = attrgetter(qualname)(importlib.import_module(module))
    function: Callable[..., Any] = getattr(found, "_get_wrapped_function", lambda: found)()
    return function
