"""`Settings`: everything that the user asked for, as one frozen value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pytest_sremut.engine.faults.port import FaultFactory
    from pytest_sremut.oracles.benchmark.layout import Layout

__all__ = ["CLUSTERS", "EMBEDDED", "REPORTS", "REQUIREMENTS", "Settings", "embedded_choices"]

CLUSTERS: Final = "embedded | kind | context:NAME"
REQUIREMENTS: Final = ("predictions", "soundness")
EMBEDDED: Final = {
    "routing": ("auto", "nft", "forwarder"),
    "no_endpoints": ("reject", "reject-all", "drop"),
    "tools": ("auto", "machine", "own"),
    "nodes": ("1", "2", "3", "4"),
    "pace": ("none", "real", "delay:TIME,jitter:TIME,pods:TIME-TIME,limit:NUMBER,seed:NUMBER"),
}
"""How the embedded cluster can be built: key -> allowed values, the default first."""
REPORTS: Final = ("json", "md", "stryker")


def embedded_choices() -> str:
    """`EMBEDDED` in one line, for help texts and messages."""
    return ", ".join(f"{key}={'|'.join(allowed)}" for key, allowed in EMBEDDED.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the user asked for. Paths are absolute."""

    root: Path  # where audits/, mutants/, contracts/ and attestation/ lie
    audits: Path
    cluster: str  # "embedded", "kind" or "context:NAME"
    allowed_contexts: frozenset[str]
    profile: str  # "" means: named after the cluster kind
    evidence: Path | None  # None: a directory of this session under .sremut/evidence
    keep_cluster: bool
    exploratory: bool
    require: str  # one of REQUIREMENTS
    fail_under: float | None  # percent
    adjudicate: bool = False
    check: bool = False
    evidence_directories: tuple[Path, ...] = ()  # all that were named; a live session takes one
    reports: tuple[tuple[str, Path], ...] = ()  # (one of REPORTS, where), in the order given
    embedded: tuple[tuple[str, str], ...] = ()  # how the embedded cluster is built, key and value
    kind_image: str = ""  # a node image by digest; "": the pinned one
    kind_workers: int = 0  # nodes besides the control plane
    use_namespaces: frozenset[str] = frozenset()  # existing ones that a study may use
    baseline: Path | None = None  # disagreements that are known
    benchmark: Path | None = None  # a checkout
    benchmark_python: str = ""  # its interpreter; "": none was named
    layouts: tuple[Layout, ...] = ()  # adapters that plugins brought
    faults: Mapping[str, FaultFactory] = field(default_factory=dict)  # that plugins brought
    bringers: tuple[Path, ...] = ()  # files of the plugins that brought any, or more
    sealed: bool = False
    tsa: str = ""  # who stamps seals: "self", a URL, or nobody
    census_baseline: Path | None = None  # known blind problems and findings
    census_overrides: Path | None = None  # verdicts by hand

    @property
    def cluster_kind(self) -> str:
        """The kind of cluster that was asked for; a profile may be called so."""
        return self.cluster.partition(":")[0]

    @property
    def is_shared(self) -> bool:
        """Whether all processes of the session work on one cluster that was there before."""
        return self.cluster.startswith("context:")

    @property
    def keeps_clusters(self) -> bool:
        """Whether clusters that the session starts outlive it."""
        return self.keep_cluster and self.cluster in {"embedded", "kind"}
