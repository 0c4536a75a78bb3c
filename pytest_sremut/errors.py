"""Every error this package raises on purpose, grouped by whose fault it is.

A user's mistake never becomes a traceback: the shell catches `SremutError` and prints
`str(error)` and its `diagnostics()`. A parser of outside data raises one of these and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = [
    "AttestationError",
    "ClusterError",
    "ClusterUnavailableError",
    "EvidenceError",
    "GuardRefusedError",
    "HarnessError",
    "InputError",
    "SremutError",
    "UsageError",
]


class SremutError(Exception):
    """Base of all our errors."""

    def diagnostics(self) -> str:
        """What a person should look at next; may be empty."""
        return ""


class UsageError(SremutError):
    """The command line or the configuration asks for something that cannot be done."""


class InputError(SremutError):
    """A file that the user wrote says something that is not allowed.

    Args:
        file: Path as the user would name it.
        place: Path inside the file (`oracles.O3.use`, `line 12`), empty for the whole file.
        found: What is there.
        allowed: What may be there.
    """

    def __init__(self, *, file: str, place: str = "", found: str, allowed: str) -> None:
        self.file = file
        self.place = place
        self.found = found
        self.allowed = allowed
        where = f"{file}: {place}" if place else file
        super().__init__(f"{where}: found {found}; allowed: {allowed}")


class ClusterError(SremutError):
    """The cluster answered, and the answer stops what we were doing.

    Args:
        message: One sentence.
        status: HTTP status, 0 where there was none.
        reason: Kubernetes reason (`NotFound`, `AlreadyExists`, `Conflict`, `Invalid`, ...).
    """

    def __init__(self, message: str, *, status: int = 0, reason: str = "") -> None:
        self.status = status
        self.reason = reason
        super().__init__(message)


class ClusterUnavailableError(ClusterError):
    """No usable answer came: refused, reset, timed out, 5xx, truncated, not JSON."""


class GuardRefusedError(SremutError):
    """The guard refused a write: context not allowed, identity changed, precondition missing."""


class HarnessError(SremutError):
    """Our own machinery failed (a worker died or hung); never a statement about a grader."""


class EvidenceError(SremutError):
    """Evidence cannot be written or does not hold together."""


class AttestationError(SremutError):
    """A registration or a token cannot be made or does not verify."""

    def __init__(self, message: str, *, details: Sequence[str] = ()) -> None:
        self.details = tuple(details)
        super().__init__(message)

    def diagnostics(self) -> str:
        return "\n".join(self.details)
