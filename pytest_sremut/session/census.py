"""`pytest -m census`: one item per problem id and one per finding of a benchmark's census.

ADEQUATE passes, BLIND fails, UNCERTAIN is skipped with its reason, a finding fails. What the
baseline file lists is known: it is reported as an expected failure, so that a benchmark's
maintainers fail their CI only on new blindness. The benchmark is read as text; none of its test
files is collected.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import pytest

from pytest_sremut.errors import SremutError

if TYPE_CHECKING:
    from pytest_sremut.census.judge.baseline import Baseline
    from pytest_sremut.census.layout import Layout
    from pytest_sremut.census.model import Census, Finding, Row
    from pytest_sremut.options.settings import Settings

__all__ = ["CensusItems"]


class CensusItems:
    """The hooks of a session that was asked for a census."""

    def __init__(self, config: pytest.Config, settings: Settings) -> None:
        if settings.benchmark is None:
            raise pytest.UsageError(
                "-m census: no benchmark is named; name its checkout with --sremut-benchmark=DIR "
                "or set SREMUT_BENCHMARK"
            )
        self._config = config
        self._benchmark = settings.benchmark
        self._settings = settings
        self._stale: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(
        self, session: pytest.Session, items: list[pytest.Item]
    ) -> None:
        self._add_items(session, items)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        self._tell_stale(terminalreporter)

    def _add_items(self, session: pytest.Session, items: list[pytest.Item]) -> None:
        try:
            census, baseline = self._take()
        except SremutError as error:
            raise pytest.UsageError(f"-m census: {error}") from None
        node = _CensusNode.from_parent(session, name="census", nodeid="census")
        items += node.items(census, baseline)
        self._stale = baseline.stale(census)

    def _take(self) -> tuple[Census, Baseline]:
        from pytest_sremut.census.judge.baseline import read_baseline
        from pytest_sremut.census.judge.overrides import read_overrides
        from pytest_sremut.census.take import take_census

        baseline = read_baseline(self._settings.census_baseline)
        census = take_census(
            self._benchmark,
            layouts=self._layouts(),
            overrides=read_overrides(self._settings.census_overrides),
        )
        return census, baseline

    def _layouts(self) -> list[Layout]:
        found: list[Layout] = []
        for brought in self._config.hook.pytest_sremut_census(config=self._config):
            found += brought if isinstance(brought, list | tuple) else [brought]
        return found

    def _tell_stale(self, terminalreporter: pytest.TerminalReporter) -> None:
        for line in self._stale:
            terminalreporter.write_line(f"sremut: census baseline: {line}", yellow=True)


class _CensusNode(pytest.Collector):
    """The parent of the items; it collects nothing from disk."""

    def collect(self) -> Iterator[pytest.Item]:
        yield from ()

    def items(self, census: Census, baseline: Baseline) -> list[pytest.Item]:
        problems: list[pytest.Item] = [
            _Problem.from_parent(
                self, name=row.problem, row=row, is_known=row.problem in baseline.blind
            )
            for row in census.rows
        ]
        seen: dict[str, int] = {}
        for finding in census.findings:
            seen[finding.key] = seen.get(finding.key, 0) + 1
            name = finding.key if seen[finding.key] == 1 else f"{finding.key}#{seen[finding.key]}"
            problems.append(
                _Finding.from_parent(
                    self, name=name, finding=finding, is_known=finding.key in baseline.findings
                )
            )
        for item in problems:
            item.add_marker("census")
        return problems


class _CensusFailure(Exception):  # noqa: N818 - the sentence of a verdict, not a Python error
    """A verdict that fails its item."""


class _CensusItem(pytest.Item):
    """One verdict."""

    def repr_failure(
        self,
        excinfo: pytest.ExceptionInfo[BaseException],
        style: object = None,  # noqa: ARG002
    ) -> str:
        if isinstance(excinfo.value, _CensusFailure):
            return str(excinfo.value)
        return str(super().repr_failure(excinfo))


class _Problem(_CensusItem):
    def __init__(self, *, row: Row, is_known: bool, **given: object) -> None:
        super().__init__(**given)  # type: ignore[arg-type]
        self._row = row
        self._is_known = is_known

    def runtest(self) -> None:
        row = self._row
        match row.verdict.value:
            case "UNCERTAIN":
                reason = row.reason.value if row.reason else ""
                pytest.skip(f"UNCERTAIN ({reason}): {row.sentence}")
            case "BLIND" if self._is_known:
                pytest.xfail(f"known to be BLIND: {row.sentence}")
            case "BLIND":
                raise _CensusFailure(
                    f"BLIND: {row.sentence}\nIt would have to observe: {row.would_have_to_observe}."
                )

    def reportinfo(self) -> tuple[str, int, str]:
        return self._row.place.file, self._row.place.line - 1, self.name


class _Finding(_CensusItem):
    def __init__(self, *, finding: Finding, is_known: bool, **given: object) -> None:
        super().__init__(**given)  # type: ignore[arg-type]
        self._finding = finding
        self._is_known = is_known

    def runtest(self) -> None:
        one = self._finding
        verdict = f"{one.finder} ({one.direction.value}) at {one.place}: {one.sentence}"
        if self._is_known:
            pytest.xfail(f"known: {verdict}")
        used = f"\nProblems: {', '.join(one.problems)}." if one.problems else ""
        raise _CensusFailure(verdict + used)

    def reportinfo(self) -> tuple[str, int, str]:
        place = self._finding.place
        return str(PurePosixPath(place.file)), place.line - 1, self.name
