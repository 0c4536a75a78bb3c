"""Every option with its ini twin, declared once.

`--sremut-x-y` on the command line is `sremut_x_y` in the ini file. Help texts name the default.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, Literal

from pytest_sremut.options.settings import CLUSTERS, REPORTS, embedded_choices

if TYPE_CHECKING:
    import pytest

__all__ = ["OPTIONS", "Kind", "Option", "add_options", "given"]


class Kind(Enum):
    """How an option is given."""

    TEXT = "text"  # one value
    FLAG = "flag"  # present or not; true or false in the ini file
    WORDS = "words"  # repeatable; words of one line in the ini file
    LINES = "lines"  # repeatable; one value a line in the ini file


_INI: Final[dict[Kind, Literal["args", "linelist", "bool"] | None]] = {
    Kind.TEXT: None,
    Kind.FLAG: "bool",
    Kind.WORDS: "args",
    Kind.LINES: "linelist",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One thing that a user may ask for.

    `default` is what a `Kind.TEXT` has where neither the command line nor the ini file says
    anything; the other kinds are then empty or false.
    """

    name: str  # as on the command line, without `--sremut-`
    help: str
    kind: Kind = Kind.TEXT
    metavar: str = ""
    default: str = ""
    ini_only: bool = False

    @property
    def key(self) -> str:
        """Its name in the ini file, and in pytest's namespace of options."""
        return f"sremut_{self.name.replace('-', '_')}"


OPTIONS: Final = (
    Option(
        name="cluster",
        metavar="CLUSTER",
        default="embedded",
        help=f"Where runs take place: {CLUSTERS} (default: embedded).",
    ),
    Option(
        name="allow-context",
        metavar="NAME",
        kind=Kind.WORDS,
        help="A kubeconfig context that may be written to; may be given several times.",
    ),
    Option(
        name="use-namespace",
        metavar="NAME",
        kind=Kind.WORDS,
        help="A namespace that exists already, empty, and may be used by the study that names it "
        "(default: only namespaces that we created); may be given several times.",
    ),
    Option(
        name="profile",
        metavar="NAME",
        help="Protocol profile of the study (default: named after the kind of cluster; "
        "kind for a context without one).",
    ),
    Option(
        name="evidence",
        metavar="DIR",
        kind=Kind.LINES,
        help="Where records go (default: a new directory under .sremut/evidence), or, with "
        "--sremut-adjudicate, where they are (default: the newest one there); then it may be "
        "given several times.",
    ),
    Option(
        name="adjudicate",
        kind=Kind.FLAG,
        help="Judge every cell from records, without a cluster, and write .sremut/ledger.json "
        "and .sremut/ledger.md.",
    ),
    Option(
        name="check",
        kind=Kind.FLAG,
        help="With --sremut-adjudicate: write nothing, fail unless the ledger there is the same "
        "byte for byte.",
    ),
    Option(
        name="report",
        metavar="KIND:PATH",
        kind=Kind.LINES,
        help=f"Also export the ledger: {' | '.join(f'{kind}:PATH' for kind in REPORTS)}; may be "
        "given several times. md:$GITHUB_STEP_SUMMARY is appended to.",
    ),
    Option(
        name="keep-cluster",
        kind=Kind.FLAG,
        help="Leave the cluster that was started running at the end, and say how to reach it.",
    ),
    Option(
        name="exploratory",
        kind=Kind.FLAG,
        help="Run without a registration; every record says so for ever.",
    ),
    Option(
        name="sealed",
        kind=Kind.FLAG,
        help="Run sealed: under a registration with a tree token, every attempt signed under a key "
        "of this session.",
    ),
    Option(
        name="tsa",
        metavar="URL|self",
        help="With --sremut-sealed: the RFC 3161 authority that stamps seals, or one of our own "
        "(default: none, seals are then unanchored).",
    ),
    Option(
        name="require",
        metavar="WHAT",
        default="predictions",
        help="What makes a cell fail: predictions (not as predicted, the default) or soundness "
        "(a grader disagrees with the contract).",
    ),
    Option(
        name="baseline",
        metavar="FILE",
        help="With --sremut-require=soundness: disagreements that are known; only new ones fail "
        "(written by `sremut baseline`).",
    ),
    Option(
        name="fail-under",
        metavar="PERCENT",
        help="Fail the session when any oracle's mutation score is below PERCENT, or is missing.",
    ),
    Option(
        name="embedded",
        metavar="KEY=VALUE",
        kind=Kind.WORDS,
        help=f"How the embedded cluster is built: {embedded_choices()} (default: the first of "
        "each); may be given several times.",
    ),
    Option(
        name="benchmark",
        metavar="DIR",
        help="A checkout of the benchmark whose oracles are audited (default: SREMUT_BENCHMARK; "
        "without one, studies of a benchmark are not run).",
    ),
    Option(
        name="benchmark-python",
        metavar="EXE",
        help="The benchmark's own interpreter, for the instrument `pinned` (default: "
        "SREMUT_BENCHMARK_PYTHON).",
    ),
    Option(
        name="census-baseline",
        metavar="FILE",
        help="Blind problems and findings that are known: only new ones fail. For -m census.",
    ),
    Option(
        name="census-overrides",
        metavar="FILE",
        help="Verdicts by hand, each with citation and reason. For -m census.",
    ),
    Option(name="audits", default="audits", help="Directory of the studies.", ini_only=True),
    Option(
        name="kind-image",
        help="kind's node image, by digest (default: the pinned one).",
        ini_only=True,
    ),
    Option(name="kind-workers", default="0", help="Worker nodes of a kind cluster.", ini_only=True),
)


def add_options(parser: pytest.Parser) -> None:
    """Declare the table to pytest."""
    group = parser.getgroup("sremut", "mutation testing for the graders of live SRE benchmarks")
    for option in OPTIONS:
        if not option.ini_only:
            _add_option(group, option)
        _add_ini(parser, option)


def given(config: pytest.Config, name: str) -> object:
    """What was given for an option; the command line wins over the ini file.

    Args:
        config: pytest's.
        name: As in the table.

    Returns:
        A string of a `Kind.TEXT`, a bool of a `Kind.FLAG`, a list of strings of the others.
    """
    key = f"sremut_{name.replace('-', '_')}"
    found = config.getoption(key, None)
    return config.getini(key) if found is None else found


def _add_option(group: pytest.OptionGroup, option: Option) -> None:
    flag = f"--sremut-{option.name}"
    match option.kind:
        case Kind.FLAG:
            group.addoption(flag, action="store_true", default=None, help=option.help)
        case Kind.TEXT:
            group.addoption(flag, metavar=option.metavar, default=None, help=option.help)
        case Kind.WORDS | Kind.LINES:
            group.addoption(
                flag, metavar=option.metavar, action="append", default=None, help=option.help
            )


def _add_ini(parser: pytest.Parser, option: Option) -> None:
    one_a_line = ", one a line" if option.kind is Kind.LINES else ""
    parser.addini(
        option.key,
        option.help if option.ini_only else f"See --sremut-{option.name}{one_a_line}.",
        type=_INI[option.kind],
        default={Kind.TEXT: option.default, Kind.FLAG: False}.get(option.kind, []),
    )
