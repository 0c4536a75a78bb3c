"""One attempt's directory: everything is written once, and referred to by SHA-256.

    attempt.json            who this is, written before anything else
    journal.jsonl           hash-chained transitions, intents and receipts
    states/<state>.json     one per finished state
    raw/...                 raw bytes: objects, returned values, logs
    <stream>                append-only files such as sampler.jsonl
    record.json             all of the above by SHA-256, and how it ended
    seal/                   in a sealed session, and written by its controller: see `evidence.seal`

Raw evidence comes before what is concluded from it; the record is last. An attempt whose record
or closing entry is missing died, and whatever it had finished by then still stands.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pytest_sremut.errors import EvidenceError
from pytest_sremut.evidence.check import checked, plain
from pytest_sremut.evidence.identity import AttemptIdentity
from pytest_sremut.evidence.journal import Journal
from pytest_sremut.evidence.rawref import RawRef, is_safe_name
from pytest_sremut.evidence.stream import AppendStream
from pytest_sremut.ground.durable.atomic import make_directory, reason_of, write_new
from pytest_sremut.ground.durable.clock import Clock, rfc3339
from pytest_sremut.ground.durable.uninterrupted import uninterrupted
from pytest_sremut.ground.formats.canonical import CanonicalError, canonical_json
from pytest_sremut.study.verdict import Outcome, State

__all__ = ["RESERVED", "SAMPLER", "AppendStream", "Attempt", "Found"]

RESERVED: Final = frozenset(
    {"attempt.json", "journal.jsonl", "record.json", "states", "raw", "seal"}
)
"""Names in an attempt's directory that no stream may take."""

SAMPLER: Final = "sampler.jsonl"
"""The stream that a record refers to as its sampler, where the caller names none."""

