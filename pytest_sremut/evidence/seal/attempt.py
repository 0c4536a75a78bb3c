"""Seals one attempt: what its directory holds, who it is, and how far it came."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pytest_sremut.errors import EvidenceError
from pytest_sremut.evidence.check import parse_checked
from pytest_sremut.evidence.journal import JournalReading, parse_journal
from pytest_sremut.evidence.seal.anchor import Anchor, AnchorState, Unanchored
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
from pytest_sremut.evidence.seal.guards import broken_guards
from pytest_sremut.evidence.seal.key import SessionKey
from pytest_sremut.evidence.seal.sums import Listing, dump_sums, list_directory
from pytest_sremut.ground.durable.atomic import reason_of
from pytest_sremut.ground.durable.clock import Clock, SystemClock, rfc3339
from pytest_sremut.ground.formats.canonical import sha256
from pytest_sremut.study.verdict import Outcome, State

__all__ = [
    "COMPLETE",
    "PARTIAL",
    "Contents",
    "Seal",
    "attempt_statement",
    "contents_of",
    "guards_of",
    "identity_block",
    "is_sealed",
    "seal_attempt",
    "seal_recovered",
]

_SCHEMA: Final = "sremut/seal/v1"
COMPLETE, PARTIAL = "complete", "partial"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seal:
    """A seal that was made."""

    directory: Path  # of the attempt
    sha256: str  # of seal.json
    extent: str  # "complete" or "partial"
    guards_held: bool
    anchor: AnchorState


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What a seal speaks of, as it stands in an attempt's directory."""

    listing: Listing
    identity: Mapping[str, Any]  # attempt.json
    record: Mapping[str, Any]  # record.json; empty where there is none
    states: Mapping[str, Mapping[str, Any]]
    journal: JournalReading

    def stop(self, reason: str) -> dict[str, Any]:
        """The marker of an attempt that did not come to its end."""
        entries = self.journal.entries
        return {
            "reason": reason,
            "last_transition": entries[-1].transition if entries else "",
            "after_entries": len(entries),
        }


def is_sealed(directory: Path) -> bool:
    """Whether a seal stands in an attempt's directory; not whether it holds."""
    return (directory / DIRECTORY).is_dir()


def seal_attempt(
    directory: Path,
    *,
    key: SessionKey,
    partial: bool = False,
    stop: str = "",
    anchor: Anchor | None = None,
    clock: Clock | None = None,
) -> Seal:
    """Seal an attempt of a sealed session, once nothing more will be written to it.

    An attempt without a record (it died), and one whose restoration failed, can only be sealed as
    partial. Whoever seals another session's attempt does so under its own key and can only do so
    partially: it was not there.

    Args:
        directory: `<evidence>/<study>/<run>/aNN`.
        key: Of the session that seals.
        partial: Whether the attempt did not come to its end.
        stop: One sentence, why not; required where partial, unless the record says it.
        anchor: Who stamps the journal's head; nobody where None.
        clock: Where the time comes from.

    Raises:
        EvidenceError: The attempt is not one of a sealed session, is sealed already, holds what
            cannot be sealed, or is not what `partial` says; or the seal cannot be written. The
            attempt is then as before.
    """
    if is_sealed(directory):
        raise EvidenceError(f"{directory}: is sealed already; a seal is never replaced")
    found = contents_of(directory)
    if found.listing.strange:
        raise EvidenceError(f"{directory}: cannot be sealed: {found.listing.strange[0]}")
    if "sealed" not in found.identity:
        raise EvidenceError(f"{directory}: no attempt of a sealed session: it is never sealed")
    outcome = found.record.get("outcome")
    blocked = outcome == Outcome.RESTORATION_FAILURE.value
    if not partial and not blocked and not found.record:
        raise EvidenceError(f"{directory}: has no record: it can only be sealed as partial")
    own = key.session == found.identity["session"]
    if not partial and not own:
        raise EvidenceError(f"{directory}: of another session: it can only be sealed as partial")
    if partial and outcome == Outcome.COMPLETE.value:
        raise EvidenceError(f"{directory}: is COMPLETE: only its own session seals it, as complete")
    is_partial = partial or blocked
    stop = stop or (f"{outcome}: {found.record['reason']}" if found.record else "")
    if is_partial and not stop:
        raise EvidenceError(f"{directory}: sealed as partial without a reason")
    broken = guards_of(found)
    sums = dump_sums(found.listing.files)
    journal = {
        "status": found.journal.status.value,
        "head": found.journal.head,
        "entries": len(found.journal.entries),
    }
    statement = attempt_statement(
        identity_block(found.identity), key_sha256=key.sha256, sums=sha256(sums), journal=journal
    )
    stamp = stamped(anchor or Unanchored(), statement, ANCHOR)
    document = canonical(
        {
            "schema": _SCHEMA,
            "identity": identity_block(found.identity),
            "key": key_block(key),
            "sums": {"sha256": sha256(sums), "files": len(found.listing.files)},
            "empty_directories": list(found.listing.empty),
            "record": found.listing.files.get("record.json"),
            "outcome": outcome,
            "journal": journal,
            "extent": PARTIAL if is_partial else COMPLETE,
            "stop": found.stop(stop) if is_partial else None,
            "guards": {"held": not broken, "broken": list(broken)},
            "anchor": stamp.block,
            "sealed": rfc3339((clock or SystemClock()).now()),
        },
        what=f"{directory}: seal.json",
        schema="seal",
    )
    files = {
        **signed_files(key, SUMS, sums, SUMS),
        **stamp.files,
        **signed_files(key, f"{SEAL}.json", document, SEAL),
    }
    write_together(directory / DIRECTORY, files)
    return Seal(
        directory=directory,
        sha256=sha256(document),
        extent=PARTIAL if is_partial else COMPLETE,
        guards_held=not broken,
        anchor=stamp.state,
    )


