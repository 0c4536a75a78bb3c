"""`sremut matrix`: the jobs of a CI matrix, made from the studies themselves. Cheap to import."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from pytest_sremut.errors import UsageError

if TYPE_CHECKING:
    from pytest_sremut.study.jobs import Job
    from pytest_sremut.study.model import Study

__all__ = ["add_arguments"]

_MOST_JOBS: Final = 256  # of one matrix; GitHub refuses more


def add_arguments(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare `sremut matrix`."""
    parser = commands.add_parser(
        "matrix", help="the jobs of a CI matrix, and how long their protocol waits at least"
    )
    parser.add_argument("studies", metavar="STUDY", nargs="*", help="ids (default: all)")
    parser.add_argument(
        "--by",
        choices=("run", "mutant", "study"),
        default="run",
        help="what a job is (default: run)",
    )
    parser.add_argument(
        "--profile", metavar="NAME", default="kind", help="protocol profile (default: kind)"
    )
    parser.add_argument(
        "--without-benchmark",
        action="store_true",
        help="leave out studies that need a benchmark's checkout, and say which",
    )
    parser.add_argument(
        "--json", action="store_true", help='one line, {"include": [...]}, for fromJSON'
    )
    parser.add_argument(
        "--root", type=Path, default=Path(), metavar="DIR", help="the project (default: here)"
    )
    parser.add_argument(
        "--audits",
        default="audits",
        metavar="NAME",
        help="its directory of studies (default: audits)",
    )
    parser.set_defaults(run=_matrix)


def _matrix(arguments: argparse.Namespace) -> int:
    from pytest_sremut.study.jobs import By, jobs

    profile = str(arguments.profile)
    found: list[Job] = []
    for study in _studies(arguments.root, arguments.audits, arguments.studies):
        if profile not in study.profiles:
            raise UsageError(
                f"--profile: found {profile!r}, which {study.id} does not have; allowed: "
                + ", ".join(sorted(study.profiles))
            )
        if arguments.without_benchmark and study.needs_benchmark(profile):
            print(f"left out: {study.id}: it needs a benchmark's checkout", file=sys.stderr)
            continue
        found += jobs(study, by=By(arguments.by), profile=profile)
    if not found:
        raise UsageError("found no job; allowed: at least one")
    if arguments.json:
        if len(found) > _MOST_JOBS:
            raise UsageError(
                f"found {len(found)} jobs; allowed: {_MOST_JOBS} (a matrix has no more); "
                "--by mutant or --by study makes fewer"
            )
        print(json.dumps({"include": [asdict(job) for job in found]}, separators=(",", ":")))
    else:
        for line in _table(found):
            print(line)
    return 0


def _studies(root: Path, audits: str, wanted: Sequence[str]) -> Iterator[Study]:
    from pytest_sremut.study.load import load_study

    known = sorted(path.parent.name for path in (root / audits).glob("*/study.yaml"))
    unknown = [name for name in wanted if name not in known]
    if unknown or not known:
        what = f"no study {unknown[0]!r}" if unknown else "no study"
        raise UsageError(f"{root / audits}: found {what}; allowed: {', '.join(known) or 'none'}")
    for name in known:
        if not wanted or name in wanted:
            yield load_study(root, PurePosixPath(audits, name, "study.yaml"))


def _table(found: Sequence[Job]) -> Iterator[str]:
    wide = max(len(job.study) for job in found)
    for job in found:
        told = _amount(job.runs, "run")
        note = "  needs a benchmark" if job.needs_benchmark else ""
        minutes = f"{job.least_seconds / 60:.1f} min"
        yield f"{job.study:<{wide}}  {job.name:<16}  {told:>8}  {minutes:>10} waiting{note}"
    total = sum(job.least_seconds for job in found) / 60
    told = _amount(len(found), "job")
    yield f"{told}, at least {total:.1f} min of the protocol's own waiting in all"


def _amount(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
