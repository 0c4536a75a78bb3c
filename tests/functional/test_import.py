"""`sremut import`, and judging what was imported."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

TRANSCRIBED = Path(__file__).parents[1] / "unit" / "ledger" / "transcribed"


def sremut(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return pytester.run(sys.executable, "-m", "pytest_sremut.cli", *arguments)


def test_published_figures_are_judged_as_cells(pytester: pytest.Pytester) -> None:
    result = sremut(
        pytester, "import", str(TRANSCRIBED / "mutant_study.json"), "--sremut-evidence=published"
    )
    assert result.ret == 0
    result.stdout.fnmatch_lines(["published_mutant_study: published records in published: 14 *"])
    result = pytester.runpytest_inprocess(
        "--sremut-adjudicate", "--rootdir=published", "--sremut-evidence=published",
        "published/audits",
    )  # fmt: skip
    result.assert_outcomes(passed=54)
    result.stdout.fnmatch_lines(["*PUBLISHED: transcribed from published figures*", "*0 of 3*"])
    assert (pytester.path / "published" / ".sremut" / "ledger.json").exists()


def test_what_was_not_published_is_an_error_and_not_a_pass(pytester: pytest.Pytester) -> None:
    sremut(pytester, "import", str(TRANSCRIBED / "fix_oracle_study.json"), "--sremut-evidence=fix")
    result = pytester.runpytest_inprocess(
        "--sremut-adjudicate", "--rootdir=fix", "--sremut-evidence=fix", "fix/audits"
    )
    result.assert_outcomes(passed=36, errors=9)
    result.stdout.fnmatch_lines(["*holds no reading of contract in the healthy state"])


def test_misuse_is_one_sentence(pytester: pytest.Pytester) -> None:
    pytester.makefile(".json", bad='{"runs": 1}')
    result = sremut(pytester, "import", "bad.json", "--sremut-evidence=x")
    assert result.ret == 1
    result.stderr.fnmatch_lines(["sremut: bad.json: runs: found 1; allowed: a list"])
    assert not (pytester.path / "x").exists()
