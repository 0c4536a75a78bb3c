"""Taking over the attempt of a process that died, to write down how it ended.

Nothing that stands there is changed: files are referred to by content as they are, the journal is
gone on with after its last whole entry, and the bytes of an entry that was torn off are kept as a
raw file. An attempt that has a record, or a seal, has come to its end: what is done about its
cluster later gets a directory of its own, shaped like an attempt's:

    recoveries/000001-ms-m01-r01-a01-n01/     attempt.json, journal.jsonl, raw/, record.json
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pytest_sremut.errors import EvidenceError
from pytest_sremut.evidence.attempt import RESERVED, Attempt, Found
from pytest_sremut.evidence.check import parse_checked
from pytest_sremut.evidence.identity import AttemptIdentity, boot_id
from pytest_sremut.evidence.journal import (
    Journal,
    JournalEntry,
    JournalStatus,
    read_journal,
    torn_tail,
)
from pytest_sremut.evidence.rawref import RawRef, is_safe_name
from pytest_sremut.evidence.root import AttemptEntry, EvidenceRoot
from pytest_sremut.ground.durable.atomic import TEMPORARY, make_directory, reason_of, write_new
from pytest_sremut.ground.durable.clock import Clock, SystemClock
from pytest_sremut.study.verdict import Outcome, Registration, State

__all__ = [
    "Ended",
    "Resumed",
    "earlier_recoveries",
    "end_of",
    "entries_of",
    "identity_of",
    "is_final",
    "resume",
]

_RECOVERIES: Final = "recoveries"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """An attempt that was taken over."""

    attempt: Attempt  # where everything is written from now on
    entries: tuple[JournalEntry, ...]  # of the dead process, and of earlier recoveries
    number: int  # of this recovery, from 1
    torn: RawRef | None  # the bytes of an entry that was torn off
    boot_id: str  # of the process that died
    is_final: bool  # the attempt itself had come to its end: `attempt` is a directory of its own


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How an attempt with a record ended."""

    outcome: Outcome
    reason: str


def identity_of(directory: Path) -> Mapping[str, Any]:
    """`attempt.json` of an attempt. Raises EvidenceError where it is not there or none."""
    path = directory / "attempt.json"
    try:
        return parse_checked("attempt", path.read_bytes(), what=str(path))
    except OSError as error:
        raise EvidenceError(f"{path}: cannot be read: {reason_of(error)}") from error


def is_final(directory: Path) -> bool:
    """Whether nothing may be written into an attempt's directory any more."""
    return (directory / "record.json").exists() or (directory / "seal").exists()


def end_of(root: EvidenceRoot, entry: AttemptEntry) -> Ended | None:
    """How an attempt ended by its record, its closing entry written where only that is missing.

    Raises:
        EvidenceError: The record, or the journal it speaks of, does not hold together.
    """
    assert entry.directory is not None
    path = entry.directory / "record.json"
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise EvidenceError(f"{path}: cannot be read: {reason_of(error)}") from error
    record = parse_checked("record", data, what=str(path))
    if entry.died:
        journal = read_journal(entry.directory / "journal.jsonl")
        if journal.status is not JournalStatus.INTACT or journal.head != record["journal"]["head"]:
            raise EvidenceError(f"{path}: speaks of another journal than stands there")
        root.close_entry(
            entry,
            {
                "closed": record["closed"],
                "outcome": record["outcome"],
                "reason": record["reason"],
                "record": RawRef.of("record.json", data).as_json(),
                "journal_head": journal.head,
            },
        )
    return Ended(outcome=Outcome(record["outcome"]), reason=record["reason"])


def earlier_recoveries(root: EvidenceRoot, entry: AttemptEntry) -> list[Path]:
    """Directories of recoveries that came after the attempt's own end, in order."""
    return sorted((root.directory / _RECOVERIES).glob(f"{_stem(entry)}-n[0-9][0-9]"))


def entries_of(root: EvidenceRoot, entry: AttemptEntry) -> tuple[JournalEntry, ...]:
    """The journal of an attempt and those of recoveries after its end, each verified.

    Raises:
        EvidenceError: One was tampered with, or cannot be read.
    """
    assert entry.directory is not None
    directories = [entry.directory, *earlier_recoveries(root, entry)]
    return tuple(item for directory in directories for item in _entries(directory))


def _stem(entry: AttemptEntry) -> str:
    return f"{entry.sequence:06d}-{entry.run}-a{entry.attempt:02d}"


