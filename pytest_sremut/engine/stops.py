"""Why a run ended before its end, as a value with the outcome of the attempt."""

from __future__ import annotations

from pytest_sremut.errors import (
    ClusterError,
    EvidenceError,
    GuardRefusedError,
    HarnessError,
    InputError,
    SremutError,
)
from pytest_sremut.ground.durable.text_redaction import redact_text
from pytest_sremut.study.verdict import Outcome

__all__ = ["RunStoppedError", "outcome_of", "told", "without_outcome"]


class RunStoppedError(SremutError):
    """The run stopped. Every further cell of it errors with this outcome and reason.

    Args:
        outcome: Never `COMPLETE`.
        reason: One sentence a person can act on.
    """

    def __init__(self, outcome: Outcome, reason: str) -> None:
        self.outcome = outcome
        self.reason = reason
        super().__init__(f"{outcome.value}: {reason}")


def outcome_of(error: BaseException) -> Outcome:
    """The outcome that an exception on the way through a run means.

    Only `RunStoppedError` has its own. Every error that is not known here is our own mistake.
    """
    match error:
        case RunStoppedError():
            return error.outcome
        case ClusterError():
            return Outcome.INFRASTRUCTURE_FAILURE
        case GuardRefusedError() | InputError():
            return Outcome.PROTOCOL_VIOLATION
        case EvidenceError() | HarnessError():
            return Outcome.DRIVER_ABORTED
        case _:
            return Outcome.DRIVER_ABORTED


def told(error: BaseException) -> str:
    """What went wrong, in words for a reason: our own errors are sentences already."""
    text = redact_text(str(error))
    if isinstance(error, SremutError):
        return text
    if isinstance(error, KeyboardInterrupt):
        return f"interrupted: {text}" if text else "interrupted"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def without_outcome(reason: str) -> str:
    """A stop's own text begins with its outcome, which is recorded beside the reason."""
    for outcome in Outcome:
        reason = reason.replace(f"{outcome.value}: ", "")
    return reason
