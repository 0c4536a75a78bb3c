"""The journal of one attempt: append-only, every entry chained to the one before it by hash.

An entry's hash is the SHA-256 of its canonical JSON without the hash itself; the first entry's
`previous` is 64 zeros. An append returns only when the entry is on the disk. A file that ends
within a line is a *torn tail*, what a crash leaves; anything else that does not chain is
*tampered*. A cut at the end of a line leaves a shorter chain that holds: only the head noted
elsewhere (in the record, or in an anchor) shows it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Self

from pytest_sremut.errors import EvidenceError
from pytest_sremut.ground.durable.atomic import fsync_directory, reason_of, write_all
from pytest_sremut.ground.durable.clock import Clock, rfc3339
from pytest_sremut.ground.durable.uninterrupted import uninterrupted
from pytest_sremut.ground.formats.canonical import (
    CanonicalError,
    canonical_json,
    parse_with_encoder,
    sha256,
)

__all__ = [
    "GENESIS",
    "Journal",
    "JournalEntry",
    "JournalReading",
    "JournalStatus",
    "parse_journal",
    "read_journal",
    "torn_tail",
]

GENESIS: Final = "0" * 64
"""`previous` of the first entry."""

_FIELDS: Final = frozenset(
    {
        "sequence",
        "previous",
        "hash",
        "run",
        "attempt",
        "transition",
        "references",
        "facts",
        "utc",
        "monotonic",
        "boot_id",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """One entry. `references` are SHA-256 of evidence that it speaks of."""

    sequence: int  # from 1
    previous: str
    hash: str
    run: str
    attempt: int
    transition: str
    references: tuple[str, ...]
    facts: Mapping[str, Any]
    utc: str
    monotonic: str  # decimal text: exact, whatever reads it
    boot_id: str


class Journal:
    """Writes a journal. Safe to use from several threads.

    Args:
        path: Must not exist yet; its directory must.
        run: Of every entry.
        attempt: Of every entry.
        boot_id: Of every entry: monotonic times compare only within one boot.
        clock: Where times come from.

    Raises:
        EvidenceError: The file exists or cannot be created.
    """

    def __init__(self, path: Path, *, run: str, attempt: int, boot_id: str, clock: Clock) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            self._descriptor = os.open(path, flags, 0o644)
            fsync_directory(path.parent)
        except OSError as error:
            raise EvidenceError(f"{path}: cannot be created: {reason_of(error)}") from error
        self._path = path
        self._run = run
        self._attempt = attempt
        self._boot_id = boot_id
        self._clock = clock
        self._lock = threading.Lock()
        self._head = GENESIS
        self._sequence = 0
        self._length = 0
        self._broken = ""

    @classmethod
    def resume(
        cls, path: Path, *, run: str, attempt: int, boot_id: str, clock: Clock
    ) -> tuple[Self, tuple[JournalEntry, ...]]:
        """Go on with the journal of a process that died; what it holds is verified first.

        A torn tail is cut off: no entry was ever acknowledged there. Whoever wants to keep its
        bytes takes them from `torn_tail` before.

        Returns:
            The journal, and the entries that it holds.
        Raises:
            EvidenceError: It is missing, tampered with, of another run, or cannot be written.
        """
        reading, whole = _read_whole(path)
        if reading.status not in {JournalStatus.INTACT, JournalStatus.TORN_TAIL}:
            raise EvidenceError(f"{path}: {reading.status}: {reading.problem}")
        for entry in reading.entries[:1]:
            if (entry.run, entry.attempt) != (run, attempt):
                raise EvidenceError(
                    f"{path}: of {entry.run} attempt {entry.attempt}, not {run} attempt {attempt}"
                )
        journal = cls.__new__(cls)
        journal._path, journal._run, journal._attempt = path, run, attempt
        journal._boot_id, journal._clock, journal._lock = boot_id, clock, threading.Lock()
        journal._head, journal._sequence = reading.head, len(reading.entries)
        journal._length, journal._broken = whole, ""
        try:
            journal._descriptor = os.open(
                path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            )
            os.ftruncate(journal._descriptor, whole)
            os.fsync(journal._descriptor)
        except OSError as error:
            raise EvidenceError(f"{path}: cannot be gone on with: {reason_of(error)}") from error
        return journal, reading.entries

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def path(self) -> Path:
        return self._path

    @property
    def head(self) -> str:
        """Hash of the last entry; `GENESIS` before the first."""
        return self._head

    @property
    def entries(self) -> int:
        """How many entries are on the disk."""
        return self._sequence

    def append(
        self,
        transition: str,
        facts: Mapping[str, Any] | None = None,
        *,
        references: Sequence[str] = (),
    ) -> JournalEntry:
        """Add an entry and wait until it is durable.

        Args:
            transition: What happened: a phase, `INTENT`, `RECEIPT`, ...
            facts: JSON-ready; no secrets.
            references: SHA-256 of evidence files that the entry speaks of.

        Raises:
            EvidenceError: The facts are not JSON, or the entry cannot be written. The journal is
                then as before: what was written of the entry has been taken back.
        """
        with uninterrupted(), self._lock:
            if self._broken:
                raise EvidenceError(f"{self._path}: {self._broken}")
            body: dict[str, Any] = {
                "sequence": self._sequence + 1,
                "previous": self._head,
                "run": self._run,
                "attempt": self._attempt,
                "transition": transition,
                "references": list(references),
                "facts": dict(facts or {}),
                "utc": rfc3339(self._clock.now()),
                "monotonic": f"{self._clock.monotonic():.6f}",
                "boot_id": self._boot_id,
            }
            try:
                digest = sha256(canonical_json(body))
                line = canonical_json({**body, "hash": digest}) + b"\n"
            except CanonicalError as error:
                raise EvidenceError(f"{self._path}: entry {transition}: {error}") from error
            self._write(line)
            self._head = digest
            self._sequence += 1
            return _entry({**body, "hash": digest})

    def close(self) -> None:
        """Release the file; idempotent. Later appends are refused."""
        with self._lock:
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1
                self._broken = "the journal is closed"

    def _write(self, line: bytes) -> None:
        try:
            write_all(self._descriptor, line)
            os.fsync(self._descriptor)
        except OSError as error:
            try:
                os.ftruncate(self._descriptor, self._length)
            except OSError as second:
                self._broken = f"an entry is half written and stays so: {reason_of(second)}"
            raise EvidenceError(f"{self._path}: cannot be written: {reason_of(error)}") from error
        self._length += len(line)


class JournalStatus(StrEnum):
    """What became of a journal."""

    INTACT = "INTACT"
    MISSING = "MISSING"
    TORN_TAIL = "TORN_TAIL"
    """The last line is incomplete, the chain before it holds."""
    TAMPERED = "TAMPERED"
    UNREADABLE = "UNREADABLE"


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalReading:
    """A journal as read: the entries that chain, and what is wrong after them."""

    status: JournalStatus
    entries: tuple[JournalEntry, ...]
    problem: str  # empty where INTACT

    @property
    def head(self) -> str:
        """Hash of the last entry that chains."""
        return self.entries[-1].hash if self.entries else GENESIS


def read_journal(path: Path) -> JournalReading:
    """Read and verify a journal. Never raises for what the file holds."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return JournalReading(status=JournalStatus.MISSING, entries=(), problem="no journal")
    except OSError as error:
        return JournalReading(status=JournalStatus.UNREADABLE, entries=(), problem=reason_of(error))
    return parse_journal(data)


