"""`--sremut-evidence` with `--sremut-adjudicate`: which records are judged."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from recorded import Recorded, recorded

from pytest_sremut.study.cells import runs
from pytest_sremut.study.verdict import Registration

__all__ = ["recorded"]

SELECT = ("--sremut-adjudicate", "-m", "mutant", "-k", "missing_service_social_network")


def split(recorded: Recorded) -> list[str]:
    """The matrix as three jobs of CI hand it in."""
    directories = []
    for repetition in (1, 2, 3):
        directory = recorded.root / "artefacts" / f"job-{repetition}"
        builder = recorded.records(directory)
        builder.clock.seconds = 1000.0 * repetition
        for run in runs(recorded.study):
            if run.repetition == repetition:
                builder.attempt(run)
        directories.append(f"--sremut-evidence=artefacts/job-{repetition}")
    return directories


def test_several_directories_have_one_ledger_whatever_their_order(
    recorded: Recorded, pytester: pytest.Pytester, how: list[str]
) -> None:
    directories = split(recorded)
    ledger = recorded.root / ".sremut" / "ledger.json"
    pytester.runpytest_inprocess(*SELECT, *directories[::-1]).assert_outcomes(
        passed=108, deselected=12
    )
    backwards = ledger.read_bytes()
    ledger.unlink()
    result = pytester.runpytest_subprocess(*SELECT, *directories, *how)
    result.assert_outcomes(passed=108, deselected=0 if "-n2" in how else 12)
    assert ledger.read_bytes() == backwards


def test_the_ini_file_names_them_one_a_line(recorded: Recorded, pytester: pytest.Pytester) -> None:
    split(recorded)
    lines = "\n".join(f"    artefacts/job-{n}" for n in (1, 2, 3))
    pytester.makeini(f"[pytest]\nsremut_evidence =\n{lines}\n")
    pytester.runpytest_inprocess(*SELECT).assert_outcomes(passed=108, deselected=12)


def test_a_part_says_which_runs_are_missing(recorded: Recorded, pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_inprocess(*SELECT, *split(recorded)[:2])
    result.assert_outcomes(passed=72, errors=36, deselected=12)
    result.stdout.fnmatch_lines(["*no valid attempt at ms-m01-r03: the evidence holds none at all"])


def test_by_default_the_newest_session_is_judged_and_named(
    recorded: Recorded, pytester: pytest.Pytester
) -> None:
    recorded.matrix(recorded.session("20260828T100000Z-ffffff"))
    recorded.matrix(recorded.session("20260829T090000Z-aaaaaa"))
    recorded.matrix(recorded.session("20260829T100000Z-000001"))
    result = pytester.runpytest_inprocess(*SELECT)
    result.assert_outcomes(passed=108, deselected=12)
    result.stdout.fnmatch_lines(
        [
            "sremut: adjudicating .sremut/evidence/20260829T100000Z-000001, the newest of 3 "
            "(2 others not read)"
        ]
    )


def test_without_any_records_nothing_is_judged(
    recorded: Recorded, pytester: pytest.Pytester, how: list[str]
) -> None:
    result = pytester.runpytest_subprocess(*SELECT, *how)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["*--sremut-adjudicate: found no records under .sremut/evidence; name them with *"]
    )


def test_a_directory_without_records_is_refused(
    recorded: Recorded, pytester: pytest.Pytester
) -> None:
    recorded.matrix()
    result = pytester.runpytest_inprocess(*SELECT, "--sremut-evidence=mutants")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--sremut-evidence: found no records in *mutants; allowed: *"])


def test_the_same_records_twice_are_refused(recorded: Recorded, pytester: pytest.Pytester) -> None:
    recorded.matrix()
    shutil.copytree(recorded.directory, recorded.root / "copy")
    result = pytester.runpytest_inprocess(
        *SELECT, f"--sremut-evidence={recorded.directory}", "--sremut-evidence=copy"
    )
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["*nothing was adjudicated:*", "*the same evidence is given 2 times*"]
    )
    assert not (recorded.root / ".sremut" / "ledger.json").exists()


def test_exploratory_records_are_never_mixed_with_registered_ones(
    recorded: Recorded, pytester: pytest.Pytester
) -> None:
    first, second, *_ = runs(recorded.study)
    recorded.records().attempt(first)
    other = recorded.root / "other"
    recorded.records(other).attempt(second, recorded.told(registration=Registration.PREREGISTERED))
    result = pytester.runpytest_inprocess(
        *SELECT, f"--sremut-evidence={recorded.directory}", "--sremut-evidence=other"
    )
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*records of more than one regime are never mixed*"])


def test_a_live_session_takes_exactly_one(project: Path, pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_inprocess(
        "-m", "mutant", "--sremut-evidence=a", "--sremut-evidence=b"
    )
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--sremut-evidence: found 2 directories; allowed: one*"])
    assert not (project / "a").exists()
