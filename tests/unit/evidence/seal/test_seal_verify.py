"""Verifying evidence offline: what holds, what does not, and where the first broken link is."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from sealed_doubles import (
    MANIFEST,
    SESSION,
    begin,
    evidence,
    finish,
    open_session,
    operate,
    sealed_evidence,
)

from pytest_sremut.errors import EvidenceError
from pytest_sremut.evidence.attempt import Attempt
from pytest_sremut.evidence.root import EvidenceRoot
from pytest_sremut.evidence.seal import SessionKey, seal_attempt
from pytest_sremut.evidence.seal.evidence import EvidenceReading, verify_evidence
from pytest_sremut.evidence.seal.verify import SealReading, verify_attempt
from pytest_sremut.ground.formats.canonical import canonical_json
from pytest_sremut.study.verdict import Outcome, Registration

PLACE = Path("missing_service/ms-m02-r03/a01")


def failures(reading: SealReading | EvidenceReading) -> list[str]:
    return [check.line() for check in reading.checks if check.ok is False]


def unverified(reading: SealReading | EvidenceReading) -> list[str]:
    return [check.line() for check in reading.checks if check.ok is None]


# -- what holds -----------------------------------------------------------------------------------


def test_a_sealed_attempt_holds(finished: Attempt, key: SessionKey) -> None:
    seal = seal_attempt(finished.directory, key=key)
    reading = verify_attempt(finished.directory)
    assert reading.holds
    assert all(check.ok for check in reading.checks)
    assert (reading.extent, reading.guards_held, reading.digest) == ("complete", True, seal.sha256)


def test_sealed_evidence_holds_wherever_it_is_copied(tmp_path: Path) -> None:
    root = sealed_evidence(tmp_path / "evidence", attempts=3)
    shutil.copytree(root.directory, tmp_path / "elsewhere")
    for directory in (root.directory, tmp_path / "elsewhere"):
        reading = verify_evidence(directory)
        assert reading.first_broken is None
        assert unverified(reading) == []
        assert sorted(reading.seals) == [f"missing_service/ms-m0{n}-r01/a01" for n in (1, 2, 3)]


def test_the_ordinary_tool_checks_a_session(tmp_path: Path) -> None:
    root = sealed_evidence(tmp_path / "evidence", attempts=2)
    (sums,) = root.directory.glob("sessions/*/seal/SHA256SUMS")
    command = ["sha256sum", "-c", "--strict", "--quiet", str(sums.relative_to(root.directory))]
    assert subprocess.run(command, cwd=root.directory, check=False).returncode == 0


def test_a_retry_and_a_session_after_it_in_one_directory(tmp_path: Path) -> None:
    root = evidence(tmp_path / "evidence")
    first = SessionKey.generate(SESSION)
    session = open_session(root, first)
    attempt = begin(root, first)
    attempt.close(outcome=Outcome.INFRASTRUCTURE_FAILURE, reason="no answer", record={})
    session.close()
    second = SessionKey.generate("20260829T113000Z-000002")
    session = open_session(root, second)
    finish(begin(root, second))
    session.close()
    reading = verify_evidence(root.directory)
    assert failures(reading) == []
    assert sorted(reading.seals) == [
        "missing_service/ms-m02-r03/a01",
        "missing_service/ms-m02-r03/a02",
    ]


def test_what_was_never_sealed_is_not_verified_and_still_checked(root: EvidenceRoot) -> None:
    key = SessionKey.generate(SESSION)
    attempt = finish(begin(root, key, registration=Registration.PREREGISTERED, sealed=None))
    reading = verify_evidence(root.directory)
    assert failures(reading) == []
    assert unverified(reading) == [
        f"--   {PLACE} seal: cannot be verified: PREREGISTERED: never sealed"
    ]
    assert any(check.name == f"{PLACE} journal" and check.ok for check in reading.checks)
    (attempt.directory / "raw" / "healthy-O1.json").write_bytes(b"x")
    assert verify_evidence(root.directory).first_broken is not None


def test_a_killed_session_leaves_an_attempt_that_cannot_be_verified(root: EvidenceRoot) -> None:
    key = SessionKey.generate(SESSION)
    open_session(root, key)
    attempt = begin(root, key)
    operate(attempt, receipt=False)
    attempt.journal.close()
    reading = verify_evidence(root.directory)
    assert failures(reading) == []
    assert any("the session was not closed" in line for line in unverified(reading))
    assert any(f"{PLACE} seal: cannot be verified: not sealed" in x for x in unverified(reading))


def test_recovery_seals_what_a_closed_session_left(root: EvidenceRoot) -> None:
    """A worker that died: its session names the attempt as not sealed, another one seals it."""
    key = SessionKey.generate(SESSION)
    session = open_session(root, key)
    attempt = begin(root, key)
    attempt.journal.close()
    session.close()
    recovery = SessionKey.generate("20260830T000000Z-fedcba")
    seal_attempt(attempt.directory, key=recovery, partial=True, stop="the worker died")
    reading = verify_evidence(root.directory)
    assert failures(reading) == []
    assert reading.seals[str(PLACE)].extent == "partial"


# -- what does not, and where ---------------------------------------------------------------------


def lines_of(attempt: Attempt) -> list[bytes]:
    return (attempt.directory / "journal.jsonl").read_bytes().splitlines(keepends=True)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda lines: [*lines[:3], lines[3].replace(b"RECORDED", b"recorded"), *lines[4:]], 4),
        (lambda lines: [*lines[:2], *lines[3:]], 3),
        (lambda lines: [*lines[:2], lines[3], lines[2], *lines[4:]], 3),
        (lambda lines: lines[:-1], 8),
        (lambda lines: [*lines[:-1], lines[-1][:-5]], 8),
        (lambda lines: [*lines, lines[-1]], 9),
    ],
    ids=["changed", "removed", "reordered", "cut off", "torn", "added"],
)
def test_the_first_broken_line_of_a_journal(
    finished: Attempt, key: SessionKey, change: object, line: int
) -> None:
    seal_attempt(finished.directory, key=key)
    lines = lines_of(finished)
    assert len(lines) == 8
    (finished.directory / "journal.jsonl").write_bytes(b"".join(change(lines)))  # type: ignore[operator]
    reading = verify_attempt(finished.directory)
    first = next(check for check in reading.checks if check.ok is False)
    assert first.place == "journal.jsonl"
    assert first.detail.startswith(f"line {line}: ")


@pytest.mark.parametrize(
    "name",
    [
        "attempt.json",
        "record.json",
        "raw/faulted-O1.json",
        "states/restored.json",
        "sampler.jsonl",
        "seal/SHA256SUMS",
        "seal/SHA256SUMS.sig",
        "seal/seal.json",
        "seal/seal.sig",
    ],
)
def test_the_first_broken_link_is_the_file_that_was_changed(
    finished: Attempt, key: SessionKey, name: str
) -> None:
    seal_attempt(finished.directory, key=key)
    file = finished.directory / name
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    reading = verify_attempt(finished.directory)
    assert not reading.holds
    assert next(check for check in reading.checks if check.ok is False).place == name


def _link(directory: Path) -> None:
    (directory / "raw" / "one").symlink_to("healthy-O1.json")


def _same_bytes_by_a_link(directory: Path) -> None:
    file = directory / "raw" / "healthy-O1.json"
    file.rename(directory.parent / "away.json")
    file.symlink_to(directory.parent / "away.json")


@pytest.mark.parametrize(
    "change",
    [
        lambda d: (d / "raw" / ".hidden").write_bytes(b""),
        lambda d: (d / "raw" / ".tmp-1-abc").write_bytes(b"x"),
        lambda d: (d / "empty").mkdir(),
        lambda d: (d / "seal" / "more").write_bytes(b""),
        lambda d: (d / "seal" / "more").mkdir(),
        lambda d: (d / "seal" / "seal.sig").unlink(),
        lambda d: (d / "seal" / "SHA256SUMS.sig").unlink(),
        lambda d: (d / "sampler.jsonl").unlink(),
        _link,
        _same_bytes_by_a_link,
    ],
    ids=[
        "hidden file", "temporary file", "empty directory", "file in the seal",
        "directory in the seal", "no signature", "no signature of the listing", "file missing",
        "link added", "file as a link",
    ],
)  # fmt: skip
def test_nothing_is_added_to_a_sealed_attempt_or_taken_away(
    finished: Attempt, key: SessionKey, change: object
) -> None:
    seal_attempt(finished.directory, key=key)
    change(finished.directory)  # type: ignore[operator]
    assert not verify_attempt(finished.directory).holds


def test_a_reseal_by_another_key_is_seen_by_whoever_knows_the_first(
    finished: Attempt, key: SessionKey
) -> None:
    """What a signature alone cannot show: everything was written again, under a key of its own."""
    seal_attempt(finished.directory, key=key)
    shutil.rmtree(finished.directory / "seal")
    forger = SessionKey.generate(SESSION)
    identity = finished.directory / "attempt.json"
    body = json.loads(identity.read_bytes())
    body["sealed"]["key"] = forger.public
    identity.write_bytes(canonical_json(body))
    seal_attempt(finished.directory, key=forger)
    told = failures(verify_attempt(finished.directory, key=key.public))
    assert any("bound to another key than its session's" in line for line in told)


def test_signed_with_another_key_than_the_attempt_is_bound_to(
    finished: Attempt,
) -> None:
    seal_attempt(finished.directory, key=SessionKey.generate(SESSION))
    assert failures(verify_attempt(finished.directory)) == [
        "FAIL identity: seal/seal.json: signed with another key than the attempt is bound to"
    ]


# -- replays --------------------------------------------------------------------------------------


def test_the_seal_of_another_attempt(tmp_path: Path) -> None:
    root = sealed_evidence(tmp_path / "evidence", attempts=2)
    first, second = (root.directory / f"missing_service/ms-m0{n}-r01/a01" for n in (1, 2))
    shutil.rmtree(second / "seal")
    shutil.copytree(first / "seal", second / "seal")
    told = failures(verify_attempt(second))
    assert any("run is 'ms-m02-r01', sealed 'ms-m01-r01'" in line for line in told)
    assert any("it stands at missing_service/ms-m02-r01/a01" in line for line in told)


def test_a_whole_attempt_under_another_name(tmp_path: Path) -> None:
    root = sealed_evidence(tmp_path / "evidence", attempts=2)
    run = root.directory / "missing_service/ms-m01-r01"
    run.joinpath("a01").rename(run / "a02")
    assert failures(verify_attempt(run / "a02")) == [
        "FAIL identity: it stands at missing_service/ms-m01-r01/a02 and was sealed as "
        "missing_service/ms-m01-r01/a01"
    ]
    assert verify_evidence(root.directory).first_broken is not None


def test_a_run_of_another_session_in_the_place_of_ours(tmp_path: Path) -> None:
    ours = sealed_evidence(tmp_path / "ours", attempts=2)
    theirs = sealed_evidence(tmp_path / "theirs", session="20260901T000000Z-999999", attempts=2)
    for name in (
        "missing_service/ms-m02-r01",
        "attempts/000002-ms-m02-r01-a01.open.json",
        "attempts/000002-ms-m02-r01-a01.closed.json",
    ):
        target = ours.directory / name
        if target.is_dir():
            shutil.rmtree(target)
            shutil.copytree(theirs.directory / name, target)
        else:
            target.unlink()
            shutil.copy(theirs.directory / name, target)
    reading = verify_evidence(ours.directory)
    told = failures(reading)
    assert any("attempts/000002-ms-m02-r01-a01.open.json" in line for line in told)
    assert any(f"session {SESSION} sealed it, and the ledger does not know it" in x for x in told)
    assert any("has no files here" in line for line in unverified(reading))


def test_the_last_attempt_taken_away_with_its_entries(tmp_path: Path) -> None:
    root = sealed_evidence(tmp_path / "evidence", attempts=2)
    shutil.rmtree(root.directory / "missing_service/ms-m02-r01")
    for entry in (root.directory / "attempts").glob("000002-*"):
        entry.unlink()
    reading = verify_evidence(root.directory)
    assert reading.first_broken is not None
    assert any("sealed it, and the ledger does not know it" in x for x in failures(reading))


def test_an_attempt_added_after_the_session_was_closed(tmp_path: Path) -> None:
    root = sealed_evidence(tmp_path / "evidence", attempts=1)
    key = SessionKey.generate(SESSION)
    attempt = finish(begin(root, key))
    seal_attempt(attempt.directory, key=key)
    told = failures(verify_evidence(root.directory))
    assert any(f"session {SESSION} did not seal it: it was added" in line for line in told)


def test_two_entries_of_the_ledger_exchanged(tmp_path: Path) -> None:
    root = sealed_evidence(tmp_path / "evidence", attempts=2)
    ledger = root.directory / "attempts"
    first = (ledger / "000001-ms-m01-r01-a01.closed.json").read_bytes()
    second = (ledger / "000002-ms-m02-r01-a01.closed.json").read_bytes()
    (ledger / "000001-ms-m01-r01-a01.closed.json").write_bytes(second)
    (ledger / "000002-ms-m02-r01-a01.closed.json").write_bytes(first)
    assert verify_evidence(root.directory).first_broken is not None


def test_a_session_whose_closing_was_taken_away_cannot_be_verified(tmp_path: Path) -> None:
    root = sealed_evidence(tmp_path / "evidence", attempts=1)
    shutil.rmtree(root.directory / "sessions" / SESSION / "seal")
    reading = verify_evidence(root.directory)
    assert failures(reading) == []
    assert len(unverified(reading)) == 1


def test_a_session_opened_twice(root: EvidenceRoot) -> None:
    key = SessionKey.generate(SESSION)
    open_session(root, key)
    with pytest.raises(EvidenceError, match="exists already"):
        open_session(root, key)


def test_files_that_nobody_speaks_of(tmp_path: Path) -> None:
    root = sealed_evidence(tmp_path / "evidence", attempts=1)
    for name in ("note", "missing_service/note", "missing_service/ms-m01-r01/note", "attempts/x"):
        stranger = root.directory / name
        stranger.write_bytes(b"")
        told = failures(verify_evidence(root.directory))
        assert len(told) == 1, name
        assert name in told[0]
        stranger.unlink()
    assert verify_evidence(root.directory).first_broken is None


def test_an_attempt_under_another_registration_than_its_session(root: EvidenceRoot) -> None:
    key = SessionKey.generate(SESSION)
    session = open_session(root, key)
    finish(begin(root, key, sealed={"registration": "b" * 64, "revision": 1, "key": key.public}))
    session.close()
    assert failures(verify_evidence(root.directory)) == [
        f"FAIL {PLACE} session: {PLACE}/attempt.json: it was not opened for that registration"
    ]


def test_every_attempt_taken_away(tmp_path: Path) -> None:
    root = sealed_evidence(tmp_path / "evidence", attempts=2)
    shutil.rmtree(root.directory / "missing_service")
    for entry in (root.directory / "attempts").glob("*.json"):
        entry.unlink()
    assert verify_evidence(root.directory).first_broken is not None


def test_what_a_session_says_of_itself(tmp_path: Path) -> None:
    root = sealed_evidence(tmp_path / "evidence", attempts=1)
    body = json.loads((root.directory / "sessions" / SESSION / "session.json").read_bytes())
    assert body["registrations"] == {
        "missing_service": {"registration": MANIFEST, "revision": 1, "commit": "c" * 40}
    }
    closing = json.loads((root.directory / "sessions" / SESSION / "seal/seal.json").read_bytes())
    assert closing["key"] == body["key"]
