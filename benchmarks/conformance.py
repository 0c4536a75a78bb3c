"""Replay every recorded scenario against embedded clusters.

    python benchmarks/conformance.py [--write] [--folder NAME ...] [--at-once N]

Prints one JSON document: per scenario the counts, and every step that is not the same with the
reason. ``--write`` puts the table into ``docs/embedded.md`` (only for the whole). Ends with 1 when
a difference has no reviewed reason. Needs the recordings (``tests/embedded/conformance/recorded``)
and, for 06-kubectl, kubectl on PATH or in SREMUT_KUBECTL.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "embedded"))
sys.modules.pop("conformance", None)

from conformance import playing, recorded, report  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--folder", action="append")
    parser.add_argument("--at-once", type=int, default=3)
    arguments = parser.parse_args()
    if not recorded.here():
        sys.exit(f"the recordings are not at {recorded.CORPUS}")
    began = time.monotonic()
    wanted = None
    if arguments.folder:
        wanted = {folder: range(1, 1000) for folder in arguments.folder}
    outcomes = playing.play_all(wanted, at_once=arguments.at_once)
    if arguments.write and wanted is None:
        report.write(outcomes)
    document = {
        "seconds": round(time.monotonic() - began, 1),
        "scenarios": {
            folder: {
                label: sum(outcome.verdict == label for outcome in found)
                for label in ("same", "differs", "not offered")
            }
            for folder, found in outcomes.items()
        },
        "not_the_same": [
            {
                "step": outcome.step,
                "result": outcome.verdict,
                "reasons": outcome.reasons,
                "unexplained": outcome.unexplained,
            }
            for found in outcomes.values()
            for outcome in found
            if outcome.verdict != "same"
        ],
    }
    json.dump(document, sys.stdout, indent=1)
    print()
    return any(outcome.unexplained for found in outcomes.values() for outcome in found)


if __name__ == "__main__":
    sys.exit(main())
