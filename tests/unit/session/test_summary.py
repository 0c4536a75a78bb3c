"""A live session's end: evidence read once, reports as an adjudication of it gives them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from ledger_world import adjudicate
from records import ROOT

from pytest_sremut.ledger import load
from pytest_sremut.options.settings import Settings
from pytest_sremut.session.judging import study_inputs
from pytest_sremut.session.summary import Summary, conclude


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
    summary = conclude(given, whole, studies=[])
    assert not summary.failed
    assert list(summary.reports) == [
        f"sremut: json report: {tmp_path / 'l.json'}",
        f"sremut: md report: {tmp_path / 'deep' / 's.md'}",
    ]
    assert (tmp_path / "l.json").read_bytes() == adjudicate(study_inputs(given), whole).data
    assert "| `O1` | 0 of 3 |" in (tmp_path / "deep" / "s.md").read_text()


def test_without_a_wish_nothing_is_judged(whole: Path) -> None:
    summary = conclude(settings(), whole, studies=[])
    assert summary.evidence is not None
    assert summary.evidence.attempts
    assert summary == Summary(evidence=summary.evidence)
    assert not summary.failed


def test_without_a_directory_there_is_nothing_to_say(tmp_path: Path) -> None:
    given = replace(settings(("json", tmp_path / "l.json")), fail_under=50.0)
    assert conclude(given, tmp_path / "none", studies=[]) == Summary()


def test_evidence_that_is_none_fails_what_was_asked_of_it(tmp_path: Path) -> None:
    summary = conclude(settings(("json", tmp_path / "l.json")), tmp_path, studies=[])
    assert summary.unreadable == f"{tmp_path}: no evidence directory"
    assert summary.complaint == f"--sremut-report: {summary.unreadable}"
    assert summary.below == ()
    assert summary.failed
    assert not (tmp_path / "l.json").exists()


def test_evidence_that_is_none_gives_no_score(tmp_path: Path) -> None:
    summary = conclude(replace(settings(), fail_under=0.0), tmp_path, studies=[])
    assert summary.complaint == ""
    assert summary.below == (
        f"sremut: no score, since there is no evidence: {tmp_path}: no evidence directory",
    )
    assert summary.failed


def test_without_a_wish_evidence_that_is_none_fails_nothing(tmp_path: Path) -> None:
    summary = conclude(settings(), tmp_path, studies=[])
    assert summary.unreadable
    assert not summary.failed


def test_under_collect_only_no_report_is_written(whole: Path, tmp_path: Path) -> None:
    given = settings(("json", tmp_path / "l.json"))
    summary = conclude(given, whole, studies=[], reports=False)
    assert summary.evidence is not None
    assert summary.reports == ()
    assert not (tmp_path / "l.json").exists()


def test_evidence_is_read_once_for_everything(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For the report, the threshold and the attempts of every study."""
    read: list[Path] = []
    really = load.read_evidence

    def counted(directory: Path, **how: object) -> load.Evidence:
        read.append(directory)
        return really(directory, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(load, "read_evidence", counted)
    given = replace(settings(("json", tmp_path / "l.json")), fail_under=100.0)
    studies = [item.study for item in study_inputs(given)]
    summary = conclude(given, whole, studies=studies)
    assert summary.reports
    assert summary.below
    assert summary.judged is not None
    assert any(summary.attempts(study) for study in studies)
    assert read == [whole]
