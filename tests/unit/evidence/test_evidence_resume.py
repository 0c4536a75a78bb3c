"""Going on where a process died: nothing that stood there changes, what was torn off is kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from evidence_doubles import TickingClock, identity, state_body
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_sremut.errors import EvidenceError
from pytest_sremut.evidence.attempt import Attempt
from pytest_sremut.evidence.journal import (
    Journal,
    JournalStatus,
    parse_journal,
    read_journal,
    torn_tail,
)
from pytest_sremut.evidence.load import load_entry
from pytest_sremut.evidence.resume import end_of, entries_of, resume
from pytest_sremut.evidence.root import AttemptEntry, EvidenceRoot
from pytest_sremut.study.verdict import Outcome, State


def begun(directory: Path) -> tuple[EvidenceRoot, Attempt]:
    """An attempt whose process dies after a few entries and one state."""
    root = EvidenceRoot.open(directory, clock=TickingClock())
    attempt = root.begin(identity())
    attempt.journal.append("CREATED")
    raw = attempt.raw("pods.json", b"{}")
    attempt.finish_state(State.HEALTHY, state_body(raw))
    attempt.stream("sampler.jsonl").write({"a": 1})
    attempt.journal.append("INTENT", {"operation": "op-0001"})
    return root, attempt


def only(root: EvidenceRoot) -> AttemptEntry:
    (entry,) = root.attempts()
    return entry


def test_the_chain_goes_on_and_everything_is_referred_to(tmp_path: Path) -> None:
    root, died = begun(tmp_path)
    before = died.journal.path.read_bytes()
    resumed = resume(root, only(root), clock=TickingClock())
    assert [e.transition for e in resumed.entries] == ["CREATED", "STATE_RECORDED", "INTENT"]
    assert (resumed.number, resumed.torn, resumed.is_final) == (1, None, False)
    resumed.attempt.journal.append("RECOVERY_STARTED")
    resumed.attempt.close(outcome=Outcome.DRIVER_ABORTED, reason="it died", record={})
    assert died.journal.path.read_bytes().startswith(before)
    record = load_entry(only(root))
    assert record.problems == ()
    assert record.outcome is Outcome.DRIVER_ABORTED
    assert sorted(record.states) == [State.HEALTHY]
    assert {ref["path"] for ref in record.record["raw"]} == {"raw/pods.json", "sampler.jsonl"}
    assert record.record["sampler"]["path"] == "sampler.jsonl"


def test_a_torn_entry_is_kept_and_cut_off(tmp_path: Path) -> None:
    root, died = begun(tmp_path)
    with died.journal.path.open("ab") as file:
        file.write(b'{"attempt":1,"fac')
    assert torn_tail(died.journal.path) == b'{"attempt":1,"fac'
    resumed = resume(root, only(root), clock=TickingClock())
    assert resumed.torn is not None
    assert (died.directory / resumed.torn.path).read_bytes() == b'{"attempt":1,"fac'
    resumed.attempt.journal.append("RECOVERY_STARTED")
    assert read_journal(died.journal.path).status is JournalStatus.INTACT
    # A recovery that dies itself finds the tail kept already.
    with died.journal.path.open("ab") as file:
        file.write(b'{"attempt":1,"fac')
    again = resume(root, only(root), clock=TickingClock())
    assert (again.torn, again.number) == (resumed.torn, 2)
    again.attempt.close(outcome=Outcome.DRIVER_ABORTED, reason="it died", record={})
    assert load_entry(only(root)).problems == ()


def test_a_journal_that_was_tampered_with_is_not_gone_on_with(tmp_path: Path) -> None:
    root, died = begun(tmp_path)
    data = died.journal.path.read_bytes()
    died.journal.path.write_bytes(data.replace(b"CREATED", b"CREATEX", 1))
    with pytest.raises(EvidenceError, match="TAMPERED: entry 1"):
        resume(root, only(root))
    with pytest.raises(EvidenceError, match="TAMPERED"):
        entries_of(root, only(root))
    assert died.journal.path.read_bytes() == data.replace(b"CREATED", b"CREATEX", 1)


def test_a_journal_of_another_attempt_is_not_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal(path, run="r", attempt=1, boot_id="b", clock=TickingClock()) as journal:
        journal.append("CREATED")
    with pytest.raises(EvidenceError, match="of r attempt 1, not r attempt 2"):
        Journal.resume(path, run="r", attempt=2, boot_id="b", clock=TickingClock())
    with pytest.raises(EvidenceError, match="MISSING"):
        Journal.resume(tmp_path / "no", run="r", attempt=1, boot_id="b", clock=TickingClock())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(cut=st.integers(0, 10_000))
def test_a_journal_cut_anywhere_goes_on(tmp_path: Path, cut: int) -> None:
    """Whatever a crash leaves of the file: what chains stays, and the chain goes on after it."""
    path = tmp_path / f"{cut}.jsonl"
    path.unlink(missing_ok=True)
    with Journal(path, run="r", attempt=1, boot_id="b", clock=TickingClock()) as journal:
        for number in range(5):
            journal.append("INTENT", {"operation": f"op-{number:04d}"})
    data = path.read_bytes()[:cut]
    path.write_bytes(data)
    whole = parse_journal(data).entries
    resumed, entries = Journal.resume(path, run="r", attempt=1, boot_id="b", clock=TickingClock())
    assert entries == whole
    resumed.append("RECOVERY_STARTED")
    resumed.close()
    after = read_journal(path)
    assert after.status is JournalStatus.INTACT
    assert after.entries[:-1] == whole
    assert after.entries[-1].sequence == len(whole) + 1


def test_a_record_without_its_closing_entry_gets_one(tmp_path: Path) -> None:
    root, died = begun(tmp_path)
    died.close(outcome=Outcome.DRIVER_ABORTED, reason="aborted", record={})
    (closed,) = (tmp_path / "attempts").glob("*.closed.json")
    was = json.loads(closed.read_text())
    closed.unlink()
    ended = end_of(root, only(root))
    assert ended is not None
    assert (ended.outcome, ended.reason) == (Outcome.DRIVER_ABORTED, "aborted")
    assert json.loads(closed.read_text()) == was
    assert load_entry(only(root)).problems == ()
    end_of(root, only(root))  # and nothing is written twice


def test_a_record_that_speaks_of_another_journal_is_not_closed(tmp_path: Path) -> None:
    root, died = begun(tmp_path)
    died.close(outcome=Outcome.DRIVER_ABORTED, reason="aborted", record={})
    (closed,) = (tmp_path / "attempts").glob("*.closed.json")
    closed.unlink()
    lines = died.journal.path.read_bytes().splitlines(keepends=True)
    died.journal.path.write_bytes(b"".join(lines[:-1]))
    with pytest.raises(EvidenceError, match="speaks of another journal"):
        end_of(root, only(root))
    assert not closed.exists()


@pytest.mark.parametrize("mark", ["record.json", "seal/seal.json"])
def test_after_its_end_nothing_is_written_into_an_attempt(tmp_path: Path, mark: str) -> None:
    root, died = begun(tmp_path)
    if mark == "record.json":
        died.close(outcome=Outcome.RESTORATION_FAILURE, reason="blocked", record={})
    else:
        (died.directory / "seal").mkdir()
        (died.directory / mark).write_text("{}")
    before = {path: path.read_bytes() for path in died.directory.rglob("*") if path.is_file()}
    for number in (1, 2):
        resumed = resume(root, only(root), clock=TickingClock())
        assert resumed.is_final
        assert resumed.attempt.directory == (
            tmp_path / "recoveries" / f"000001-ms-m02-r03-a01-n{number:02d}"
        )
        resumed.attempt.journal.append("RECOVERY_STARTED")
        resumed.attempt.close(outcome=Outcome.DRIVER_ABORTED, reason="put back", record={})
    after = {path: path.read_bytes() for path in died.directory.rglob("*") if path.is_file()}
    assert after == before
    assert [e.transition for e in entries_of(root, only(root))].count("RECOVERY_STARTED") == 2


def test_an_attempt_that_died_before_its_journal(tmp_path: Path) -> None:
    root, died = begun(tmp_path)
    died.journal.path.unlink()
    resumed = resume(root, only(root), clock=TickingClock())
    assert resumed.entries == ()
    resumed.attempt.journal.append("RECOVERY_STARTED")
    resumed.attempt.close(outcome=Outcome.DRIVER_ABORTED, reason="it died", record={})
    assert load_entry(only(root)).problems == ()
