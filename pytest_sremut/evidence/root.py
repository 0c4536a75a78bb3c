"""The evidence directory and its attempt ledger: every attempt, from its first moment.

    attempts/000001-ms-m01-r01-a01.open.json     durable before anything else is touched
    attempts/000001-ms-m01-r01-a01.closed.json   how it ended, and the SHA-256 of its record
    <study>/<run>/a01/                           the attempt

Numbers are given under a file lock, so several processes may share one directory. An attempt with
no closing entry died. Files that cannot be read are reported as entries with a problem, never
skipped.
"""

from __future__ import annotations

import os
import re
import secrets
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pytest_sremut.errors import EvidenceError
from pytest_sremut.evidence.attempt import Attempt
from pytest_sremut.evidence.check import checked, parse_checked
from pytest_sremut.evidence.identity import AttemptIdentity, boot_id
from pytest_sremut.evidence.rawref import RawRef, is_safe_name
from pytest_sremut.ground.durable.atomic import TEMPORARY, make_directory, reason_of, write_new
from pytest_sremut.ground.durable.clock import Clock, SystemClock, rfc3339
from pytest_sremut.ground.durable.text_redaction import protect, secrets_of
from pytest_sremut.ground.formats.canonical import CanonicalError, canonical_json, sha256
from pytest_sremut.study.verdict import Outcome, Registration

__all__ = ["AttemptEntry", "EvidenceRoot", "gaps"]

_ENTRY: Final = re.compile(
    r"(?P<sequence>[0-9]{6,9})-(?P<run>[A-Za-z0-9._-]+)-a(?P<attempt>[0-9]{2,5})"
    r"\.(?P<event>open|closed)\.json"
)
_LOCK_TIMEOUT: Final = 30.0  # a holder writes two small files
_SCHEMA: Final = "sremut/attempt-ledger/v1"
_OF_OPENING: Final = frozenset({"event", "files", "opened", "boot_id", "pid"})


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEntry:
    """One attempt as the ledger knows it.

    `outcome` None: it was never closed, it died. `problem` not empty: a file of it cannot be read
    as it should; fields that could not be read are then empty.
    """

    sequence: int
    run: str
    attempt: int
    study: str = ""
    mutant: str = ""
    registration: Registration | None = None
    session: str = ""
    files: Mapping[str, str] | None = None
    directory: Path | None = None
    opened: str = ""
    closed: str = ""
    outcome: Outcome | None = None
    reason: str = ""
    record: RawRef | None = None
    journal_head: str = ""
    problem: str = ""

    @property
    def died(self) -> bool:
        """It began, and nothing says how it ended."""
        return self.outcome is None


