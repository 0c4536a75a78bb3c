"""What the processes of one session share: its id, where its evidence goes, its public key.

Only exact built-ins cross from xdist's controller to its workers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_sremut.evidence.identity import new_session_id
from pytest_sremut.ground.durable.clock import SystemClock

if TYPE_CHECKING:
    from pytest_sremut.options.settings import Settings

__all__ = ["Member"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One process of a session."""

    session: str
    evidence: Path  # the session's directory
    key: str = ""  # public key of a sealed session, base64
    worker: str = "main"  # or xdist's worker id

    @classmethod
    def first(cls, settings: Settings) -> Member:
        """The process that leads a new session."""
        session = new_session_id(SystemClock())
        own = settings.root / ".sremut" / "evidence" / session
        return cls(session=session, evidence=settings.evidence or own)

    @classmethod
    def worker_of(cls, workerinput: Mapping[str, Any]) -> Member:
        """A worker, from what xdist's controller sent it."""
        sent = workerinput["sremut"]
        return cls(
            session=str(sent["session"]),
            evidence=Path(sent["evidence"]),
            key=str(sent["key"]),
            worker=str(workerinput["workerid"]),
        )

    def for_workers(self) -> dict[str, str]:
        """What a controller sends to its workers."""
        return {"session": self.session, "evidence": str(self.evidence), "key": self.key}
