"""The command line, its ini twins, and the one frozen value they become.

Help texts name the default. A value given on the command line beats the ini file; a bad value is
a `pytest.UsageError` that says what is allowed.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_sremut.errors import UsageError

if TYPE_CHECKING:
    from pytest_sremut.engine.faults.port import FaultFactory
    from pytest_sremut.oracles.benchmark.layout import Layout

__all__ = [
    "CLUSTERS",
    "REPORTS",
    "REQUIREMENTS",
    "Settings",
    "add_options",
    "asks_for_mutants",
    "settings_of",
]

CLUSTERS = "embedded | kind | context:NAME"
REQUIREMENTS = ("predictions", "soundness")
EMBEDDED = {
    "routing": ("auto", "nft", "forwarder"),
    "no_endpoints": ("reject", "drop"),
    "tools": ("auto", "machine", "own"),
}
REPORTS = ("json", "md", "stryker")


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
    require: str
    fail_under: float | None
    adjudicate: bool = False
    check: bool = False
    evidence_directories: tuple[Path, ...] = ()  # all that were named; a live session takes one
    reports: tuple[tuple[str, Path], ...] = ()  # (kind, where), in the order given
    embedded: tuple[tuple[str, str], ...] = ()  # how the embedded cluster is built, key and value
    kind_image: str = ""  # a node image by digest; "": the pinned one
    kind_workers: int = 0  # nodes besides the control plane
    use_namespaces: frozenset[str] = frozenset()  # existing ones that a study may use
    baseline: Path | None = None  # disagreements that are known
    benchmark: Path | None = None  # a checkout
    benchmark_python: str = ""  # its interpreter; "": none was named
    layouts: tuple[Layout, ...] = ()  # adapters that plugins brought
    faults: Mapping[str, FaultFactory] = field(default_factory=dict)  # that plugins brought
    sealed: bool = False
    tsa: str = ""  # who stamps seals: "self", a URL, or nobody

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


def add_options(parser: pytest.Parser) -> None:
    """Declare every option and its ini twin (`--sremut-x` and `sremut_x`)."""
    group = parser.getgroup("sremut", "mutation testing for the graders of live SRE benchmarks")
    group.addoption(
        "--sremut-cluster",
        metavar="CLUSTER",
        default=None,
        help=f"Where runs take place: {CLUSTERS} (default: embedded).",
    )
    group.addoption(
        "--sremut-allow-context",
        metavar="NAME",
        action="append",
        default=None,
        help="A kubeconfig context that may be written to; may be given several times.",
    )
    group.addoption(
        "--sremut-use-namespace",
        metavar="NAME",
        action="append",
        default=None,
        help="A namespace that exists already, empty, and may be used by the study that names it "
        "(default: only namespaces that we created); may be given several times.",
    )
    group.addoption(
        "--sremut-profile",
        metavar="NAME",
        default=None,
        help="Protocol profile of the study (default: named after the kind of cluster; "
        "kind for a context without one).",
    )
    group.addoption(
        "--sremut-evidence",
        metavar="DIR",
        action="append",
        default=None,
        help="Where records go (default: a new directory under .sremut/evidence), or, with "
        "--sremut-adjudicate, where they are (default: the newest one there); then it may be "
        "given several times.",
    )
    group.addoption(
        "--sremut-adjudicate",
        action="store_true",
        default=None,
        help="Judge every cell from records, without a cluster, and write .sremut/ledger.json "
        "and .sremut/ledger.md.",
    )
    group.addoption(
        "--sremut-check",
        action="store_true",
        default=None,
        help="With --sremut-adjudicate: write nothing, fail unless the ledger there is the same "
        "byte for byte.",
    )
    group.addoption(
        "--sremut-report",
        metavar="KIND:PATH",
        action="append",
        default=None,
        help=f"Also export the ledger: {' | '.join(f'{kind}:PATH' for kind in REPORTS)}; may be "
        "given several times. md:$GITHUB_STEP_SUMMARY is appended to.",
    )
    group.addoption(
        "--sremut-keep-cluster",
        action="store_true",
        default=None,
        help="Leave the cluster that was started running at the end, and say how to reach it.",
    )
    group.addoption(
        "--sremut-exploratory",
        action="store_true",
        default=None,
        help="Run without a registration; every record says so for ever.",
    )
    group.addoption(
        "--sremut-sealed",
        action="store_true",
        default=None,
        help="Run sealed: under a registration with a tree token, every attempt signed under a key "
        "of this session.",
    )
    group.addoption(
        "--sremut-tsa",
        metavar="URL|self",
        default=None,
        help="With --sremut-sealed: the RFC 3161 authority that stamps seals, or one of our own "
        "(default: none, seals are then unanchored).",
    )
    group.addoption(
        "--sremut-require",
        metavar="WHAT",
        default=None,
        help="What makes a cell fail: predictions (not as predicted, the default) or soundness "
        "(a grader disagrees with the contract).",
    )
    group.addoption(
        "--sremut-baseline",
        metavar="FILE",
        default=None,
        help="With --sremut-require=soundness: disagreements that are known; only new ones fail "
        "(written by `sremut baseline`).",
    )
    group.addoption(
        "--sremut-fail-under",
        metavar="PERCENT",
        default=None,
        help="Fail the session when any oracle's mutation score is below PERCENT, or is missing.",
    )
    group.addoption(
        "--sremut-embedded",
        metavar="KEY=VALUE",
        action="append",
        default=None,
        help=f"How the embedded cluster is built: {_told_embedded()} (default: the first of each); "
        "may be given several times.",
    )
    parser.addini("sremut_embedded", "See --sremut-embedded.", type="args", default=[])
    parser.addini("sremut_kind_image", "kind's node image, by digest (default: the pinned one).")
    parser.addini("sremut_kind_workers", "Worker nodes of a kind cluster.", default="0")
    group.addoption(
        "--sremut-benchmark",
        metavar="DIR",
        default=None,
        help="A checkout of the benchmark whose oracles are audited (default: SREMUT_BENCHMARK; "
        "without one, studies of a benchmark are not run).",
    )
    group.addoption(
        "--sremut-benchmark-python",
        metavar="EXE",
        default=None,
        help="The benchmark's own interpreter, for the instrument `pinned` (default: "
        "SREMUT_BENCHMARK_PYTHON).",
    )
    parser.addini("sremut_audits", "Directory of the studies.", default="audits")
    parser.addini("sremut_cluster", "See --sremut-cluster.", default="embedded")
    parser.addini("sremut_allow_context", "See --sremut-allow-context.", type="args", default=[])
    parser.addini("sremut_use_namespace", "See --sremut-use-namespace.", type="args", default=[])
    parser.addini("sremut_profile", "See --sremut-profile.", default="")
    parser.addini(
        "sremut_evidence", "See --sremut-evidence, one a line.", type="linelist", default=[]
    )
    parser.addini("sremut_adjudicate", "See --sremut-adjudicate.", type="bool", default=False)
    parser.addini("sremut_check", "See --sremut-check.", type="bool", default=False)
    parser.addini("sremut_report", "See --sremut-report, one a line.", type="linelist", default=[])
    parser.addini("sremut_keep_cluster", "See --sremut-keep-cluster.", type="bool", default=False)
    parser.addini("sremut_exploratory", "See --sremut-exploratory.", type="bool", default=False)
    parser.addini("sremut_sealed", "See --sremut-sealed.", type="bool", default=False)
    parser.addini("sremut_tsa", "See --sremut-tsa.", default="")
    parser.addini("sremut_require", "See --sremut-require.", default="predictions")
    parser.addini("sremut_baseline", "See --sremut-baseline.", default="")
    parser.addini("sremut_fail_under", "See --sremut-fail-under.", default="")
    parser.addini("sremut_benchmark", "See --sremut-benchmark.", default="")
    parser.addini("sremut_benchmark_python", "See --sremut-benchmark-python.", default="")


def asks_for_mutants(config: pytest.Config) -> bool:
    """Whether `-m` selects the marker `mutant`; without it (or a path) the plugin is silent."""
    expression = str(config.getoption("markexpr", "") or "")
    return bool(re.search(r"\bmutant\b", expression)) and not re.search(
        r"\bnot\s+\(?\s*mutant\b", expression
    )


def settings_of(config: pytest.Config) -> Settings:
    """Resolve options and ini into `Settings`. Raises `pytest.UsageError`."""

    def value(name: str) -> object:
        given = config.getoption(f"sremut_{name}", None)
        return config.getini(f"sremut_{name}") if given is None else given

    root = config.rootpath
    allowed = value("allow_context")
    assert isinstance(allowed, list)
    adjudicate, check = bool(value("adjudicate")), bool(value("check"))
    evidence = _evidence(config, value("evidence"), adjudicate=adjudicate)
    if check and not adjudicate:
        raise pytest.UsageError("--sremut-check: allowed only with --sremut-adjudicate")
    sealed = bool(value("sealed")) and not adjudicate
    if sealed and value("exploratory"):
        raise pytest.UsageError(
            "--sremut-sealed: allowed only without --sremut-exploratory: a sealed run is under a "
            "registration, an exploratory one is under none"
        )
    return Settings(
        root=root,
        audits=root / str(config.getini("sremut_audits")),
        cluster=_cluster(str(value("cluster"))),
        allowed_contexts=frozenset(str(name) for name in allowed),
        use_namespaces=_use_namespaces(value("use_namespace")),
        profile=str(value("profile") or ""),
        evidence=evidence[0] if evidence else None,
        keep_cluster=bool(value("keep_cluster")),
        exploratory=bool(value("exploratory")),
        require=_require(str(value("require"))),
        fail_under=_fail_under(str(value("fail_under") or "")),
        adjudicate=adjudicate,
        check=check,
        evidence_directories=evidence,
        reports=_reports(config, value("report")),
        embedded=_embedded(value("embedded")),
        kind_image=_kind_image(str(config.getini("sremut_kind_image") or "")),
        kind_workers=_kind_workers(str(config.getini("sremut_kind_workers"))),
        baseline=_baseline(config, str(value("require"))),
        benchmark=_benchmark(config, str(value("benchmark") or "")),
        benchmark_python=_benchmark_python(config, str(value("benchmark_python") or "")),
        layouts=_layouts(config),
        faults=_faults(config),
        sealed=sealed,
        tsa=_tsa(config, str(value("tsa") or ""), sealed=sealed),
    )


def _use_namespaces(given: object) -> frozenset[str]:
    assert isinstance(given, list)
    for name in given:
        if str(name).startswith("kube-") or str(name) in ("", "default"):
            raise pytest.UsageError(
                f"--sremut-use-namespace: found {str(name)!r}; allowed: the name of a namespace "
                "for the study alone, not default and not one of the cluster's own (kube-...)"
            )
    return frozenset(str(name) for name in given)


def _evidence(config: pytest.Config, given: object, *, adjudicate: bool) -> tuple[Path, ...]:
    assert isinstance(given, list)
    directory = config.invocation_params.dir
    found = tuple(dict.fromkeys((directory / str(one)).resolve() for one in given if one))
    if len(found) > 1 and not adjudicate:
        raise pytest.UsageError(
            f"--sremut-evidence: found {len(found)} directories; allowed: one, where records go "
            "(several with --sremut-adjudicate)"
        )
    return found


def _reports(config: pytest.Config, given: object) -> tuple[tuple[str, Path], ...]:
    assert isinstance(given, list)
    found: list[tuple[str, Path]] = []
    for one in given:
        kind, colon, path = str(one).partition(":")
        if kind not in REPORTS or not colon or not path:
            raise pytest.UsageError(
                f"--sremut-report: found {str(one)!r}; allowed: "
                + " | ".join(f"{kind}:PATH" for kind in REPORTS)
            )
        found.append((kind, (config.invocation_params.dir / path).resolve()))
    return tuple(found)


def _baseline(config: pytest.Config, require: str) -> Path | None:
    """Relative to where pytest was started; in the ini file to the root. It is read later."""
    given, base = config.getoption("sremut_baseline", None), config.invocation_params.dir
    if given is None:
        given, base = config.getini("sremut_baseline"), config.rootpath
    if not given:
        return None
    if require != "soundness":
        raise pytest.UsageError("--sremut-baseline: allowed only with --sremut-require=soundness")
    return (base / str(given)).resolve()


def _benchmark(config: pytest.Config, given: str) -> Path | None:
    """The checkout: the option, the ini file, then SREMUT_BENCHMARK. It is looked at later."""
    given = given or os.environ.get("SREMUT_BENCHMARK", "")
    return (config.invocation_params.dir / Path(given).expanduser()).resolve() if given else None


def _benchmark_python(config: pytest.Config, given: str) -> str:
    """The interpreter: a name on PATH, or a path, of which links are kept (they mark venvs)."""
    given = given or os.environ.get("SREMUT_BENCHMARK_PYTHON", "")
    if not given:
        return ""
    found = shutil.which(given)
    if found is None:
        found = shutil.which(config.invocation_params.dir / Path(given).expanduser())
    if found is None:
        raise pytest.UsageError(
            f"--sremut-benchmark-python: found {given!r}; allowed: an executable Python interpreter"
        )
    return os.path.abspath(found)  # noqa: PTH100 - resolve() would follow the links of a venv


def _layouts(config: pytest.Config) -> tuple[Layout, ...]:
    found: list[Layout] = []
    for brought in config.hook.pytest_sremut_oracles(config=config):
        found += brought if isinstance(brought, list | tuple) else [brought]
    return tuple(found)


def _faults(config: pytest.Config) -> dict[str, FaultFactory]:
    found: dict[str, FaultFactory] = {}
    for brought in config.hook.pytest_sremut_faults(config=config):
        twice = sorted(found.keys() & brought.keys())
        if twice:
            raise pytest.UsageError(f"fault {twice[0]!r}: two plugins bring it")
        found |= brought
    return found


def _tsa(config: pytest.Config, given: str, *, sealed: bool) -> str:
    """Whom to ask for stamps; a URL is looked at when it is asked."""
    if config.getoption("sremut_tsa", None) and not sealed:
        raise pytest.UsageError("--sremut-tsa: allowed only with --sremut-sealed")
    if given not in {"", "self"} and not given.startswith(("http://", "https://")):
        raise pytest.UsageError(
            f"--sremut-tsa: found {given!r}; allowed: self, or an http or https URL"
        )
    return given


def _told_embedded() -> str:
    return ", ".join(f"{key}={'|'.join(allowed)}" for key, allowed in EMBEDDED.items())


def _embedded(given: object) -> tuple[tuple[str, str], ...]:
    assert isinstance(given, list)
    found: dict[str, str] = {}
    for one in given:
        key, _, choice = str(one).partition("=")
        if choice not in EMBEDDED.get(key, ()):
            raise pytest.UsageError(
                f"--sremut-embedded: found {str(one)!r}; allowed: {_told_embedded()}"
            )
        found[key] = choice
    return tuple(sorted(found.items()))


def _kind_image(text: str) -> str:
    from pytest_sremut.cluster.kind.settings import node_image

    try:
        return node_image(text) if text else ""
    except UsageError as error:
        raise pytest.UsageError(str(error)) from None


def _kind_workers(text: str) -> int:
    from pytest_sremut.cluster.kind.settings import worker_count

    try:
        return worker_count(text)
    except UsageError as error:
        raise pytest.UsageError(str(error)) from None


def _cluster(text: str) -> str:
    if text in {"embedded", "kind"} or (
        text.startswith("context:") and len(text) > len("context:")
    ):
        return text
    raise pytest.UsageError(f"--sremut-cluster: found {text!r}; allowed: {CLUSTERS}")


def _require(text: str) -> str:
    if text in REQUIREMENTS:
        return text
    raise pytest.UsageError(
        f"--sremut-require: found {text!r}; allowed: {' | '.join(REQUIREMENTS)}"
    )


def _fail_under(text: str) -> float | None:
    if not text:
        return None
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0.0 <= number <= 100.0:  # refuses NaN too
        raise pytest.UsageError(
            f"--sremut-fail-under: found {text!r}; allowed: a percentage from 0 to 100"
        )
    return number
