"""Everything that can be checked of recorded evidence offline: registrations, seals, stamps.

A session's evidence directory or one attempt's directory in; a line a check out. What is not sealed
cannot be verified, and its digests, its journal and its registration are checked all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_sremut.attestation.errors import Fault
from pytest_sremut.attestation.registration.against import compare_attempt, compare_product
from pytest_sremut.attestation.registration.anchoring import OfflineStamps
from pytest_sremut.attestation.registration.check import check
from pytest_sremut.attestation.registration.pins import trust_of
from pytest_sremut.attestation.registration.recorded import (
    first_recorded,
    is_evidence,
    recorded_studies,
)
from pytest_sremut.attestation.registration.result import RegistrationReport
from pytest_sremut.attestation.rfc3161.trust import TrustStore
from pytest_sremut.errors import SremutError
from pytest_sremut.evidence.seal.anchor import AnchorState
from pytest_sremut.evidence.seal.checks import Report, SealCheck
from pytest_sremut.evidence.seal.document import DIRECTORY as SEALS
from pytest_sremut.evidence.seal.evidence import (
    EvidenceReading,
    SessionReading,
    standing_of,
    verify_evidence,
    verify_session,
)
from pytest_sremut.evidence.seal.session import SESSIONS
from pytest_sremut.evidence.seal.standing import label
from pytest_sremut.evidence.seal.verify import SealReading, verify_attempt
from pytest_sremut.study.model import Study

__all__ = ["EvidenceReport", "behind", "is_recorded", "verify_recorded"]

LoadStudy = Callable[[str], Study]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceReport:
    """What became of verifying evidence."""

    registrations: tuple[RegistrationReport, ...]
    checks: tuple[SealCheck, ...]
    labels: Mapping[str, str]  # attempt (`study/run/aNN`) -> what it is called

    @property
    def first_broken(self) -> SealCheck | None:
        """The first check of the evidence that failed."""
        return next((one for one in self.checks if one.ok is False), None)

    @property
    def fault(self) -> Fault | None:
        """The worst: invalid, misuse, then cannot be verified; None where everything holds."""
        found = {report.fault for report in self.registrations}
        if self.first_broken is not None:
            found.add(Fault.INVALID)
        if any(one.ok is None for one in self.checks):
            found.add(Fault.UNVERIFIABLE)
        order = (Fault.INVALID, Fault.MISUSE, Fault.AUTHORITY, Fault.UNVERIFIABLE)
        return next((fault for fault in order if fault in found), None)

    def to_json(self) -> dict[str, Any]:
        """Exact built-ins."""
        first = self.first_broken
        return {
            "schema": "sremut/evidence-report/v1",
            "fault": None if self.fault is None else self.fault.value,
            "registrations": [report.to_json() for report in self.registrations],
            "checks": [
                {"name": one.name, "ok": one.ok, "detail": one.detail, "place": one.place}
                for one in self.checks
            ],
            "first_broken": None if first is None else first.place or first.name,
            "labels": dict(self.labels),
        }


def is_recorded(directory: Path) -> bool:
    """Whether this is the evidence directory of a session, or of one attempt, or what is left."""
    return (
        is_evidence(directory)
        or (directory / SESSIONS).is_dir()
        or any((directory / name).exists() for name in ("attempt.json", "journal.jsonl", SEALS))
    )


def verify_recorded(
    directory: Path,
    root: Path,
    load: LoadStudy,
    *,
    trust: TrustStore | None = None,
    revision: int | None = None,
) -> EvidenceReport:
    """Verify an evidence directory, or one attempt's.

    Args:
        directory: Either.
        root: The project's root, for pins and registrations.
        load: Gives a study by its id; raises SremutError where there is none.
        trust: The pins; the project's own where None.
        revision: Of the registrations; that of the seals, else the newest, where None.

    Raises:
        InputError: The trust file is not what it must be.
        EvidenceError: The directory cannot be read.
    """
    pins = trust_of(root) if trust is None else trust
    verifier = OfflineStamps(pins)
    if is_evidence(directory) or (directory / SESSIONS).is_dir():
        reading = verify_evidence(directory, verifier=verifier)
        studies: Sequence[str] = () if not reading.seals else recorded_studies(directory)
        evidence: Path | None = directory
    else:
        reading = _one(directory, verifier)
        studies = sorted(
            {one.document["identity"]["study"] for one in reading.seals.values() if one.document}
        )
        evidence = None
    report = Report("")
    report.checks += reading.checks
    if not reading.seals:
        report.unverified("attempts", "none lies there")
    registrations: dict[tuple[str, int | None], RegistrationReport] = {}
    for study in studies:
        for number in _revisions(reading, study, revision):
            try:
                registrations[study, number] = check(
                    root,
                    load(study),
                    first_mutation=None if evidence is None else first_recorded(evidence, study),
                    trust=pins,
                    revision=number,
                )
            except SremutError as error:
                report.unverified(f"{study} registration", str(error))
    for place, seal in reading.seals.items():
        attempt = directory if evidence is None else directory / place
        if (found := _named(seal, registrations)) is not None and found.manifest is not None:
            compare_attempt(attempt, found.manifest, report, place)
            compare_product(root, found, seal.document["identity"]["product"], report, place)
    labels = {
        place: _label(place, seal, reading, registrations, report)
        for place, seal in reading.seals.items()
        if seal.sealed
    }
    return EvidenceReport(
        registrations=tuple(registrations.values()), checks=tuple(report.checks), labels=labels
    )


def behind(report: RegistrationReport) -> AnchorState | None:
    """What stands behind the weaker of a registration's two stamps; None: it does not hold."""
    if not report.ok or report.token is None or report.tree_token is None:
        return None
    stamps = {report.token.independence, report.tree_token.independence}
    if stamps == {AnchorState.INDEPENDENT.value}:
        return AnchorState.INDEPENDENT
    return AnchorState.SELF_ISSUED


