"""`pytest --sremut-adjudicate`: every cell judged from records, and the ledger written.

No cluster, no gate, no clock: under what a run stood was recorded when it ran. Evidence that does
not hold together fails the session even where every selected cell is well; so does a ledger that
`--sremut-check` finds to be another one.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_sremut.errors import EvidenceError
from pytest_sremut.session import cells
from pytest_sremut.session.collection import StudyFile, remember, study_file
from pytest_sremut.session.judging import judge_directories
from pytest_sremut.session.opening import named_baseline
from pytest_sremut.session.recorded import RecordedSession
from pytest_sremut.session.reports import compared, export
from pytest_sremut.terminal import status_of, write_summary

if TYPE_CHECKING:
    from pytest_sremut.ledger.baseline.document import Baseline
    from pytest_sremut.ledger.judge import Judged
    from pytest_sremut.options.settings import Settings

__all__ = ["Adjudication", "AdjudicationWorker"]


class _Records:
    """The records that a process judges, from the session's start to its end."""

    def __init__(self, config: pytest.Config, settings: Settings) -> None:
        self._config = config
        self._settings = settings
        self.judged: Judged | None = None  # None under --collect-only
        self.baseline: Baseline | None = None
        self.chosen = ""  # which directories, for the user
        self._fixtures = cells.CellFixtures(config)

    def close(self) -> None:
        self._fixtures.close()

    def begin(self) -> None:
        """Judge everything. Raises `pytest.UsageError`."""
        if self._config.option.collectonly:
            return
        self.baseline = named_baseline(self._settings)
        try:
            self.judged = judge_directories(self._settings, self._directories())
        except EvidenceError as error:
            raise pytest.UsageError(str(error)) from None
        remember(self._config, (item.study for item in self.judged.studies))
        self._config.stash[cells.SESSION] = RecordedSession(
            self.judged, self._settings.require, self.baseline
        )

    def collect(self, path: Path, parent: pytest.Collector) -> StudyFile | None:
        return study_file(path, parent, self._settings, has_records=self._has_records)

    def end(self) -> None:
        if self.judged is not None:
            del self._config.stash[cells.SESSION]

    def shown(self, path: Path) -> str:
        """A path as the user would name it."""
        root = self._settings.root
        return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)

    def _has_records(self, study: str) -> bool:
        """A study's records lie in a directory of its name."""
        return self._config.option.collectonly or any(
            (place / study).is_dir() for place in self._directories()
        )

    def _directories(self) -> tuple[Path, ...]:
        from pytest_sremut.ledger.load import is_evidence

        given = self._settings.evidence_directories
        if given:
            missing = [str(one) for one in given if not is_evidence(one)]
            if missing:
                raise EvidenceError(
                    f"--sremut-evidence: found no records in {', '.join(missing)}; allowed: "
                    "evidence directories of sessions or of imports"
                )
            self.chosen = ", ".join(map(self.shown, given))
            return given
        base = self._settings.root / ".sremut" / "evidence"
        sessions = sorted(path for path in base.glob("*") if is_evidence(path))
        if not sessions:
            raise EvidenceError(
                f"--sremut-adjudicate: found no records under {self.shown(base)}; name them with "
                "--sremut-evidence=DIR"
            )
        others = len(sessions) - 1
        self.chosen = (
            f"{self.shown(sessions[-1])}, the newest of {len(sessions)} "
            f"({others} other{'' if others == 1 else 's'} not read)"
        )
        return (sessions[-1],)


class AdjudicationWorker:
    """State and hooks of a worker of xdist: it judges the cells that the controller hands it.

    Args:
        config: pytest's.
        settings: What the user asked for.
    """

    def __init__(self, config: pytest.Config, settings: Settings) -> None:
        self._records = _Records(config, settings)

    def close(self) -> None:
        """Unregister what was registered; idempotent."""
        self._records.close()

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        self._records.begin()

    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> StudyFile | None:
        return self._records.collect(file_path, parent)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        self._records.end()


