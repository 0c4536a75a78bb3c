"""Putting back what a run left behind whose process died: from its journal, by looking, by UID."""

from pytest_sremut.engine.recovery.attempt import Recovered, Recoverer, seal_left
from pytest_sremut.engine.recovery.pending import Pending, pending_attempts, put_back
from pytest_sremut.engine.recovery.rebuild import Journaled, rebuild
from pytest_sremut.engine.recovery.stops import BlockedError

__all__ = [
    "BlockedError",
    "Journaled",
    "Pending",
    "Recovered",
    "Recoverer",
    "pending_attempts",
    "put_back",
    "rebuild",
    "seal_left",
]
