"""The session gate: what must hold for a study before any fixture and before any worker starts.

A study is run under a registration, or as an exploration that says so for ever. Nothing is run
when a check fails, and every failed check is told.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_sremut.study.verdict import Registration

if TYPE_CHECKING:
    from pytest_sremut.options import Settings
    from pytest_sremut.study.model import Study

__all__ = ["Admission", "admit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """Whether a study may run, and as what."""

    registration: Registration
    header: str  # what stands in the header, in every record and in the summary
    refusals: tuple[str, ...]  # empty: it may run


def admit(study: Study, settings: Settings) -> Admission:
    """Decide about one study."""
    refusals: list[str] = []
    profile = settings.profile or settings.cluster.split(":")[0]
    if profile not in study.profiles:
        known = ", ".join(sorted(study.profiles))
        refusals.append(
            f"{study.file}: profiles: no profile {profile!r} (--sremut-profile); allowed: {known}"
        )
    return Admission(
        registration=Registration.EXPLORATORY,
        header="EXPLORATORY: no registration, nothing here confirms a prediction",
        refusals=tuple(refusals),
    )
