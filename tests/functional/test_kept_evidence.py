"""Evidence that an earlier version recorded is judged as that version judged it.

`tests/kept/registered-0.1.0.tar.xz` is a project with its registration, the evidence of two runs
of the shipped study on the embedded cluster, recorded by version 0.1.0, and the ledger which that
version made of them. What was read, found and registered may never change. How scores, retained
volume and limits are defined is for the version that prints them: they are not compared here.
"""

from __future__ import annotations

import json
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

KEPT = Path(__file__).parents[1] / "kept" / "registered-0.1.0.tar.xz"

SAME = (
    "attempts",
    "compositions",
    "diagnostics",
    "disagreements",
    "falsification",
    "matrix",
    "registration",
    "runs_without_valid_attempt",
    "surprises",
    "table",
    "timings",
    "totals",
    "violated",
)
"""Blocks of a study in the ledger whose every value stays."""


@pytest.fixture
def kept(pytester: pytest.Pytester) -> Path:
    with tarfile.open(KEPT) as archive:
        archive.extractall(pytester.path, filter="data")
    return pytester.path / "project"


def test_kept_evidence_is_judged_as_before(
    kept: Path, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(kept)
    result = pytester.runpytest_inprocess(
        "--rootdir=.",
        "--sremut-adjudicate",
        "--sremut-evidence=evidence",
        "-k",
        "m02-r01 or m03-r01",
    )
    result.assert_outcomes(passed=24, deselected=84)
    before, after = (
        json.loads(path.read_bytes())
        for path in (kept / "ledger.json", kept / ".sremut" / "ledger.json")
    )
    assert after["evidence"] == before["evidence"]
    assert after["sources"] == before["sources"]
    assert after["problems"] == before["problems"] == []
    (then,), (now,) = before["studies"], after["studies"]
    for block in SAME:
        assert now[block] == then[block], block
    assert counts(now) == counts(then)


def counts(study: dict[str, Any]) -> list[Any]:
    """What every window counted."""
    names = ("run", "attempt", "state", "rounds", "requests", "failures", "successes", "per_round")
    return [[row[name] for name in names] for row in study["windows"]]


def test_kept_registration_and_evidence_verify(
    kept: Path, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never sealed: so the verdict is that the rest holds, and the exit status 3."""
    monkeypatch.chdir(kept)
    sremut = (sys.executable, "-m", "pytest_sremut.cli")
    registration = pytester.run(*sremut, "verify", "missing_service_social_network")
    assert registration.ret == 0, registration.outlines
    evidence = pytester.run(*sremut, "verify", "evidence")
    assert evidence.ret == 3, evidence.outlines
    assert not [line for line in evidence.outlines if line.startswith("FAIL")]
