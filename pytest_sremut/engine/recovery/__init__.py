"""Putting back what a run left behind whose process died: from its journal, by looking, by UID."""

from pytest_sremut.engine.recovery.attempt import Recovered, Recoverer
from pytest_sremut.engine.recovery.pending import Pending, has_put_back, pending_attempts
from pytest_sremut.engine.recovery.rebuild import RunState, rebuild
from pytest_sremut.engine.recovery.stops import BlockedError

__all__ = [
    "BlockedError",
    "Pending",
    "Recovered",
    "Recoverer",
    "RunState",
    "has_put_back",
    "pending_attempts",
    "rebuild",
]
