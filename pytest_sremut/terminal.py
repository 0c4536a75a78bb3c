"""Progress and summary on the terminal. Lines come from the ledger room; this only prints them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

from pytest_sremut.ledger.text import summary_lines

if TYPE_CHECKING:
    from pytest_sremut.ledger.model import AttemptFact
    from pytest_sremut.study.model import Study

__all__ = ["ProgressLine", "status_of", "write_summary"]

_LETTERS = {
    "KILLED": "K",
    "SURVIVED": "S",
    "ACCEPTED": ".",
    "REJECTED": "r",
    "ERROR": "E",
}


def status_of(report: pytest.TestReport) -> tuple[str, str, tuple[str, dict[str, bool]]] | None:
    """Letter and word of a cell that ended as required; None leaves it to pytest."""
    if report.when != "call" or not report.passed:
        return None
    fate = dict(report.user_properties).get("sremut.fate")
    if not isinstance(fate, str) or fate not in _LETTERS:
        return None
    markup = {"yellow": True} if fate == "SURVIVED" else {"green": True}
    return "passed", _LETTERS[fate], (fate, markup)


def write_summary(
    reporter: pytest.TerminalReporter,
    *,
    study: Study,
    attempts: Sequence[AttemptFact],
    registration: str,
    evidence: str,
    not_read: Sequence[str],
) -> None:
    """One study's section of `pytest_terminal_summary`."""
    reporter.section(f"sremut: {registration}", sep="=", bold=True)
    for line in summary_lines(study, attempts):
        reporter.write_line(line)
    for problem in not_read:
        reporter.write_line(f"evidence that could not be read: {problem}", red=True)
    reporter.write_line(f"evidence: {evidence}")


class ProgressLine:
    """Run and phase during long waits, on a terminal only, erased before pytest prints again."""

    def __init__(self, reporter: pytest.TerminalReporter | None) -> None:
        self._reporter = reporter
        self._shown = ""

    def __call__(self, text: str) -> None:
        """Show `text`; an empty text erases what is shown."""
        reporter = self._reporter
        if reporter is None or not reporter.hasmarkup or reporter.no_header:
            return
        column = reporter._tw.width_of_current_line
        back = "\b" * len(self._shown)
        blank = " " * len(self._shown) + back
        room = max(0, reporter._tw.fullwidth - column - 2)
        self._shown = text[:room]
        reporter._tw._file.write(back + blank + self._shown)
        reporter._tw._file.flush()
