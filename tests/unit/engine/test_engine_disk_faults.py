"""The disk of the evidence, or of the lease, refuses at a step of a whole run.

A selection of each kind of step; `benchmarks/faults.py` refuses every one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from disk_faults import CALLS, ERRORS, DiskRun

from pytest_sremut.study.verdict import Outcome

POINTS = 3  # of each kind of call, spread over the run

_whole: dict[str, Any] = {}


@pytest.fixture
def whole(tmp_path: Path) -> dict[str, Any]:
    if not _whole:
        with pytest.MonkeyPatch.context() as patch:
            run = DiskRun(tmp_path / "whole", patch)
            run.go()
            assert run.error is None
            _whole.update(counts=dict(run.disk.counts), seen=run.seen)
    return _whole


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "from-then-on"])
@pytest.mark.parametrize("name", CALLS)
def test_the_disk_refuses(tmp_path: Path, whole: dict[str, Any], name: str, lasting: bool) -> None:
    total = whole["counts"][name]
    assert total >= POINTS
    wrong = {}
    for number in range(1, total + 1, -(-total // POINTS)):
        code = ERRORS[number % len(ERRORS)]
        with pytest.MonkeyPatch.context() as patch:
            run = DiskRun(tmp_path / f"{number}", patch)
            run.disk.plan(name, number, code, lasting=lasting)
            run.go()
            assert run.disk.struck
        if problems := run.problems(whole["seen"], lasting=lasting):
            wrong[f"{name} {number} of {total}: {run.disk.struck[0]}"] = problems
        run.lease.release()
    assert wrong == {}


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "from-then-on"])
def test_the_mark_cannot_be_taken_away(
    tmp_path: Path, whole: dict[str, Any], lasting: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = DiskRun(tmp_path, monkeypatch)
    run.disk.plan("fsync", whole["counts"]["fsync"], ERRORS[0], lasting=lasting)
    run.go()
    assert run.driver.outcome is Outcome.COMPLETE
    assert "cannot be taken away, although the cluster was put back: No space" in str(run.error)
    assert run.world.left == []
    run.lease.release()
