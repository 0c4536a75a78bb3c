"""How long one timestamp takes to verify, against one `openssl ts -verify` process.

`python benchmarks/attestation.py` prints JSON. Both sides verify the same token with the same root
in the same run, in turns, so that a busy machine slows both; what is compared are medians. Ours
does everything that `verify` does, from bytes to `VerifiedToken`; openssl's side includes the
start of its process, since that is what verifying with it costs.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from pytest_sremut.attestation.rfc3161.authority import SelfIssuedAuthority
from pytest_sremut.attestation.rfc3161.identity import KeyKind
from pytest_sremut.attestation.rfc3161.request import build_query
from pytest_sremut.attestation.rfc3161.trust import TrustStore
from pytest_sremut.attestation.rfc3161.verify import verify

DATA = b"predictions" * 100
CASES: tuple[tuple[KeyKind, int], ...] = (("ec", 2), ("ec", 3), ("rsa", 2), ("rsa", 3))
MEASURED: tuple[KeyKind, int] = ("ec", 2)  # what `sremut freeze --tsa self` makes
MAX_MILLISECONDS, MIN_RATIO = 10.0, 10.0


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _measure(kind: KeyKind, length: int, rounds: int, directory: Path) -> dict[str, Any]:
    authority = SelfIssuedAuthority(kind=kind, length=length)
    query = build_query(DATA)
    reply = authority.stamp(query)
    trust = TrustStore(roots=(authority.root,))
    root = x509.load_der_x509_certificate(authority.chain[-1])
    files = {"reply": reply, "data": DATA, "root.pem": root.public_bytes(Encoding.PEM)}
    for name, content in files.items():
        (directory / name).write_bytes(content)
    command = [
        "openssl", "ts", "-verify", "-in", str(directory / "reply"),
        "-data", str(directory / "data"), "-CAfile", str(directory / "root.pem"),
    ]  # fmt: skip

    def ours() -> object:
        return verify(reply, DATA, trust, query=query)

    def theirs() -> object:
        return subprocess.run(command, check=True, capture_output=True)

    ours_times: list[float] = []
    theirs_times: list[float] = []
    openssl = shutil.which("openssl") is not None
    for _ in range(rounds):
        ours_times.extend(_seconds(ours) for _ in range(10))
        if openssl:
            theirs_times.append(_seconds(theirs))
    result: dict[str, Any] = {
        "key": kind,
        "chain": length,
        "verify_ms": round(statistics.median(ours_times) * 1e3, 4),
        "verify_ms_p95": round(statistics.quantiles(ours_times, n=20)[-1] * 1e3, 4),
    }
    if openssl:
        median = statistics.median(theirs_times)
        result["openssl_process_ms"] = round(median * 1e3, 4)
        result["ratio"] = round(median / statistics.median(ours_times), 2)
    return result


def main() -> int:
    """Print the figures; with `--check`, exit 1 where they miss the goal."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--check", action="store_true", help="fail where the goal is missed")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        cases = [_measure(kind, length, arguments.rounds, Path(name)) for kind, length in CASES]
    measured = next(case for case in cases if (case["key"], case["chain"]) == MEASURED)
    met = measured["verify_ms"] <= MAX_MILLISECONDS and measured.get("ratio", 0.0) >= MIN_RATIO
    report = {
        "benchmark": "attestation",
        "python": platform.python_version(),
        "goal": {"verify_ms": MAX_MILLISECONDS, "ratio": MIN_RATIO, "met": met},
        "verify_ms": measured["verify_ms"],
        "openssl_process_ms": measured.get("openssl_process_ms"),
        "ratio": measured.get("ratio"),
        "cases": cases,
    }
    print(json.dumps(report, indent=2))
    return 0 if met or not arguments.check else 1


if __name__ == "__main__":
    sys.exit(main())
