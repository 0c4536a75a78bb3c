"""What the ledger knows of an attempt: facts read from evidence, as frozen values.

Two axes stay apart: `AttemptFact.outcome` says whether the attempt was valid, readings say what a
grader concluded. Where a fact came from is part of it: path inside its evidence directory, and
SHA-256.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pytest_sremut.evidence.seal.standing import Standing
from pytest_sremut.ledger.timeline import PodCondition
from pytest_sremut.study.verdict import ContractVerdict, Outcome, State, Verdict

__all__ = [
    "DAMAGED",
    "PUBLISHED",
    "ActivationFact",
    "AttemptFact",
    "ContractFact",
    "ReadingFact",
    "SealFact",
    "Source",
    "StateFact",
    "WindowFact",
]

PUBLISHED: Final = "PUBLISHED"
"""Registration of a record that was transcribed from somebody's published figures."""

DAMAGED: Final = "its evidence does not hold together"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Source:
    """A file that a fact was read from. `evidence` is the digest that names the directory."""

    evidence: str
    path: str  # relative to the evidence directory
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingFact:
    """One reading of one oracle by one instrument."""

    oracle: str
    instrument: str
    verdict: Verdict
    exception: str | None  # "TypeError: message", kept for ERROR
    raw: Source | None = None  # the returned object
    elapsed: float | None = None  # seconds; None where nobody says
    pods: PodCondition = PodCondition.UNKNOWN  # as the sampler saw them around the reading
    identity: str = ""  # digest of versions and modules that the instrument told
    diagnostic: str | None = None  # a direct call beside the reading, which touches no verdict
    changes: tuple[str, ...] = ()  # what changed in the cluster while the grader looked


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractFact:
    """What the contract concluded in one state."""

    verdict: ContractVerdict
    violated: frozenset[str]
    not_evaluated: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowFact:
    """One workload window. Counts are over its usable rounds."""

    rounds: int
    requests: int
    failures: int
    successes: int

    @property
    def error_rate(self) -> float | None:
        """Failures per completed request; None when nothing was completed."""
        return self.failures / self.requests if self.requests else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivationFact:
    """One criterion at one time of asking."""

    when: str
    criterion: str
    holds: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFact:
    """Everything read in one state of one attempt.

    `post_mutation` is the part of the window whose rounds are known to have begun after the mutant
    was applied; None outside the faulted state, or where no round's begin is known.
    """

    state: State
    readings: tuple[ReadingFact, ...]
    contract: ContractFact | None
    window: WindowFact | None
    post_mutation: WindowFact | None = None
    per_round: tuple[tuple[int, int], ...] = ()  # requests and failures of each usable round
    activation: tuple[ActivationFact, ...] = ()
    source: Source | None = None
    window_raw: Source | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SealFact:
    """What was verified of an attempt's seal. Texts are empty where there is no seal that holds."""

    standing: Standing
    digest: str  # SHA-256 of seal.json
    extent: str  # "complete" or "partial"
    key: str  # fingerprint
    time: str  # of its stamp; empty where unanchored


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFact:
    """One attempt at one run. `outcome` None: it died before it could say how it ended.

    `excluded` says why an attempt that ended `COMPLETE` does not count all the same; `damaged`
    that its evidence does not hold together, so that what it would have shown is not known.
    """

    study: str
    run: str
    mutant: str
    repetition: int
    attempt: int
    outcome: Outcome | None
    reason: str
    registration: str
    states: Mapping[State, StateFact]
    excluded: str = ""
    damaged: bool = False
    recorded: Outcome | None = None  # as the record says, before anything was adjudicated
    evidence: str = ""  # digest that names the evidence directory
    directory: str = ""  # relative to it
    sequence: int = 0
    session: str = ""
    opened: str = ""
    closed: str = ""
    profile: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    source: Source | None = None  # record.json, or the ledger entry where there is none
    timings: Mapping[str, float] = field(default_factory=dict)
    waiting: Mapping[str, float] = field(default_factory=dict)
    around: tuple[str, ...] = ()  # what changed around the namespace meanwhile, a line each
    first_mutation: str = ""  # RFC 3339; empty: nothing was mutated
    registration_facts: Mapping[str, Any] = field(default_factory=dict)
    seal: SealFact | None = None  # of an attempt of a sealed session

    @property
    def valid(self) -> bool:
        """Only these enter a score."""
        return self.outcome is Outcome.COMPLETE and not self.excluded and not self.damaged
