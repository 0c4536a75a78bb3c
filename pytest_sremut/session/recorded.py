"""`pytest --sremut-adjudicate`: every cell judged from records, and the ledger written.

No cluster, no gate, no clock: what a run stood under was recorded when it ran. A cell passes or
fails as it would have live; one whose run has no valid attempt is an error with that reason.
Evidence that does not hold together, and a ledger that `--sremut-check` finds to be another one,
fail the session even where every selected cell is well.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_sremut.errors import EvidenceError, InputError, SremutError
from pytest_sremut.session import cells as execution
from pytest_sremut.session.cellreport import CellReport, Observed
from pytest_sremut.session.collection import StudyFile, is_study, remember
from pytest_sremut.session.summary import baseline_of, compared, export, judge_directories
from pytest_sremut.study.verdict import ContractVerdict
from pytest_sremut.terminal import status_of, write_summary

if TYPE_CHECKING:
    from pytest_sremut.ledger.baseline.document import Baseline, Known
    from pytest_sremut.ledger.judge import Judged, JudgedStudy
    from pytest_sremut.ledger.model import AttemptFact, StateFact
    from pytest_sremut.options import Settings
    from pytest_sremut.study.model import Cell, Study

__all__ = ["Adjudication", "CellNotJudgedError", "RecordedSession"]


class CellNotJudgedError(SremutError):
    """There is no valid attempt, or nothing was read, from which the cell could be judged."""


class RecordedSession:
    """Stands where a live session stands: reports cells, from records."""

    def __init__(self, judged: Judged, requirement: str, baseline: Baseline | None = None) -> None:
        self._studies = {item.study.id: item for item in judged.studies}
        self._requirement = requirement
        self._baseline = baseline

    def report(self, study: Study, cell: Cell) -> CellReport:
        """Judge a cell from every valid attempt at its run; the first that fails is told.

        Raises:
            CellNotJudgedError: There is none, or it holds no such reading.
        """
        judged = self._studies[study.id]
        why = judged.why_not(cell.run.id)
        if why:
            raise CellNotJudgedError(why)
        reports = [
            self._report(judged, cell, attempt)
            for attempt in judged.at(cell.run.id)
            if attempt.valid
        ]
        telling = (CellReport.problems, CellReport.known_problems)
        return next((one for told in telling for one in reports if told(one)), reports[-1])

    def finish_run(self) -> None:
        """Nothing was begun."""

    def _report(self, judged: JudgedStudy, cell: Cell, attempt: AttemptFact) -> CellReport:
        fact = attempt.states.get(cell.state)
        observed = () if fact is None else tuple(_observed(cell, fact))
        if fact is None or not observed:
            raise CellNotJudgedError(
                f"{attempt.run} attempt {attempt.attempt} holds no reading of {cell.oracle} in "
                f"the {cell.state.value} state"
            )
        contract = fact.contract
        return CellReport(
            study=judged.study,
            cell=cell,
            attempt=attempt.attempt,
            registration=attempt.registration,
            evidence=attempt.directory,
            requirement=self._requirement,
            observed=observed,
            contract=_contract_verdict(fact, self._requirement, cell),
            violated=frozenset() if contract is None else contract.violated,
            known=self._known(judged),
        )

    def _known(self, judged: JudgedStudy) -> frozenset[Known]:
        if self._baseline is None:
            return frozenset()
        return self._baseline.known(judged.study, judged.digests)


def _observed(cell: Cell, fact: StateFact) -> Iterator[Observed]:
    if cell.is_contract:
        if fact.contract is not None:
            yield Observed(
                instrument="contract",
                verdict=fact.contract.verdict.value,
                detail=", ".join(sorted(fact.contract.violated)),
            )
        return
    for reading in fact.readings:
        if reading.oracle == cell.oracle:
            yield Observed(
                instrument=reading.instrument,
                verdict=reading.verdict.value,
                detail=reading.exception or "",
            )


def _contract_verdict(fact: StateFact, requirement: str, cell: Cell) -> ContractVerdict:
    """Of the same state. Without one, agreement with the contract cannot be required."""
    if fact.contract is not None:
        return fact.contract.verdict
    if requirement == "soundness":
        raise CellNotJudgedError(
            f"{cell.run.id}: the contract was not read in the {cell.state.value} state, so "
            "soundness cannot be judged"
        )
    return ContractVerdict.REJECT  # shown nowhere: predictions alone are required


class Adjudication:
    """State and hooks of a session that judges records.

    Args:
        config: pytest's.
        settings: What the user asked for.
    """

    def __init__(self, config: pytest.Config, settings: Settings) -> None:
        self._config = config
        self._settings = settings
        self._is_main = not hasattr(config, "workerinput")
        self._judged: Judged | None = None
        self._baseline: Baseline | None = None
        self._told: list[tuple[str, bool]] = []  # lines for the summary, and whether they are bad
        self._chosen = ""
        config.pluginmanager.register(execution, "sremut-execution")

    def close(self) -> None:
        """Unregister what was registered; idempotent."""
        if self._config.pluginmanager.has_plugin("sremut-execution"):
            self._config.pluginmanager.unregister(name="sremut-execution")

    # -- before -----------------------------------------------------------------------------

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        if self._config.option.collectonly:
            return
        try:
            self._baseline = baseline_of(self._settings)
        except InputError as error:
            raise pytest.UsageError(f"--sremut-baseline: {error}") from None
        try:
            self._judged = judge_directories(self._settings, self._directories())
        except EvidenceError as error:
            raise pytest.UsageError(str(error)) from None
        remember(self._config, (item.study for item in self._judged.studies))
        self._config.stash[execution.SESSION] = RecordedSession(
            self._judged, self._settings.require, self._baseline
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
            self._chosen = ", ".join(map(self._shown, given))
            return given
        base = self._settings.root / ".sremut" / "evidence"
        sessions = sorted(path for path in base.glob("*") if is_evidence(path))
        if not sessions:
            raise EvidenceError(
                f"--sremut-adjudicate: found no records under {self._shown(base)}; name them with "
                "--sremut-evidence=DIR"
            )
        others = len(sessions) - 1
        self._chosen = (
            f"{self._shown(sessions[-1])}, the newest of {len(sessions)} "
            f"({others} other{'' if others == 1 else 's'} not read)"
        )
        return (sessions[-1],)

    def _shown(self, path: Path) -> str:
        root = self._settings.root
        return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)

    def pytest_report_header(self) -> list[str]:
        if self._judged is None:
            return []
        from pytest_sremut.ledger.registration import HEADLINES

        return [
            f"sremut: adjudicating {self._chosen}",
            f"sremut: {HEADLINES.get(self._judged.kind, self._judged.kind)}",
        ]

    # -- items ------------------------------------------------------------------------------

    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> StudyFile | None:
        if not is_study(file_path, self._settings):
            return None
        collected: StudyFile = StudyFile.from_parent(parent, path=file_path)
        # A study's records lie in a directory of its name, and its id is its own directory's name.
        study = file_path.parent.name
        collected.recorded = self._config.option.collectonly or any(
            (place / study).is_dir() for place in self._directories()
        )
        return collected

    def pytest_report_teststatus(self, report: pytest.TestReport) -> Any:
        return status_of(report)

    # -- after ------------------------------------------------------------------------------

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._judged is None:
            return
        del self._config.stash[execution.SESSION]
        if not self._is_main:
            return
        try:
            failed = self._conclude(self._judged)
        except EvidenceError as error:
            self._told.append((f"sremut: {error}", True))
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
        where, digest = self._shown(files.json), sha256(data)
        bad: list[str] = []
        if self._settings.check:
            found = files.differences(data, rendering)
            if found:
                bad.append(f"sremut: {where} is not what the records give:")
                bad += [f"  {line}" for line in found]
            else:
                self._told.append((f"sremut: {where} is what the records give ({digest})", False))
        else:
            done = files.write(data, rendering)
            self._told.append((f"sremut: ledger {done}: {where}, SHA-256 {digest}", False))
        comparison = None if self._baseline is None else compare(self._baseline, document)
        self._told += [
            (export(self._settings, kind, path, document, data, comparison=comparison), False)
            for kind, path in self._settings.reports
        ]
        if comparison is not None:
            self._told += compared(self._settings, comparison)
        bad += [f"sremut: evidence {text}" for _, text in judged.problems]
        if self._settings.fail_under is not None:
            for item in (one for one in judged.studies if one.attempts):
                bad += scores_below(item.study, item.attempts, self._settings.fail_under)
        self._told += [(line, True) for line in bad]
        return bool(bad) or (comparison is not None and comparison.failed)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._judged is None or not self._is_main:
            return
        from pytest_sremut.ledger.registration import headline

        for item in self._judged.studies:
            if not item.attempts:
                continue
            write_summary(
                terminalreporter,
                study=item.study,
                attempts=item.attempts,
                registration=f"{item.study.id}: {headline(self._judged.kind, item.attempts)}",
                evidence=self._chosen,
                not_read=[],
            )
        for line, is_bad in self._told:
            terminalreporter.write_line(line, red=is_bad)
