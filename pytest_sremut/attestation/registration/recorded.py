"""When something was first done under a study, as its evidence says.

A registration has to be earlier than the first attempt. The first entry of an attempt's journal is
written before anything is touched, so its time bounds the first mutation from below.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from pytest_sremut.attestation.errors import ManifestError, MisuseError
from pytest_sremut.evidence.journal import JournalStatus, read_journal

__all__ = ["first_recorded", "is_evidence", "recorded_studies"]

_JOURNALS = "*/a[0-9]*/journal.jsonl"  # <study>/<run>/a01/journal.jsonl


def is_evidence(directory: Path) -> bool:
    """Whether this is the evidence directory of a session."""
    return (directory / "attempts").is_dir()


def recorded_studies(evidence: Path) -> tuple[str, ...]:
    """The ids of the studies with attempts in an evidence directory, sorted.

    Raises:
        MisuseError: There is none.
    """
    found = sorted({path.parts[-4] for path in evidence.glob(f"*/{_JOURNALS}")})
    if not found:
        raise MisuseError(f"{evidence}: no attempt of any study lies there")
    return tuple(found)


def first_recorded(evidence: Path, study: str) -> datetime | None:
    """When the first attempt of a study began; None where it has none.

    Raises:
        ManifestError: A journal does not hold together, so that its times prove nothing.
    """
    times = []
    for path in sorted((evidence / study).glob(_JOURNALS)):
        reading = read_journal(path)
        if reading.status in (JournalStatus.TAMPERED, JournalStatus.UNREADABLE):
            raise ManifestError(f"{path}: the journal is {reading.status}: {reading.problem}")
        if reading.entries:
            try:
                times.append(datetime.fromisoformat(reading.entries[0].utc))
            except ValueError:
                raise ManifestError(f"{path}: its first entry has no time") from None
    return min(times, default=None)
