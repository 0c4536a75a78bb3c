"""`sremut census`: audit a whole benchmark, write files, print a summary.

Exit codes: 0 a census was taken; 1 none could be taken (no registry, incomplete); 2 misuse.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_sremut.errors import UsageError

__all__ = ["add_arguments"]


def add_arguments(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command `census`."""
    census = commands.add_parser(
        "census", help="audit a benchmark's source: can each oracle see what its injector breaks?"
    )
    census.add_argument(
        "--sremut-benchmark",
        metavar="DIR",
        required=True,
        type=Path,
        help="the benchmark's checkout; read as text, never imported",
    )
    census.add_argument(
        "--output", metavar="DIR", type=Path, default=Path(), help="where the files go (default: .)"
    )
    census.add_argument(
        "--format",
        choices=("json", "csv", "md"),
        action="append",
        help="only these files (may be given several times; default: all three)",
    )
    census.add_argument(
        "--pair",
        metavar="PROBLEM=ORACLE",
        action="append",
        default=[],
        help="also look at a problem with another oracle class (may be given several times)",
    )
    census.add_argument(
        "--overrides", metavar="FILE", type=Path, help="verdicts by hand, each with its reason"
    )
    census.add_argument(
        "--write-baseline", metavar="FILE", type=Path, help="write what is known from now on"
    )
    census.set_defaults(run=_census)


def _census(arguments: argparse.Namespace) -> int:
    from pytest_sremut.census.judge.baseline import baseline_text
    from pytest_sremut.census.judge.overrides import read_overrides
    from pytest_sremut.census.model import Verdict
    from pytest_sremut.census.report.documents import to_csv, to_json, to_markdown
    from pytest_sremut.census.take import take_census

    census = take_census(
        arguments.sremut_benchmark,
        pairs=[_pair(text) for text in arguments.pair],
        overrides=read_overrides(arguments.overrides),
    )
    formats = arguments.format or ["json", "csv", "md"]
    texts = {
        "json": lambda: to_json(census),
        "csv": lambda: to_csv(census).encode(),
        "md": lambda: to_markdown(census).encode(),
    }
    try:
        arguments.output.mkdir(parents=True, exist_ok=True)
        for name in formats:
            file = arguments.output / f"census.{name}"
            file.write_bytes(texts[name]())
            print(file)
    except OSError as error:
        raise UsageError(f"--output: {error.filename}: {error.strerror}") from None
    if arguments.write_baseline is not None:
        _write_baseline(arguments.write_baseline, baseline_text(census))
    for verdict in Verdict:
        print(f"{verdict.value:10} {census.count(verdict):4}")
    print(f"{'findings':10} {len(census.findings):4}")
    for problem, oracle in map(_pair, arguments.pair):
        for finding in census.findings:
            if problem in finding.problems and finding.subject.endswith(f":{oracle}"):
                print(f"{problem} with {oracle}: {finding.sentence} ({finding.place})")
    return 0


def _write_baseline(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--write-baseline: {error.filename}: {error.strerror}") from None


def _pair(text: str) -> tuple[str, str]:
    problem, equals, oracle = text.partition("=")
    if not equals or not problem or not oracle.isidentifier():
        raise UsageError(f"--pair: found {text!r}; allowed: PROBLEM=ORACLE, a class name")
    return problem, oracle
