"""Verifies a whole evidence directory offline: sessions, the ledger of attempts, every attempt.

What only the whole can show: an attempt that was taken away, one that came from elsewhere, entries
that were exchanged, files of which nothing speaks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_sremut.errors import EvidenceError
from pytest_sremut.evidence.load import load_entry
from pytest_sremut.evidence.root import AttemptEntry, EvidenceRoot, gaps
from pytest_sremut.evidence.seal.anchor import AnchorState, StampVerifier
from pytest_sremut.evidence.seal.attempt import COMPLETE
from pytest_sremut.evidence.seal.checks import (
    Report,
    SealCheck,
    check_key,
    check_listing,
    check_names,
    check_stamp,
    read_together,
    seal_names,
    signed_document,
)
from pytest_sremut.evidence.seal.document import DIRECTORY, SEAL, SUMS
from pytest_sremut.evidence.seal.session import (
    OPENING,
    SESSION,
    SESSIONS,
    closing_statement,
    opening_statement,
    place_of,
)
from pytest_sremut.evidence.seal.standing import Standing
from pytest_sremut.evidence.seal.sums import parse_sums
from pytest_sremut.evidence.seal.unaccounted import unaccounted
from pytest_sremut.evidence.seal.verify import SealReading, verify_attempt
from pytest_sremut.ground.durable.atomic import reason_of
from pytest_sremut.ground.formats.canonical import sha256
from pytest_sremut.study.verdict import Registration

__all__ = [
    "EvidenceReading",
    "SessionReading",
    "standing_of",
    "verify_evidence",
    "verify_session",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionReading:
    """What a sealed session's own files are worth."""

    checks: tuple[SealCheck, ...]
    opening: Mapping[str, Any]  # session.json; empty where it is not signed
    closing: Mapping[str, Any]  # its seal.json; empty where it was not closed, or is not signed
    listing: Mapping[str, str]  # path -> SHA-256, of a listing that is signed
    anchors: tuple[AnchorState | None, ...] = ()  # of opening and closing

    @property
    def key(self) -> str:
        """Its public key; empty where it is not known."""
        return str(self.opening["key"]["public"]) if self.opening else ""

    @property
    def closed(self) -> bool:
        """Whether its closing seal stands there and is signed."""
        return bool(self.closing)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceReading:
    """Everything that was checked, and the seals by attempt (`study/run/aNN`)."""

    checks: tuple[SealCheck, ...]
    seals: Mapping[str, SealReading]
    sessions: Mapping[str, SessionReading]

    @property
    def first_broken(self) -> SealCheck | None:
        """The first check that failed."""
        return next((check for check in self.checks if check.ok is False), None)


def verify_evidence(directory: Path, *, verifier: StampVerifier | None = None) -> EvidenceReading:
    """Verify an evidence directory.

    Raises:
        EvidenceError: It is none, or its ledger cannot be listed.
    """
    entries = EvidenceRoot.existing(directory).attempts()
    sessions = {
        path.name: verify_session(path, verifier=verifier)
        for path in sorted((directory / SESSIONS).glob("[!.]*"))
    }
    report = Report("")
    for reading in sessions.values():
        report.checks += reading.checks
    _ledger(directory, entries, sessions, report)
    seals: dict[str, SealReading] = {}
    for entry in entries:
        _attempt(entry, sessions, verifier, seals, report)
    report.told(
        "directory",
        unaccounted(directory, {place_of(entry) for entry in entries}),
        "nothing stands there unaccounted for",
    )
    return EvidenceReading(checks=tuple(report.checks), seals=seals, sessions=sessions)


def standing_of(
    seal: SealReading,
    session: SessionReading | None,
    *,
    holds: bool,
    registration: AnchorState | None,
) -> Standing:
    """What an attempt of a sealed session may be called.

    Args:
        seal: Its seal, verified.
        session: Its session's own files, verified; None where they are not there.
        holds: Whether nothing else speaks against it.
        registration: What stands behind its registration; None: not verified.
    """
    return Standing(
        regime=Registration.SEALED,
        registration=registration,
        sealed=seal.holds and holds,
        complete=seal.extent == COMPLETE,
        guards_held=seal.guards_held,
        anchor=seal.anchor,
        closed=session is not None
        and session.closed
        and all(check.ok is not False for check in session.checks),
    )


def verify_session(directory: Path, *, verifier: StampVerifier | None = None) -> SessionReading:
    """Verify a sealed session's own files, without its attempts. Never raises."""
    return _Session(directory, verifier).read()


