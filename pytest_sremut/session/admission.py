"""`Admission`: whether a study may run in this session, and as what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_sremut.study.verdict import Registration

if TYPE_CHECKING:
    from pytest_sremut.attestation.registration.result import RegistrationReport

__all__ = ["Admission"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """Whether a study may run, and as what."""

    registration: Registration
    header: str  # shown in the header and the summary, and part of every record
    refusals: tuple[str, ...]  # empty: it may run
    report: RegistrationReport | None = None
    fails_if: str = ""  # of an exploration: one line on what would make a cell fail

    def facts(self) -> Mapping[str, Any]:
        """What every record says about the registration; exact built-ins."""
        if self.report is None:
            return {"regime": self.registration.value, "statement": self.header}
        return {
            "regime": self.registration.value,
            "statement": self.header,
            **self.report.to_json(),
        }

    def binding(self, key: str) -> Mapping[str, Any] | None:
        """What an attempt of a sealed session is bound to; None in any other session."""
        if self.registration is not Registration.SEALED:
            return None
        assert self.report is not None
        return {"registration": self.report.digest, "revision": self.report.revision, "key": key}

    def changed_since(self, root: Path) -> list[str]:
        """The frozen files that are no longer what was registered, a sentence each."""
        if self.report is None:
            return []
        from pytest_sremut.attestation.registration.check import recheck

        return [result.line() for result in recheck(root, self.report)]
