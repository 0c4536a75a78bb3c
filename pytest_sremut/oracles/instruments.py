"""What an instrument is: a way to read an oracle.

Every instrument takes the same request and returns the same reading, so a difference between them
is a finding about the oracle and not about us. What goes wrong with the instrument itself is a
HarnessError, never a verdict.
"""

from __future__ import annotations

from typing import Protocol

from pytest_sremut.oracles.isolated import InProcess, Isolated
from pytest_sremut.oracles.oracle_port import Reading
from pytest_sremut.oracles.request import ReadingRequest

__all__ = ["InProcess", "Instrument", "Isolated"]


class Instrument(Protocol):
    """A way to read an oracle."""

    @property
    def name(self) -> str: ...

    def start(self) -> None:
        """Get ready; returns at once. Optional: `read` does it where it was not done."""
        ...

    def read(self, request: ReadingRequest) -> Reading:
        """Evaluate the oracle once.

        Raises:
            HarnessError: The instrument failed or the time limit passed.
            UsageError: The study names something that does not exist.
            GuardRefusedError: A grader of ours was about to write to another cluster.
        """
        ...

    def close(self) -> None: ...