class _Session:
    """A session's own directory."""

    def __init__(self, directory: Path, verifier: StampVerifier | None) -> None:
        self.directory = directory
        self.verifier = verifier
        self.report = Report(f"{SESSIONS}/{directory.name}")
        self.files: dict[str, bytes] = {}
        self.anchors: list[AnchorState | None] = []

    def read(self) -> SessionReading:
        opening = closing = None
        listing: dict[str, str] = {}
        if not self.directory.is_dir() or self.directory.is_symlink():
            self.report.failed("session", "no directory of a session")
        else:
            self._read_files()
            opening = signed_document(self.files, SESSION, "sealed-session", self.report, where="")
            if opening is not None:
                self._opening(opening)
            closing, listing = self._closing(opening)
        return SessionReading(
            checks=tuple(self.report.checks),
            opening=opening or {},
            closing=closing or {},
            listing=listing,
            anchors=tuple(self.anchors),
        )

    def _read_files(self) -> None:
        for path in sorted(self.directory.iterdir()):
            if path.name == DIRECTORY:
                continue
            if path.is_symlink() or not path.is_file():
                self.report.failed("session", "no regular file: it has no place here", path.name)
                continue
            try:
                self.files[path.name] = path.read_bytes()
            except OSError as error:
                self.report.failed("session", f"cannot be read: {reason_of(error)}", path.name)

    def _opening(self, opening: Mapping[str, Any]) -> None:
        check_key(opening, self.report, f"{SESSION}.json")
        if not opening["session"] == opening["key"]["session"] == self.directory.name:
            self.report.failed("session", f"is of session {opening['session']}", f"{SESSION}.json")
        wanted = {f"{SESSION}.json", f"{SESSION}.sig", *opening["anchor"]["files"]}
        for name in sorted(wanted ^ set(self.files)):
            what = "missing" if name in wanted else "nothing in the session speaks of it"
            self.report.failed("session", what, name)
        self.anchors.append(
            check_stamp(
                self.files,
                opening,
                opening_statement(opening),
                self.verifier,
                self.report,
                stem=OPENING,
                where="",
            )
        )

    def _closing(
        self, opening: Mapping[str, Any] | None
    ) -> tuple[Mapping[str, Any] | None, dict[str, str]]:
        report = self.report
        place = self.directory / DIRECTORY
        if place.is_symlink():
            report.failed("closing", "a symbolic link, which is no evidence", DIRECTORY)
        if not place.is_dir():
            report.unverified(
                "closing",
                "the session was not closed: whether attempts were taken away is not known",
            )
            return None, {}
        files = read_together(place, "closing", report)
        closing = signed_document(files, SEAL, "session-seal", report, where="seal/")
        if closing is None:
            return None, {}
        check_key(closing, report, "seal/seal.json")
        check_names(files, seal_names(closing), report)
        problems: list[tuple[str, str]] = []
        if opening is not None and closing["key"] != opening["key"]:
            problems.append(("seal/seal.json", "signed with another key than the opening"))
        if closing["session"] != self.directory.name:
            problems.append(("seal/seal.json", f"of session {closing['session']}"))
        digest = sha256(self.files.get(f"{SESSION}.json", b""))
        if closing["opening"] != digest:
            told = f"SHA-256 {digest}, sealed {closing['opening']}"
            problems.append((f"{SESSION}.json", told))
        report.told("closing", problems, f"{len(closing['attempts'])} attempts")
        listing: dict[str, str] = {}
        if check_listing(files, closing, report):
            try:
                listing = parse_sums(files[SUMS])
            except EvidenceError as error:
                report.failed("listing", str(error), f"seal/{SUMS}")
        self.anchors.append(
            check_stamp(files, closing, closing_statement(closing), self.verifier, report)
        )
        if opening is not None:
            _order(opening, closing, report)
        return closing, listing


def _order(opening: Mapping[str, Any], closing: Mapping[str, Any], report: Report) -> None:
    """The opening was stamped before the closing; both times are RFC 3339 in UTC."""
    times = [one["anchor"].get("time", "") for one in (opening, closing)]
    if all(times) and not times[0] < times[1]:
        report.failed("order", f"opened at {times[0]}, closed at {times[1]}", "seal/seal.json")


# -- the ledger of attempts, and what stands beside it --------------------------------------------


