"""The hooks of a process that runs cells: the only one of its session, or a worker of xdist."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_sremut.errors import SremutError
from pytest_sremut.session import cells
from pytest_sremut.session.collection import StudyFile, study_file
from pytest_sremut.session.interrupts import Interrupts
from pytest_sremut.session.lead import Lead, fail
from pytest_sremut.session.members import Member
from pytest_sremut.session.opening import open_session
from pytest_sremut.terminal import ProgressLine, status_of

if TYPE_CHECKING:
    from pytest_sremut.options.settings import Settings
    from pytest_sremut.session.opening import Opened
    from pytest_sremut.session.runs import Runs

__all__ = ["Single", "Worker"]


class _Running:
    """The runs of this process, from the session's start to its end."""

    def __init__(self, config: pytest.Config, settings: Settings) -> None:
        self._config = config
        self._settings = settings
        self._runs: Runs | None = None
        self._fixtures = cells.CellFixtures(config)

    def close(self) -> None:
        self._fixtures.close()

    def begin(self, member: Member, opened: Opened, progress: ProgressLine) -> None:
        from pytest_sremut.session.runs import Runs  # the engine: --collect-only does without it

        self._runs = Runs(settings=self._settings, member=member, opened=opened, progress=progress)
        self._config.stash[cells.SESSION] = self._runs

    @property
    def recovered(self) -> list[str]:
        """A line for each attempt of a dead process that was put back before ours."""
        return [] if self._runs is None else list(self._runs.recovered)

    def end(self) -> list[str]:
        """End the runs; idempotent. Returns what went wrong, a line each."""
        runs, self._runs = self._runs, None
        if runs is None:
            return []
        del self._config.stash[cells.SESSION]
        try:
            runs.close()
        except SremutError as error:
            return [str(error), *error.diagnostics().splitlines()]
        return []


class Single:
    """State and hooks of a session in one process: it leads, and it runs every cell.

    Args:
        config: pytest's.
        settings: What the user asked for.
    """

    def __init__(self, config: pytest.Config, settings: Settings) -> None:
        self._settings = settings
        self._lead = Lead(config, settings)
        self._running = _Running(config, settings)

    def close(self) -> None:
        """Unregister what was registered; idempotent."""
        self._running.close()

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        self._start()

    def pytest_report_header(self) -> list[str]:
        return self._lead.header()

    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> StudyFile | None:
        return study_file(file_path, parent, self._settings)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        cells.finish_run_of(item, nextitem)

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logfinish(self) -> None:
        self._lead.seal_closed()

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

    def _start(self) -> None:
        self._lead.start()
        if self._lead.opened.runs:
            self._running.begin(self._lead.member, self._lead.opened, self._lead.progress)

    def _finish(self, session: pytest.Session) -> None:
        try:
            self._lead.note_recovered(self._running.recovered)
            complaints = self._running.end()
        finally:
            self._lead.stop_interrupts()
        self._lead.finish(session, complaints)


class Worker:
    """State and hooks of a worker of xdist: it runs the cells that the controller hands it.

    Args:
        config: pytest's, with xdist's `workerinput`.
        settings: What the user asked for.
    """

    def __init__(self, config: Any, settings: Settings) -> None:
        self._config = config
        self._settings = settings
        self._member = Member.worker_of(config.workerinput)
        self._interrupts = Interrupts(once=True)
        self._running = _Running(config, settings)

    def close(self) -> None:
        """Unregister what was registered; idempotent."""
        self._running.close()

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        self._start()

    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> StudyFile | None:
        return study_file(file_path, parent, self._settings)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        cells.finish_run_of(item, nextitem)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self._finish(session)

    def _start(self) -> None:
        opened = open_session(self._config, self._settings)
        self._interrupts.install()
        self._running.begin(self._member, opened, ProgressLine(None))

    def _finish(self, session: pytest.Session) -> None:
        try:
            self._config.workeroutput["sremut_recovered"] = self._running.recovered
            complaints = self._running.end()
        finally:
            self._interrupts.restore()
        if complaints:
            fail(session)
