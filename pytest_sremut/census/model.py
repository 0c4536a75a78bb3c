"""The words of a census: what an oracle observes, what an injector perturbs, and what follows.

Everything is plain data with places (`file:line`, relative to the audited checkout); the rooms
around fill it in, `report` writes it out. The reasons for UNCERTAIN are a closed list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

__all__ = [
    "Census",
    "Channel",
    "Direction",
    "Effect",
    "Finding",
    "Observation",
    "OracleUse",
    "Perturbation",
    "Place",
    "Reason",
    "Row",
    "Trail",
    "Verdict",
]


class Place(NamedTuple):
    """A line of a file, relative to the audited checkout."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Verdict(StrEnum):
    """Can the oracle observe what the injector perturbs?"""

    ADEQUATE = "ADEQUATE"
    BLIND = "BLIND"
    UNCERTAIN = "UNCERTAIN"


class Reason(StrEnum):
    """Why a row is UNCERTAIN: the closed list."""

    NO_ORACLE = "no-oracle"
    """No mitigation oracle is attached."""
    NO_INJECTOR = "no-injector"
    """The problem has no injection method."""
    MISSING_MODULE = "missing-module"
    """An import of the benchmark's own code leads to no readable file."""
    BROKEN_FILE = "broken-file"
    """A file on the way does not parse."""
    UNRESOLVED_FACTORY = "unresolved-factory"
    """The registry's entry could not be followed to a problem class."""
    UNRESOLVED_DISPATCH = "unresolved-dispatch"
    """A method chosen by name at run time; the name is not determined."""
    EXTERNAL_CALL = "external-call"
    """A library about which the rules say nothing."""
    OPAQUE_COMMAND = "opaque-command"
    """A command line whose effect the rules do not name."""
    OPAQUE_SCRIPT = "opaque-script"
    """A program run inside a pod or on a node; what it changes is not a Kubernetes field."""
    OPAQUE_MANIFEST = "opaque-manifest"
    """A manifest, chart or patch whose content is not in the checkout or not determined."""
    SIGNAL_UNDECIDED = "signal-undecided"
    """A functional signal is read; no rule says whether this perturbation would break it."""
    NOTHING_PERTURBED = "nothing-perturbed"
    """No perturbation was found on any path of the injector."""
    BUDGET = "budget"
    """The bound on steps was reached before the end."""


class Channel(StrEnum):
    """How an oracle looks."""

    API = "api"
    DNS = "dns"
    TCP = "tcp"
    HTTP = "http"
    EXEC = "exec"
    LOGS = "logs"
    METRICS = "metrics"
    WORKLOAD = "workload"


class Direction(StrEnum):
    """Which way a defect errs."""

    FALSE_ACCEPT = "false accept"
    FALSE_REJECT = "false reject"
    EITHER = "either"


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """One thing done to, or asked of, the cluster, as the interpreter met it.

    `verb` is one of read, create, update, delete, restart, exec, wait, load, node, signal.
    `fields` are API paths; for exec, signals and load they name programs or signals.
    """

    verb: str
    kind: str
    namespace: str
    name: str
    fields: tuple[str, ...]
    place: Place
    sink: Place
    via: str
    detail: str = ""
    is_handler: bool = False
    order: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Trail:
    """Where following the source ended, and why."""

    reason: Reason
    place: Place
    what: str


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Observation:
    """What an oracle looks at."""

    channel: Channel
    kind: str
    namespace: str
    name: str
    fields: tuple[str, ...]
    place: Place
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Perturbation:
    """What is different about the cluster after the injector."""

    verb: str
    kind: str
    namespace: str
    name: str
    fields: tuple[str, ...]
    place: Place
    via: str
    detail: str = ""
    settled: str = ""  # the place where the injector waits for the surface to be healthy again
    dropped: str = ""  # why it does not count, empty when it does


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A defect of a grader, seen in its source."""

    finder: str
    direction: Direction
    subject: str  # class or file
    place: Place
    sentence: str
    problems: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Identity across line shifts: for baselines."""
        return f"{self.finder}:{self.place.file}:{self.subject}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OracleUse:
    """An attached oracle: its class, where it is assigned, and its children when it is made of
    several."""

    name: str
    place: Place
    arguments: str = ""
    children: Sequence[OracleUse] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One problem id."""

    problem: str
    place: Place  # of the id in the registry
    cls: str
    arguments: Mapping[str, str]
    application: str
    namespace: str
    oracle: OracleUse | None
    verdict: Verdict
    rule: str  # the rule or override that decided
    sentence: str
    would_have_to_observe: str
    observations: Sequence[Observation]
    perturbations: Sequence[Perturbation]
    symptoms: Sequence[str]
    trails: Sequence[Trail]
    reason: Reason | None = None
    trail_end: Place | None = None
    overridden: str = ""  # what the rules said, when an override speaks
    citation: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    """A whole benchmark."""

    rows: Sequence[Row]
    findings: Sequence[Finding]
    rules_digest: str
    overrides_digest: str
    source_digest: str
    commit: str
    layout: str
    broken: Mapping[str, str] = field(default_factory=dict)

    def count(self, verdict: Verdict) -> int:
        return sum(row.verdict is verdict for row in self.rows)