def resume(root: EvidenceRoot, entry: AttemptEntry, *, clock: Clock | None = None) -> Resumed:
    """Take over an attempt that nobody works at any more.

    Raises:
        EvidenceError: A file of it is not what it should be, or cannot be written.
    """
    assert entry.directory is not None
    clock = clock or SystemClock()
    identity = identity_of(entry.directory)
    who = _identity(identity)
    boot = boot_id()
    earlier = earlier_recoveries(root, entry)
    entries = entries_of(root, entry)
    if is_final(entry.directory):
        directory = root.directory / _RECOVERIES / f"{_stem(entry)}-n{len(earlier) + 1:02d}"
        make_directory(directory)
        attempt = Attempt(
            directory=directory,
            identity=who,
            number=entry.attempt,
            sequence=entry.sequence,
            boot_id=boot,
            clock=clock,
            closing=lambda _: None,
        )
        number = _recoveries(entries) + 1
        return Resumed(
            attempt=attempt,
            entries=entries,
            number=number,
            torn=None,
            boot_id=str(identity["boot_id"]),
            is_final=True,
        )
    torn = _kept_tail(entry.directory)
    journal, _ = _journal(entry, boot, clock)
    attempt = Attempt(
        directory=entry.directory,
        identity=who,
        number=entry.attempt,
        sequence=entry.sequence,
        boot_id=boot,
        clock=clock,
        closing=lambda ending: root.close_entry(entry, ending),
        found=Found(
            opened=str(identity["opened"]),
            head=_reference(entry.directory, "attempt.json"),
            journal=journal,
            raw=tuple(_raw(entry.directory)),
            states={
                state: _reference(entry.directory, f"states/{state.value}.json")
                for state in State
                if (entry.directory / "states" / f"{state.value}.json").is_file()
            },
        ),
    )
    return Resumed(
        attempt=attempt,
        entries=entries,
        number=_recoveries(entries) + 1,
        torn=torn,
        boot_id=str(identity["boot_id"]),
        is_final=False,
    )


def _recoveries(entries: tuple[JournalEntry, ...]) -> int:
    return sum(entry.transition == "RECOVERY_STARTED" for entry in entries)


def _entries(directory: Path) -> tuple[JournalEntry, ...]:
    path = directory / "journal.jsonl"
    reading = read_journal(path)
    if reading.status in {JournalStatus.TAMPERED, JournalStatus.UNREADABLE}:
        raise EvidenceError(f"{path}: {reading.status}: {reading.problem}")
    return reading.entries


def _journal(
    entry: AttemptEntry, boot: str, clock: Clock
) -> tuple[Journal, tuple[JournalEntry, ...]]:
    assert entry.directory is not None
    path = entry.directory / "journal.jsonl"
    if not path.exists():  # it died between the first two files of the attempt
        return Journal(path, run=entry.run, attempt=entry.attempt, boot_id=boot, clock=clock), ()
    return Journal.resume(path, run=entry.run, attempt=entry.attempt, boot_id=boot, clock=clock)


def _kept_tail(directory: Path) -> RawRef | None:
    """Keep the bytes of a torn entry before they are cut off; a repetition finds them kept."""
    tail = torn_tail(directory / "journal.jsonl")
    if not tail:
        return None
    reference = RawRef.of("raw/journal-tail", tail)
    name = f"raw/journal-tail-{reference.sha256[:16]}.bin"
    path = directory / name
    make_directory(path.parent)
    if not path.exists():
        write_new(path, tail)
    return RawRef.of(name, tail)


def _raw(directory: Path) -> list[RawRef]:
    """Raw files and streams, whole or as far as they came."""
    found: list[RawRef] = []
    for path, _, names in os.walk(directory):
        for name in names:
            relative = Path(path, name).relative_to(directory).as_posix()
            reserved = relative.partition("/")[0] in RESERVED - {"raw"}
            if not reserved and not name.startswith(TEMPORARY) and is_safe_name(relative):
                found.append(_reference(directory, relative))
    return sorted(found, key=lambda reference: reference.path)


def _reference(directory: Path, name: str) -> RawRef:
    try:
        return RawRef.of(name, (directory / name).read_bytes())
    except OSError as error:
        raise EvidenceError(f"{directory / name}: cannot be read: {reason_of(error)}") from error


def _identity(head: Mapping[str, Any]) -> AttemptIdentity:
    return AttemptIdentity(
        study=head["study"],
        run=head["run"],
        mutant=head["mutant"],
        repetition=head["repetition"],
        registration=Registration(head["registration"]),
        session=head["session"],
        files=head["files"],
        profile=head["profile"],
        protocol=head["protocol"],
        cluster=head["cluster"],
        product=head["product"],
        sealed=head.get("sealed"),
    )