def _one(directory: Path, verifier: OfflineStamps) -> EvidenceReading:
    """One attempt, beside its session's files where they stand above it."""
    place = directory.resolve()
    seal = verify_attempt(place, verifier=verifier)
    sessions: dict[str, SessionReading] = {}
    report = Report("")
    if seal.document:
        name = str(seal.document["identity"]["session"])
        above = place.parents[2] / SESSIONS / name if len(place.parents) > 2 else place
        if (above / "session.json").is_file():
            sessions[name] = session = verify_session(above, verifier=verifier)
            report.checks += [one for one in session.checks if one.ok is not None]
            seal = verify_attempt(place, verifier=verifier, key=session.key)
        else:
            report.unverified("session", f"the files of session {name} are not here")
    return EvidenceReading(
        checks=(*report.checks, *seal.checks),
        seals={"/".join(place.parts[-3:]): seal},
        sessions=sessions,
    )


def _revisions(reading: EvidenceReading, study: str, given: int | None) -> Sequence[int | None]:
    if given is not None:
        return (given,)
    found = {
        seal.document["identity"]["revision"]
        for seal in reading.seals.values()
        if seal.document and seal.document["identity"]["study"] == study
    }
    return sorted(found) or (None,)


def _named(
    seal: SealReading, registrations: Mapping[tuple[str, int | None], RegistrationReport]
) -> RegistrationReport | None:
    """The registration that a seal names; None where it is not here, which its label tells."""
    identity = seal.document.get("identity", {})
    found = registrations.get((identity.get("study", ""), identity.get("revision")))
    return found if found is not None and found.digest == identity["registration"] else None


def _label(
    place: str,
    seal: SealReading,
    reading: EvidenceReading,
    registrations: Mapping[tuple[str, int | None], RegistrationReport],
    report: Report,
) -> str:
    """What an attempt is called; notes where its seal names another registration."""
    identity = seal.document.get("identity", {})
    found = registrations.get((identity.get("study", ""), identity.get("revision")))
    stamps = None
    if found is not None and found.digest == identity["registration"]:
        stamps = behind(found)
    elif found is not None:
        report.failed(
            f"{place} registration",
            f"revision {identity['revision']} is {found.digest}, sealed {identity['registration']}",
        )
    session = reading.sessions.get(identity.get("session", ""))
    mine = [one for one in reading.checks if one.name.startswith(f"{place} ")]
    holds = all(one.ok is not False for one in mine)
    return label(standing_of(seal, session, holds=holds, registration=stamps))
