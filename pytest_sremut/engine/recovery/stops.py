"""Why a recovery stops: nothing more is written, and it says what a person must look at."""

from __future__ import annotations

from pytest_sremut.errors import SremutError

__all__ = ["BlockedError"]


class BlockedError(SremutError):
    """The system cannot be put back safely.

    Args:
        reason: One sentence: what could not be established.
        look: What to look at, a line each: objects with their UIDs, files.
    """

    def __init__(self, reason: str, *, look: tuple[str, ...] = ()) -> None:
        self.reason = reason
        self.look = look
        super().__init__(f"RESTORATION_BLOCKED: {reason}")

    def diagnostics(self) -> str:
        return "\n".join(self.look)