class Adjudication:
    """State and hooks of the process that the user looks at: it writes or checks the ledger.

    Args:
        config: pytest's.
        settings: What the user asked for.
    """

    def __init__(self, config: pytest.Config, settings: Settings) -> None:
        self._settings = settings
        self._records = _Records(config, settings)
        self._lines: list[tuple[str, bool]] = []  # for the summary, and whether they are bad

    def close(self) -> None:
        """Unregister what was registered; idempotent."""
        self._records.close()

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        self._records.begin()

    def pytest_report_header(self) -> list[str]:
        return self._header()

    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> StudyFile | None:
        return self._records.collect(file_path, parent)

    def pytest_report_teststatus(self, report: pytest.TestReport) -> Any:
        return status_of(report)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self._finish(session)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        self._summarise(terminalreporter)

    def _header(self) -> list[str]:
        judged = self._records.judged
        if judged is None:
            return []
        from pytest_sremut.ledger.registration import HEADLINES

        return [
            f"sremut: adjudicating {self._records.chosen}",
            f"sremut: {HEADLINES.get(judged.kind, judged.kind)}",
        ]

    def _finish(self, session: pytest.Session) -> None:
        self._records.end()
        if self._records.judged is None:
            return
        try:
            failed = self._conclude(self._records.judged)
        except EvidenceError as error:
            self._lines.append((f"sremut: {error}", True))
            failed = True
        if failed and session.exitstatus in {
            pytest.ExitCode.OK,
            pytest.ExitCode.NO_TESTS_COLLECTED,
        }:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _conclude(self, judged: Judged) -> bool:
        """Write or check the ledger, export it, judge thresholds; whether anything is wrong."""
        from pytest_sremut.ground.formats.canonical import sha256
        from pytest_sremut.ledger.adjudicate import ledger
        from pytest_sremut.ledger.baseline.comparison import compare
        from pytest_sremut.ledger.renderings.document import checked, ledger_bytes
        from pytest_sremut.ledger.renderings.markdown import render
        from pytest_sremut.ledger.renderings.store import LedgerFiles
        from pytest_sremut.ledger.thresholds import scores_below

        document = ledger(judged)
        checked("ledger", document, what="ledger")
        data, rendering = ledger_bytes(document), render(document)
        files = LedgerFiles(directory=self._settings.root / ".sremut")
        where, digest = self._records.shown(files.json), sha256(data)
        bad: list[str] = []
        if self._settings.check:
            found = files.differences(data, rendering)
            if found:
                bad.append(f"sremut: {where} is not what the records give:")
                bad += [f"  {line}" for line in found]
            else:
                self._lines.append((f"sremut: {where} is what the records give ({digest})", False))
        else:
            done = files.write(data, rendering)
            self._lines.append((f"sremut: ledger {done}: {where}, SHA-256 {digest}", False))
        baseline = self._records.baseline
        comparison = None if baseline is None else compare(baseline, document)
        self._lines += [
            (export(self._settings, kind, path, document, data, comparison=comparison), False)
            for kind, path in self._settings.reports
        ]
        if comparison is not None:
            self._lines += compared(self._settings, comparison)
        bad += [f"sremut: evidence {text}" for _, text in judged.problems]
        if self._settings.fail_under is not None:
            for item in (one for one in judged.studies if one.attempts):
                bad += scores_below(item.study, item.attempts, self._settings.fail_under)
        self._lines += [(line, True) for line in bad]
        return bool(bad) or (comparison is not None and comparison.failed)

    def _summarise(self, reporter: pytest.TerminalReporter) -> None:
        judged = self._records.judged
        if judged is None:
            return
        from pytest_sremut.ledger.registration import headline

        for item in judged.studies:
            if not item.attempts:
                continue
            write_summary(
                reporter,
                study=item.study,
                attempts=item.attempts,
                registration=f"{item.study.id}: {headline(judged.kind, item.attempts)}",
                evidence=self._records.chosen,
                not_read=[],
            )
        for line, is_bad in self._lines:
            reporter.write_line(line, red=is_bad)
