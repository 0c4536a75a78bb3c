"""Stamps of seals: who answers, who does not, whose answer does not verify, and reading back."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "evidence"))
sys.path.insert(0, str(Path(__file__).parents[1] / "evidence" / "seal"))

from sealed_doubles import SESSION, begin, evidence, finish, open_session, sealed_evidence

from pytest_sremut.attestation.errors import (
    AuthorityUnreachableError,
    RejectedByAuthorityError,
    UntrustedRootError,
)
from pytest_sremut.attestation.registration.anchoring import OfflineStamps, TimestampAnchor
from pytest_sremut.attestation.rfc3161.authority import SelfIssuedAuthority
from pytest_sremut.attestation.rfc3161.trust import INDEPENDENT, PinnedRoot, TrustStore
from pytest_sremut.evidence.seal import AnchorState, SessionKey, seal_attempt
from pytest_sremut.evidence.seal.evidence import EvidenceReading, verify_evidence

NOBODY = TrustStore(roots=())
PLACE = "missing_service/ms-m01-r01/a01"


class Foreign:
    """An authority whose root comes from somewhere else."""

    name = "https://tsa.example.org"
    root = None

    def __init__(self) -> None:
        self.own = SelfIssuedAuthority()
        self.asked = 0

    def pinned(self) -> TrustStore:
        root = replace(self.own.root, name="example", independence=INDEPENDENT)
        return TrustStore(roots=(root,))

    def stamp(self, query: bytes) -> bytes:
        self.asked += 1
        return self.own.stamp(query)


class Silent(Foreign):
    def stamp(self, query: bytes) -> bytes:
        self.asked += 1
        raise AuthorityUnreachableError("no answer")


class Leaving(Foreign):
    """Stamps the opening, and rejects what comes later."""

    def stamp(self, query: bytes) -> bytes:
        if self.asked:
            raise RejectedByAuthorityError(
                "nothing was stamped", status="rejection", failure_info=(), text=()
            )
        return super().stamp(query)


def told(reading: EvidenceReading, ok: bool | None) -> list[str]:
    return [check.line() for check in reading.checks if check.ok is ok]


def test_a_stamp_of_our_own_verifies_and_is_called_so(tmp_path: Path) -> None:
    anchor = TimestampAnchor(SelfIssuedAuthority(), NOBODY)
    root = sealed_evidence(tmp_path / "evidence", attempts=1, anchor=anchor)
    reading = verify_evidence(root.directory, verifier=OfflineStamps(NOBODY))
    assert told(reading, False) == []
    assert told(reading, None) == []
    assert reading.seals[PLACE].anchor is AnchorState.SELF_ISSUED
    assert reading.sessions[SESSION].anchors == (AnchorState.SELF_ISSUED,) * 2


def test_an_independent_stamp_needs_the_pin(tmp_path: Path) -> None:
    authority = Foreign()
    anchor = TimestampAnchor(authority, authority.pinned())
    root = sealed_evidence(tmp_path / "evidence", attempts=1, anchor=anchor)
    reading = verify_evidence(root.directory, verifier=OfflineStamps(authority.pinned()))
    assert told(reading, False) + told(reading, None) == []
    assert reading.seals[PLACE].anchor is AnchorState.INDEPENDENT
    for verifier in (OfflineStamps(NOBODY), None):
        reading = verify_evidence(root.directory, verifier=verifier)
        assert told(reading, False) == []
        assert len(told(reading, None)) == 3  # opening, attempt, closing
        assert reading.seals[PLACE].anchor is None


def test_a_root_that_is_only_called_independent(tmp_path: Path) -> None:
    """Pinned as self-issued where it is read, whatever the seal says of it."""
    authority = Foreign()
    anchor = TimestampAnchor(authority, authority.pinned())
    root = sealed_evidence(tmp_path / "evidence", attempts=1, anchor=anchor)
    pins = TrustStore(roots=(authority.own.root,))
    reading = verify_evidence(root.directory, verifier=OfflineStamps(pins))
    assert any("its state is self-issued" in line for line in told(reading, False))
    assert reading.seals[PLACE].anchor is None


def test_nobody_answers_and_is_asked_once(tmp_path: Path) -> None:
    authority = Silent()
    anchor = TimestampAnchor(authority, authority.pinned())
    root = sealed_evidence(tmp_path / "evidence", attempts=2, anchor=anchor)
    assert authority.asked == 1
    reading = verify_evidence(root.directory)
    assert told(reading, False) + told(reading, None) == []
    assert reading.seals[PLACE].anchor is AnchorState.UNANCHORED
    assert any("unanchored: no answer" in line for line in told(reading, True))


def test_an_answer_that_does_not_verify_refuses_the_session(tmp_path: Path) -> None:
    root = evidence(tmp_path / "evidence")
    with pytest.raises(UntrustedRootError):
        open_session(root, SessionKey.generate(SESSION), anchor=TimestampAnchor(Foreign(), NOBODY))
    assert not (root.directory / "sessions" / SESSION).exists()


def test_a_rejection_later_leaves_the_seal_without_a_stamp(tmp_path: Path) -> None:
    authority = Leaving()
    anchor = TimestampAnchor(authority, authority.pinned())
    root = sealed_evidence(tmp_path / "evidence", attempts=1, anchor=anchor)
    reading = verify_evidence(root.directory, verifier=OfflineStamps(authority.pinned()))
    assert told(reading, False) + told(reading, None) == []
    assert reading.sessions[SESSION].anchors == (AnchorState.INDEPENDENT, AnchorState.UNANCHORED)
    assert reading.seals[PLACE].anchor is AnchorState.UNANCHORED


def test_the_stamp_of_another_attempt(tmp_path: Path) -> None:
    """A stamp is over the journal's head and the listing of exactly one attempt."""
    root = evidence(tmp_path / "evidence")
    key = SessionKey.generate(SESSION)
    authority = SelfIssuedAuthority()

    class Same:
        def __init__(self) -> None:
            self.first = None

        def stamp(self, statement: bytes, stem: str):  # type: ignore[no-untyped-def]
            if self.first is None:
                self.first = TimestampAnchor(authority, NOBODY).stamp(statement, stem)
            return self.first

    anchor = Same()
    for number in (1, 2):
        run, mutant = f"ms-m0{number}-r01", f"MS-M0{number}"
        attempt = finish(begin(root, key, run=run, mutant=mutant, repetition=1))
        seal_attempt(attempt.directory, key=key, anchor=anchor)
    reading = verify_evidence(root.directory, verifier=OfflineStamps(NOBODY))
    (line,) = told(reading, False)
    assert line.startswith("FAIL missing_service/ms-m02-r01/a01 anchor: ")
    assert "the token is over other bytes" in line


def test_a_pin_of_an_unknown_root_is_not_taken_from_the_seal(tmp_path: Path) -> None:
    """Only a root that is called self-issued is read from beside the stamp."""
    authority = Foreign()
    anchor = TimestampAnchor(authority, authority.pinned())
    root = sealed_evidence(tmp_path / "evidence", attempts=1, anchor=anchor)
    other = PinnedRoot(name="other", sha256="0" * 64, independence=INDEPENDENT)
    reading = verify_evidence(root.directory, verifier=OfflineStamps(TrustStore(roots=(other,))))
    assert all("no trusted root" in line for line in told(reading, None))
