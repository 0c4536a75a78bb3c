from __future__ import annotations

import errno
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from evidence_doubles import FailingCalls, identity

from pytest_sremut.errors import EvidenceError
from pytest_sremut.evidence import root as root_module
from pytest_sremut.evidence.attempt import Attempt
from pytest_sremut.evidence.root import EvidenceRoot
from pytest_sremut.ground.durable.atomic import TEMPORARY
from pytest_sremut.study.verdict import Outcome, Registration


def ledger(root: EvidenceRoot) -> list[str]:
    names = (path.name for path in (root.directory / "attempts").iterdir())
    return sorted(name for name in names if not name.startswith(TEMPORARY))


def aborted(attempt: Attempt) -> None:
    attempt.close(outcome=Outcome.DRIVER_ABORTED, reason="x", record={})


def test_opening_creates_and_leaves_nothing_else(tmp_path: Path) -> None:
    root = EvidenceRoot.open(tmp_path / "a" / "b")
    assert root.directory == tmp_path / "a" / "b"
    assert ledger(root) == []
    assert root.attempts() == ()
    EvidenceRoot.open(tmp_path / "a" / "b")


@pytest.mark.parametrize("code", [errno.EROFS, errno.ENOSPC, errno.EACCES])
def test_a_directory_that_cannot_be_written_is_refused_at_once(
    tmp_path: Path, failing: FailingCalls, code: int
) -> None:
    failing.fail("write", 1, code=code)
    with pytest.raises(EvidenceError) as caught:
        EvidenceRoot.open(tmp_path / "evidence")
    assert str(tmp_path / "evidence") in str(caught.value)
    assert errno.errorcode[code] in str(caught.value)


def test_a_file_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "evidence").write_bytes(b"")
    with pytest.raises(EvidenceError, match="ENOTDIR"):
        EvidenceRoot.open(tmp_path / "evidence")


def test_reading_creates_nothing(tmp_path: Path) -> None:
    with pytest.raises(EvidenceError, match="no evidence directory"):
        EvidenceRoot.existing(tmp_path)
    assert list(tmp_path.iterdir()) == []
    EvidenceRoot.open(tmp_path)
    assert EvidenceRoot.existing(tmp_path).attempts() == ()


def test_the_ledger_entry_comes_before_everything_else(
    root: EvidenceRoot, failing: FailingCalls
) -> None:
    failing.fail("mkdir", 2, code=errno.ENOSPC)  # the lock asks first
    with pytest.raises(EvidenceError, match="ENOSPC"):
        root.begin(identity())
    (entry,) = root.attempts()
    assert (entry.run, entry.attempt, entry.died) == ("ms-m02-r03", 1, True)
    assert entry.problem == ""
    assert root.begin(identity()).number == 2


def test_an_attempt_that_is_not_in_the_ledger_does_not_exist(
    root: EvidenceRoot, failing: FailingCalls
) -> None:
    failing.fail("link", 1)
    with pytest.raises(EvidenceError, match="ENOSPC"):
        root.begin(identity())
    assert not (root.directory / "missing_service").exists()
    assert root.begin(identity()).number == 1


def test_open_and_closed_entries(root: EvidenceRoot) -> None:
    first = root.begin(identity())
    assert ledger(root) == ["000001-ms-m02-r03-a01.open.json"]
    opening = json.loads((root.directory / "attempts" / ledger(root)[0]).read_bytes())
    assert opening["schema"] == "sremut/attempt-ledger/v1"
    assert opening["directory"] == "missing_service/ms-m02-r03/a01"
    aborted(first)
    root.begin(identity(run="ms-m01-r01", mutant="MS-M01"))
    second = root.begin(identity())
    assert second.number == 2
    assert ledger(root) == [
        "000001-ms-m02-r03-a01.closed.json",
        "000001-ms-m02-r03-a01.open.json",
        "000002-ms-m01-r01-a01.open.json",
        "000003-ms-m02-r03-a02.open.json",
    ]
    entries = root.attempts()
    assert [entry.sequence for entry in entries] == [1, 2, 3]
    assert [entry.outcome for entry in entries] == [Outcome.DRIVER_ABORTED, None, None]
    assert entries[0].reason == "x"
    assert entries[0].directory == first.directory
    assert entries[0].files == {"study": "0" * 64, "contract": "1" * 64}
    assert entries[2].opened > entries[0].opened


# -- who may begin -----------------------------------------------------------------------------


def test_a_run_id_is_of_one_mutant(root: EvidenceRoot) -> None:
    root.begin(identity())
    with pytest.raises(EvidenceError, match=r"names mutant MS-M02, this one MS-M01"):
        root.begin(identity(mutant="MS-M01"))
    assert len(root.attempts()) == 1


def test_a_directory_is_of_one_version_of_a_study(root: EvidenceRoot) -> None:
    root.begin(identity())
    with pytest.raises(EvidenceError, match="made with other files of the study"):
        root.begin(identity(run="ms-m01-r01", mutant="MS-M01", files={"study": "2" * 64}))


def test_another_study_may_use_the_same_run_id(root: EvidenceRoot) -> None:
    root.begin(identity())
    other = root.begin(identity(study="other", mutant="X", files={"study": "2" * 64}))
    assert other.number == 1
    assert other.directory.parts[-3:] == ("other", "ms-m02-r03", "a01")


@pytest.mark.parametrize("registration", [Registration.PREREGISTERED, Registration.SEALED])
def test_registrations_are_never_mixed(root: EvidenceRoot, registration: Registration) -> None:
    root.begin(identity())
    with pytest.raises(EvidenceError, match="is EXPLORATORY, this one would be"):
        root.begin(identity(registration=registration))


