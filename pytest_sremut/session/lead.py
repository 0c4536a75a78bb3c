"""What the process does that the user looks at: xdist's controller, or the only one.

It decides where evidence goes, puts back what dead sessions left, holds the key of a sealed
session, and at the end reads the evidence for the summary. So the finished states of a worker
that crashed are in the summary too.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pytest_sremut.errors import SremutError
from pytest_sremut.session.interrupts import Interrupts
from pytest_sremut.session.members import Member
from pytest_sremut.session.opening import Opened, open_session
from pytest_sremut.session.sealing import Sealing, Unsealed
from pytest_sremut.session.subject import touched
from pytest_sremut.session.summary import Summary, conclude, write
from pytest_sremut.terminal import ProgressLine

if TYPE_CHECKING:
    from pytest_sremut.ledger.model import AttemptFact
    from pytest_sremut.options.settings import Settings
    from pytest_sremut.study.model import Study

__all__ = ["Lead", "fail"]


def fail(session: pytest.Session) -> None:
    """Fail a session that nothing else failed."""
    if session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


class Lead:
    """The leading process's part of a session.

    Args:
        config: pytest's.
        settings: What the user asked for.
    """

    def __init__(self, config: pytest.Config, settings: Settings) -> None:
        self._config = config
        self._settings = settings
        self._interrupts = Interrupts(once=False)
        self._sealing: Sealing | Unsealed = Unsealed()
        self._summary = Summary()
        self._began = time.time()
        self._complaints: list[str] = []
        self._recovered: list[str] = []  # during the session, by workers or by this process
        self._recovered_before: list[str] = []
        self.member = Member.first(settings)
        self.opened = Opened()
        self.progress = ProgressLine(None)

    # -- before anything runs ---------------------------------------------------------------

    def start(self) -> None:
        """Pass the gate and prepare the session. Raises `pytest.UsageError`: nothing is run."""
        self.progress = ProgressLine(self._config)
        self.opened = open_session(self._config, self._settings)
        if not self.opened.runs:
            return
        self._interrupts.install()
        if self.opened.admitted and self._settings.is_shared:
            self._recover()
        if self.opened.admitted and self._settings.sealed:
            self._seal()

    def _recover(self) -> None:
        """Put back what dead sessions left on the cluster, before anything else is done there."""
        from pytest_sremut.session.recovery import Place, recover_before

        place = Place.of_project(
            self._settings.root,
            session=self.member.session,
            more=self._settings.evidence_directories,
        )
        try:
            self._recovered_before = recover_before(
                self._settings, replace(place, progress=self.progress)
            )
        except SremutError as error:
            lines = [f"nothing was run: {error}", *error.diagnostics().splitlines()]
            raise pytest.UsageError("\n  ".join(lines)) from None

    def _seal(self) -> None:
        """Make the session's key, before its first attempt and before any worker starts."""
        try:
            self._sealing = Sealing.start(
                self._settings, self.member.session, self.member.evidence, self.opened.admissions
            )
        except SremutError as error:
            lines = "\n  ".join([str(error), *error.diagnostics().splitlines()])
            raise pytest.UsageError(f"--sremut-sealed: nothing was run: {lines}") from None
        self.member = replace(self.member, key=self._sealing.public)

    def header(self, *more: str) -> list[str]:
        """The lines of `pytest_report_header`.

        Args:
            more: What the role of this process adds.
        """
        sealed = "SEALED " if self._settings.sealed else ""
        lines = [
            f"sremut: {sealed}{item.header}" for _, item in sorted(self.opened.admissions.items())
        ]
        lines += [
            f"sremut: {item.fails_if}"
            for _, item in sorted(self.opened.admissions.items())
            if item.fails_if
        ]
        lines += [f"sremut: {line}" for line in self._sealing.lines()]
        lines.append(f"sremut: cluster: {self._settings.cluster}, evidence: {self.member.evidence}")
        lines += [f"sremut: {line}" for line in more]
        lines += [f"sremut: recovered {line}" for line in self._recovered_before]
        if self._settings.cluster == "kind":
            lines += _left_behind()
        return lines

    # -- while it runs ----------------------------------------------------------------------

    def seal_closed(self) -> None:
        """Seal the attempts that have ended since."""
        self._sealing.seal_closed()

    def note_recovered(self, lines: Sequence[str]) -> None:
        """Attempts of dead processes that were put back during the session."""
        self._recovered += lines

    # -- after ------------------------------------------------------------------------------

    def stop_interrupts(self) -> None:
        """Put the signal handlers of before back."""
        self._interrupts.restore()

    def finish(self, session: pytest.Session, complaints: Sequence[str] = ()) -> None:
        """Seal the session, look at the benchmark, read the evidence; fail what is not well.

        Args:
            session: pytest's; its exit status may change.
            complaints: Of this process's own runs, a line each.
        """
        self._complaints += complaints
        self._complaints += self._sealing.close()  # first: reports are to see what is sealed
        runs = not self._config.option.collectonly
        if runs:
            # The checkout is not ours: whoever changed it during the session, it fails.
            found = touched(list(self.opened.admitted), self._settings, self._began)
            self._complaints += [
                f"after the session the benchmark is not clean: {x}" for x in found
            ]
        self._summary = conclude(
            self._settings,
            self.member.evidence,
            studies=self.opened.covered,
            baseline=self.opened.baseline,
            reports=runs,
        )
        if self._summary.complaint:
            self._complaints.append(self._summary.complaint)
        if runs:
            self._complaints += self._summary.unsound(self.member.session)
        if self._complaints or self._summary.failed:
            fail(session)

    def summarise(self, reporter: pytest.TerminalReporter) -> None:
        """Print the session's sections of `pytest_terminal_summary`."""
        for line in self._recovered:
            reporter.write_line(f"sremut: recovered {line}", yellow=True)
        for line in self._complaints:
            reporter.write_line(f"sremut: {line}", red=True)
        if self._settings.keeps_clusters:
            for line in _kept(self._settings.cluster, self.member.session):
                reporter.write_line(line)
        if not_run := self.opened.not_run:
            studies = "study" if len(not_run) == 1 else "studies"
            reporter.write_line(f"sremut: {len(not_run)} {studies} not run")
            for line in not_run:
                reporter.write_line(f"  {line}", yellow=True)
        write(
            reporter,
            self._summary,
            settings=self._settings,
            directory=self.member.evidence,
            studies=self.opened.covered,
            heading=self._heading,
        )

    def _heading(self, study: Study, attempts: Sequence[AttemptFact]) -> str:
        """Of a study of this session; of one that is only in the evidence nothing more is known."""
        from pytest_sremut.ledger.seals import study_label

        admission = self.opened.admissions.get(study.id)
        if admission is None:
            return f"{study.id}: not of this session"
        label = study_label(tuple(attempts))
        return f"{label} {admission.header}" if label else admission.header


def _left_behind() -> list[str]:
    from pytest_sremut.cluster.kind.orphans import left_behind

    names = left_behind(os.environ)
    if not names:
        return []
    return [
        f"sremut: left behind by ended sessions: {', '.join(names)}; "
        "`sremut cluster down --orphans` takes them away"
    ]


def _kept(cluster: str, session: str) -> list[str]:
    """How to reach the clusters that outlive the session, and how to end them."""
    if cluster == "kind":
        from pytest_sremut.cluster.kind.records import kept_clusters
    else:
        from pytest_sremut.cluster.embedded import kept_clusters
    return [
        line
        for name, directory in kept_clusters(session).items()
        for line in (
            f"sremut: cluster {name} was kept:",
            f"  export KUBECONFIG={directory / 'kubeconfig'}",
            f"  sremut cluster down --name {name}",
        )
    ]
