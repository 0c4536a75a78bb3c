"""Sealing one attempt: what the seal says, who may make one, and that it checks without us."""

from __future__ import annotations

import base64
import copy
import json
import pickle
import subprocess
from pathlib import Path

import needs
import pytest
from sealed_doubles import MANIFEST, SESSION, begin, finish, operate

from pytest_sremut.errors import EvidenceError
from pytest_sremut.evidence.attempt import Attempt
from pytest_sremut.evidence.root import EvidenceRoot
from pytest_sremut.evidence.seal import AnchorState, SessionKey, seal_attempt, seal_recovered
from pytest_sremut.study.verdict import Outcome, Registration, State


def document(attempt: Path) -> dict[str, object]:
    return json.loads((attempt / "seal" / "seal.json").read_bytes())


def test_what_a_seal_says(finished: Attempt, key: SessionKey) -> None:
    seal = seal_attempt(finished.directory, key=key)
    assert (seal.extent, seal.guards_held, seal.anchor) == (
        "complete",
        True,
        AnchorState.UNANCHORED,
    )
    said = document(finished.directory)
    assert said["identity"] == {
        "study": "missing_service",
        "registration": MANIFEST,
        "revision": 1,
        "run": "ms-m02-r03",
        "mutant": "MS-M02",
        "repetition": 3,
        "attempt": 1,
        "sequence": 1,
        "session": SESSION,
        "product": "d" * 64,
        "cluster": "uid-of-kube-system",
        "opened": json.loads((finished.directory / "attempt.json").read_bytes())["opened"],
    }
    assert said["key"] == {
        "algorithm": "Ed25519",
        "public": key.public,
        "sha256": key.sha256,
        "session": SESSION,
    }
    assert said["journal"] == {
        "status": "INTACT",
        "head": finished.journal.head,
        "entries": finished.journal.entries,
    }
    assert (said["outcome"], said["extent"], said["stop"]) == ("COMPLETE", "complete", None)
    assert said["guards"] == {"held": True, "broken": []}
    assert said["anchor"]["state"] == "unanchored"
    assert {file.name for file in (finished.directory / "seal").iterdir()} == {
        "SHA256SUMS",
        "SHA256SUMS.sig",
        "seal.json",
        "seal.sig",
    }


