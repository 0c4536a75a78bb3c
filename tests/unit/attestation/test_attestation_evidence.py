"""`sremut verify EVIDENCE`: exit codes, lines, labels, JSON, for a session's and an attempt's."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "evidence"))
sys.path.insert(0, str(Path(__file__).parents[1] / "evidence" / "seal"))

from sealed_doubles import SESSION, sealed_evidence

from pytest_sremut.cli import main

ATTEMPT = Path("missing_service/ms-m01-r01/a01")


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    return sealed_evidence(tmp_path / "evidence", attempts=2).directory


@pytest.fixture
def verify(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    def run(*arguments: object) -> tuple[int, str]:
        root = tmp_path / "project"
        root.mkdir(exist_ok=True)
        code = main(["verify", *map(str, arguments), "--root", str(root)])
        captured = capsys.readouterr()
        assert captured.err == "", captured.err
        return code, captured.out

    return run


def test_away_from_its_project(sealed: Path, verify) -> None:
    """The seals hold; of the registration nobody can tell here."""
    code, out = verify(sealed)
    assert code == 3
    assert "FAIL" not in out
    assert "--   missing_service registration: cannot be verified: 'missing_service' is no" in out
    assert f"{ATTEMPT}: SEALED [registration not verified; unanchored]" in out
    assert "first broken link" not in out


def test_the_first_broken_link(sealed: Path, verify) -> None:
    journal = sealed / ATTEMPT / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([*lines[:2], *lines[3:]]))
    code, out = verify(sealed)
    assert code == 1
    last = out.splitlines()[-1]
    assert last.startswith(f"first broken link: {ATTEMPT}/journal.jsonl: line 3: ")
    assert f"{ATTEMPT}: SEALED [registration not verified; no seal that holds]" in out


def test_one_attempt(sealed: Path, verify, tmp_path: Path) -> None:
    code, out = verify(sealed / ATTEMPT)
    assert code == 3  # the registration
    assert f"OK   sessions/{SESSION} signature: session.json by " in out
    alone = tmp_path / "elsewhere" / ATTEMPT
    shutil.copytree(sealed / ATTEMPT, alone)
    code, out = verify(alone)
    assert code == 3
    assert f"--   session: cannot be verified: the files of session {SESSION} are not here" in out
    (alone / "raw" / "more").write_bytes(b"")
    code, out = verify(alone)
    assert code == 1
    assert out.splitlines()[-1] == "first broken link: raw/more: was not sealed: it was added"


def test_what_is_left_of_evidence(sealed: Path, verify) -> None:
    """Every attempt was taken away, with its entries: the session still knows them."""
    for name in ("attempts", "missing_service"):
        shutil.rmtree(sealed / name)
    (sealed / "attempts").mkdir()
    code, out = verify(sealed)
    assert code == 1
    assert f"FAIL sessions/{SESSION} ledger: attempts/000001-ms-m01-r01-a01.open.json: missing" in (
        out
    )


def test_machine_readable(sealed: Path, verify) -> None:
    code, out = verify(sealed, "--json")
    told = json.loads(out)
    assert code == 3
    assert told["fault"] == "cannot be verified"
    assert told["first_broken"] is None
    assert told["labels"][str(ATTEMPT)].startswith("SEALED [")
    assert {check["ok"] for check in told["checks"]} == {True, None}
    (sealed / ATTEMPT / "seal" / "seal.sig").write_bytes(b"")
    code, out = verify(sealed, "--json")
    told = json.loads(out)
    assert code == 1
    assert told["first_broken"] == f"{ATTEMPT}/seal/seal.sig"
