"""How many of thousands of random changes of a sealed evidence directory are seen.

`python benchmarks/tampering.py [--changes 2600] [--seed 1]` prints JSON and fails unless all are:
bytes changed, added and removed, files truncated, removed, added, renamed, linked and exchanged,
lines exchanged and removed, directories added and removed. Each change is made on disk, verified
by `verify_evidence`, and taken back. The same kinds stand in the unit tests, fewer of each.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

UNIT = Path(__file__).resolve().parents[1] / "tests" / "unit" / "evidence"
sys.path[:0] = [str(UNIT), str(UNIT / "seal")]

from sealed_doubles import sealed_evidence  # noqa: E402
from tampering_kit import KINDS, tampered  # noqa: E402

from pytest_sremut.attestation.registration.anchoring import OfflineStamps, TimestampAnchor  # noqa: E402
from pytest_sremut.attestation.rfc3161.authority import SelfIssuedAuthority  # noqa: E402
from pytest_sremut.attestation.rfc3161.trust import TrustStore  # noqa: E402
from pytest_sremut.errors import EvidenceError  # noqa: E402
from pytest_sremut.evidence.seal.evidence import verify_evidence  # noqa: E402

STAMPS = OfflineStamps(TrustStore(roots=()))


def _holds(directory: Path) -> bool:
    try:
        reading = verify_evidence(directory, verifier=STAMPS)
        return all(check.ok is True for check in reading.checks)
    except EvidenceError:
        return False


def _measure(kind: str, changes: int, seed: int, directory: Path) -> dict[str, Any]:
    rng = random.Random(f"{seed} {kind}")
    began = time.perf_counter()
    seen = 0
    for _ in range(changes):
        with tampered(directory, kind, rng):
            seen += not _holds(directory)
    return {
        "kind": kind,
        "changes": changes,
        "seen": seen,
        "milliseconds_each": round(1000 * (time.perf_counter() - began) / changes, 2),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--changes", type=int, default=2600, help="in all (default: 2600)")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    each = -(-arguments.changes // len(KINDS))
    with tempfile.TemporaryDirectory() as name:
        anchor = TimestampAnchor(SelfIssuedAuthority(), TrustStore(roots=()))
        evidence = sealed_evidence(Path(name) / "evidence", attempts=1, anchor=anchor)
        directory = evidence.directory
        assert _holds(directory)
        rows = [_measure(kind, each, arguments.seed, directory) for kind in KINDS]
        intact = _holds(directory)
    changes, seen = sum(row["changes"] for row in rows), sum(row["seen"] for row in rows)
    passed = seen == changes and intact
    print(
        json.dumps(
            {
                "benchmark": "tampering",
                "seed": arguments.seed,
                "changes": changes,
                "seen": seen,
                "percent": 100.0 * seen / changes,
                "intact_afterwards": intact,
                "kinds": rows,
                "passed": passed,
            },
            indent=2,
        )
    )
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
