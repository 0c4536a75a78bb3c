"""Reads an attempt's directory and checks that it holds together."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_sremut.errors import EvidenceError
from pytest_sremut.evidence.attempt import references_in
from pytest_sremut.evidence.check import parse_checked
from pytest_sremut.evidence.journal import (
    JournalReading,
    JournalStatus,
    read_journal,
)
from pytest_sremut.evidence.rawref import RawRef
from pytest_sremut.evidence.records import AttemptRecord, StateRecord, state_record
from pytest_sremut.evidence.root import AttemptEntry
from pytest_sremut.ground.durable.atomic import TEMPORARY, reason_of
from pytest_sremut.study.verdict import Outcome, Registration, State

__all__ = ["load_attempt", "load_entry"]

_IDENTITY = ("study", "run", "mutant", "repetition", "attempt", "sequence", "registration")


def load_entry(entry: AttemptEntry) -> AttemptRecord:
    """The attempt of a ledger entry, checked against what the ledger says of it.

    Raises:
        EvidenceError: The entry does not say where the attempt stands.
    """
    if entry.directory is None:
        raise EvidenceError(entry.problem or f"{entry.run}: no directory in the attempt ledger")
    loaded = load_attempt(entry.directory)
    problems = [entry.problem] if entry.problem else []
    if entry.record is not None:
        problem = entry.record.problem(entry.directory)
        if problem is not None:
            problems.append(f"ledger: {problem}")
        if entry.journal_head != loaded.journal.head:
            problems.append("ledger: the journal's head is another one")
    elif loaded.record:
        problems.append("ledger: no closing entry, yet there is a record")
    for key in ("run", "attempt", "mutant", "study", "registration", "session", "outcome"):
        noted = getattr(entry, key)
        if noted and noted != getattr(loaded, key):
            problems.append(f"ledger: {key} {noted!r}, here {getattr(loaded, key)!r}")
    return dataclasses.replace(loaded, problems=(*problems, *loaded.problems))


def load_attempt(directory: Path) -> AttemptRecord:
    """Read an attempt, verify every digest in it, and collect what does not hold.

    Never raises for what the directory holds: a reader decides what a problem means to it.
    """
    problems: list[str] = []
    identity = _document(directory, "attempt.json", "attempt", problems, required=True)
    record = _document(directory, "record.json", "record", problems, required=False)
    states = _states(directory, record, problems)
    journal = _journal(directory, record, problems)
    for key in _IDENTITY if record and identity else ():
        if record[key] != identity[key]:
            problems.append(f"record.json: {key} {record[key]!r}, attempt.json {identity[key]!r}")
    who: Mapping[str, Any] = identity or record
    for state in states.values():
        for key, value in (("study", state.study), ("run", state.run), ("attempt", state.attempt)):
            if who and value != who[key]:
                problems.append(f"states/{state.state}.json: {key} {value!r}, not {who[key]!r}")
    _check_files(directory, record, states, problems)
    registration = who.get("registration")
    return AttemptRecord(
        directory=directory,
        study=who.get("study", ""),
        run=who.get("run", ""),
        mutant=who.get("mutant", ""),
        repetition=who.get("repetition", 0),
        attempt=who.get("attempt", 0),
        sequence=who.get("sequence", 0),
        registration=None if registration is None else Registration(registration),
        session=who.get("session", ""),
        outcome=Outcome(record["outcome"]) if record else None,
        reason=record.get("reason", ""),
        states=states,
        journal=journal,
        identity=identity,
        record=record,
        problems=tuple(problems),
    )


def _document(
    directory: Path, name: str, schema: str, problems: list[str], *, required: bool
) -> Mapping[str, Any]:
    """A schema-checked document; empty, with the problem noted, where it is not one."""
    try:
        data = (directory / name).read_bytes()
    except FileNotFoundError:
        if required:
            problems.append(f"{name}: missing")
        return {}
    except OSError as error:
        problems.append(f"{name}: cannot be read: {reason_of(error)}")
        return {}
    try:
        return parse_checked(schema, data, what=name)
    except EvidenceError as error:
        problems.append(str(error))
        return {}


def _states(
    directory: Path, record: Mapping[str, Any], problems: list[str]
) -> dict[State, StateRecord]:
    states: dict[State, StateRecord] = {}
    for state in State:
        name = f"states/{state.value}.json"
        listed = state.value in record.get("states", {})
        body = _document(directory, name, "state", problems, required=listed)
        if not body:
            continue
        if body["state"] != state.value:
            problems.append(f"{name}: speaks of the {body['state']} state")
            continue
        if record and not listed:
            problems.append(f"{name}: the record does not speak of it")
        states[state] = state_record(body)
    return states


def _journal(directory: Path, record: Mapping[str, Any], problems: list[str]) -> JournalReading:
    journal = read_journal(directory / "journal.jsonl")
    if not record:
        # A torn tail is what a crash leaves; of a closed attempt it is one more problem.
        if journal.status not in {JournalStatus.INTACT, JournalStatus.TORN_TAIL}:
            problems.append(f"journal.jsonl: {journal.status}: {journal.problem}")
        return journal
    noted = record["journal"]
    if journal.status is not JournalStatus.INTACT:
        problems.append(f"journal.jsonl: {journal.status}: {journal.problem}")
    elif journal.head != noted["head"] or len(journal.entries) != noted["entries"]:
        problems.append(
            f"journal.jsonl: {len(journal.entries)} entries up to {journal.head}, recorded "
            f"{noted['entries']} up to {noted['head']}"
        )
    return journal


def _check_files(
    directory: Path,
    record: Mapping[str, Any],
    states: Mapping[State, StateRecord],
    problems: list[str],
) -> None:
    references = references_in(record)
    for state in states.values():
        references += references_in(state.body)
    if record:
        noted = record["journal"]
        references.append(RawRef(path=noted["path"], sha256=noted["sha256"], size=noted["size"]))
    wanted: dict[str, RawRef] = {}
    for reference in references:
        if wanted.setdefault(reference.path, reference) != reference:
            problems.append(f"{reference.path}: recorded with two digests")
    for path in sorted(wanted):
        problem = wanted[path].problem(directory)
        if problem is not None:
            problems.append(problem)
    if record:
        # A seal comes after the record and speaks for itself (`evidence.seal`).
        sealed = "sealed" in record
        for path in _files(directory, problems):
            of_seal = sealed and path.startswith("seal/")
            if path not in wanted and path != "record.json" and not of_seal:
                problems.append(f"{path}: nothing in the record speaks of it")


def _files(directory: Path, problems: list[str]) -> list[str]:
    """Every file under the attempt, relative, without what a crash left of temporary ones."""

    def note(error: OSError) -> None:
        problems.append(f"{error.filename}: cannot be listed: {reason_of(error)}")

    return sorted(
        Path(path, name).relative_to(directory).as_posix()
        for path, _, names in os.walk(directory, onerror=note)
        for name in names
        if not name.startswith(TEMPORARY)
    )