class EvidenceRoot:
    """An evidence directory. Several processes may have the same one open.

    Made by `open`.
    """

    def __init__(self, directory: Path, clock: Clock) -> None:
        self._directory = directory
        self._clock = clock

    @classmethod
    def open(cls, directory: Path, *, clock: Clock | None = None) -> EvidenceRoot:
        """Create the directory where it is missing, and prove that it can be written. From then on
        no text that is redacted holds the secrets of this process's environment.

        Raises:
            EvidenceError: It cannot: read-only, full, no permission, no directory.
        """
        ledger = directory / "attempts"
        make_directory(ledger)
        probe = ledger / f"{TEMPORARY}{os.getpid()}-{secrets.token_hex(8)}"
        write_new(probe, b"whether this directory can be written\n")
        try:
            probe.unlink()
        except OSError as error:
            raise EvidenceError(f"{directory}: cannot be written: {reason_of(error)}") from error
        protect(secrets_of(os.environ))
        return cls(directory.absolute(), clock or SystemClock())

    @classmethod
    def existing(cls, directory: Path, *, clock: Clock | None = None) -> EvidenceRoot:
        """Open one for reading; nothing is written. Raises EvidenceError where there is none."""
        if not (directory / "attempts").is_dir():
            raise EvidenceError(f"{directory}: no evidence directory")
        return cls(directory.absolute(), clock or SystemClock())

    @property
    def directory(self) -> Path:
        """The directory, absolute."""
        return self._directory

    def begin(self, identity: AttemptIdentity) -> Attempt:
        """Begin an attempt: it stands in the ledger before its directory exists.

        Raises:
            EvidenceError: The run's earlier attempts name another mutant, other study files or
                another registration; or one is COMPLETE and the registration is not
                EXPLORATORY; or the evidence cannot be written.
        """
        from filelock import FileLock, Timeout

        for name in (identity.study, identity.run):
            if not is_safe_name(name) or "/" in name:
                raise EvidenceError(f"{name!r}: no name for an evidence directory")
        lock = FileLock(self._directory / "attempts" / f"{TEMPORARY}lock", timeout=_LOCK_TIMEOUT)
        try:
            with lock:
                return self._begin(identity)
        except Timeout:
            raise EvidenceError(
                f"{self._directory}: another process has held its lock for {_LOCK_TIMEOUT:g} s"
            ) from None
        except OSError as error:
            raise EvidenceError(
                f"{self._directory}: cannot be locked: {reason_of(error)}"
            ) from error

    def attempts(self) -> tuple[AttemptEntry, ...]:
        """Every attempt in the order in which they began. Raises EvidenceError only where the
        ledger's directory cannot be listed."""
        try:
            names = sorted(path.name for path in (self._directory / "attempts").iterdir())
        except OSError as error:
            raise EvidenceError(f"{self._directory}: cannot be read: {reason_of(error)}") from error
        stems: dict[str, set[str]] = {}
        strange: list[AttemptEntry] = []
        for name in names:
            if name.startswith((TEMPORARY, ".")):
                continue
            match = _ENTRY.fullmatch(name)
            if match is None:
                problem = f"attempts/{name}: not a name of this ledger"
                strange.append(AttemptEntry(sequence=0, run="", attempt=0, problem=problem))
                continue
            stems.setdefault(name.rsplit(".", 2)[0], set()).add(match["event"])
        entries = [self._entry(stem, events) for stem, events in sorted(stems.items())]
        return (*entries, *strange)

    def close_entry(self, entry: AttemptEntry, ending: Mapping[str, Any]) -> None:
        """Write the closing entry of an attempt whose own process died.

        Args:
            entry: Which has none yet.
            ending: What a closing entry says of the end, as `Attempt.close` gives it.

        Raises:
            EvidenceError: It stands there already, or cannot be written.
        """
        stem = f"{entry.sequence:06d}-{entry.run}-a{entry.attempt:02d}"
        named = {"sequence": entry.sequence, "run": entry.run, "attempt": entry.attempt}
        opening = self._read(f"{stem}.open.json", "open", named)
        kept = {key: value for key, value in opening.items() if key not in _OF_OPENING}
        data = (self._directory / "attempts" / f"{stem}.open.json").read_bytes()
        self._write(
            f"{stem}.closed.json", {**kept, "event": "closed", "opening": sha256(data), **ending}
        )

    # -- helpers -----------------------------------------------------------------------------

    def _begin(self, identity: AttemptIdentity) -> Attempt:
        entries = self.attempts()
        number = _admitted(identity, entries)
        sequence = max((entry.sequence for entry in entries), default=0) + 1
        stem = f"{sequence:06d}-{identity.run}-a{number:02d}"
        directory = self._directory / identity.study / identity.run / f"a{number:02d}"
        common = {
            "schema": _SCHEMA,
            "sequence": sequence,
            "study": identity.study,
            "run": identity.run,
            "mutant": identity.mutant,
            "attempt": number,
            "registration": identity.registration.value,
            "session": identity.session,
            "directory": directory.relative_to(self._directory).as_posix(),
        }
        boot = boot_id()
        opening = {
            "event": "open",
            "files": dict(identity.files),
            "opened": rfc3339(self._clock.now()),
            "boot_id": boot,
            "pid": os.getpid(),
        }
        opened = self._write(f"{stem}.open.json", {**common, **opening})
        if directory.exists():
            raise EvidenceError(
                f"{directory}: stands there although the ledger knows of no such attempt"
            )
        make_directory(directory)
        return Attempt(
            directory=directory,
            identity=identity,
            number=number,
            sequence=sequence,
            boot_id=boot,
            clock=self._clock,
            closing=lambda ending: self._write(
                f"{stem}.closed.json",
                {**common, "event": "closed", "opening": opened, **ending},
            ),
        )

    def _write(self, name: str, value: Mapping[str, Any]) -> str:
        """Write an entry of the ledger; its SHA-256."""
        what = f"attempts/{name}"
        try:
            data = canonical_json(checked("attempt-ledger", value, what=what))
        except CanonicalError as error:
            raise EvidenceError(f"{what}: {error}") from error
        write_new(self._directory / "attempts" / name, data)
        return sha256(data)

    def _entry(self, stem: str, events: set[str]) -> AttemptEntry:
        match = _ENTRY.fullmatch(f"{stem}.open.json")
        assert match is not None
        named = {
            "sequence": int(match["sequence"]),
            "run": match["run"],
            "attempt": int(match["attempt"]),
        }
        fields: dict[str, Any] = dict(named)
        problems: list[str] = []
        for event in ("open", "closed"):
            if event not in events:
                if event == "open":
                    problems.append(f"attempts/{stem}.open.json: missing")
                continue
            try:
                value = self._read(f"{stem}.{event}.json", event, named)
            except EvidenceError as error:
                problems.append(str(error))
                continue
            fields |= self._fields(value)
            if event == "closed" and "open" in events:
                problems += self._opening_problems(stem, value["opening"])
        return AttemptEntry(**{**fields, "problem": "; ".join(problems)})

    def _opening_problems(self, stem: str, digest: str) -> list[str]:
        """The closing entry names the opening one by digest, so neither can be exchanged."""
        name = f"{stem}.open.json"
        try:
            found = sha256((self._directory / "attempts" / name).read_bytes())
        except OSError as error:
            return [f"attempts/{name}: cannot be read: {reason_of(error)}"]
        return [] if found == digest else [f"attempts/{name}: SHA-256 {found}, recorded {digest}"]

    def _read(self, name: str, event: str, named: Mapping[str, Any]) -> Mapping[str, Any]:
        what = f"attempts/{name}"
        try:
            data = (self._directory / "attempts" / name).read_bytes()
        except OSError as error:
            raise EvidenceError(f"{what}: cannot be read: {reason_of(error)}") from error
        value = parse_checked("attempt-ledger", data, what=what)
        for key, expected in {**named, "event": event}.items():
            if value[key] != expected:
                raise EvidenceError(f"{what}: {key} is {value[key]!r}, not as in its name")
        if not is_safe_name(value["directory"]):
            raise EvidenceError(f"{what}: directory {value['directory']!r}: not in the evidence")
        return value

    def _fields(self, value: Mapping[str, Any]) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "study": value["study"],
            "mutant": value["mutant"],
            "registration": Registration(value["registration"]),
            "session": value["session"],
            "directory": self._directory / value["directory"],
        }
        if value["event"] == "open":
            return {**fields, "opened": value["opened"], "files": dict(value["files"])}
        return {
            **fields,
            "closed": value["closed"],
            "outcome": Outcome(value["outcome"]),
            "reason": value["reason"],
            "record": RawRef.from_json(value["record"]),
            "journal_head": value["journal_head"],
        }


