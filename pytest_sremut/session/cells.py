"""The fixtures of a cell, and the end of a run.

A run that stopped makes each of its remaining cells *error* with the attempt's outcome: it never
skips silently and never passes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import pytest

from pytest_sremut.errors import SremutError
from pytest_sremut.session.cellreport import CellReport

if TYPE_CHECKING:
    from pytest_sremut.study.model import Cell, Study

__all__ = ["SESSION", "CellFixtures", "CellSession", "finish_run_of"]


class CellSession(Protocol):
    """What judges cells: live on a cluster, or from records."""

    def report(self, study: Study, cell: Cell) -> CellReport:
        """Judge a cell. Raises SremutError where it cannot be judged."""
        ...

    def finish_run(self) -> None:
        """After the last selected cell of a run. Raises SremutError when it ends badly."""
        ...


SESSION: pytest.StashKey[CellSession] = pytest.StashKey()

_PLUGIN = "sremut-cells"


class CellFixtures:
    """The fixtures of a cell, as a plugin that is registered while a session judges cells."""

    def __init__(self, config: pytest.Config) -> None:
        self._plugins = config.pluginmanager
        self._plugins.register(self, _PLUGIN)

    def close(self) -> None:
        """Unregister; idempotent."""
        if self._plugins.has_plugin(_PLUGIN):
            self._plugins.unregister(name=_PLUGIN)

    @pytest.fixture
    def sremut_report(self, request: pytest.FixtureRequest, sremut_cell: Cell) -> CellReport:
        """The report of this cell; taking it advances the run as far as the cell's state."""
        return _report_of(request, sremut_cell)


def _report_of(request: pytest.FixtureRequest, cell: Cell) -> CellReport:
    session = request.config.stash[SESSION]
    study = request.node.parent.study
    try:
        report = session.report(study, cell)
    except SremutError as error:
        more = error.diagnostics()
        raise pytest.fail.Exception(
            "\n".join(filter(None, [str(error), more])), pytrace=False
        ) from None
    request.node.user_properties.extend(report.properties())
    return report


def finish_run_of(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """After the last selected cell of a run: restore, finish, and say if that failed."""
    callspec = getattr(item, "callspec", None)
    if callspec is None or "sremut_cell" not in callspec.params:
        return
    following = getattr(nextitem, "callspec", None)
    if following is not None and "sremut_cell" in following.params:
        here, there = callspec.params["sremut_cell"].run, following.params["sremut_cell"].run
        if here == there:
            return
    session = item.config.stash[SESSION]
    try:
        session.finish_run()
    except SremutError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None
