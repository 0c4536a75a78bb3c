"""The reports of a live session are those of an adjudication of the same records."""

from __future__ import annotations

from pathlib import Path

import pytest
from ledger_world import adjudicate
from records import ROOT

from pytest_sremut.errors import EvidenceError
from pytest_sremut.options import Settings
from pytest_sremut.session.summary import Concluded, conclude_session, study_inputs


def settings(*reports: tuple[str, Path]) -> Settings:
    return Settings(
        root=ROOT,
        audits=ROOT / "audits",
        cluster="embedded",
        allowed_contexts=frozenset(),
        profile="",
        evidence=None,
        keep_cluster=False,
        exploratory=True,
        require="predictions",
        fail_under=None,
        reports=reports,
    )


def test_a_live_session_exports_what_its_records_give(whole: Path, tmp_path: Path) -> None:
    given = settings(("json", tmp_path / "l.json"), ("md", tmp_path / "deep" / "s.md"))
    told = conclude_session(given, whole)
    assert list(told.reports) == [
        f"sremut: json report: {tmp_path / 'l.json'}",
        f"sremut: md report: {tmp_path / 'deep' / 's.md'}",
    ]
    assert (tmp_path / "l.json").read_bytes() == adjudicate(study_inputs(given), whole).data
    assert "| `O1` | 0 of 3 |" in (tmp_path / "deep" / "s.md").read_text()


def test_without_a_wish_nothing_is_read(tmp_path: Path) -> None:
    assert conclude_session(settings(), tmp_path / "none") == Concluded()


def test_evidence_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EvidenceError, match="no evidence directory"):
        conclude_session(settings(("json", tmp_path / "l.json")), tmp_path)
