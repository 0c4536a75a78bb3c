"""What the session gate adds to a session, and the plugin to one that never asks for it.

    python benchmarks/gate.py [--repeat 7]

Prints JSON: median wall seconds of whole pytest processes. `registered` and `exploratory` collect
the same study and stop for want of its cluster; they differ in the gate's checks alone. `plain`
and `without` run one empty test, with the plugin installed and with it disabled. Each pair
alternates.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STUDY = "audits/missing_service_social_network"
ASKED = [
    STUDY, "-k", "ms-m01-r01-healthy-O1", "--sremut-cluster=context:nowhere",
    "--sremut-profile=embedded",
]  # fmt: skip


def seconds(arguments: list[str], directory: Path, expected: int) -> float:
    """Wall time of one pytest process, which must end as expected."""
    begun = time.perf_counter()
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=directory, capture_output=True, text=True, check=False,
    )  # fmt: skip
    spent = time.perf_counter() - begun
    if result.returncode != expected:
        raise SystemExit(f"pytest {arguments} ended with {result.returncode}:\n{result.stdout}")
    return spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=7)
    repeat = parser.parse_args().repeat
    with tempfile.TemporaryDirectory() as temporary:
        empty = Path(temporary)
        (empty / "test_one.py").write_text("def test_one(): pass\n")
        runs = {
            "registered": (ASKED, ROOT, 1),
            "exploratory": ([*ASKED, "--sremut-exploratory"], ROOT, 1),
            "plain": ([], empty, 0),
            "without": (["-p", "no:sremut"], empty, 0),
        }
        measured: dict[str, list[float]] = {name: [] for name in runs}
        for _ in range(repeat):
            for name, (arguments, directory, expected) in runs.items():
                measured[name].append(seconds(arguments, directory, expected))
    medians = {name: statistics.median(values) for name, values in measured.items()}
    print(
        json.dumps(
            {
                "benchmark": "gate",
                "repeats": repeat,
                "median_seconds": {name: round(value, 3) for name, value in medians.items()},
                "gate_adds_seconds": round(medians["registered"] - medians["exploratory"], 3),
                "silent_plugin_adds_seconds": round(medians["plain"] - medians["without"], 3),
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
