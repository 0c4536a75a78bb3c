"""Hooks that other plugins implement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_sremut.oracles.benchmark.layout import Layout

__all__ = ["pytest_sremut_oracles"]


@pytest.hookspec()
def pytest_sremut_oracles(config: pytest.Config) -> Layout | Sequence[Layout]:  # type: ignore[empty-body]
    """Bring an adapter to another benchmark, or several.

    A layout's `name` is what a study then says in `benchmark: {name: ...}`, `use: NAME:CLASS` and
    `fault: NAME:FAULT`. One named like an adapter of ours replaces it.
    """
