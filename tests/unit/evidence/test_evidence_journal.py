from __future__ import annotations

import errno
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from evidence_doubles import FailingCalls, TickingClock
from hypothesis import given
from hypothesis import strategies as st

from pytest_sremut.errors import EvidenceError
from pytest_sremut.evidence.journal import (
    GENESIS,
    Journal,
    JournalStatus,
    parse_journal,
    read_journal,
)
from pytest_sremut.ground.formats.canonical import canonical_json, sha256


def journal_in(directory: Path, clock: TickingClock) -> Journal:
    return Journal(
        directory / "journal.jsonl", run="ms-m02-r03", attempt=1, boot_id="boot", clock=clock
    )


@pytest.fixture
def journal(tmp_path: Path, clock: TickingClock) -> Journal:
    return journal_in(tmp_path, clock)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a journal of three entries."""
    directory = tmp_path_factory.mktemp("journal")
    with journal_in(directory, TickingClock()) as journal:
        journal.append("CREATED", {"mutant": "MS-M02"})
        journal.append("INTENT", {"operation": "op-0001"}, references=["a" * 64])
        journal.append("RECEIPT")
    return (directory / "journal.jsonl").read_bytes()


def test_entries_are_chained_from_64_zeros(journal: Journal) -> None:
    assert journal.head == GENESIS == "0" * 64
    first = journal.append("CREATED", {"x": 1})
    second = journal.append("INTENT", references=["a" * 64])
    assert first.previous == GENESIS
    assert second.previous == first.hash
    assert journal.head == second.hash
    assert journal.entries == 2
    reading = read_journal(journal.path)
    assert reading.status is JournalStatus.INTACT
    assert reading.entries == (first, second)
    assert reading.head == second.hash
    assert reading.problem == ""


def test_a_line_is_canonical_and_hashes_to_what_it_says(written: bytes) -> None:
    for number, line in enumerate(written.splitlines(), start=1):
        value = json.loads(line)
        assert canonical_json(value) == line
        digest = value.pop("hash")
        assert sha256(canonical_json(value)) == digest
        assert value["sequence"] == number
        assert value["run"] == "ms-m02-r03"
        assert value["attempt"] == 1
        assert value["boot_id"] == "boot"
        assert isinstance(value["monotonic"], str)
        assert value["utc"].endswith("Z")


def test_each_append_is_on_the_disk_when_it_returns(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_size)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    journal.append("A")
    journal.append("B")
    assert len(synced) == 2
    assert synced[-1] == journal.path.stat().st_size


def test_a_journal_is_never_taken_over(journal: Journal, clock: TickingClock) -> None:
    with pytest.raises(EvidenceError, match="EEXIST"):
        journal_in(journal.path.parent, clock)


@pytest.mark.parametrize(("name", "partial"), [("write", 10), ("fsync", 0)])
def test_an_entry_that_fails_is_taken_back_and_the_next_one_chains(
    journal: Journal, failing: FailingCalls, name: str, partial: int
) -> None:
    first = journal.append("CREATED")
    failing.fail(name, 1, partial=partial)
    with pytest.raises(EvidenceError, match=r"journal\.jsonl: cannot be written: .*ENOSPC"):
        journal.append("LOST")
    assert journal.head == first.hash
    journal.append("NEXT")
    reading = read_journal(journal.path)
    assert reading.status is JournalStatus.INTACT
    assert [entry.transition for entry in reading.entries] == ["CREATED", "NEXT"]


def test_an_entry_that_cannot_be_taken_back_ends_the_journal(
    journal: Journal, failing: FailingCalls
) -> None:
    journal.append("CREATED")
    failing.fail("write", 1, partial=10)
    failing.fail("ftruncate", 1, code=errno.EIO)
    with pytest.raises(EvidenceError, match="ENOSPC"):
        journal.append("LOST")
    with pytest.raises(EvidenceError, match="half written"):
        journal.append("NEXT")
    reading = read_journal(journal.path)
    assert reading.status is JournalStatus.TORN_TAIL
    assert [entry.transition for entry in reading.entries] == ["CREATED"]


def test_facts_that_are_no_json_change_nothing(journal: Journal) -> None:
    with pytest.raises(EvidenceError, match=r"entry X: .*2\^53"):
        journal.append("X", {"n": 2**53})
    with pytest.raises(EvidenceError, match=r"entry X: .*not JSON"):
        journal.append("X", {"n": {1}})
    assert journal.path.read_bytes() == b""


def test_a_closed_journal_refuses(journal: Journal) -> None:
    journal.close()
    journal.close()
    with pytest.raises(EvidenceError, match="closed"):
        journal.append("X")


def test_several_threads_may_write(journal: Journal) -> None:
    threads = [
        threading.Thread(target=lambda: [journal.append("X") for _ in range(20)]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    reading = read_journal(journal.path)
    assert reading.status is JournalStatus.INTACT
    assert len(reading.entries) == 80


def test_missing_and_unreadable_are_named(tmp_path: Path) -> None:
    assert read_journal(tmp_path / "none").status is JournalStatus.MISSING
    unreadable = read_journal(tmp_path)
    assert unreadable.status is JournalStatus.UNREADABLE
    assert "EISDIR" in unreadable.problem


def test_an_empty_journal_holds(tmp_path: Path) -> None:
    (tmp_path / "j").write_bytes(b"")
    reading = read_journal(tmp_path / "j")
    assert (reading.status, reading.head) == (JournalStatus.INTACT, GENESIS)


def test_every_cut_within_a_line_is_a_torn_tail(written: bytes) -> None:
    for length in range(len(written)):
        cut = written[:length]
        reading = parse_journal(cut)
        whole = cut.count(b"\n")
        assert len(reading.entries) == whole
        torn = not cut.endswith(b"\n") and cut != b""
        assert reading.status is (JournalStatus.TORN_TAIL if torn else JournalStatus.INTACT)


def test_every_flipped_bit_is_seen(written: bytes) -> None:
    for index in range(len(written)):
        damaged = bytearray(written)
        damaged[index] ^= 1
        reading = parse_journal(bytes(damaged))
        assert reading.status is not JournalStatus.INTACT, index
        last = written.rfind(b"\n", 0, -1) + 1
        if index < last:
            assert reading.status is JournalStatus.TAMPERED, index


def rehashed(line: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    """A changed entry with a hash that fits it."""
    value = json.loads(line)
    change(value)
    value.pop("hash")
    return canonical_json({**value, "hash": sha256(canonical_json(value))})


def set_to(key: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda entry: entry.update({key: value})


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda lines: lines[::-1], "entry 1: sequence 3, 1 expected"),
        (lambda lines: [lines[0], lines[2]], "entry 2: sequence 3, 2 expected"),
        (lambda lines: [lines[0], *lines], "entry 2: sequence 1, 2 expected"),
        (lambda lines: [lines[0], b"", *lines[1:]], "entry 2: not JSON"),
        (lambda lines: [lines[0] + b" ", *lines[1:]], "entry 1: not canonical JSON"),
        (lambda lines: [b"[]", *lines], "entry 1: not the fields of an entry"),
        (lambda lines: [b'{"sequence":1}', *lines], "entry 1: not the fields of an entry"),
        (lambda lines: [b"9" * 5000, *lines], "entry 1: not JSON"),
        (lambda lines: [lines[0].replace(b"1000", b"NaN,1"), *lines[1:]], "entry 1: "),
        (
            lambda lines: [rehashed(lines[0], set_to("facts", {"mutant": "MS-M01"})), *lines[1:]],
            "entry 2: does not follow the entry before it",
        ),
        (
            lambda lines: [lines[0].replace(b"MS-M02", b"MS-M01"), *lines[1:]],
            "entry 1: its hash is not that of its content",
        ),
        (
            lambda lines: [lines[0], rehashed(lines[1], set_to("run", "ms-m01-r01")), lines[2]],
            "entry 2: of another run or attempt",
        ),
        (
            lambda lines: [rehashed(lines[0], set_to("facts", "text")), *lines[1:]],
            "entry 1: a field is of another type",
        ),
        (
            lambda lines: [rehashed(lines[0], set_to("sequence", True)), *lines[1:]],
            "entry 1: a field is of another type",
        ),
    ],
)  # fmt: skip
def test_tampering_is_named(
    written: bytes, change: Callable[[list[bytes]], list[bytes]], problem: str
) -> None:
    lines = change(written.splitlines())
    reading = parse_journal(b"\n".join(lines) + b"\n")
    assert reading.status is JournalStatus.TAMPERED
    assert reading.problem.startswith(problem)


def test_what_a_power_loss_leaves_is_torn(written: bytes) -> None:
    reading = parse_journal(written + b"\0" * 512)
    assert reading.status is JournalStatus.TORN_TAIL
    assert len(reading.entries) == 3


@given(st.binary(max_size=200))
def test_whatever_the_bytes_reading_never_raises(data: bytes) -> None:
    reading = parse_journal(data)
    assert (reading.status is JournalStatus.INTACT) == (data == b"")