def seal_recovered(
    directory: Path, *, session: str, stop: str, anchor: Anchor | None = None
) -> Seal | None:
    """Seal what a dead session left, partially, under a key made for this alone.

    Args:
        directory: Of the attempt, to which nothing more will be written.
        session: Who recovers.
        stop: Why it did not come to its end.
        anchor: Who stamps; nobody where None.

    Returns:
        The seal; None where the attempt is of no sealed session, or sealed already.

    Raises:
        EvidenceError: As for `seal_attempt`.
    """
    if is_sealed(directory) or "sealed" not in _document(directory, "attempt.json", "attempt"):
        return None
    key = SessionKey.generate(session)
    try:
        return seal_attempt(directory, key=key, partial=True, stop=stop, anchor=anchor)
    finally:
        key.discard()


def attempt_statement(
    identity: Mapping[str, Any], *, key_sha256: str, sums: str, journal: Mapping[str, Any]
) -> dict[str, Any]:
    """What is stamped of an attempt: who it is, the journal's head, and the listing's digest."""
    return {
        "of": "attempt",
        "identity": dict(identity),
        "key": key_sha256,
        "sums": sums,
        "journal": dict(journal),
    }


def contents_of(directory: Path) -> Contents:
    """Read what a seal speaks of.

    Raises:
        EvidenceError: `attempt.json` is not there or is none; another document is none.
    """
    listing = list_directory(directory, without=(DIRECTORY,))
    return Contents(
        listing=listing,
        identity=_document(directory, "attempt.json", "attempt"),
        record=_document(directory, "record.json", "record", listing),
        states={
            state.value: body
            for state in State
            if (body := _document(directory, f"states/{state.value}.json", "state", listing))
        },
        journal=parse_journal(_bytes(directory, "journal.jsonl", listing)),
    )


def guards_of(contents: Contents) -> tuple[str, ...]:
    """The guards that did not hold; empty where all did."""
    return broken_guards(
        contents.journal,
        identity=contents.identity,
        record=contents.record,
        states=contents.states,
    )


def identity_block(identity: Mapping[str, Any]) -> dict[str, Any]:
    """Which attempt it is, by everything that a replay would have to share."""
    binding = identity["sealed"]
    return {
        "study": identity["study"],
        "registration": binding["registration"],
        "revision": binding["revision"],
        "run": identity["run"],
        "mutant": identity["mutant"],
        "repetition": identity["repetition"],
        "attempt": identity["attempt"],
        "sequence": identity["sequence"],
        "session": identity["session"],
        "product": identity["product"].get("digest", ""),
        "cluster": identity["cluster"].get("kube_system_uid", ""),
        "opened": identity["opened"],
    }


def _document(
    directory: Path, name: str, schema: str, listing: Listing | None = None
) -> Mapping[str, Any]:
    if listing is not None and name not in listing.files:
        return {}
    return parse_checked(schema, _bytes(directory, name), what=f"{directory}: {name}")


def _bytes(directory: Path, name: str, listing: Listing | None = None) -> bytes:
    if listing is not None and name not in listing.files:
        return b""
    try:
        return (directory / name).read_bytes()
    except OSError as error:
        raise EvidenceError(f"{directory}: {name}: {reason_of(error)}") from error
