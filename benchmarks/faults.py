"""Fail every call of a run in every way, and refuse the disk at every step: is anything wrong?

    python benchmarks/faults.py [--every N] [--mutant MS-M02] [--only calls|disk]

A run in memory is repeated, each time with one failure: one call of the API fails once or from
then on, each in every way (a write whose answer is lost both made and not made); one creation,
write, fsync or link of a file is refused once or from then on. `--every N` takes every n-th only.
Prints one JSON document: per kind of failure how many runs ended with which outcome, and every one
that went wrong: a verdict that differs from a run without failures, an outcome of another kind, a
reason that does not name the call, a cluster that is neither put back nor marked, evidence that
does not hold together. Ends with 1 if there is any.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "unit" / "support"))

import pytest
from api_faults import WAYS, Effect, FaultedWorld, Way, problems_of, run_to_its_end
from disk_faults import CALLS, ERRORS, DiskRun
from engine_world import small_application

from pytest_sremut.cluster import overlap, waiting
from pytest_sremut.engine.steps import deploy

WRITES = ("create", "replace", "delete")


class Table:
    """Outcomes by kind of failure, and what went wrong."""

    def __init__(self) -> None:
        self.rows: dict[str, Counter[str]] = {}
        self.wrong: list[dict[str, Any]] = []

    def add(self, row: str, outcome: object, where: str, problems: list[str]) -> None:
        self.rows.setdefault(row, Counter())[str(outcome)] += 1
        if problems:
            self.wrong.append({"failure": row, "at": where, "problems": problems})


def quick(patch: pytest.MonkeyPatch) -> None:
    """In memory, and an API that is away is given up at once."""
    patch.setattr(deploy, "manifests_of", small_application)
    patch.setattr(waiting, "_OUTAGE", 0.05)
    patch.setattr(waiting, "_BACK_OFF", (0.001, 0.001))
    patch.setattr(overlap, "WIDTH", 1)  # calls have a number only one after another


def plans(calls: list[str], every: int) -> Iterator[tuple[int, Way, Effect, bool]]:
    """Every call, each way, made or not, once or lasting."""
    number = 0
    for at, call in enumerate(calls, start=1):
        for way in WAYS.values():
            for effect in way.effects if call.startswith(WRITES) else ("before",):
                for lasting in (False, True):
                    number += 1
                    if number % every == 0:
                        yield at, way, effect, lasting


def fail_calls(directory: Path, mutant: str, every: int, table: Table) -> dict[str, int]:
    with pytest.MonkeyPatch.context() as patch:
        quick(patch)
        patch.setattr(os, "fsync", lambda _: None)
        world = FaultedWorld(directory / "whole")
        expected, error = run_to_its_end(world.small_driver(mutant))
        world.stop()
        assert error is None, error
        calls = list(world.faulty.calls)
        runs = 0
        for at, way, effect, lasting in plans(calls, every):
            world = FaultedWorld(directory / "run")
            driver = world.small_driver(mutant)
            world.faulty.plan(at=at, way=way, effect=effect, lasting=lasting)
            seen, error = run_to_its_end(driver)
            world.stop()
            problems = problems_of(world, driver, seen, error, expected, lasting=lasting)
            row = f"{way.name} {'from then on' if lasting else 'once'}"
            table.add(row, driver.outcome, f"{at} {calls[at - 1]} ({effect})", problems)
            shutil.rmtree(world.directory)
            runs += 1
    return {"calls": len(calls), "ways": len(WAYS), "runs": runs}


def refuse_disk(directory: Path, every: int, table: Table) -> dict[str, int]:
    with pytest.MonkeyPatch.context() as patch:
        quick(patch)
        whole = DiskRun(directory / "whole-disk", patch)
        whole.go()
        assert whole.error is None, whole.error
        counts = dict(whole.disk.counts)
    runs = 0
    for name in CALLS:
        for at in range(1, counts[name] + 1, every):
            for lasting in (False, True):
                with pytest.MonkeyPatch.context() as patch:
                    quick(patch)
                    run = DiskRun(directory / "disk", patch)
                    run.disk.plan(name, at, ERRORS[at % len(ERRORS)], lasting=lasting)
                    run.go()
                outcome = None if run.driver is None else run.driver.outcome
                row = f"{name} {'from then on' if lasting else 'once'}"
                problems = run.problems(whole.seen, lasting=lasting)
                table.add(row, outcome, f"{at} {run.disk.struck[:1]}", problems)
                run.lease.release()
                shutil.rmtree(directory / "disk")
                runs += 1
    return {"steps": sum(counts.values()), "runs": runs}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--mutant", default="MS-M02")
    parser.add_argument("--only", choices=["calls", "disk"])
    arguments = parser.parse_args()
    table, document = Table(), {}
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="sremut-faults-") as folder:
        if arguments.only != "disk":
            document["calls"] = fail_calls(Path(folder), arguments.mutant, arguments.every, table)
        if arguments.only != "calls":
            document["disk"] = refuse_disk(Path(folder), arguments.every, table)
    document["seconds"] = round(time.monotonic() - began, 1)
    document["outcomes"] = {row: dict(counts) for row, counts in sorted(table.rows.items())}
    document["wrong"] = table.wrong
    json.dump(document, sys.stdout, indent=1)
    print()
    return bool(table.wrong)


if __name__ == "__main__":
    sys.exit(main())
