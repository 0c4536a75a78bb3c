"""`sremut baseline` and `sremut scores`, both from a ledger. Cheap to import: work loads late."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_sremut.errors import EvidenceError, UsageError

if TYPE_CHECKING:
    from pytest_sremut.ledger.baseline.document import Baseline

__all__ = ["add_arguments"]


def add_arguments(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare `sremut baseline` and `sremut scores`."""
    baseline = commands.add_parser(
        "baseline", help="write down what a ledger shows, so that only what is new fails"
    )
    baseline.add_argument("ledger", metavar="LEDGER", type=Path, help="a ledger.json")
    baseline.add_argument(
        "-o", "--output", metavar="FILE", type=Path, required=True, help="where the baseline goes"
    )
    baseline.add_argument(
        "--update",
        action="store_true",
        help="change the one that stands there: what the ledger read replaces what it said, "
        "the rest stays",
    )
    baseline.set_defaults(run=_baseline)
    scores = commands.add_parser("scores", help="print the scores of a ledger as one line of JSON")
    scores.add_argument("ledger", metavar="LEDGER", type=Path, help="a ledger.json")
    scores.set_defaults(run=_scores)


def _baseline(arguments: argparse.Namespace) -> int:
    from pytest_sremut.ground.durable.atomic import make_directory, write_new
    from pytest_sremut.ground.formats.canonical import sha256
    from pytest_sremut.ledger.baseline.comparison import taken
    from pytest_sremut.ledger.baseline.document import Baseline, baseline_bytes, read_baseline
    from pytest_sremut.ledger.renderings.store import replace_file

    file: Path = arguments.output
    stands = file.exists()
    if stands and not arguments.update:
        raise UsageError(f"{file}: exists already; --update changes it")
    data, ledger = _ledger(arguments.ledger)
    if ledger["problems"]:
        raise EvidenceError(
            f"{arguments.ledger}: its evidence does not hold together, so nothing is taken from "
            f"it: {ledger['problems'][0]['problem']}"
        )
    before = read_baseline(file) if stands else Baseline()
    after = taken(ledger, sha256(data), before)
    if not after.studies:
        raise EvidenceError(f"{arguments.ledger}: no study in it has a valid attempt")
    make_directory(file.absolute().parent)
    (replace_file if stands else write_new)(file.absolute(), baseline_bytes(after))
    for line in _changes(before, after):
        print(line)
    for study in ledger["studies"]:
        missing = len(study["runs_without_valid_attempt"])
        if missing:
            print(f"not read: {study['id']}: {missing} of {study['plan']['runs']} runs")
    known = sum(len(study.disagreements) for study in after.studies.values())
    print(f"{file}: {known} known disagreements in {len(after.studies)} studies")
    return 0


def _changes(before: Baseline, after: Baseline) -> Iterator[str]:
    for name in sorted({*before.studies, *after.studies}):
        old, new = before.studies.get(name), after.studies.get(name)
        was = old.disagreements if old else frozenset()
        now = new.disagreements if new else frozenset()
        yield from (f"- {name}: {what}" for what in sorted(was - now))
        yield from (f"+ {name}: {what}" for what in sorted(now - was))


def _scores(arguments: argparse.Namespace) -> int:
    _, ledger = _ledger(arguments.ledger)
    told = {
        study["id"]: {
            row["grader"]: {name: row[name] for name in ("killed", "scored", "percent")}
            for row in study["scores"]
        }
        for study in ledger["studies"]
        if study["attempts"]
    }
    print(json.dumps(told, sort_keys=True, separators=(",", ":")))
    return 0


def _ledger(file: Path) -> tuple[bytes, Mapping[str, Any]]:
    from pytest_sremut.ground.durable.atomic import reason_of
    from pytest_sremut.ledger.renderings.document import parse_ledger

    try:
        data = file.read_bytes()
    except OSError as error:
        raise EvidenceError(f"{file}: cannot be read: {reason_of(error)}") from error
    return data, parse_ledger(data, what=str(file))
