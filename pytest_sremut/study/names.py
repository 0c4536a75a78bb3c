"""The closed vocabularies that a study's files may use, each word with its one meaning.

The loader refuses every other word; the engine, the contract and the oracles match over these
enums exhaustively, so a word without an implementation is a type error and not a silent pass.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

__all__ = [
    "ALL_OF",
    "APPLICATIONS",
    "OWN_APPLICATIONS",
    "RESERVED_ORACLE_IDS",
    "Check",
    "Circumstance",
    "Consequence",
    "Criterion",
    "Fault",
    "Imports",
    "Instrument",
    "Measure",
    "ReferenceOracle",
]

APPLICATIONS: Final = ("demo:social-network",)
"""Applications that ship with the product; `BENCHMARK:NAME` and `manifests:DIR` are open forms."""

OWN_APPLICATIONS: Final = frozenset({"demo", "manifests"})
"""What stands before the colon of an application that we deploy; else a benchmark's name."""

PLUGIN: Final = "plugin"
"""What stands before the colon of a fault that another plugin brings; else a benchmark's name."""

ALL_OF: Final = "all-of"
"""`use` of the oracle that accepts where every oracle in its `of` accepts."""

RESERVED_ORACLE_IDS: Final = frozenset({"contract", "healthy", "faulted", "restored"})
"""Words that would make a cell id ambiguous to read or to select."""


class Fault(StrEnum):
    """Injectors of our own. `BENCHMARK:NAME` and `plugin:NAME` are open forms beside them."""

    DELETE_SERVICE_AND_RECYCLE_PODS = "delete-service-and-recycle-pods"
    """Delete the target Service, delete every pod of the namespace, wait for all to be ready."""


def plugin_fault(name: str) -> str:
    """Name of a fault that another plugin brings (`plugin:NAME`); empty for every other fault."""
    scheme, _, own = name.partition(":")
    return own if scheme == PLUGIN else ""


class Criterion(StrEnum):
    """Structural conditions under which a mutant counts as active.

    "Mutant's body" is the captured object with the mutant's patch. An *eligible endpoint* is an
    IPv4 address of an EndpointSlice of the Service, ready and not terminating. A read that fails
    makes no criterion hold.
    """

    SERVICE_ABSENT = "service-absent"
    """GET of the target answers NotFound for exactly that object."""
    SELECTOR_EXACT = "selector-exact"
    """The live `spec.selector` equals that of the mutant's body, no key more or less."""
    SELECTOR_ABSENT = "selector-absent"
    """The Service exists and has no (or an empty) `spec.selector`."""
    PORTS_EXACT = "ports-exact"
    """The live ports equal the mutant's body in name, protocol, port and targetPort."""
    NO_POD_MATCHES_SELECTOR = "no-pod-matches-selector"
    """No pod of the namespace carries the live selector's labels."""
    NO_ELIGIBLE_ENDPOINT = "no-eligible-endpoint"
    """The Service has no eligible endpoint."""
    ELIGIBLE_ENDPOINT_OWNED_BY_TARGET = "eligible-endpoint-owned-by-target"
    """At least one eligible endpoint is a Ready pod owned by the target's workload."""
    ENDPOINTS_PINNED = "endpoints-pinned"
    """The Endpoints object that the mutant created is live, with exactly the addresses written."""


class Check(StrEnum):
    """Predicates that an invariant of a contract may name.

    Parameters (durations are seconds once loaded):
        service-identity: none.
        backend-routing: `connect_timeout` of the TCP connect.
        ready-endpoints: `minimum` number of eligible endpoints.
        functional-workload: `minimum_requests` completed, `maximum_failures` among them.
        capacity-preserved: `floor_percent` of each baseline Deployment's replicas.
        repair-persistence: `again`, ids of the invariants that must hold once more after the
            replacement, with a fresh window.
    """

    SERVICE_IDENTITY = "service-identity"
    BACKEND_ROUTING = "backend-routing"
    READY_ENDPOINTS = "ready-endpoints"
    FUNCTIONAL_WORKLOAD = "functional-workload"
    CAPACITY_PRESERVED = "capacity-preserved"
    REPAIR_PERSISTENCE = "repair-persistence"


class ReferenceOracle(StrEnum):
    """Graders of our own, under `use: reference:NAME`."""

    PODS_AND_DEPLOYMENTS = "pods-and-deployments"
    """Reads Deployments and Pods of one namespace, nothing else."""
    SERVICE_ENDPOINTS = "service-endpoints"
    """Reads the workload, the Service's core Endpoints, and connects from a probe pod."""


class Instrument(StrEnum):
    """How an oracle is called.

    The first two speak our own protocol (a grader made of a context), the last two a benchmark's:
    its unmodified classes, from the checkout that the user names, in worker processes only.
    """

    IN_PROCESS = "in-process"
    """In this process."""
    ISOLATED = "isolated"
    """In a fresh process of its own, JSON in and out, with a hard limit."""
    OWN = "own"
    """A benchmark's class under our interpreter and our Kubernetes client."""
    PINNED = "pinned"
    """A benchmark's class under the benchmark's own interpreter and client."""

    @property
    def of_benchmark(self) -> bool:
        """Whether it reads a benchmark's classes from a checkout."""
        return self in (Instrument.OWN, Instrument.PINNED)


class Imports(StrEnum):
    """How a benchmark's packages are imported."""

    LIGHT = "light"
    """Packages that the adapter lists are entered without running their `__init__`: oracle files
    are unmodified, and what else the benchmark needs to run its campaigns is not needed."""
    FULL = "full"
    """As the benchmark itself imports them, with everything it depends on."""


class Measure(StrEnum):
    """Numbers that a prediction may name, each of one state's complete rounds.

    Counts are summed over the rounds; a percentage of nothing is not a number and is reported so.
    """

    ERROR_RATE_PERCENT = "error_rate_percent"
    """Failed over completed requests."""
    RETAINED_PERCENT = "retained_percent"
    """Successful responses per round over the healthy window's successful responses per round."""


class Circumstance(StrEnum):
    """What else must be seen for a falsification rule to speak."""

    ALWAYS = "always"
    EVERY_POD_RUNNING = "every-pod-running"
    """In the sampler's timeline no pod was in another phase during the reading."""
    POD_RECOVERS = "a-pod-not-running-that-recovers"
    """Some pod was not Running and became so by itself later in the timeline."""
    POD_STAYS_DOWN = "a-pod-not-running-that-stays-so"
    CONTRACT_PASSES = "contract-passes"
    CONTRACT_REJECTS = "contract-rejects"
    REPETITIONS_DIFFER = "repetitions-differ"


class Consequence(StrEnum):
    """What a falsification rule concludes."""

    PREDICTION_FALSIFIED = "prediction-falsified"
    """Reported as it is; the run is never repeated."""
    HARNESS_TIMING_FAILURE = "harness-timing-failure"
    """The attempt is invalid with that outcome."""
    RESEARCH_VERDICT = "research-verdict"
    """The reading stands as a finding about the grader."""
    CONTRACT_INSUFFICIENT = "contract-insufficient"
    """With the mutant verified active, the contract did not see it."""
    INVESTIGATE = "investigate"
    """Everything is kept and a person looks; no verdict is changed."""
    REPORT_INSTABILITY = "report-instability"
    """Every repetition is reported; there is no majority."""
