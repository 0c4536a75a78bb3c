"""Hooks that other plugins implement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_sremut.census.layout import Layout as CensusLayout
    from pytest_sremut.engine.faults.port import FaultFactory
    from pytest_sremut.oracles.benchmark.layout import Layout

__all__ = ["pytest_sremut_census", "pytest_sremut_faults", "pytest_sremut_oracles"]


@pytest.hookspec()
def pytest_sremut_oracles(config: pytest.Config) -> Layout | Sequence[Layout]:  # type: ignore[empty-body]
    """Bring an adapter to another benchmark, or several.

    A layout's `name` is what a study then says in `benchmark: {name: ...}`, `use: NAME:CLASS` and
    `fault: NAME:FAULT`. One named like an adapter of ours replaces it.
    """


@pytest.hookspec()
def pytest_sremut_census(config: pytest.Config) -> CensusLayout | Sequence[CensusLayout]:  # type: ignore[empty-body]
    """Say where another benchmark keeps its registry, oracles and load generators.

    The first layout whose registry module exists in the named checkout is used; a checkout that
    has a file `.sremut-census.yaml` of its own needs no hook.
    """


@pytest.hookspec()
def pytest_sremut_faults(config: pytest.Config) -> Mapping[str, FaultFactory]:  # type: ignore[empty-body]
    """Bring faults: the name of each, and what makes it anew for an attempt.

    A study then says `fault: plugin:NAME`. See `pytest_sremut.engine.faults.port.Fault`.
    """
