"""What every test room shares: the marks of tests that need something real, and their count."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator, Iterator
from typing import NamedTuple

import needs
import pytest


class _Need(NamedTuple):
    """Something that a machine may have or not, and the variable that names it."""

    title: str
    variable: str
    names: str
    marker: str


_NEEDS = {
    "real_benchmark": _Need(
        "real benchmark",
        "SREMUT_BENCHMARK",
        "SREMUT_BENCHMARK names no checkout",
        "reads the real benchmark, from the checkout in SREMUT_BENCHMARK",
    ),
    "real_cluster": _Need(
        "real cluster",
        "SREMUT_TEST_CONTEXT",
        "SREMUT_TEST_CONTEXT names no context",
        "runs on a real cluster, the context in SREMUT_TEST_CONTEXT",
    ),
}


def pytest_configure(config: pytest.Config) -> None:
    # Tests start some thousand processes of ours. Where bytecode may not be kept, each compiles all
    # that it imports, and that takes longer than most of them live.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    # By default xdist hands out the files with most tests first, and those have the shortest tests:
    # at the end one worker waits for the other's sessions. As collected, sessions come first.
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False
    for mark, need in _NEEDS.items():
        config.addinivalue_line("markers", f"{mark}: {need.marker}")
    config.addinivalue_line("markers", f"{needs.MARK}(*names): runs other programs; see needs.py")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what lacks a program, or fail it: see `needs`."""
    for mark in item.iter_markers(needs.MARK):
        for name in mark.args:
            needs.located(name)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where everything is said to be here, a skip for want of anything is a failure."""
    report = yield
    if report.outcome == "skipped" and not hasattr(report, "wasxfail"):
        reason = str(call.excinfo.value) if call.excinfo else ""
        if needs.unexcused(reason):
            report.outcome = "failed"
            report.longrepr = f"SREMUT_REQUIRE_ALL=1 and skipped: {reason}"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Last of all: how much of what needs something real was really tested."""
    for mark, need in _NEEDS.items():
        for line in _told(mark, need, terminalreporter):
            terminalreporter.write_line(line)


def _told(mark: str, need: _Need, reporter: pytest.TerminalReporter) -> Iterator[str]:
    counts: Counter[str] = Counter()
    for outcome in ("passed", "failed", "error", "skipped", "xfailed"):
        for report in reporter.stats.get(outcome, []):
            if mark in getattr(report, "keywords", {}):
                counts[outcome] += report.when == "call" or outcome in {"skipped", "error"}
    if not counts.total():
        return
    ran = counts["passed"] + counts["failed"] + counts["error"] + counts["xfailed"]
    named = os.environ.get(need.variable, "")
    told = f"{counts['passed']} passed" if ran else "none"
    if failed := counts["failed"] + counts["error"]:
        told += f", {failed} failed"
    why = "" if named else f" ({need.names})"
    yield (
        f"{need.title}: {ran} of {counts.total()} tests ran: {told}, "
        f"{counts['skipped']} skipped{why}"
    )
