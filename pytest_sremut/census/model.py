"""The words of a census: what an oracle observes, what an injector perturbs, and what follows.

Everything is plain data with places (`file:line`, relative to the audited checkout). The reasons
for UNCERTAIN are a closed list.
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
    """A method is chosen by name at run time, and the name is not known."""
    EXTERNAL_CALL = "external-call"
    """The rules say nothing about this library."""
    OPAQUE_COMMAND = "opaque-command"
    """The rules do not name the effect of this command line."""
    OPAQUE_SCRIPT = "opaque-script"
    """A program inside a pod or on a node changes something that is no Kubernetes field."""
    OPAQUE_MANIFEST = "opaque-manifest"
    """The content of a manifest, chart or patch is not in the checkout, or not known."""
    SIGNAL_UNDECIDED = "signal-undecided"
    """The oracle reads a functional signal, and no rule says if this perturbation breaks it."""
    NOTHING_PERTURBED = "nothing-perturbed"
    """No perturbation was found on any path of the injector."""
    BUDGET = "budget"
    """The bound on steps was reached before the end."""


class Channel(StrEnum):
    """The channel through which an oracle observes."""

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
    """One read or change of the cluster, as the interpreter met it.

    `verb` is one of read, create, update, delete, restart, exec, wait, load, node, signal.
    `fields` are API paths; for exec, signal and load they name programs or signals.
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
    """What an oracle observes."""

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
    dropped: str = ""  # why it does not count; empty if it counts


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
        """An identity for baselines that does not change when lines shift."""
        return f"{self.finder}:{self.place.file}:{self.subject}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OracleUse:
    """An attached oracle: its class, where it is assigned, and the oracles that it consists of."""

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
    overridden: str = ""  # the verdict of the rules, if an override replaced it
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
