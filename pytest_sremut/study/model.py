"""What a study is, as frozen values. No file, cluster, clock or pytest is known here.

Durations are seconds (float). Mappings are plain `dict`s made by the loader and never changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Final

from pytest_sremut.study.names import OWN_APPLICATIONS, Instrument, plugin_fault
from pytest_sremut.study.verdict import CONTRACT, ContractVerdict, Expectation, State, Verdict

__all__ = [
    "BenchmarkPins",
    "Cell",
    "Contract",
    "Invariant",
    "Mutant",
    "MutantRegistry",
    "OracleSpec",
    "Predictions",
    "Protocol",
    "Quantity",
    "Run",
    "Study",
    "Target",
    "Workload",
    "WorkloadRequest",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The object that the fault hits and the workload behind it."""

    kind: str  # "Service"
    name: str  # "user-service"
    workload_kind: str  # "Deployment"
    workload_name: str  # "user-service"
    port: int  # the Service port that clients use


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadRequest:
    """One kind of request of the mix."""

    name: str
    path: str
    weight: int  # percent; the weights of a mix sum to 100


DEFAULT_VARIANT: Final = "dsb"
"""The build of wrk2 behind the published figures. `workload.plan` says what each variant does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """wrk2's parameters. `rate` is requests a second over all connections."""

    url: str
    rate: int
    connections: int
    threads: int
    duration: float  # of one round
    pause: float  # between two rounds
    rounds: int  # complete rounds of a window
    timeout: float  # of one request
    mix: tuple[WorkloadRequest, ...]
    variant: str = DEFAULT_VARIANT
    calibration: str = ""  # "none", "wrk2", "always"; empty: what the variant does by itself

    @property
    def drain(self) -> float:
        """Seconds for which a round waits for answers after its duration."""
        return self.timeout if self.variant == "drain" else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """The numbers of one profile: they change how long we wait, never what is checked."""

    profile: str
    settle: float  # injection returned -> oracle call (rule R1)
    poll: float  # interval at which predicates are asked again
    deploy_timeout: float
    stable_timeout: float  # pods recycled -> everything ready
    oracle_timeout: float  # hard limit of one reading
    barrier_timeout: float  # a benchmark's own probe pod must be gone by then
    sampler_interval: float
    deadlines: Mapping[str, float]  # invariant id -> seconds, over the contract's own
    workload: Workload
    fault: str = ""  # another injector than the study's, for explorations; "": the study's
    chaos_kills: int = 0  # pods killed at random whenever the state was changed
    images: Mapping[str, str] = field(default_factory=dict)  # demo, load, probe: from a registry


@dataclass(frozen=True, slots=True, kw_only=True)
class OracleSpec:
    """One grader under audit.

    `use` names it: `reference:pods-and-deployments`, `reference:service-endpoints`, `all-of`,
    `BENCHMARK:CLASS` (`sregym:MitigationOracle`), `python:package.module:Class`.
    """

    id: str  # "O1"
    use: str
    of: tuple[str, ...] = ()  # ids of other oracles: of all-of, or passed to a class's constructor
    arguments: Mapping[str, Any] = field(default_factory=dict)
    problem: Mapping[str, Any] = field(default_factory=dict)
    instruments: tuple[str, ...] = ("in-process", "isolated")
    # Of a benchmark's class only:
    absent: tuple[str, ...] = ()  # attributes that its problem must not have, asserted before
    diagnostic: str = ""  # a method called once more beside each reading; touches no verdict
    capture_baseline: bool = True  # let it see the healthy state, where its class can


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkPins:
    """Which benchmark a study audits, to the byte, and what its oracles are given."""

    name: str  # the adapter: "sregym"
    commit: str  # 40 hexadecimal digits
    files: Mapping[str, str]  # path inside the checkout -> SHA-256
    problem_class: str  # name of the class of the problem object
    problem: Mapping[str, Any]  # attributes that every oracle's problem has
    imports: str  # "light" or "full"
    probes: tuple[Mapping[str, str], ...] = ()  # labels of further pods that its oracles start


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A repair that was never made, or made wrong: the captured object plus a patch, or absence."""

    id: str  # "MS-M01"
    slug: str  # "ms-m01"
    models: str  # "an agent that does nothing"
    absent: bool
    patch: tuple[Mapping[str, Any], ...]  # RFC 6902 on the captured body
    creates: tuple[Mapping[str, Any], ...]  # further objects (templates), e.g. manual Endpoints
    activation: tuple[str, ...]  # names of activation criteria
    differs: tuple[str, ...]  # JSON pointers in which the mutant's body differs, as declared
    expect: Expectation = Expectation.REJECT  # ACCEPT: a right repair, a control


@dataclass(frozen=True, slots=True, kw_only=True)
class MutantRegistry:
    """A frozen list of mutants of one family."""

    id: str
    file: PurePosixPath
    captured: Mapping[str, Any]  # the reference body against which the patches are proven
    mutants: tuple[Mutant, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Invariant:
    """One invariant of a contract; `check` names its predicate, `parameters` its thresholds."""

    id: str  # "MS-I1"
    name: str
    check: str
    deadline: float
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """The operational contract: what a repaired system must do."""

    id: str
    file: PurePosixPath
    invariants: tuple[Invariant, ...]
    poll: float = 2.0  # interval at which predicates are asked again, where no profile says else
    title: str = ""

    def invariant(self, invariant_id: str) -> Invariant:
        """The invariant of that id. Raises KeyError: callers pass ids of this contract."""
        return {invariant.id: invariant for invariant in self.invariants}[invariant_id]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Mutant × repetition: one pass healthy → faulted → restored."""

    study: str
    mutant: str  # mutant id
    slug: str  # mutant slug
    repetition: int  # from 1

    @property
    def id(self) -> str:
        """`ms-m02-r03`."""
        return f"{self.slug}-r{self.repetition:02d}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Run × state × oracle: one pytest item. `oracle` is an oracle id or `CONTRACT`."""

    run: Run
    state: State
    oracle: str

    @property
    def id(self) -> str:
        """`ms-m02-r03-faulted-O1`, the parametrisation id."""
        return f"{self.run.id}-{self.state.value}-{self.oracle}"

    @property
    def is_contract(self) -> bool:
        """Whether this cell reads the contract."""
        return self.oracle == CONTRACT


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """A predicted number with its tolerance; reported as matched or missed, never a failure."""

    id: str
    mutant: str  # mutant id, or "" for a control state
    state: State
    measure: str  # "error_rate_percent", "retained_percent", ...
    expected: float
    tolerance: float  # absolute
    profile: str = ""  # the only one under which it is predicted; empty: under each


