"""What the ledger knows of an attempt: facts read from evidence, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pytest_sremut.study.verdict import ContractVerdict, Outcome, State, Verdict

__all__ = ["AttemptFact", "ContractFact", "ReadingFact", "StateFact", "WindowFact"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingFact:
    """One reading of one oracle by one instrument."""

    oracle: str
    instrument: str
    verdict: Verdict
    exception: str | None  # "TypeError: message", kept for ERROR


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractFact:
    """What the contract concluded in one state."""

    verdict: ContractVerdict
    violated: frozenset[str]
    not_evaluated: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowFact:
    """One workload window. Counts are over its complete rounds."""

    rounds: int
    requests: int
    failures: int
    successes: int

    @property
    def error_rate(self) -> float | None:
        """Failures per completed request; None when nothing was completed."""
        return self.failures / self.requests if self.requests else None


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFact:
    """Everything read in one state of one attempt."""

    state: State
    readings: tuple[ReadingFact, ...]
    contract: ContractFact | None
    window: WindowFact | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFact:
    """One attempt at one run. `outcome` None: it died before it could say how it ended."""

    study: str
    run: str
    mutant: str
    repetition: int
    attempt: int
    outcome: Outcome | None
    reason: str
    registration: str
    states: Mapping[State, StateFact]

    @property
    def valid(self) -> bool:
        """Only these enter a score."""
        return self.outcome is Outcome.COMPLETE
