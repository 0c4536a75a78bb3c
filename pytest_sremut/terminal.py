"""Progress and summary on the terminal. Lines come from the ledger room; this only prints them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

from pytest_sremut.ledger.renderings.text import summary_lines

if TYPE_CHECKING:
    from pytest_sremut.ledger.model import AttemptFact
    from pytest_sremut.study.model import Study

__all__ = ["ProgressLine", "status_of", "write_summary"]

_LETTERS = {
    "KILLED": "K",
    "SURVIVED": "S",
    "ACCEPTED": ".",
    "REJECTED": "r",
    "EQUIVALENT": "=",
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
    """Run and phase during long waits, on a terminal only, erased before pytest prints again.

    Cells are read while pytest captures output, so the line is written with capturing suspended.
    """

    def __init__(self, config: pytest.Config | None) -> None:
        plugins = None if config is None else config.pluginmanager
        self._reporter = None if plugins is None else plugins.get_plugin("terminalreporter")
        self._capture = None if plugins is None else plugins.get_plugin("capturemanager")
        self._shown = ""

    def __call__(self, text: str) -> None:
        """Show `text`; an empty text erases what is shown."""
        reporter = self._reporter
        if reporter is None or not reporter.hasmarkup or text == self._shown:
            return
        if self._capture is None:
            self._write(reporter, text)
            return
        with self._capture.global_and_fixture_disabled():
            self._write(reporter, text)

    def _write(self, reporter: pytest.TerminalReporter, text: str) -> None:
        # pytest has no public way to write over a line that it will go on with.
        writer = reporter._tw
        room = max(0, writer.fullwidth - writer.width_of_current_line - 2)
        back = "\b" * len(self._shown)
        blank = " " * len(self._shown)
        self._shown = text[:room]
        writer._file.write(f"{back}{blank}{back}{self._shown}")
        writer._file.flush()
