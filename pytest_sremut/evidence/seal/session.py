"""A sealed session: opened under its key before its first attempt, closed under the same key.

    sessions/<session>/session.json   key and registrations, signed, and stamped where possible
                       session.sig, opening.*
                       seal/SHA256SUMS, ...   every entry of the attempt ledger and every seal

The stamp of the opening says that the key existed before the first attempt, that of the closing
that everything existed after the last: what was run lies between the two. The listing of the
closing covers the ledger of attempts, so that an attempt cannot be taken away together with its
entries; `sha256sum -c` checks it from the evidence directory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pytest_sremut.errors import EvidenceError
from pytest_sremut.evidence.root import AttemptEntry, EvidenceRoot
from pytest_sremut.evidence.seal.anchor import Anchor, AnchorState
from pytest_sremut.evidence.seal.attempt import Seal, is_sealed, seal_attempt
from pytest_sremut.evidence.seal.document import (
    ANCHOR,
    DIRECTORY,
    SEAL,
    SUMS,
    canonical,
    key_block,
    signed_files,
    stamped,
    write_together,
)
from pytest_sremut.evidence.seal.key import SessionKey
from pytest_sremut.evidence.seal.sums import dump_sums
from pytest_sremut.ground.durable.atomic import make_directory, reason_of
from pytest_sremut.ground.durable.clock import Clock, SystemClock, rfc3339
from pytest_sremut.ground.durable.uninterrupted import uninterrupted
from pytest_sremut.ground.formats.canonical import sha256

__all__ = [
    "OPENING",
    "SESSION",
    "SESSIONS",
    "SealedSession",
    "closing_statement",
    "ledger_files",
    "opening_statement",
    "place_of",
]

SESSIONS: Final = "sessions"
OPENING: Final = "opening"
SESSION: Final = "session"


class SealedSession:
    """The controller's part of a sealed session. Made by `open`.

    Args:
        evidence: The evidence directory.
        key: Of the session.
        anchor: Who stamps.
        clock: Where times come from.
    """

    def __init__(self, evidence: Path, key: SessionKey, anchor: Anchor, clock: Clock) -> None:
        self._evidence = evidence
        self._key = key
        self._anchor = anchor
        self._clock = clock
        self._directory = evidence / SESSIONS / key.session
        self._seen: set[str] = set()
        self._opening = ""
        self.anchor = AnchorState.UNANCHORED
        self.anchor_detail = ""
        self.complaints: list[str] = []
        """What could not be sealed, and why."""

    @classmethod
    def open(
        cls,
        evidence: Path,
        *,
        key: SessionKey,
        registrations: Mapping[str, Mapping[str, Any]],
        product: str,
        anchor: Anchor,
        clock: Clock | None = None,
    ) -> SealedSession:
        """Say who the session is, before its first attempt.

        Args:
            evidence: The evidence directory; made where it is missing.
            key: Fresh, of this session.
            registrations: Study -> `registration` (SHA-256 of the manifest), `revision`, `commit`.
            product: The product's digest.
            anchor: Who stamps.
            clock: Where times come from.

        Raises:
            AttestationError: The authority's answer does not verify.
            EvidenceError: It cannot be written, or the session stands there already.
        """
        EvidenceRoot.open(evidence)
        session = cls(evidence, key, anchor, clock or SystemClock())
        body = {
            "session": key.session,
            "key": key_block(key),
            "registrations": {name: dict(one) for name, one in registrations.items()},
            "product": product,
            "opened": rfc3339(session._clock.now()),
        }
        stamp = stamped(anchor, opening_statement(body), OPENING, strict=True)
        session.anchor = stamp.state
        session.anchor_detail = str(stamp.block.get("detail", ""))
        document = canonical(
            {"schema": "sremut/sealed-session/v1", **body, "anchor": stamp.block},
            what=f"{SESSION}.json",
            schema="sealed-session",
        )
        session._opening = sha256(document)
        make_directory(evidence / SESSIONS)
        write_together(
            session._directory,
            {**stamp.files, **signed_files(key, f"{SESSION}.json", document, SESSION)},
        )
        return session

    def seal_closed(self) -> list[Seal]:
        """Seal every attempt of this session that has ended and is not sealed yet.

        One that cannot be sealed is noted in `complaints` and not tried again.
        """
        ledger = self._evidence / "attempts"
        if {path.name for path in ledger.glob("*.closed.json")} <= self._seen:
            return []
        made: list[Seal] = []
        for entry in self._own():
            closing = f"{entry.sequence:06d}-{entry.run}-a{entry.attempt:02d}.closed.json"
            if entry.died or entry.directory is None or closing in self._seen:
                continue
            try:
                with uninterrupted():
                    if not is_sealed(entry.directory):
                        made.append(self._seal(entry.directory))
                    self._seen.add(closing)
            except EvidenceError as error:
                self._seen.add(closing)
                self.complaints.append(f"not sealed: {error}")
        return made

    def _seal(self, directory: Path) -> Seal:
        return seal_attempt(directory, key=self._key, anchor=self._anchor, clock=self._clock)

    def close(self) -> str:
        """Seal what is left, then the session itself, and forget the key.

        Returns:
            SHA-256 of the closing document.

        Raises:
            EvidenceError: It cannot be written.
        """
        try:
            self.seal_closed()
            return self._close()
        finally:
            self._key.discard()

    def _close(self) -> str:
        attempts = [
            {"directory": place_of(entry), "seal": _seal_digest(entry)} for entry in self._own()
        ]
        files = ledger_files(self._evidence)
        names = [f"{SESSIONS}/{self._key.session}/{path.name}" for path in _files(self._directory)]
        for attempt in attempts:
            place = self._evidence / str(attempt["directory"]) / DIRECTORY
            names += [f"{attempt['directory']}/{DIRECTORY}/{path.name}" for path in _files(place)]
        files |= {name: _digest(self._evidence / name) for name in names}
        sums = dump_sums(files)
        body = {
            "session": self._key.session,
            "key": key_block(self._key),
            "opening": self._opening,
            "sums": {"sha256": sha256(sums), "files": len(files)},
            "attempts": attempts,
        }
        stamp = stamped(self._anchor, closing_statement(body), ANCHOR)
        document = canonical(
            {
                "schema": "sremut/session-seal/v1",
                **body,
                "anchor": stamp.block,
                "sealed": rfc3339(self._clock.now()),
            },
            what=f"{SEAL}.json",
            schema="session-seal",
        )
        write_together(
            self._directory / DIRECTORY,
            {
                **signed_files(self._key, SUMS, sums, SUMS),
                **stamp.files,
                **signed_files(self._key, f"{SEAL}.json", document, SEAL),
            },
        )
        return sha256(document)

    def _own(self) -> list[AttemptEntry]:
        entries = EvidenceRoot.existing(self._evidence).attempts()
        return [entry for entry in entries if entry.session == self._key.session]


def opening_statement(body: Mapping[str, Any]) -> dict[str, Any]:
    """What is stamped of an opening."""
    names = ("session", "registrations", "product", "opened")
    return {
        "of": "opening",
        **{name: body[name] for name in names},
        "key": body["key"]["sha256"],
    }


def closing_statement(body: Mapping[str, Any]) -> dict[str, Any]:
    """What is stamped of a closing."""
    return {
        "of": "closing",
        "session": body["session"],
        "key": body["key"]["sha256"],
        "opening": body["opening"],
        "sums": body["sums"]["sha256"],
    }


def ledger_files(evidence: Path) -> dict[str, str]:
    """SHA-256 of every entry of the attempt ledger, by its path in the evidence directory.

    Raises:
        EvidenceError: One cannot be read.
    """
    paths = sorted((evidence / "attempts").glob("[!.]*.json"))
    return {f"attempts/{path.name}": _digest(path) for path in paths}


def _files(directory: Path) -> list[Path]:
    if not directory.is_dir():
        return []
    return sorted(path for path in directory.iterdir() if path.is_file())


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise EvidenceError(f"{path}: cannot be read: {reason_of(error)}") from error


def place_of(entry: AttemptEntry) -> str:
    """Where an attempt stands in its evidence directory, as its ledger entry's own name tells."""
    return f"{entry.study}/{entry.run}/a{entry.attempt:02d}"


def _seal_digest(entry: AttemptEntry) -> str | None:
    if entry.directory is None or not is_sealed(entry.directory):
        return None
    return _digest(entry.directory / DIRECTORY / f"{SEAL}.json")
