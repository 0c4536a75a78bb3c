"""The session gate: what must hold for a study before any fixture and before any worker starts.

A study runs under a registration that holds, or as an exploration whose records say so for ever.
If a check fails nothing is run, and every failed check is reported. Workers check again, and
before each run the frozen files are compared once more.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_sremut.errors import SremutError
from pytest_sremut.session.admission import Admission
from pytest_sremut.session.cellreport import requirement_of
from pytest_sremut.session.sealing import refuses_sealed
from pytest_sremut.session.subject import differences
from pytest_sremut.study.verdict import Registration

if TYPE_CHECKING:
    from pytest_sremut.attestation.registration.result import RegistrationReport
    from pytest_sremut.options.settings import Settings
    from pytest_sremut.study.model import Study

__all__ = ["admit"]

_FAILS = {
    "predictions": "it is not as predicted, or a grader raises",
    "soundness": "a grader contradicts the contract, or raises",
}
EXPLORATORY = "EXPLORATORY: no registration, nothing here confirms a prediction"


def admit(study: Study, settings: Settings) -> Admission:
    """Decide about one study. Reads files only; no network, no cluster."""
    refusals = _profile(study, settings)
    refusals += [f"{study.id}: benchmark: {line}" for line in differences(study, settings)]
    if settings.exploratory:
        return Admission(
            registration=Registration.EXPLORATORY,
            header=f"{study.id}: {EXPLORATORY}",
            refusals=tuple(refusals),
            fails_if=f"{study.id}: a cell fails if {_fails_if(study, settings)}",
        )
    from pytest_sremut.attestation.registration.check import check

    try:
        report = check(settings.root, study, first_mutation=_first_mutation(study, settings))
    except SremutError as error:
        return Admission(
            registration=Registration.SEALED if settings.sealed else Registration.PREREGISTERED,
            header=f"{study.id}: registration cannot be checked",
            refusals=(*refusals, f"{study.id}: {error}"),
        )
    if settings.sealed:
        refusals += [f"{study.id}: {line}" for line in refuses_sealed(study, report, settings.root)]
    else:
        refusals += [f"{study.id}: {result.line()}" for result in report.failures]
    uncovered = _uncovered(report, settings)
    refusals += [f"{study.id}: {line}" for line in uncovered]
    if report.failures or uncovered:
        refusals.append(
            f"{study.id}: register it with `sremut freeze {study.id} --tsa URL`, or explore with "
            "--sremut-exploratory"
        )
    return Admission(
        registration=Registration.SEALED if settings.sealed else Registration.PREREGISTERED,
        header=report.header(),
        refusals=tuple(refusals),
        report=report,
    )


def _uncovered(report: RegistrationReport, settings: Settings) -> list[str]:
    """Plugins that bring adapters or faults here, and that the registration does not know."""
    from pytest_sremut.attestation.registration.code import is_outside

    if report.manifest is None or not report.manifest.has_code:
        return []  # made before they were covered, which its header says
    files = [one.path for one in report.manifest.files.values()]
    inside = {(settings.root / path).resolve() for path in files if not is_outside(path)}
    outside = [path.parts[1:] for path in files if is_outside(path)]
    return [
        f"{path}: brings adapters or faults, and the registration does not cover it"
        for path in settings.bringers
        if path not in inside and not any(_ends(path, parts) for parts in outside)
    ]


def _ends(path: Path, parts: tuple[str, ...]) -> bool:
    """Whether a file is that of a module; a package's has the name of its `__init__`."""
    return path.parts[-len(parts) :] == parts or path.parent.parts[-len(parts) :] == (
        *parts[:-1],
        Path(parts[-1]).stem,
    )


def _fails_if(study: Study, settings: Settings) -> str:
    return _FAILS[requirement_of(study, settings.require)]


def _profile(study: Study, settings: Settings) -> list[str]:
    profile = study.profile_for(settings.cluster_kind, settings.profile)
    if profile in study.profiles:
        return []
    known = ", ".join(sorted(study.profiles))
    return [f"{study.file}: profiles: no profile {profile!r} (--sremut-profile); allowed: {known}"]


def _first_mutation(study: Study, settings: Settings) -> datetime | None:
    """When something was first done under the study in the evidence directory that was named."""
    if settings.evidence is None or not settings.evidence.is_dir():
        return None
    from pytest_sremut.attestation.registration.recorded import first_recorded

    return first_recorded(settings.evidence, study.id)
