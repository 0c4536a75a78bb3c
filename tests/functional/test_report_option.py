"""`--sremut-report`: exports of the ledger, never the record."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from recorded import Recorded, recorded

__all__ = ["recorded"]

SELECT = ("--sremut-adjudicate", "-m", "mutant", "-k", "missing_service_social_network")


def test_every_kind_at_once(recorded: Recorded, pytester: pytest.Pytester, how: list[str]) -> None:
    recorded.matrix()
    reports = [f"--sremut-report={kind}:out/{kind}" for kind in ("json", "md", "stryker")]
    result = pytester.runpytest_subprocess(*SELECT, *reports, *how)
    assert result.ret == pytest.ExitCode.OK
    out = recorded.root / "out"
    assert (out / "json").read_bytes() == (recorded.root / ".sremut/ledger.json").read_bytes()
    shares = "0 of 9 runs (0 %) | 18 of 18 runs (100 %) | 0"
    assert f"| `O1` | 0 of 3 | 0 % | {shares} | 18 of 18 | 0 of 36 |" in (out / "md").read_text()
    report = json.loads((out / "stryker").read_bytes())
    name = "missing_service_social_network/O1/mutants/missing_service.yaml"
    assert report["files"][name]["source"] == (
        recorded.root / "mutants/missing_service.yaml"
    ).read_text(encoding="utf-8")
    assert [m["status"] for m in report["files"][name]["mutants"]] == ["Survived"] * 3
    result.stdout.fnmatch_lines(["sremut: json report: *", "sremut: md report: *"])


def test_the_summary_of_a_ci_step_is_appended_to(
    recorded: Recorded, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded.matrix()
    summary = recorded.root / "summary.md"
    summary.write_text("# An earlier step\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    pytester.runpytest_inprocess(*SELECT, f"--sremut-report=md:{summary}")
    text = summary.read_text()
    assert text.startswith("# An earlier step\n## Graders of a missing Service")


@pytest.mark.parametrize("value", ["html:x", "json", "json:", ":x", "JSON:x"])
def test_a_bad_value_says_what_is_allowed(pytester: pytest.Pytester, value: str) -> None:
    result = pytester.runpytest_inprocess(f"--sremut-report={value}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [f"*--sremut-report: found '{value}'; allowed: json:PATH | md:PATH | stryker:PATH"]
    )


def test_a_report_that_cannot_be_written_fails_the_session(
    recorded: Recorded, pytester: pytest.Pytester
) -> None:
    recorded.matrix()
    Path(recorded.root / "taken").write_text("")
    result = pytester.runpytest_inprocess(*SELECT, "--sremut-report=json:taken/x.json")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*taken: is no directory"])
    assert "Traceback" not in result.stdout.str()
