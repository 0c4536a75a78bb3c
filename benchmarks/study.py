"""The whole nine-run study as a user runs it, against the protocol's own waiting.

    python benchmarks/study.py [--workers 0] [--study missing_service_social_network]

Prints JSON: wall seconds of the whole `pytest -m mutant` process; the floor, which is what the
protocol itself makes every run wait (settling, rounds of load, deadlines that have to expire) on
the busiest worker; their ratio; and where the rest went, per phase.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--study", default="missing_service_social_network")
    parser.add_argument("more", nargs="*", help="passed on to pytest, e.g. --sremut-exploratory")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        evidence = Path(temporary) / "evidence"
        command = [
            sys.executable, "-m", "pytest", "-q", "-m", "mutant", "-k", arguments.study,
            f"--sremut-evidence={evidence}", *arguments.more,
        ]  # fmt: skip
        if arguments.workers:
            command += ["-n", str(arguments.workers)]
        begun = time.perf_counter()
        result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        wall = time.perf_counter() - begun
        records = [json.loads(file.read_bytes()) for file in evidence.rglob("record.json")]
        if result.returncode != 0 or not records:
            print(result.stdout[-4000:], result.stderr[-2000:], file=sys.stderr)
            return 1
    waiting: dict[str, float] = defaultdict(float)  # per cluster, of which each worker has one
    phases: Counter[str] = Counter()
    waits: Counter[str] = Counter()
    for record in records:
        waiting[record["cluster"]["name"]] += sum(record["waiting"].values())
        phases.update(record["timings"])
        waits.update(record["waiting"])
    floor = max(waiting.values())
    print(
        json.dumps(
            {
                "benchmark": "study",
                "study": arguments.study,
                "workers": arguments.workers or 1,
                "runs": len(records),
                "outcomes": Counter(record["outcome"] for record in records),
                "wall_seconds": round(wall, 1),
                "floor_seconds": round(floor, 1),
                "ratio_wall_over_floor": round(wall / floor, 3),
                "waiting_seconds": {name: round(value, 1) for name, value in waits.items()},
                "phase_seconds": {name: round(value, 1) for name, value in phases.items()},
            },
            indent=2,
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