Closing = Callable[[Mapping[str, Any]], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What stands in the directory of an attempt whose process died, by content."""

    opened: str
    head: RawRef  # attempt.json
    journal: Journal
    raw: tuple[RawRef, ...]  # files under raw/, and streams
    states: Mapping[State, RawRef]


class Attempt:
    """An open attempt. Made by `EvidenceRoot.begin`, or taken over by `evidence.resume` from a
    process that died, never directly.

    Args:
        directory: Exists; empty unless it is taken over.
        identity: What it is an attempt at.
        number: Of the attempt at its run, from 1.
        sequence: Of the attempt in its evidence directory, from 1.
        boot_id: Recorded with every monotonic time.
        clock: Where times come from.
        closing: Writes the closing entry of the attempt ledger.
        found: What a process that died left in the directory; None for a new attempt.
    """

    def __init__(
        self,
        *,
        directory: Path,
        identity: AttemptIdentity,
        number: int,
        sequence: int,
        boot_id: str,
        clock: Clock,
        closing: Closing,
        found: Found | None = None,
    ) -> None:
        self._directory = directory
        self._identity = identity
        self._number = number
        self._sequence = sequence
        self._clock = clock
        self._closing = closing
        self._opened = rfc3339(clock.now())
        self._lock = threading.Lock()
        self._raw: dict[str, RawRef] = {}
        self._states: dict[State, RawRef] = {}
        self._streams: list[AppendStream] = []
        self._ending: dict[str, Any] | None = None
        self._closed = False
        if found is not None:
            self._opened, self._head, self._journal = found.opened, found.head, found.journal
            self._raw.update({ref.path: ref for ref in found.raw})
            self._states.update(found.states)
            return
        head: dict[str, Any] = {
            "schema": "sremut/attempt/v1",
            **identity.as_json(),
            "attempt": number,
            "sequence": sequence,
            "opened": self._opened,
            "boot_id": boot_id,
            "pid": os.getpid(),
        }
        what = f"{directory}: attempt.json"
        self._head = self._write(
            "attempt.json", _canonical(checked("attempt", plain(head), what=what), what=what)
        )
        self._journal = Journal(
            directory / "journal.jsonl",
            run=identity.run,
            attempt=number,
            boot_id=boot_id,
            clock=clock,
        )

    @property
    def directory(self) -> Path:
        """Where everything of it stands."""
        return self._directory

    @property
    def identity(self) -> AttemptIdentity:
        """What it is an attempt at."""
        return self._identity

    @property
    def run(self) -> str:
        """The run's id."""
        return self._identity.run

    @property
    def number(self) -> int:
        """Of this attempt at its run, from 1."""
        return self._number

    @property
    def journal(self) -> Journal:
        """Its journal."""
        return self._journal

    @property
    def closed(self) -> bool:
        """Whether it has said how it ended."""
        return self._closed

    def raw(self, name: str, data: bytes) -> RawRef:
        """Keep bytes under `raw/<name>`; a leading `raw/` may be given or left out.

        Args:
            name: Plain segments, `/` between them; not used before in this attempt.
            data: Already redacted where they come from a cluster.

        Raises:
            EvidenceError: The name is not allowed or taken, or the file cannot be written.
        """
        inside = name.removeprefix("raw/")
        with uninterrupted():
            reference = self._write(f"raw/{inside}", data)
            with self._lock:
                self._raw[reference.path] = reference
        return reference

    def json(self, name: str, value: Any) -> RawRef:
        """Keep a JSON value as canonical JSON under `raw/<name>`. Raises EvidenceError."""
        return self.raw(name, _canonical(value, what=f"{self._directory}: raw/{name}"))

    def stream(self, name: str) -> AppendStream:
        """Begin an append-only file of that name beside the record. Raises EvidenceError."""
        self._refuse_if_closed(name)
        if not is_safe_name(name) or "/" in name or name in RESERVED:
            raise EvidenceError(f"{self._directory}: {name!r}: no name for a stream")
        stream = AppendStream(self._directory / name, name, on_close=self._keep)
        self._streams.append(stream)
        return stream

    def finish_state(self, state: State, record: Mapping[str, Any]) -> RawRef:
        """Write a state's record; afterwards the state survives whatever happens.

        Args:
            state: The state that is finished.
            record: A `sremut/state/v1` record. `schema`, `study`, `run`, `attempt`, `state` and
                `registration` may be left out; given, they must be this attempt's.

        Raises:
            EvidenceError: It does not satisfy the schema, speaks of another attempt, or refers to
                raw evidence that this attempt does not hold; or it cannot be written.
        """
        self._refuse_if_closed(f"states/{state.value}.json")
        own = {
            "schema": "sremut/state/v1",
            "study": self._identity.study,
            "run": self._identity.run,
            "attempt": self._number,
            "state": state.value,
            "registration": self._identity.registration.value,
        }
        what = f"{self._directory}: states/{state.value}.json"
        value = self._completed(own, record, what)
        checked("state", value, what=what)
        self._check_references(value, what)
        with uninterrupted():
            reference = self._write(f"states/{state.value}.json", _canonical(value, what=what))
            with self._lock:
                self._states[state] = reference
            self._journal.append(
                "STATE_RECORDED", {"state": state.value}, references=[reference.sha256]
            )
        return reference

    def close(self, *, outcome: Outcome, reason: str, record: Mapping[str, Any]) -> RawRef:
        """Write the record and then the closing entry of the attempt ledger.

        Args:
            outcome: How the attempt ended. `COMPLETE` needs all three states.
            reason: One sentence; empty only where the outcome is `COMPLETE`.
            record: What only the caller knows of a `sremut/record/v1`: any of `instruments`,
                `timings`, `waiting`, `facts`, `cluster`, `sampler` (a RAWREF; by default the
                stream `sampler.jsonl`, if there is one).

        Raises:
            EvidenceError: As for `finish_state`. The attempt then stays open: it may be closed
                again, and reads as died until then.
        """
        self._refuse_if_closed("record.json")
        if not reason and outcome is not Outcome.COMPLETE:
            raise EvidenceError(f"{self._directory}: outcome {outcome} without a reason")
        with uninterrupted():
            if self._ending is None:  # else the record stands, only the ledger's entry is missing
                self._ending = self._write_record(outcome, reason, record)
            self._closing(self._ending)
            self._closed = True
            self._journal.close()
        return RawRef.from_json(self._ending["record"])

    # -- helpers -----------------------------------------------------------------------------

    def _write_record(
        self, outcome: Outcome, reason: str, record: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Write record.json; returns what the ledger's closing entry says."""
        for stream in self._streams:
            stream.close()
        what = f"{self._directory}: record.json"
        journal = self._journal_reference(outcome)
        own = {
            **self._identity.as_json(),
            "schema": "sremut/record/v1",
            "attempt": self._number,
            "sequence": self._sequence,
            "opened": self._opened,
            "closed": rfc3339(self._clock.now()),
            "outcome": outcome.value,
            "reason": reason,
            "identity": self._head.as_json(),
            "journal": journal,
            "states": {state.value: ref.as_json() for state, ref in self._states.items()},
            "raw": [self._raw[path].as_json() for path in sorted(self._raw)],
        }
        if "cluster" in record:
            own.pop("cluster")  # what was known when it began; by now there is more
        sampler = self._raw.get(SAMPLER)
        defaults: dict[str, Any] = {
            "sampler": None if sampler is None else sampler.as_json(),
            "instruments": {},
            "timings": {},
            "waiting": {},
            "facts": {},
        }
        value = self._completed(own, {**defaults, **record}, what)
        checked("record", value, what=what)
        self._check_references(value, what)
        reference = self._write("record.json", _canonical(value, what=what))
        return {
            "closed": value["closed"],
            "outcome": outcome.value,
            "reason": reason,
            "record": reference.as_json(),
            "journal_head": journal["head"],
        }

    def _write(self, name: str, data: bytes) -> RawRef:
        self._refuse_if_closed(name)
        if not is_safe_name(name):
            raise EvidenceError(f"{self._directory}: {name!r}: no name for an evidence file")
        path = self._directory / name
        if path.parent != self._directory:
            make_directory(path.parent)
        write_new(path, data)
        return RawRef.of(name, data)

    def _keep(self, reference: RawRef) -> None:
        with self._lock:
            self._raw[reference.path] = reference

    def _refuse_if_closed(self, name: str) -> None:
        if self._closed:
            raise EvidenceError(f"{self._directory}: is closed; {name} would come too late")

    def _completed(
        self, own: Mapping[str, Any], given: Mapping[str, Any], what: str
    ) -> dict[str, Any]:
        for key, value in own.items():
            if key in given and plain(given[key]) != plain(value):
                raise EvidenceError(f"{what}: {key} is {given[key]!r}, of this attempt {value!r}")
        completed: dict[str, Any] = plain({**given, **own})
        return completed

    def _check_references(self, value: Mapping[str, Any], what: str) -> None:
        """Every RAWREF in a record is a file that this attempt wrote, with these bytes."""
        with self._lock:
            known = {**self._raw, **{ref.path: ref for ref in self._states.values()}}
        known[self._head.path] = self._head
        for reference in references_in(value):
            if known.get(reference.path) != reference:
                raise EvidenceError(
                    f"{what}: refers to {reference.path}, which this attempt did not write so"
                )

    def _journal_reference(self, outcome: Outcome) -> dict[str, Any]:
        """The journal up to and with its last entry, which says how the attempt ends."""
        self._journal.append("CLOSING", {"outcome": outcome.value})
        try:
            data = self._journal.path.read_bytes()
        except OSError as error:
            raise EvidenceError(
                f"{self._journal.path}: cannot be read: {reason_of(error)}"
            ) from error
        return {
            **RawRef.of("journal.jsonl", data).as_json(),
            "head": self._journal.head,
            "entries": self._journal.entries,
        }


def references_in(value: Any) -> list[RawRef]:
    """Every `{"path", "sha256", "size"}` anywhere in a record that is plain JSON."""
    if isinstance(value, dict):
        if value.keys() == {"path", "sha256", "size"}:
            return [RawRef.from_json(value)]
        return [ref for item in value.values() for ref in references_in(item)]
    if isinstance(value, list | tuple):
        return [ref for item in value for ref in references_in(item)]
    return []


def _canonical(value: Any, *, what: str) -> bytes:
    try:
        return canonical_json(value)
    except CanonicalError as error:
        raise EvidenceError(f"{what}: {error}") from error