@dataclass(frozen=True, slots=True, kw_only=True)
class Predictions:
    """The frozen table. Keys of `oracles`: (mutant id, state, oracle id)."""

    study: str
    file: PurePosixPath
    oracles: Mapping[tuple[str, State, str], Verdict]
    contract: Mapping[tuple[str, State], tuple[ContractVerdict, frozenset[str]]]
    quantities: tuple[Quantity, ...]
    falsification: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """What is audited."""

    id: str
    title: str
    file: PurePosixPath  # audits/<id>/study.yaml, relative to the project root
    application: str  # "demo:social-network", "manifests:apps/shop", "sregym:social_network"
    namespace: str
    target: Target
    fault: str  # "delete-service-and-recycle-pods"
    registry: MutantRegistry
    mutants: tuple[Mutant, ...]  # those of the registry that the study runs, in its order
    contract: Contract
    states: tuple[State, ...]
    repetitions: int
    oracles: tuple[OracleSpec, ...]
    profiles: Mapping[str, Protocol]
    predictions: Predictions | None
    frozen: Mapping[str, PurePosixPath]  # role -> file whose bytes a registration covers
    benchmark: BenchmarkPins | None = None
    manifests: tuple[
        Mapping[str, Any], ...
    ] = ()  # the application's objects, where files give them

    def oracle(self, oracle_id: str) -> OracleSpec:
        """The oracle of that id. Raises KeyError: callers pass ids from `cells`."""
        return {spec.id: spec for spec in self.oracles}[oracle_id]

    def mutant(self, mutant_id: str) -> Mutant:
        """The mutant of that id. Raises KeyError: callers pass ids from `cells`."""
        return {mutant.id: mutant for mutant in self.mutants}[mutant_id]

    def profile_for(self, cluster: str, named: str = "") -> str:
        """The profile of a session: the one `named`, else the one called as the kind of `cluster`.

        An existing cluster (`context`) for which the study has none is waited for as for `kind`.
        """
        if named:
            return named
        return "kind" if cluster == "context" and cluster not in self.profiles else cluster

    def fault_of(self, profile: str) -> str:
        """The injector under a profile; the study's own where the profile is unknown."""
        protocol = self.profiles.get(profile)
        return (protocol.fault if protocol else "") or self.fault

    @property
    def deployer(self) -> str:
        """Name of the application that the benchmark's own code deploys; empty where we do it."""
        scheme, _, name = self.application.partition(":")
        return "" if scheme in OWN_APPLICATIONS else name

    def needs_benchmark(self, profile: str) -> bool:
        """Whether anything is taken from a benchmark's checkout under this profile."""
        graded = any(Instrument(name).of_benchmark for o in self.oracles for name in o.instruments)
        fault = self.fault_of(profile)
        injected = ":" in fault and not plugin_fault(fault)
        return graded or bool(self.deployer) or injected
