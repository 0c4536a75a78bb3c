"""The answer to "does this registration hold": a result for each check, and what they add up to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pytest_sremut.attestation.errors import Fault
from pytest_sremut.attestation.registration.manifest import Manifest, TreeStatement
from pytest_sremut.attestation.rfc3161.verify import VerifiedToken
from pytest_sremut.ground.durable.clock import rfc3339

__all__ = ["CheckResult", "RegistrationReport"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """One check. `ok` is None where it was not checked; `detail` then says why."""

    name: str
    ok: bool | None
    detail: str
    error: str = ""  # type of the error that failed it
    fault: Fault | None = None
    diagnostics: str = ""

    def line(self) -> str:
        """`OK   name: detail`, `FAIL name: why`, `--   name: not checked: why`."""
        mark = {True: "OK  ", False: "FAIL", None: "--  "}[self.ok]
        return f"{mark} {self.name}: {self.detail}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrationReport:
    """All checks of one registration. What could not be read is None."""

    study: str
    revision: int | None
    digest: str | None  # SHA-256 of manifest.json
    results: tuple[CheckResult, ...]
    manifest: Manifest | None = None
    token: VerifiedToken | None = None
    tree: TreeStatement | None = None
    tree_token: VerifiedToken | None = None
    product_changed: tuple[str, ...] | None = None  # None: not checked
    has_foreign_code: bool = False  # graders or plugins that are not ours decide in the study
    openssl: tuple[str, ...] = ()  # commands, relative to the project's root

    @property
    def ok(self) -> bool:
        """Whether no check failed."""
        return all(result.ok is not False for result in self.results)

    @property
    def failures(self) -> tuple[CheckResult, ...]:
        """The checks that failed."""
        return tuple(result for result in self.results if result.ok is False)

    @property
    def fault(self) -> Fault | None:
        """Whose fault it is, the worst first: invalid, misuse, then cannot be verified."""
        found = {result.fault for result in self.failures}
        order = (Fault.INVALID, Fault.MISUSE, Fault.AUTHORITY, Fault.UNVERIFIABLE)
        return next((fault for fault in order if fault in found), None)

    def refuses_sealed(self) -> tuple[str, ...]:
        """Why a sealed run may not start under this registration; empty where it may.

        A tree token is optional for pre-registered runs and required for sealed ones.
        """
        reasons = [result.line() for result in self.failures]
        if self.tree_token is None:
            reasons.append("a sealed run needs a tree token (`sremut freeze STUDY --tree`)")
        elif self.product_changed is None:
            reasons.append("a sealed run needs the git checkout of the stamped commit")
        elif self.product_changed:
            reasons.append(
                "product files changed since the stamped commit: " + ", ".join(self.product_changed)
            )
        return tuple(reasons)

    def header(self) -> str:
        """One line for header, records and ledger."""
        if self.token is None or self.digest is None or not self.ok:
            return f"{self.study}: registration does not hold"
        covered = self.manifest is None or self.manifest.has_code or not self.has_foreign_code
        return (
            f"{self.study} r{self.revision:02d} sha256:{self.digest[:16]}, stamped by "
            f"{self.token.root} at {rfc3339(self.token.gen_time)}, {self.token.independence}"
            f"{'' if covered else ', graders not covered'}"
        )

    def to_json(self) -> dict[str, Any]:
        """Exact built-ins, for JSON and for crossing processes."""
        return {
            "schema": "sremut/registration-report/v1",
            "study": self.study,
            "revision": self.revision,
            "digest": self.digest,
            "ok": self.ok,
            "fault": None if self.fault is None else self.fault.value,
            "predictions": None if self.token is None else self.token.to_json(),
            "tree": None if self.tree_token is None else self.tree_token.to_json(),
            "commit": None if self.tree is None else self.tree.commit,
            "product_changed": (
                None if self.product_changed is None else list(self.product_changed)
            ),
            "checks": [
                {
                    "name": result.name,
                    "ok": result.ok,
                    "detail": result.detail,
                    "error": result.error,
                    "fault": None if result.fault is None else result.fault.value,
                }
                for result in self.results
            ],
            "openssl": list(self.openssl),
        }
