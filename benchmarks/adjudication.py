"""What adjudication costs: time, memory, and how both grow with the number of records.

    python benchmarks/adjudication.py [--records 250 500 1000] [--json FILE]

Each size is measured in a process of its own: evidence is written first (that is not measured),
then read, verified, judged, and made into `ledger.json` and `ledger.md`. A record is an attempt
with three states, 18 readings, 30 rounds of load, a sampler's timeline, and a chained journal and
object dumps as large as a real run's.
`growth` compares the CPU seconds per record of the largest size with those of the smallest: 1 is
linear.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "unit" / "support"))

PER_DIRECTORY = 30  # as a CI matrix would hand them in; also keeps the writing linear
LIMITS = {"records": 1000, "seconds": 10.0, "mebibytes": 300.0}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, nargs="+", default=[250, 500, 1000])
    parser.add_argument("--json", type=Path, help="also write the figures there")
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.write is not None:
        write(arguments.write, arguments.records[0])
        return 0
    if arguments.measure is not None:
        print(json.dumps(measure(arguments.measure, arguments.records[0])))
        return 0
    sizes = [size_of(count) for count in sorted(arguments.records)]
    rates = [item["cpu_seconds"] / item["records"] for item in sizes]
    report = {
        "benchmark": "adjudication",
        "limits": LIMITS,
        "sizes": sizes,
        "growth": round(rates[-1] / rates[0], 3),
    }
    text = json.dumps(report, indent=1)
    print(text)
    if arguments.json is not None:
        arguments.json.write_text(text + "\n", encoding="utf-8")
    return 0


def size_of(count: int) -> dict[str, Any]:
    """Write `count` records in one process and measure their adjudication in another."""
    with tempfile.TemporaryDirectory(prefix="sremut-adjudication-") as directory:
        base = [sys.executable, str(Path(__file__)), "--records", str(count)]
        subprocess.run([*base, "--write", directory], check=True)
        done = subprocess.run(
            [*base, "--measure", directory], check=True, capture_output=True, text=True
        )
        figures: dict[str, Any] = json.loads(done.stdout)
        return figures


def studies(count: int) -> Any:
    """The study of the main job with enough repetitions."""
    from records import main_study

    study = main_study()
    mutants = len(study.mutants)
    return replace(study, repetitions=(count + mutants - 1) // mutants)


def write(directory: Path, count: int) -> None:
    """Write the records; nothing waits for the disk."""
    from records import BEGIN, Records, Told

    from pytest_sremut.study.cells import runs

    os.fsync = lambda _descriptor: None
    study = studies(count)
    builder = None
    for number, run in enumerate(list(runs(study))[:count]):
        if number % PER_DIRECTORY == 0:
            start = BEGIN + timedelta(hours=number)
            builder = Records(directory / f"{number:06d}", study, start=start)
        assert builder is not None
        builder.attempt(run, Told(bulk=True))


def measure(directory: Path, count: int) -> dict[str, Any]:
    """Adjudicate them."""
    from records import ROOT as PROJECT

    from pytest_sremut.evidence.identity import file_digests
    from pytest_sremut.ledger.adjudicate import ledger
    from pytest_sremut.ledger.judge import StudyInput, judge, pods_needed
    from pytest_sremut.ledger.load import read_evidence
    from pytest_sremut.ledger.renderings.document import checked, ledger_bytes
    from pytest_sremut.ledger.renderings.markdown import render

    study = studies(count)
    inputs = [StudyInput(study=study, digests=file_digests(PROJECT, study.frozen))]
    needs = pods_needed(inputs)
    begun, cpu = time.perf_counter(), time.process_time()
    read = [read_evidence(one, needs_pods=needs) for one in sorted(directory.iterdir())]
    after_read = time.perf_counter()
    judged = judge(inputs, read)
    document = ledger(judged)
    after_judge = time.perf_counter()
    checked("ledger", document, what="ledger")
    data, rendering = ledger_bytes(document), render(document)
    ended = time.perf_counter()
    counted = sum(attempt["counted"] for attempt in document["studies"][0]["attempts"])
    assert counted == count, (counted, judged.problems[:3])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "records": count,
        "seconds": round(ended - begun, 3),
        "cpu_seconds": round(time.process_time() - cpu, 3),
        "read_seconds": round(after_read - begun, 3),
        "judge_seconds": round(after_judge - after_read, 3),
        "write_seconds": round(ended - after_judge, 3),
        "mebibytes": round(peak, 1),
        "ledger_bytes": len(data),
        "rendering_bytes": len(rendering),
    }


if __name__ == "__main__":
    sys.exit(main())
