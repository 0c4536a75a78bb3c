"""Start and end clusters many times and see whether anything is left.

    python benchmarks/cycles.py [--cycles 200]

Every third cluster is killed instead of closed. Prints one JSON document; ends with 1 if a
descriptor, a process or a mount is left.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "embedded"))

import leftovers


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cycles", type=int, default=200)
    cycles = parser.parse_args().cycles
    with tempfile.TemporaryDirectory(prefix="sremut-cycles-") as folder:
        directory = Path(folder)
        leftovers.cycle(directory, 0)  # imports, caches
        before = leftovers.of(directory)
        took = []
        for number in range(cycles):
            began = time.monotonic()
            leftovers.cycle(directory, number)
            took.append(time.monotonic() - began)
        deadline = time.monotonic() + 10
        while (after := leftovers.of(directory)) != before and time.monotonic() < deadline:
            time.sleep(0.05)
    document = {
        "cycles": cycles,
        "killed": len([number for number in range(cycles) if number % 3 == 2]),
        "seconds": {
            "median": round(statistics.median(took), 3),
            "longest": round(max(took), 3),
        },
        "left": {
            "descriptors": after.descriptors - before.descriptors,
            "processes": len(after.processes - before.processes),
            "mounts": after.mounts - before.mounts,
        },
    }
    json.dump(document, sys.stdout, indent=1)
    print()
    return after != before


if __name__ == "__main__":
    sys.exit(main())
