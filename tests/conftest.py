"""What every test room shares: the mark of tests that read the real benchmark, and their count."""

from __future__ import annotations

import os
from collections import Counter

import pytest

_MARK = "real_benchmark"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", f"{_MARK}: reads the real benchmark, from the checkout in SREMUT_BENCHMARK"
    )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Last of all: how much of what needs the real benchmark was really tested."""
    counts: Counter[str] = Counter()
    for outcome in ("passed", "failed", "error", "skipped", "xfailed"):
        for report in terminalreporter.stats.get(outcome, []):
            if _MARK in getattr(report, "keywords", {}):
                counts[outcome] += report.when == "call" or outcome in {"skipped", "error"}
    if not counts.total():
        return
    ran = counts["passed"] + counts["failed"] + counts["error"] + counts["xfailed"]
    named = os.environ.get("SREMUT_BENCHMARK", "")
    told = f"{counts['passed']} passed" if ran else "none"
    if failed := counts["failed"] + counts["error"]:
        told += f", {failed} failed"
    why = "" if named else " (SREMUT_BENCHMARK names no checkout)"
    terminalreporter.write_line(
        f"real benchmark: {ran} of {counts.total()} tests ran: {told}, "
        f"{counts['skipped']} skipped{why}"
    )
