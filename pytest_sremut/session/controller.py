"""The hooks of xdist's controller: it runs no cell. It leads the session; workers do the runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_sremut.distribution import XdistHooks
from pytest_sremut.session.collection import cell_of
from pytest_sremut.session.lead import Lead
from pytest_sremut.terminal import status_of

if TYPE_CHECKING:
    from pytest_sremut.options.settings import Settings

__all__ = ["Controller"]

_XDIST = "sremut-xdist"


class Controller:
    """State and hooks of a controller.

    Args:
        config: pytest's.
        settings: What the user asked for.
    """

    def __init__(self, config: pytest.Config, settings: Settings) -> None:
        self._plugins = config.pluginmanager
        self._settings = settings
        self._lead = Lead(config, settings)
        self._under_way: dict[str, str] = {}  # run -> state, as the workers report it
        hooks = XdistHooks(
            for_workers=self._for_workers,
            recovered=self._lead.note_recovered,
            one_cluster=settings.is_shared,
        )
        self._plugins.register(hooks, _XDIST)

    def close(self) -> None:
        """Unregister what was registered; idempotent."""
        if self._plugins.has_plugin(_XDIST):
            self._plugins.unregister(name=_XDIST)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        self._lead.start()

    def pytest_report_header(self) -> list[str]:
        return self._header()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._begun(nodeid)

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._ended(nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self) -> None:
        self._lead.progress("")  # what pytest prints next must not follow our line

    def pytest_report_teststatus(self, report: pytest.TestReport) -> Any:
        return status_of(report)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self._finish(session)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        self._lead.summarise(terminalreporter)

    def _for_workers(self) -> dict[str, str]:
        return self._lead.member.for_workers()  # with the key of a sealed session, made meanwhile

    def _header(self) -> list[str]:
        if self._settings.is_shared:
            return self._lead.header("one cluster: one worker does all runs, one after the other")
        return self._lead.header()

    def _begun(self, nodeid: str) -> None:
        if cell := cell_of(nodeid):
            run, state = cell
            self._under_way[run] = state
            self._show_under_way()

    def _ended(self, nodeid: str) -> None:
        if cell := cell_of(nodeid):
            self._under_way.pop(cell[0], None)
            self._show_under_way()
        self._lead.seal_closed()

    def _show_under_way(self) -> None:
        runs = (f"{run}: {state}" for run, state in sorted(self._under_way.items()))
        self._lead.progress(" | ".join(runs))

    def _finish(self, session: pytest.Session) -> None:
        self._lead.stop_interrupts()
        self._lead.finish(session)
