"""`--sremut-require` and `--sremut-fail-under`, judged from records as they are judged live."""

from __future__ import annotations

import pytest
from recorded import Recorded, recorded

__all__ = ["recorded"]

SELECT = ("--sremut-adjudicate", "-m", "mutant", "-k", "missing_service_social_network")


@pytest.fixture
def whole(recorded: Recorded) -> Recorded:
    recorded.matrix()
    return recorded


def test_soundness_turns_a_blind_grader_red(
    whole: Recorded, pytester: pytest.Pytester, how: list[str]
) -> None:
    result = pytester.runpytest_subprocess(*SELECT, "--sremut-require=soundness", *how)
    result.assert_outcomes(passed=99, failed=9, deselected=0 if "-n2" in how else 12)
    result.stdout.fnmatch_lines(
        ["*in-process: false accept: ACCEPT, while the contract says REJECT {MS-I1, *}"]
    )


def test_a_score_below_the_threshold_fails(
    whole: Recorded, pytester: pytest.Pytester, how: list[str]
) -> None:
    result = pytester.runpytest_subprocess(*SELECT, "--sremut-fail-under=0.1", *how)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*O1 killed 0 of 3 mutants (0.0 %), required 0.1 %"])


def test_zero_is_a_threshold_like_another(whole: Recorded, pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_inprocess(*SELECT, "--sremut-fail-under=0")
    assert result.ret == pytest.ExitCode.OK
    result.stdout.no_fnmatch_line("*required*")


def test_no_score_is_below_zero(recorded: Recorded, pytester: pytest.Pytester) -> None:
    """With every attempt invalid there is no score, and no score passes no threshold."""
    from records import Told

    from pytest_sremut.study.cells import runs
    from pytest_sremut.study.verdict import Outcome, State

    builder = recorded.records()
    for run in runs(recorded.study):
        builder.attempt(run, Told(outcome=Outcome.DRIVER_ABORTED, until=State.HEALTHY))
    result = pytester.runpytest_inprocess(
        "--sremut-adjudicate", "-m", "mutant", "-k", "nothing", "--sremut-fail-under=0"
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*O1 killed 0 of 0 mutants (no score), required 0 %"])
