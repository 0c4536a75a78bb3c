"""Seals of the attempts in an evidence directory, verified before anything in them is counted.

An attempt of a sealed session counts only under a seal that holds, and only if the files of its
session are here and hold too. A record that came from elsewhere, or was never sealed, is damaged
like one whose digests do not match. An attempt that died before it was sealed counts as died.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_sremut.evidence.root import AttemptEntry
from pytest_sremut.evidence.seal.anchor import AnchorState, StampVerifier
from pytest_sremut.evidence.seal.checks import SealCheck
from pytest_sremut.evidence.seal.session import SESSIONS, place_of
from pytest_sremut.evidence.seal.standing import label, weakest
from pytest_sremut.ledger.model import AttemptFact, SealFact
from pytest_sremut.study.verdict import Registration

if TYPE_CHECKING:
    from pytest_sremut.evidence.seal.evidence import EvidenceReading, SessionReading
    from pytest_sremut.evidence.seal.verify import SealReading

__all__ = ["Registrations", "Seals", "read_seals", "study_label"]

Registrations = Callable[[str, int, str], AnchorState | None]
"""Study, revision, digest of the manifest -> what anchors its stamps; None: not verified."""


def study_label(attempts: tuple[AttemptFact, ...]) -> str:
    """The label that all counted sealed attempts of a study have earned; empty without any."""
    counted = [one for one in attempts if one.valid] or list(attempts)
    standing = weakest(one.seal.standing for one in counted if one.seal is not None)
    return "" if standing is None else label(standing)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seals:
    """What was verified, by attempt (`study/run/aNN`)."""

    facts: Mapping[str, SealFact] = field(default_factory=dict)
    problems: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    whole: tuple[str, ...] = ()  # of sessions and of the directory

    def of(self, entry: AttemptEntry) -> tuple[SealFact | None, tuple[str, ...]]:
        """One attempt's seal, and why it does not hold."""
        place = place_of(entry)
        return self.facts.get(place), self.problems.get(place, ())


def read_seals(
    directory: Path,
    entries: tuple[AttemptEntry, ...],
    *,
    verifier: StampVerifier | None = None,
    registrations: Registrations | None = None,
) -> Seals:
    """Verify the seals of an evidence directory; reads nothing if no attempt is sealed.

    Args:
        directory: The evidence directory.
        entries: Its ledger of attempts.
        verifier: Verifies stamps; without it no stamp is verified.
        registrations: Verifies registrations; without it none is verified.

    Raises:
        EvidenceError: The directory cannot be read.
    """
    own = [entry for entry in entries if entry.registration is Registration.SEALED]
    if not own:
        return Seals()
    from pytest_sremut.evidence.seal.evidence import standing_of, verify_evidence

    reading = verify_evidence(directory, verifier=verifier)
    facts: dict[str, SealFact] = {}
    problems: dict[str, tuple[str, ...]] = {}
    for entry in own:
        place = place_of(entry)
        seal = reading.seals.get(place)
        if seal is None:
            continue
        session = reading.sessions.get(entry.session)
        told = tuple(_problems(entry, seal, session, reading))
        problems[place] = told
        facts[place] = SealFact(
            standing=standing_of(
                seal, session, holds=not told, registration=_behind(seal, registrations)
            ),
            digest=seal.digest,
            extent=seal.extent,
            key=str(seal.document.get("key", {}).get("sha256", "")),
            time=str(seal.document.get("anchor", {}).get("time", "")),
        )
    return Seals(facts=facts, problems=problems, whole=tuple(_whole(reading, own)))


def _problems(
    entry: AttemptEntry,
    seal: SealReading,
    session: SessionReading | None,
    reading: EvidenceReading,
) -> Iterator[str]:
    if not seal.sealed:
        if not entry.died:
            yield "seal: not sealed"
        return
    place = place_of(entry)
    for check in reading.checks:
        of_records = check.name == f"{place} records"  # reported with the records
        if check.ok is False and check.name.startswith(f"{place} ") and not of_records:
            yield f"seal: {_told(check)}"
    if session is None:
        yield f"seal: session {entry.session} has no files here: it was brought from elsewhere"
    elif any(check.ok is False for check in session.checks):
        yield f"seal: the files of its session {entry.session} do not hold"


def _whole(reading: EvidenceReading, own: list[AttemptEntry]) -> Iterator[str]:
    sessions = {entry.session for entry in own}
    for check in reading.checks:
        if check.ok is False and check.name.split(" ")[0] in {
            "directory",
            *(f"{SESSIONS}/{name}" for name in reading.sessions),
        }:
            yield f"seal: {_told(check)}"
    for name in sorted(sessions & set(reading.sessions)):
        session = reading.sessions[name]
        if not session.closed and all(check.ok is not False for check in session.checks):
            yield f"seal: session {name} was not closed: whether attempts are missing is not known"


def _told(check: SealCheck) -> str:
    return f"{check.place}: {check.detail}" if check.place else check.detail


def _behind(seal: SealReading, registrations: Registrations | None) -> AnchorState | None:
    if not seal.document or registrations is None:
        return None
    identity = seal.document["identity"]
    return registrations(identity["study"], identity["revision"], identity["registration"])