def _admitted(identity: AttemptIdentity, entries: tuple[AttemptEntry, ...]) -> int:
    """The number of the next attempt at that run. Raises EvidenceError where there may be none."""
    run = identity.run
    same_study = [entry for entry in entries if entry.study in {identity.study, ""}]
    for entry in same_study:
        if entry.files is not None and dict(entry.files) != dict(identity.files):
            raise EvidenceError(
                f"{run}: attempt {entry.sequence} here was made with other files of the study "
                f"{identity.study}; use another evidence directory"
            )
        if entry.registration not in {None, identity.registration}:
            raise EvidenceError(
                f"{run}: attempt {entry.sequence} here is {entry.registration}, this one would be "
                f"{identity.registration}; the two are never mixed: use another evidence directory"
            )
    earlier = [entry for entry in same_study if entry.run == run]
    for entry in earlier:
        if entry.mutant not in {"", identity.mutant}:
            raise EvidenceError(
                f"{run}: its attempt {entry.attempt} names mutant {entry.mutant}, this one "
                f"{identity.mutant}; a run id is of one mutant"
            )
        if (
            entry.outcome is Outcome.COMPLETE
            and identity.registration is not Registration.EXPLORATORY
        ):
            raise EvidenceError(
                f"{run}: its attempt {entry.attempt} is COMPLETE; a completed verdict is never "
                "retried"
            )
    return max((entry.attempt for entry in earlier), default=0) + 1


def gaps(entries: Sequence[AttemptEntry]) -> Iterator[str]:
    """Numbers are given without gaps: one that is missing, or twice, was tampered with."""
    counts = Counter(entry.sequence for entry in entries if entry.sequence)
    for number in range(1, max(counts, default=0) + 1):
        if number not in counts:
            yield f"attempts/: number {number} is missing; an attempt was taken away"
        elif counts[number] > 1:
            yield f"attempts/: number {number} stands there {counts[number]} times"
