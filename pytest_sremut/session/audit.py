"""One pytest session that runs mutants: the hooks behind the plugin, registered only when asked.

Roles: a *single* process or a *worker* collects and runs cells; a *controller* of xdist runs
nothing, decides where evidence goes, checks the gate before any worker starts, and reads the
evidence for the summary, so that a crashed worker's finished states are in it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_sremut.errors import InputError, SremutError
from pytest_sremut.evidence.identity import new_session_id
from pytest_sremut.ground.durable.clock import SystemClock
from pytest_sremut.options import Settings
from pytest_sremut.session import cells as execution
from pytest_sremut.session import subject as benchmark
from pytest_sremut.session.collection import (
    StudyFile,
    cell_of,
    is_study,
    selects,
    study_files,
    study_of,
)
from pytest_sremut.session.gate import Admission, admit
from pytest_sremut.session.interrupts import Interrupts
from pytest_sremut.session.sealing import Sealing
from pytest_sremut.session.summary import (
    Concluded,
    baseline_of,
    compared,
    conclude_session,
    seal_source,
)
from pytest_sremut.terminal import ProgressLine, status_of, write_summary

if TYPE_CHECKING:
    from pytest_sremut.ledger.baseline.document import Baseline
    from pytest_sremut.ledger.model import AttemptFact
    from pytest_sremut.session.runner import AuditSession
    from pytest_sremut.study.model import Study

__all__ = ["Audit"]


class Audit:
    """State and hooks of a session that runs mutants.

    Args:
        config: pytest's, whose options and `workerinput` say which role this process has.
        settings: What the user asked for.
    """

    def __init__(self, config: pytest.Config, settings: Settings) -> None:
        self._config = config
        self._settings = settings
        self._admissions: dict[str, Admission] = {}
        told = getattr(config, "workerinput", {}).get("sremut")
        self._worker = str(getattr(config, "workerinput", {}).get("workerid", "main"))
        self._session_id = str(told["session"]) if told else new_session_id(SystemClock())
        self.evidence = Path(told["evidence"]) if told else self._evidence_directory()
        self._is_controller = told is None and _distributes(config)
        self._interrupts = Interrupts(once=told is not None)
        self._session: AuditSession | None = None
        self._complaints: list[str] = []
        self._baseline: Baseline | None = None
        self._concluded: Concluded = Concluded()
        self._began = time.time()
        self._not_run: list[str] = []  # studies that cannot be, each with what to pass
        self._admitted: list[Study] = []
        self._progress = ProgressLine(None)
        self._under_way: dict[str, str] = {}  # run -> state, as a controller sees it
        self._recovered: list[str] = []  # by workers, whose predecessors died
        self._recovered_before: list[str] = []
        self._sealing: Sealing | None = None
        self._key = str(told["key"]) if told else ""
        self._for_workers = {
            "session": self._session_id,
            "evidence": str(self.evidence),
            "key": "",
        }
        if self._is_controller:
            from pytest_sremut.distribution import XdistHooks

            hooks = XdistHooks(self._for_workers, one_cluster=settings.is_shared)
            self._recovered = hooks.recovered
            config.pluginmanager.register(hooks, "sremut-xdist")
        config.pluginmanager.register(execution, "sremut-execution")

    def _evidence_directory(self) -> Path:
        if self._settings.evidence is not None:
            return self._settings.evidence
        return self._settings.root / ".sremut" / "evidence" / self._session_id

    def close(self) -> None:
        """Unregister what was registered; idempotent."""
        for name in ("sremut-execution", "sremut-xdist"):
            if self._config.pluginmanager.has_plugin(name):
                self._config.pluginmanager.unregister(name=name)

    # -- before anything runs ---------------------------------------------------------------

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        if self._worker == "main":
            self._progress = ProgressLine(self._config)
        for study in self._studies():
            if not selects(self._config.option.keyword, study):
                continue
            if why_not := benchmark.why_not_run(study, self._settings):
                self._not_run.append(why_not)
                continue
            self._admissions[study.id] = admit(study, self._settings)
            self._admitted.append(study)
        refused = [line for item in self._admissions.values() for line in item.refusals]
        if refused and not self._config.option.collectonly:
            raise pytest.UsageError("\n  ".join(["nothing was run:", *refused]))
        if self._settings.evidence is not None and not self._config.option.collectonly:
            self._check_evidence(self._settings.evidence)
        if self._config.option.collectonly:
            return
        try:
            self._baseline = baseline_of(self._settings)
        except InputError as error:
            raise pytest.UsageError(f"--sremut-baseline: {error}") from None
        self._interrupts.install()
        if self._settings.is_shared and self._is_reader and self._admissions:
            self._recover()
        if self._settings.sealed and self._is_reader and self._admissions:
            self._open_sealed()
        if not self._is_controller:
            self._start()

    def _recover(self) -> None:
        """Put back what dead sessions left on the cluster, before anything else is done there."""
        from pytest_sremut.session.recovery import Place, recover_before

        place = Place.of_project(
            self._settings.root, session=self._session_id, more=self._settings.evidence_directories
        )
        try:
            self._recovered_before = recover_before(
                self._settings, replace(place, progress=self._progress)
            )
        except SremutError as error:
            told = "\n  ".join([f"nothing was run: {error}", *error.diagnostics().splitlines()])
            raise pytest.UsageError(told) from None

    def _open_sealed(self) -> None:
        """The session's key, before its first attempt and before any worker starts."""
        try:
            self._sealing = Sealing.start(
                self._settings, self._session_id, self.evidence, self._admissions
            )
        except SremutError as error:
            told = "\n  ".join([str(error), *error.diagnostics().splitlines()])
            raise pytest.UsageError(f"--sremut-sealed: nothing was run: {told}") from None
        self._key = self._for_workers["key"] = self._sealing.public

    def _check_evidence(self, directory: Path) -> None:
        """A directory that was asked for is tried before anything is started."""
        from pytest_sremut.evidence.root import EvidenceRoot

        try:
            EvidenceRoot.open(directory)
        except SremutError as error:
            raise pytest.UsageError(f"--sremut-evidence: {error}") from None

    def _studies(self) -> Iterable[Study]:
        """The studies that the arguments cover. One that cannot be loaded is left to collection,
        which reports it with its file and place."""
        directory = self._config.invocation_params.dir
        for file in study_files(self._settings, self._config.args, directory):
            try:
                yield study_of(self._config, file)
            except InputError:
                continue

    def _start(self) -> None:
        from pytest_sremut.session.runner import (
            AuditSession,  # the engine: a controller does without
        )

        self._session = AuditSession(
            settings=self._settings,
            session_id=self._session_id,
            worker=self._worker,
            evidence=self.evidence,
            admissions=self._admissions,
            progress=self._progress,
            key=self._key,
            baseline=self._baseline,
        )
        self._config.stash[execution.SESSION] = self._session

    def pytest_report_header(self) -> list[str]:
        lines = [
            f"sremut: {'SEALED ' if self._settings.sealed else ''}{item.header}"
            for _, item in sorted(self._admissions.items())
        ]
        if self._sealing is not None:
            lines += [f"sremut: {line}" for line in self._sealing.lines()]
        lines.append(f"sremut: cluster: {self._settings.cluster}, evidence: {self.evidence}")
        if self._settings.is_shared and self._is_controller:
            lines.append("sremut: one cluster: one worker does all runs, one after the other")
        lines += [f"sremut: recovered {line}" for line in self._recovered_before]
        if self._settings.cluster == "kind" and self._is_reader:
            from pytest_sremut.cluster.kind.orphans import left_behind

            if names := left_behind(os.environ):
                lines.append(
                    f"sremut: left behind by ended sessions: {', '.join(names)}; "
                    "`sremut cluster down --orphans` takes them away"
                )
        return lines

    # -- collection and running -------------------------------------------------------------

    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> StudyFile | None:
        if not is_study(file_path, self._settings):
            return None
        return StudyFile.from_parent(parent, path=file_path)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        execution.finish_run_of(item, nextitem)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """On a controller: which runs the workers are at. Elsewhere the runs tell themselves."""
        cell = cell_of(nodeid) if self._is_controller else None
        if cell is not None:
            self._under_way[cell[0]] = cell[1]
            self._show_under_way()

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        cell = cell_of(nodeid) if self._is_controller else None
        if cell is not None:
            self._under_way.pop(cell[0], None)
            self._show_under_way()
        if self._sealing is not None:
            self._sealing.seal_closed()

    def _show_under_way(self) -> None:
        told = (f"{run}: {state}" for run, state in sorted(self._under_way.items()))
        self._progress(" | ".join(told))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self) -> None:
        """What pytest prints next must not stand behind our line."""
        self._progress("")

    def pytest_report_teststatus(self, report: pytest.TestReport) -> Any:
        return status_of(report)

    # -- after ------------------------------------------------------------------------------

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        own, self._session = self._session, None
        try:
            if own is not None:
                if hasattr(self._config, "workeroutput"):
                    self._config.workeroutput["sremut_recovered"] = list(own.recovered)
                else:
                    self._recovered += own.recovered
                del self._config.stash[execution.SESSION]
                own.close()
        except SremutError as error:
            self._complaints += [str(error), *error.diagnostics().splitlines()]
            if session.exitstatus == pytest.ExitCode.OK:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED
        finally:
            self._interrupts.restore()
        if self._sealing is not None:
            self._close_sealed(self._sealing, session)
        if self._is_reader and not self._config.option.collectonly:
            self._check_benchmark(session)
        if self._is_reader and self.evidence.is_dir() and not self._config.option.collectonly:
            self._conclude(session)
        if self._is_reader and self._settings.fail_under is not None:
            below = self._scores_below(self._settings.fail_under)
            if below and session.exitstatus == pytest.ExitCode.OK:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _conclude(self, session: pytest.Session) -> None:
        """The reports that were asked for, and the baseline; what cannot be told fails."""
        try:
            self._concluded = conclude_session(self._settings, self.evidence, self._baseline)
            comparison = self._concluded.comparison
            failed = comparison is not None and comparison.failed
        except SremutError as error:
            what = "--sremut-report" if self._settings.reports else "--sremut-baseline"
            self._complaints.append(f"{what}: {error}")
            failed = True
        if failed and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _close_sealed(self, sealing: Sealing, session: pytest.Session) -> None:
        """Before anything is read for reports: they are to see what is sealed."""
        found = sealing.close()
        self._complaints += found
        if found and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _check_benchmark(self, session: pytest.Session) -> None:
        """The checkout is not ours: whoever changed it during the session, it fails."""
        found = benchmark.touched(self._admitted, self._settings, self._began)
        self._complaints += [f"after the session the benchmark is not clean: {x}" for x in found]
        if found and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for line in self._recovered if self._is_reader else ():
            terminalreporter.write_line(f"sremut: recovered {line}", yellow=True)
        for line in self._complaints:
            terminalreporter.write_line(f"sremut: {line}", red=True)
        self._tell_kept(terminalreporter)
        if self._is_reader and self._not_run:
            count = len(self._not_run)
            terminalreporter.write_line(
                f"sremut: {count} stud{'y' if count == 1 else 'ies'} not run"
            )
            for line in self._not_run:
                terminalreporter.write_line(f"  {line}", yellow=True)
        if not self._is_reader or not self.evidence.is_dir():
            return
        from pytest_sremut.ledger.load import read_attempts

        try:
            attempts, problems = read_attempts(self.evidence, seals=seal_source(self._settings))
        except SremutError as error:
            terminalreporter.write_line(f"sremut: no summary: {error}", red=True)
            return
        for study in self._studies():
            own = [attempt for attempt in attempts if attempt.study == study.id]
            if not own:
                continue
            write_summary(
                terminalreporter,
                study=study,
                attempts=own,
                registration=self._header_of(study, own),
                evidence=str(self.evidence),
                not_read=problems,
            )
        for line in self._concluded.reports:
            terminalreporter.write_line(line)
        if self._concluded.comparison is not None:
            for line, is_bad in compared(self._settings, self._concluded.comparison):
                terminalreporter.write_line(line, red=is_bad)
        if self._settings.fail_under is not None:
            for line in self._scores_below(self._settings.fail_under):
                terminalreporter.write_line(line, red=True)

    def _tell_kept(self, terminalreporter: pytest.TerminalReporter) -> None:
        """How to reach the clusters that outlive the session, and how to end them."""
        if not (self._is_reader and self._settings.keeps_clusters):
            return
        if self._settings.cluster == "kind":
            from pytest_sremut.cluster.kind.records import kept_clusters
        else:
            from pytest_sremut.cluster.embedded import kept_clusters

        for name, directory in kept_clusters(self._session_id).items():
            terminalreporter.write_line(f"sremut: cluster {name} was kept:")
            terminalreporter.write_line(f"  export KUBECONFIG={directory / 'kubeconfig'}")
            terminalreporter.write_line(f"  sremut cluster down --name {name}")

    def _header_of(self, study: Study, attempts: Sequence[AttemptFact]) -> str:
        """Of a study of this session; one that only stands in the evidence says no more."""
        from pytest_sremut.ledger.seals import study_label

        admission = self._admissions.get(study.id)
        if admission is None:
            return f"{study.id}: not of this session"
        told = study_label(tuple(attempts))
        return f"{told} {admission.header}" if told else admission.header

    @property
    def _is_reader(self) -> bool:
        return self._worker == "main"

    def _scores_below(self, threshold: float) -> list[str]:
        """One line per oracle whose mutation score is below the threshold, or that has none."""
        from pytest_sremut.ledger.load import read_attempts
        from pytest_sremut.ledger.thresholds import scores_below

        if not self.evidence.is_dir():
            return []
        try:
            attempts, _ = read_attempts(self.evidence, seals=seal_source(self._settings))
        except SremutError as error:
            return [f"sremut: no score, since there is no evidence: {error}"]
        lines: list[str] = []
        for study in self._studies():
            own = [attempt for attempt in attempts if attempt.study == study.id]
            if own:
                lines += scores_below(study, own, threshold)
        return lines


def _distributes(config: pytest.Config) -> bool:
    """Whether this process is a controller of xdist that will start workers."""
    return (
        config.getoption("dist", "no") != "no"
        and bool(config.getoption("tx", None))
        and not config.option.collectonly
    )
