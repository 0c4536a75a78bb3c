"""Collecting 10,000 cells against collecting as many plain parametrised functions, in one run.

    python benchmarks/collection.py [--cells 10000] [--repeat 5]

Prints JSON: median seconds of each and their ratio. Each figure is the wall time of a whole
`pytest --collect-only` process; the two alternate, so that the machine's moods hit both.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STUDY = "missing_service_social_network"


def plain(directory: Path, cells: int) -> None:
    """As many ordinary parametrised functions, each with two arguments, as a user writes them."""
    directory.mkdir()
    (directory / "pytest.ini").write_text("[pytest]\nmarkers =\n    mutant\n")
    (directory / "test_plain.py").write_text(
        "import pytest\n"
        f"CELLS = [f'ms-m01-r{{n:02d}}-faulted-O1' for n in range({cells})]\n"
        "@pytest.fixture\n"
        "def report(cell): return cell\n"
        "@pytest.mark.mutant\n"
        "@pytest.mark.parametrize('cell', CELLS, ids=CELLS)\n"
        "def test_cell(cell, report): pass\n"
    )


PER_REPETITION = 3 * 3 * 4  # mutants, states, graders with the contract
MOST_REPETITIONS = 99


def study(directory: Path, cells: int) -> int:
    """Copies of the shipped study with as many repetitions as make at least `cells` cells."""
    directory.mkdir()
    for name in ("mutants", "contracts"):
        shutil.copytree(ROOT / name, directory / name)
    repetitions = -(-cells // PER_REPETITION)
    total = 0
    while total < repetitions:
        now = min(MOST_REPETITIONS, repetitions - total)
        name = f"{STUDY}_{total:04d}"
        copy = directory / "audits" / name
        shutil.copytree(ROOT / "audits" / STUDY, copy)
        for file in copy.glob("*.yaml"):
            text = re.sub(rf"{STUDY}(?=$|/)", name, file.read_text(), flags=re.MULTILINE)
            text = text.replace(f"contracts/{name}", f"contracts/{STUDY}")
            text = re.sub(r"repetitions: \d+", f"repetitions: {now}", text)
            file.write_text(
                text.replace(f"contract: contracts/{name}", f"contract: contracts/{STUDY}")
            )
        total += now
    (directory / "pytest.ini").write_text("[pytest]\n")
    return repetitions * PER_REPETITION


def collect(directory: Path, *arguments: str) -> tuple[float, int]:
    """Seconds of one collection, and how many items it found."""
    begun = time.perf_counter()
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider",
         *arguments],
        cwd=directory, capture_output=True, text=True, check=True,
    )  # fmt: skip
    spent = time.perf_counter() - begun
    return spent, sum("::test_cell[" in line for line in result.stdout.splitlines())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, default=10_000)
    parser.add_argument("--repeat", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        cells = study(Path(temporary) / "study", arguments.cells)
        plain(Path(temporary) / "plain", cells)
        seconds: dict[str, list[float]] = {"study": [], "plain": []}
        for _ in range(arguments.repeat):
            for name, more in (("plain", ()), ("study", ("-m", "mutant"))):
                spent, found = collect(Path(temporary) / name, *more)
                assert found == cells, (name, found, cells)
                seconds[name].append(spent)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    print(
        json.dumps(
            {
                "benchmark": "collection",
                "cells": cells,
                "median_seconds": {name: round(value, 3) for name, value in medians.items()},
                "ratio_study_over_plain": round(medians["study"] / medians["plain"], 3),
                "repeats": arguments.repeat,
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
