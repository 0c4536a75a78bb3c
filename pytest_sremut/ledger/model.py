"""What the ledger knows of an attempt: facts read from evidence, as frozen values.

Two axes stay apart: `AttemptFact.outcome` says whether the attempt was valid; readings say what a
grader concluded. Each fact has its source: a path inside the evidence directory, and a SHA-256.
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
"""The registration of a record that was transcribed from published figures."""

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
    elapsed: float | None = None  # seconds; None if not recorded
    pods: PodCondition = PodCondition.UNKNOWN  # as the sampler saw them around the reading
    identity: str = ""  # digest of the versions and modules that the instrument reported
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
    seed: int | None = None  # of its draws; None: nobody says that its requests were drawn
    generator: str = ""  # as its log named it


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
    was applied; None outside the faulted state, or if no round's begin is known.
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
    """What was verified of an attempt's seal. Texts are empty if no seal holds."""

    standing: Standing
    digest: str  # SHA-256 of seal.json
    extent: str  # "complete" or "partial"
    key: str  # fingerprint
    time: str  # of its stamp; empty where unanchored


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFact:
    """One attempt at one run. `outcome` is None if the process died before it recorded an end.

    `excluded` says why an attempt that ended `COMPLETE` does not count. `damaged` says that its
    evidence is inconsistent, so that what it showed is not known.
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
    source: Source | None = None  # record.json, or attempt.json if there is no record
    timings: Mapping[str, float] = field(default_factory=dict)
    waiting: Mapping[str, float] = field(default_factory=dict)
    around: tuple[str, ...] = ()  # what changed around the namespace meanwhile, a line each
    first_mutation: str = ""  # RFC 3339; empty: nothing was mutated
    registration_facts: Mapping[str, Any] = field(default_factory=dict)
    seal: SealFact | None = None  # of an attempt of a sealed session
    not_made: tuple[str, ...] = ()  # checks before the run that its cluster did not allow

    @property
    def valid(self) -> bool:
        """Whether the attempt enters a score."""
        return self.outcome is Outcome.COMPLETE and not self.excluded and not self.damaged