def _ledger(
    directory: Path,
    entries: Sequence[AttemptEntry],
    sessions: Mapping[str, SessionReading],
    report: Report,
) -> None:
    problems = [("attempts", entry.problem) for entry in entries if entry.problem]
    problems += [
        ("attempts", f"{place_of(entry)}: the ledger says it stands elsewhere")
        for entry in entries
        if entry.directory not in {None, directory.absolute() / place_of(entry)}
    ]
    problems += [("attempts", told) for told in gaps(entries)]
    report.told("ledger", problems, f"{len(entries)} attempts")
    for name, session in sessions.items():
        if session.closed and session.listing:
            report.told(
                f"{SESSIONS}/{name} ledger",
                _listed(directory, name, session, entries),
                f"{len(session.listing)} files as sealed",
            )


def _listed(
    directory: Path, name: str, session: SessionReading, entries: Sequence[AttemptEntry]
) -> Iterator[tuple[str, str]]:
    """What the closing lists is there, and it lists everything of its session."""
    for path, digest in sorted(session.listing.items()):
        found = _digest(directory, path)
        if found != digest:
            yield path, f"{found}, sealed {digest}" if found else "missing"
    own = [entry for entry in entries if entry.session == name]
    unsealed = {one["directory"] for one in session.closing["attempts"] if one["seal"] is None}
    for entry in own:
        stem = f"{entry.sequence:06d}-{entry.run}-a{entry.attempt:02d}"
        # One that died may be closed by whoever recovers it.
        for event in ("open",) if place_of(entry) in unsealed else ("open", "closed"):
            path = f"attempts/{stem}.{event}.json"
            if (directory / path).exists() and path not in session.listing:
                yield path, f"session {name} did not seal it: it was added"
    sealed = {one["directory"] for one in session.closing["attempts"]}
    for place in sorted(sealed ^ {place_of(entry) for entry in own}):
        yield (
            place,
            (
                f"session {name} sealed it, and the ledger does not know it"
                if place in sealed
                else f"session {name} does not know it"
            ),
        )


def _digest(directory: Path, path: str) -> str:
    parts = Path(path).parts
    if ".." in parts or Path(path).is_absolute():
        return "no path in the evidence"
    try:
        return hashlib.sha256((directory / path).read_bytes()).hexdigest()
    except OSError:
        return ""


def _attempt(
    entry: AttemptEntry,
    sessions: Mapping[str, SessionReading],
    verifier: StampVerifier | None,
    seals: dict[str, SealReading],
    report: Report,
) -> None:
    place = place_of(entry)
    if entry.directory is None:
        return  # told by the ledger's check
    try:
        record = load_entry(entry)
    except EvidenceError as error:
        report.failed(f"{place} ledger", str(error), "attempts")
        return
    session = sessions.get(entry.session)
    if entry.registration is not Registration.SEALED:
        report.unverified(f"{place} seal", f"{entry.registration or 'unknown'}: never sealed")
    elif session is None:
        report.unverified(f"{place} session", f"session {entry.session} has no files here")
    seals[place] = reading = verify_attempt(
        entry.directory,
        verifier=verifier,
        key="" if session is None else session.key,
        prefix=place,
        record=record,
    )
    report.checks += [
        check
        for check in reading.checks
        if entry.registration is Registration.SEALED or check.ok is not None
    ]
    if session is not None:
        _beside_session(entry, reading, session, report)


def _beside_session(
    entry: AttemptEntry, reading: SealReading, session: SessionReading, report: Report
) -> None:
    """The attempt stands under a registration that its session was opened for, and a seal by its
    own session is the one that the closing names."""
    place = place_of(entry)
    registrations = session.opening.get("registrations", {})
    if reading.document and session.opening:
        said = reading.document["identity"]
        opened = registrations.get(said["study"], {})
        if opened.get("registration") != said["registration"]:
            report.failed(
                f"{place} session",
                "it was not opened for that registration",
                f"{place}/attempt.json",
            )
    if not session.closed:
        return
    noted = {one["directory"]: one["seal"] for one in session.closing["attempts"]}
    if place not in noted:
        return  # told by the ledger's check
    own = bool(reading.document) and reading.document["key"]["session"] == entry.session
    if noted[place] is None and own:
        report.failed(f"{place} session", "was not sealed when its session was closed", place)
    elif noted[place] is not None and reading.digest != noted[place]:
        report.failed(f"{place} session", "its seal is not the one that its session names", place)
