"""`--sremut-baseline` in a session that runs mutants: judged cell by cell and as a whole."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest
from quick import HOW, MAIN, Result, require_clusters, run
from small import make_small

from pytest_sremut.evidence.identity import file_digests
from pytest_sremut.ledger.baseline.document import (
    ROLES,
    Baseline,
    Known,
    StudyBaseline,
    Tally,
    baseline_bytes,
    grader_of,
)
from pytest_sremut.study.load import load_study
from pytest_sremut.study.verdict import State


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """One run, under a baseline that knows of O1's blindness, and of O3's, which is not there."""
    require_clusters()
    project = make_small(tmp_path_factory.mktemp("live"))
    study = load_study(project, PurePosixPath(f"audits/{MAIN}/study.yaml"))
    digests = file_digests(project, study.frozen)
    known = StudyBaseline(
        ledger="0" * 64,
        profiles=("quick",),
        files={role: digests[role] for role in ROLES},
        oracles={spec.id: grader_of(spec.use, spec.of) for spec in study.oracles},
        disagreements=frozenset(
            Known(oracle=oracle, mutant=mutant, state=State.FAULTED, kind="false accept")
            for oracle, mutant in (("O1", "MS-M01"), ("O3", "MS-M01"), ("O1", "MS-M02"))
        ),
        scores={"O1": Tally(killed=3, scored=3)},
    )
    Path(project / "known.json").write_bytes(baseline_bytes(Baseline(studies={MAIN: known})))
    sound = ("--sremut-require=soundness", "--sremut-baseline=known.json")
    return run(project, f"audits/{MAIN}", "-k", "[ms-m01-r01-", *sound, *HOW["-n0"])


def test_what_is_known_does_not_fail(result: Result) -> None:
    assert result.code == pytest.ExitCode.OK, result.out
    assert "11 passed, 24 deselected, 1 xfailed" in result.out


def test_the_rest_is_told(result: Result) -> None:
    """Of one mutant in three there is no score to be lower, and the others were not read."""
    assert (
        "sremut: baseline known.json: 1 known disagreements seen, 0 new, 1 stale, 1 not read"
    ) in result.out
    assert (
        f"  baseline is stale: {MAIN}: O3: false accept of MS-M01, faulted: none of 2 readings"
    ) in result.out
    assert f"  not read: {MAIN}: 1 known disagreements" in result.out
