"""A census of a whole benchmark: seconds and memory, beside the bounds that it must keep.

    python benchmarks/census.py DIR [--repeat 3]

DIR is a checkout (default: SREMUT_BENCHMARK). Prints JSON. Each figure is a whole `sremut census`
process, interpreter start and all three files included; memory is its peak resident set.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SECONDS, MEGABYTES = 20.0, 500.0


def once(checkout: Path, output: Path) -> float:
    """Wall seconds of one process."""
    start = time.monotonic()
    command = [sys.executable, "-m", "pytest_sremut.cli", "census"]
    command += [f"--sremut-benchmark={checkout}", f"--output={output}"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - start


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", nargs="?", default=os.environ.get("SREMUT_BENCHMARK", ""))
    parser.add_argument("--repeat", type=int, default=3)
    arguments = parser.parse_args()
    if not arguments.checkout:
        parser.error("name a checkout, or set SREMUT_BENCHMARK")
    with tempfile.TemporaryDirectory() as directory:
        seconds = [once(Path(arguments.checkout), Path(directory)) for _ in range(arguments.repeat)]
        document = json.loads((Path(directory) / "census.json").read_bytes())
        lines = sum(
            len(path.read_bytes().splitlines()) for path in Path(arguments.checkout).rglob("*.py")
        )
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    median = statistics.median(seconds)
    figures = {
        "checkout": {"commit": document["commit"], "python_lines": lines},
        "totals": document["totals"],
        "seconds": {"median": round(median, 2), "all": [round(one, 2) for one in seconds]},
        "peak_megabytes": round(peak, 1),
        "bounds": {"seconds": SECONDS, "peak_megabytes": MEGABYTES},
        "kept": median <= SECONDS and peak <= MEGABYTES,
    }
    print(json.dumps(figures, indent=2))
    return 0 if figures["kept"] else 1


if __name__ == "__main__":
    sys.exit(main())