def torn_tail(path: Path) -> bytes:
    """The bytes after the last whole line; empty where the file ends with one, or is not there."""
    try:
        return path.read_bytes().rpartition(b"\n")[2]
    except OSError:
        return b""


def _read_whole(path: Path) -> tuple[JournalReading, int]:
    """A journal as read, and how many bytes its whole lines take."""
    try:
        data = path.read_bytes()
    except OSError:
        return read_journal(path), 0
    return parse_journal(data), data.rfind(b"\n") + 1


def parse_journal(data: bytes) -> JournalReading:
    """Verify the bytes of a journal."""
    *lines, tail = data.split(b"\n")
    entries: list[JournalEntry] = []
    previous = GENESIS
    for number, line in enumerate(lines, start=1):
        entry, problem = _verified(line, number, previous, entries[0] if entries else None)
        if entry is None:
            return JournalReading(
                status=JournalStatus.TAMPERED,
                entries=tuple(entries),
                problem=f"entry {number}: {problem}",
            )
        entries.append(entry)
        previous = entry.hash
    if tail:
        return JournalReading(
            status=JournalStatus.TORN_TAIL,
            entries=tuple(entries),
            problem=f"{len(tail)} bytes of an incomplete entry {len(lines) + 1}",
        )
    return JournalReading(status=JournalStatus.INTACT, entries=tuple(entries), problem="")


def _verified(
    line: bytes, number: int, previous: str, first: JournalEntry | None
) -> tuple[JournalEntry | None, str]:
    try:
        value, encoded = parse_with_encoder(line)
    except (ValueError, RecursionError):
        return None, "not JSON"
    if not isinstance(value, dict) or value.keys() != _FIELDS:
        return None, "not the fields of an entry"
    body = {key: item for key, item in value.items() if key != "hash"}
    try:
        canonical = encoded(value) == line
        digest = sha256(encoded(body))
    except (CanonicalError, RecursionError):
        canonical, digest = False, None
    if not canonical:
        return None, "not canonical JSON"
    if digest != value["hash"]:
        return None, "its hash is not that of its content"
    if not _well_typed(value):
        return None, "a field is of another type"
    if value["sequence"] != number:
        return None, f"sequence {value['sequence']}, {number} expected"
    if value["previous"] != previous:
        return None, "does not follow the entry before it"
    if first is not None and (value["run"], value["attempt"]) != (first.run, first.attempt):
        return None, "of another run or attempt"
    return _entry(value), ""


def _well_typed(value: Mapping[str, Any]) -> bool:
    texts = ("previous", "run", "transition", "utc", "monotonic", "boot_id")
    numbers = ("sequence", "attempt")
    references = value["references"]
    return (
        all(isinstance(value[key], str) for key in texts)
        and all(type(value[key]) is int for key in numbers)
        and isinstance(value["facts"], dict)
        and isinstance(references, list)
        and all(isinstance(one, str) for one in references)
    )


def _entry(value: Mapping[str, Any]) -> JournalEntry:
    return JournalEntry(**{**value, "references": tuple(value["references"])})