def test_the_listing_is_what_sha256sum_checks(finished: Attempt, key: SessionKey) -> None:
    seal_attempt(finished.directory, key=key)
    command = ["sha256sum", "-c", "--strict", "--quiet", "seal/SHA256SUMS"]
    assert subprocess.run(command, cwd=finished.directory, check=False).returncode == 0
    (finished.directory / "raw" / "healthy-O1.json").write_bytes(b"{}")
    done = subprocess.run(
        command, cwd=finished.directory, check=False, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "raw/healthy-O1.json: FAILED" in done.stdout


@needs.program("openssl")
@pytest.mark.parametrize("signed", ["SHA256SUMS", "seal.json"])
def test_the_signatures_are_what_openssl_checks(
    finished: Attempt, key: SessionKey, tmp_path: Path, signed: str
) -> None:
    seal_attempt(finished.directory, key=key)
    directory = finished.directory / "seal"
    pem = tmp_path / "key.pem"
    public = document(finished.directory)["key"]["public"]
    pem.write_text(f"-----BEGIN PUBLIC KEY-----\n{public}\n-----END PUBLIC KEY-----\n")
    signature = directory / f"{signed.removesuffix('.json')}.sig"
    command = [
        "openssl", "pkeyutl", "-verify", "-pubin", "-inkey", str(pem), "-rawin",
        "-in", str(directory / signed), "-sigfile", str(signature),
    ]  # fmt: skip
    assert subprocess.run(command, check=False, capture_output=True).returncode == 0
    (directory / signed).write_bytes((directory / signed).read_bytes() + b" ")
    assert subprocess.run(command, check=False, capture_output=True).returncode != 0


def test_a_seal_is_never_replaced(finished: Attempt, key: SessionKey) -> None:
    seal_attempt(finished.directory, key=key)
    before = {f.name: f.read_bytes() for f in (finished.directory / "seal").iterdir()}
    with pytest.raises(EvidenceError, match="is sealed already"):
        seal_attempt(finished.directory, key=key)
    assert {f.name: f.read_bytes() for f in (finished.directory / "seal").iterdir()} == before


def test_only_attempts_of_a_sealed_session(root: EvidenceRoot, key: SessionKey) -> None:
    attempt = finish(begin(root, key, registration=Registration.EXPLORATORY, sealed=None))
    with pytest.raises(EvidenceError, match="no attempt of a sealed session"):
        seal_attempt(attempt.directory, key=key, partial=True, stop="x")


def test_an_attempt_that_died(root: EvidenceRoot, key: SessionKey) -> None:
    attempt = begin(root, key)
    operate(attempt, receipt=False)
    attempt.journal.close()
    with pytest.raises(EvidenceError, match="has no record"):
        seal_attempt(attempt.directory, key=key)
    with pytest.raises(EvidenceError, match="without a reason"):
        seal_attempt(attempt.directory, key=key, partial=True)
    assert not (attempt.directory / "seal").exists()
    recovery = SessionKey.generate("20260830T000000Z-fedcba")
    seal = seal_attempt(
        attempt.directory, key=recovery, partial=True, stop="the session was killed"
    )
    said = document(attempt.directory)
    assert seal.extent == "partial"
    assert said["stop"] == {
        "reason": "the session was killed",
        "last_transition": "INTENT",
        "after_entries": 2,
    }
    assert (said["record"], said["outcome"]) == (None, None)
    assert said["guards"]["held"] is False
    assert "journal line 2: op-0001 has no receipt" in said["guards"]["broken"]
    assert said["identity"]["session"] == SESSION
    assert said["key"]["session"] == recovery.session


def test_recovery_seals_what_is_left_and_nothing_else(
    root: EvidenceRoot, key: SessionKey, finished: Attempt
) -> None:
    seal_attempt(finished.directory, key=key)
    assert seal_recovered(finished.directory, session="r", stop="x") is None
    exploring = begin(
        root, key, run="ms-m01-r01", registration=Registration.EXPLORATORY, sealed=None,
        study="another",
    )  # fmt: skip
    assert seal_recovered(exploring.directory, session="r", stop="x") is None
    dead = begin(root, key, run="ms-m01-r01", mutant="MS-M01")
    seal = seal_recovered(dead.directory, session="r", stop="it was killed")
    assert seal is not None
    assert seal.extent == "partial"
    assert document(dead.directory)["key"]["session"] == "r"


def test_nobody_else_seals_an_attempt_as_complete(finished: Attempt) -> None:
    with pytest.raises(EvidenceError, match="of another session"):
        seal_attempt(finished.directory, key=SessionKey.generate("another"))


def test_a_complete_attempt_is_never_sealed_as_partial(finished: Attempt) -> None:
    """Else whoever comes later could lend a seal to a record that nobody sealed in time."""
    with pytest.raises(EvidenceError, match="only its own session seals it"):
        seal_recovered(finished.directory, session="r", stop="its session was killed")
    assert not (finished.directory / "seal").exists()


def test_a_blocked_restoration_is_partial_with_its_reason(
    root: EvidenceRoot, key: SessionKey
) -> None:
    attempt = begin(root, key)
    attempt.journal.append("RESTORATION_BLOCKED")
    attempt.close(outcome=Outcome.RESTORATION_FAILURE, reason="no answer", record={})
    assert seal_attempt(attempt.directory, key=key).extent == "partial"
    assert document(attempt.directory)["stop"]["reason"] == "RESTORATION_FAILURE: no answer"


def test_an_invariant_that_was_not_evaluated_breaks_a_guard(
    root: EvidenceRoot, key: SessionKey
) -> None:
    attempt = finish(begin(root, key), not_evaluated={State.RESTORED: ["MS-I6"]})
    assert seal_attempt(attempt.directory, key=key).guards_held is False
    assert document(attempt.directory)["guards"]["broken"] == ["restored: not evaluated: MS-I6"]


def test_what_cannot_be_sealed(finished: Attempt, key: SessionKey) -> None:
    link = finished.directory / "raw" / "link"
    link.symlink_to("healthy-O1.json")
    with pytest.raises(EvidenceError, match=r"raw/link: a symbolic link"):
        seal_attempt(finished.directory, key=key)
    link.unlink()
    (finished.directory / "raw" / "odd\nname").write_bytes(b"")
    with pytest.raises(EvidenceError, match="cannot hold as it is"):
        seal_attempt(finished.directory, key=key)
    assert not (finished.directory / "seal").exists()


def test_the_private_key_does_not_leave(key: SessionKey, finished: Attempt) -> None:
    with pytest.raises(TypeError):
        pickle.dumps(key)
    with pytest.raises(TypeError):
        copy.deepcopy(key)
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    raw = key._private.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption())
    seal_attempt(finished.directory, key=key)
    key.discard()
    with pytest.raises(EvidenceError, match="was discarded"):
        key.sign(b"")
    for file in finished.directory.rglob("*"):
        if file.is_file():
            data = file.read_bytes()
            assert raw not in data
            assert base64.b64encode(raw) not in data
            assert raw.hex().encode() not in data
