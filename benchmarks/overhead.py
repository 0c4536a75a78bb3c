"""How much longer runs took than their protocol asks for, and where that went.

    pytest audits/missing_service_social_network -k ms-m01-r01 --sremut-exploratory \\
        --sremut-profile=kind --sremut-embedded=pace=real
    python benchmarks/overhead.py .sremut/evidence/LATEST

Reads the records of an evidence directory: `waiting` is what the protocol itself waits for
(settling, windows, deadlines that have to expire). The rest is split in three:

- `cluster`: the engine waited for pods and objects of which it had asked the cluster to come or go;
- `graders`: the readings themselves, with the pods that a grader starts and waits for;
- `own`: what is left, all calls of the API included. The goal is for this one: at most 5 %.

Prints one JSON document a complete attempt; all times in seconds.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

PARTS = ("preflight", "deploy", "capture", "inject", "mutate", "oracles", "restore", "remove")


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    files = sorted(Path(sys.argv[1]).rglob("record.json"))
    complete = [file for file in files if _read(file)["outcome"] == "COMPLETE"]
    for file in complete:
        print(json.dumps(overhead(_read(file), graders=_graders(file.parent))))
    if not complete:
        print("no complete attempt there", file=sys.stderr)
    return 0 if complete else 1


def overhead(record: dict[str, Any], *, graders: float) -> dict[str, Any]:
    """Wall time, the protocol's waiting, and the parts of the rest that have a name."""
    opened, closed = (datetime.fromisoformat(record[name]) for name in ("opened", "closed"))
    wall, waiting = (closed - opened).total_seconds(), sum(record["waiting"].values())
    timings = record["timings"]
    windows = sum(value for name, value in record["waiting"].items() if name.startswith("window"))
    expired = sum(value for name, value in record["waiting"].items() if "deadlines" in name)
    parts = {name: round(timings[name], 1) for name in PARTS if name in timings}
    # What the windows and the contract took beyond what they had to wait for.
    fresh = sum(v for name, v in record["waiting"].items() if "fresh" in name)
    parts["workload beyond its rounds"] = round(timings["workload"] - (windows - fresh), 1)
    parts["contract beyond its waiting"] = round(timings["contract"] - fresh - expired, 1)
    cluster = timings.get("cluster", 0.0)
    own = wall - waiting - cluster - graders
    return {
        "run": record["run"],
        "profile": record["profile"],
        "pace": record["cluster"].get("facts", {}).get("pace", {}),
        "wall": round(wall, 1),
        "waiting": round(waiting, 1),
        "rest": round(wall - waiting, 1),
        "percent": round(100 * (wall - waiting) / waiting, 1),
        "cluster": round(cluster, 1),
        "graders": round(graders, 1),
        "own": round(own, 1),
        "own_percent": round(100 * own / waiting, 1),
        "parts": parts,
    }


def _graders(attempt: Path) -> float:
    """Seconds that the readings of all states took, by themselves."""
    states = [_read(file) for file in attempt.glob("states/*.json")]
    return sum(float(one["elapsed"]) for state in states for one in state["readings"])


def _read(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file.read_bytes())
    return found


if __name__ == "__main__":
    sys.exit(main())
