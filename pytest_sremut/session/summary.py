"""The end of a live session: its evidence is read once, and everything is made of that reading.

`conclude` goes the whole way: attempts and problems, judged studies, reports, the comparison with
a baseline, scores below a threshold. One value holds all of it, and the terminal prints that value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_sremut.errors import SremutError
from pytest_sremut.session.judging import read_directory, study_inputs
from pytest_sremut.session.reports import compared, export
from pytest_sremut.terminal import write_summary

if TYPE_CHECKING:
    import pytest

    from pytest_sremut.ledger.baseline.comparison import Comparison
    from pytest_sremut.ledger.baseline.document import Baseline
    from pytest_sremut.ledger.judge import Judged, StudyInput
    from pytest_sremut.ledger.load import Evidence
    from pytest_sremut.ledger.model import AttemptFact
    from pytest_sremut.options.settings import Settings
    from pytest_sremut.study.model import Study

__all__ = ["Summary", "conclude", "write"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What one live session's evidence holds, and what was made of it.

    Without an evidence directory everything is empty.
    """

    evidence: Evidence | None = None  # as read; None where it cannot be
    unreadable: str = ""  # why it cannot be read
    judged: Judged | None = None  # where a report or a baseline asks for it
    reports: tuple[str, ...] = ()  # a line for each report that was written
    comparison: Comparison | None = None  # with the baseline
    complaint: str = ""  # why a report or the comparison could not be made
    below: tuple[str, ...] = ()  # a line for each score below the threshold, or missing

    @property
    def failed(self) -> bool:
        """Whether the session fails for it."""
        compares_badly = self.comparison is not None and self.comparison.failed
        return bool(self.complaint or self.below) or compares_badly

    def unsound(self, session: str) -> tuple[str, ...]:
        """What of a session's own evidence does not verify, a sentence each.

        Args:
            session: Its id. What names no session that can be read is its own, too.
        """
        if self.unreadable:
            return (f"the evidence of this session cannot be read: {self.unreadable}",)
        read = () if self.evidence is None else self.evidence.attempts
        return tuple(
            f"the evidence of this session does not verify: {one.directory}: {one.reason}"
            for one in read
            if one.damaged and one.session in {session, ""}
        )

    def attempts(self, study: Study) -> tuple[AttemptFact, ...]:
        """All attempts at a study, in the order of their ledger."""
        read = () if self.evidence is None else self.evidence.attempts
        return tuple(attempt for attempt in read if attempt.study == study.id)


def conclude(
    settings: Settings,
    directory: Path,
    *,
    studies: Sequence[Study],
    baseline: Baseline | None = None,
    reports: bool = True,
) -> Summary:
    """Read a live session's evidence and make of it what was asked for.

    Args:
        settings: Of the session.
        directory: Its evidence.
        studies: Those whose scores are held against the threshold.
        baseline: Disagreements that are known.
        reports: False: write no report and compare with no baseline.
    """
    if not directory.is_dir():
        return Summary()
    try:
        inputs = study_inputs(settings)
        evidence = read_directory(settings, directory, inputs)
    except SremutError as error:
        return _unreadable(settings, str(error), reports=reports)
    read = Summary(evidence=evidence)
    if reports and (settings.reports or baseline is not None):
        read = _reported(settings, evidence, inputs, baseline)
    return replace(read, below=tuple(_below(settings, read, studies)))


def _unreadable(settings: Settings, why: str, *, reports: bool) -> Summary:
    asked = reports and (settings.reports or settings.baseline is not None)
    no_score = f"sremut: no score, since there is no evidence: {why}"
    return Summary(
        unreadable=why,
        complaint=f"{_asked_by(settings)}: {why}" if asked else "",
        below=(no_score,) if settings.fail_under is not None else (),
    )


def _asked_by(settings: Settings) -> str:
    return "--sremut-report" if settings.reports else "--sremut-baseline"


def _reported(
    settings: Settings,
    evidence: Evidence,
    inputs: Sequence[StudyInput],
    baseline: Baseline | None,
) -> Summary:
    """Judge what was read, compare it, write the reports; the summary without thresholds."""
    from pytest_sremut.ledger.adjudicate import ledger
    from pytest_sremut.ledger.baseline.comparison import compare
    from pytest_sremut.ledger.judge import judge
    from pytest_sremut.ledger.renderings.document import ledger_bytes

    try:
        judged = judge(inputs, [evidence])
        document = ledger(judged)
        data = ledger_bytes(document)
        comparison = None if baseline is None else compare(baseline, document)
        lines = tuple(
            export(settings, kind, path, document, data, comparison=comparison)
            for kind, path in settings.reports
        )
    except SremutError as error:
        return Summary(evidence=evidence, complaint=f"{_asked_by(settings)}: {error}")
    return Summary(evidence=evidence, judged=judged, reports=lines, comparison=comparison)


def _below(settings: Settings, read: Summary, studies: Sequence[Study]) -> Iterator[str]:
    from pytest_sremut.ledger.thresholds import scores_below

    if settings.fail_under is None:
        return
    for study in studies:
        if own := read.attempts(study):
            yield from scores_below(study, own, settings.fail_under)


def write(
    reporter: pytest.TerminalReporter,
    summary: Summary,
    *,
    settings: Settings,
    directory: Path,
    studies: Sequence[Study],
    heading: Callable[[Study, Sequence[AttemptFact]], str],
) -> None:
    """Print the sections of `pytest_terminal_summary` that come from evidence.

    Args:
        reporter: pytest's.
        summary: Of the session.
        settings: Of the session.
        directory: Its evidence.
        studies: Those that are shown if there are attempts at them.
        heading: Under what a study and its attempts are shown.
    """
    if summary.unreadable:
        reporter.write_line(f"sremut: no summary: {summary.unreadable}", red=True)
        return
    if summary.evidence is None:
        return
    for study in studies:
        if own := summary.attempts(study):
            write_summary(
                reporter,
                study=study,
                attempts=own,
                registration=heading(study, own),
                evidence=str(directory),
                not_read=summary.evidence.problems,
            )
    for line in summary.reports:
        reporter.write_line(line)
    if summary.comparison is not None:
        for line, is_bad in compared(settings, summary.comparison):
            reporter.write_line(line, red=is_bad)
    for line in summary.below:
        reporter.write_line(line, red=True)