def complete(attempt: Attempt) -> None:
    from evidence_doubles import state_body

    from pytest_sremut.study.verdict import State

    raw = attempt.raw("x", b"x")
    for state in State:
        attempt.finish_state(state, state_body(raw))
    attempt.close(outcome=Outcome.COMPLETE, reason="", record={})


@pytest.mark.parametrize("registration", list(Registration))
def test_a_completed_verdict_is_never_retried_once_registered(
    root: EvidenceRoot, registration: Registration
) -> None:
    complete(root.begin(identity(registration=registration)))
    if registration is Registration.EXPLORATORY:
        assert root.begin(identity(registration=registration)).number == 2
        return
    with pytest.raises(EvidenceError, match="never retried"):
        root.begin(identity(registration=registration))
    assert len(root.attempts()) == 1


def test_an_attempt_that_did_not_complete_may_be_followed(root: EvidenceRoot) -> None:
    aborted(root.begin(identity(registration=Registration.SEALED)))
    assert root.begin(identity(registration=Registration.SEALED)).number == 2


@pytest.mark.parametrize("field", ["study", "run"])
@pytest.mark.parametrize("name", ["../x", "a/b", "", ".x"])
def test_names_become_directories_only_if_they_are_plain(
    root: EvidenceRoot, field: str, name: str
) -> None:
    with pytest.raises(EvidenceError, match="no name for an evidence directory"):
        root.begin(identity(**{field: name}))


def test_a_directory_that_nobody_knows_is_not_taken(root: EvidenceRoot) -> None:
    (root.directory / "missing_service/ms-m02-r03/a01").mkdir(parents=True)
    with pytest.raises(EvidenceError, match="the ledger knows of no such attempt"):
        root.begin(identity())
    assert root.begin(identity()).number == 2


def test_a_lock_that_is_held_too_long_is_named(
    root: EvidenceRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    from filelock import FileLock

    monkeypatch.setattr(root_module, "_LOCK_TIMEOUT", 0.05)
    held = FileLock(root.directory / "attempts" / f"{TEMPORARY}lock")
    with held, pytest.raises(EvidenceError, match="another process has held its lock"):
        root.begin(identity())


BEGIN = """
import sys
from pathlib import Path
from evidence_doubles import identity
from pytest_sremut.evidence.root import EvidenceRoot
root = EvidenceRoot.open(Path(sys.argv[1]))
for _ in range(10):
    root.begin(identity())
"""


def test_several_processes_share_a_directory(tmp_path: Path) -> None:
    import os

    paths = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", BEGIN, str(tmp_path)], env={**os.environ, "PYTHONPATH": paths}
        )
        for _ in range(3)
    ]
    assert [process.wait() for process in processes] == [0, 0, 0]
    entries = EvidenceRoot.open(tmp_path).attempts()
    assert [entry.sequence for entry in entries] == list(range(1, 31))
    assert sorted(entry.attempt for entry in entries) == list(range(1, 31))
    assert all(entry.problem == "" for entry in entries)


# -- what a crash or a hand leaves -------------------------------------------------------------


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b"\0" * 100, b'{"schema": "x"}'])
@pytest.mark.parametrize("event", ["open", "closed"])
def test_a_torn_entry_is_named_and_counted(root: EvidenceRoot, content: bytes, event: str) -> None:
    aborted(root.begin(identity()))
    root.begin(identity(run="ms-m01-r01", mutant="MS-M01"))
    (root.directory / "attempts" / f"000001-ms-m02-r03-a01.{event}.json").write_bytes(content)
    torn, fine = root.attempts()
    assert (torn.sequence, torn.run, torn.attempt) == (1, "ms-m02-r03", 1)
    assert f"000001-ms-m02-r03-a01.{event}.json" in torn.problem
    assert torn.died is (event == "closed")
    assert fine.problem == ""
    assert root.begin(identity()).number == 2


def test_a_closing_entry_alone_is_named(root: EvidenceRoot) -> None:
    aborted(root.begin(identity()))
    (root.directory / "attempts" / "000001-ms-m02-r03-a01.open.json").unlink()
    (entry,) = root.attempts()
    assert "open.json: missing" in entry.problem
    assert entry.outcome is Outcome.DRIVER_ABORTED


@pytest.mark.parametrize(
    ("key", "value"), [("sequence", 2), ("run", "ms-m01-r01"), ("attempt", 7), ("event", "closed")]
)
def test_an_entry_that_is_not_as_its_name_says(root: EvidenceRoot, key: str, value: Any) -> None:
    root.begin(identity())
    path = root.directory / "attempts" / "000001-ms-m02-r03-a01.open.json"
    body = {**json.loads(path.read_bytes()), key: value}
    path.write_text(json.dumps(body))
    (entry,) = root.attempts()
    assert entry.problem != ""
    assert entry.run == "ms-m02-r03"


def test_an_entry_does_not_lead_out_of_the_directory(root: EvidenceRoot) -> None:
    root.begin(identity())
    path = root.directory / "attempts" / "000001-ms-m02-r03-a01.open.json"
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "directory": "../../etc"}))
    (entry,) = root.attempts()
    assert entry.directory is None
    assert "../../etc" in entry.problem


def test_strange_files_are_named_and_temporary_ones_skipped(root: EvidenceRoot) -> None:
    root.begin(identity())
    (root.directory / "attempts" / "notes.txt").write_bytes(b"")
    (root.directory / "attempts" / f"{TEMPORARY}1-2").write_bytes(b"half")
    entries = root.attempts()
    assert [entry.sequence for entry in entries] == [1, 0]
    assert entries[1].problem == "attempts/notes.txt: not a name of this ledger"
    assert root.begin(identity()).number == 2
