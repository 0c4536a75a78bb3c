"""One run at a time, where a benchmark's injector cannot have shared directories of its own.

From its injection to its recovery a run holds a lock that every process of this user respects; it
goes with the process.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_sremut.errors import HarnessError

if TYPE_CHECKING:
    from filelock import FileLock

__all__ = ["Turn"]

_PATIENCE: Final = 1800.0  # another run's faulted state, its settling and its windows


class Turn:
    """The turn of one instrument.

    Args:
        benchmark: Its name: different benchmarks do not wait for each other.
        patience: Seconds to wait for the others.
    """

    def __init__(self, benchmark: str, *, patience: float = _PATIENCE) -> None:
        self.path = Path(tempfile.gettempdir()) / f"sremut-{benchmark}-{os.geteuid()}.lock"
        self._patience = patience
        self._lock: FileLock | None = None

    def take(self) -> None:
        """Wait for it; nothing where it is held already. Raises HarnessError."""
        from filelock import FileLock, Timeout

        if self._lock is not None:
            return
        lock = FileLock(self.path, timeout=self._patience, thread_local=False)
        try:
            lock.acquire()
        except Timeout:
            raise HarnessError(
                f"another run has held {self.path} for {self._patience:g} s: this benchmark's "
                "injector keeps files under fixed names, and no mount namespace can be had here"
            ) from None
        except OSError as error:
            raise HarnessError(f"{self.path}: {error.strerror}") from error
        self._lock = lock

    def give(self) -> None:
        """Let the next one; nothing where it is not held."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None
