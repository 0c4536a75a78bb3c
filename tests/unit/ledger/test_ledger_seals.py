"""Sealed attempts as the ledger takes them: counted under a seal that holds, else damaged."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "evidence"))
sys.path.insert(0, str(Path(__file__).parents[1] / "evidence" / "seal"))

from sealed_doubles import SESSION, begin, evidence, finish, open_session, sealed_evidence

from pytest_sremut.evidence.seal import AnchorState, SessionKey
from pytest_sremut.evidence.seal.standing import label
from pytest_sremut.ledger.load import Evidence, read_evidence
from pytest_sremut.ledger.model import AttemptFact
from pytest_sremut.ledger.seals import study_label
from pytest_sremut.study.verdict import Registration

RUN = "missing_service/ms-m0{}-r01"


def attempts(read: Evidence) -> dict[str, AttemptFact]:
    return {attempt.run: attempt for attempt in read.attempts}


def seal_problems(read: Evidence) -> list[str]:
    return [problem for problem in read.problems if "seal: " in problem]


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    return sealed_evidence(tmp_path / "evidence", attempts=2).directory


def test_a_seal_that_holds(sealed: Path) -> None:
    read = read_evidence(sealed)
    assert seal_problems(read) == []
    for attempt in read.attempts:
        assert attempt.seal is not None
        assert attempt.seal.standing.sealed
        assert attempt.seal.standing.closed
        assert attempt.seal.standing.guards_held
        assert attempt.seal.standing.anchor is AnchorState.UNANCHORED
        assert not attempt.damaged or "seal" not in attempt.reason
    assert study_label(read.attempts) == "SEALED [registration not verified; unanchored]"


def test_a_record_without_its_seal(sealed: Path) -> None:
    shutil.rmtree(sealed / RUN.format(1) / "a01" / "seal")
    read = read_evidence(sealed)
    first, second = attempts(read)["ms-m01-r01"], attempts(read)["ms-m02-r01"]
    assert first.damaged
    assert "seal: not sealed" in "; ".join(read.problems)
    assert first.seal is not None
    assert not first.seal.standing.sealed
    assert second.seal is not None
    assert second.seal.standing.sealed  # the other one's own seal still holds


def test_the_seal_of_another_attempt(sealed: Path) -> None:
    first, second = (sealed / RUN.format(number) / "a01" / "seal" for number in (1, 2))
    shutil.rmtree(second)
    shutil.copytree(first, second)
    fact = attempts(read_evidence(sealed))["ms-m02-r01"]
    assert fact.damaged
    assert fact.outcome is None
    assert fact.seal is not None
    assert label(fact.seal.standing).startswith("SEALED [registration not verified; no seal")


def test_a_record_brought_from_another_session(sealed: Path) -> None:
    """Its seal holds and its session is not here: it is somebody else's."""
    shutil.rmtree(sealed / "sessions")
    read = read_evidence(sealed)
    assert all(attempt.damaged for attempt in read.attempts)
    assert any("it was brought from elsewhere" in problem for problem in read.problems)


def test_a_session_whose_own_files_do_not_hold(sealed: Path) -> None:
    (sealed / "sessions" / SESSION / "session.sig").write_bytes(b"x" * 64)
    read = read_evidence(sealed)
    assert all(attempt.damaged for attempt in read.attempts)
    assert any(f"its session {SESSION} do not hold" in problem for problem in read.problems)


def test_an_attempt_taken_away_is_told(sealed: Path) -> None:
    shutil.rmtree(sealed / RUN.format(2))
    for entry in (sealed / "attempts").glob("000002-*"):
        entry.unlink()
    told = "\n".join(read_evidence(sealed).problems)
    assert "session " + SESSION + " sealed it, and the ledger does not know it" in told


def test_a_session_that_was_not_closed_is_told_and_its_seals_hold(sealed: Path) -> None:
    shutil.rmtree(sealed / "sessions" / SESSION / "seal")
    read = read_evidence(sealed)
    assert seal_problems(read) == [
        f"seal: session {SESSION} was not closed: whether attempts are missing is not known"
    ]
    assert study_label(read.attempts).endswith("session not closed]")


def test_one_that_died_unsealed_is_what_it_was(tmp_path: Path) -> None:
    root = evidence(tmp_path / "evidence")
    key = SessionKey.generate(SESSION)
    session = open_session(root, key)
    begin(root, key).journal.close()
    session.close()
    (attempt,) = read_evidence(root.directory).attempts
    assert attempt.reason == "it was never closed: the process died"
    assert not attempt.damaged
    assert not attempt.valid


def test_other_regimes_are_not_asked(tmp_path: Path) -> None:
    root = evidence(tmp_path / "evidence")
    finish(
        begin(
            root, SessionKey.generate(SESSION), registration=Registration.EXPLORATORY, sealed=None
        )
    )
    (attempt,) = read_evidence(root.directory).attempts
    assert attempt.seal is None
    assert study_label((attempt,)) == ""
