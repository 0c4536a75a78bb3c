"""The sealed matrix of a study, from a fresh clone to the ledger: run, sealed, verified, judged.

`python benchmarks/sealed.py DIR [--study ID] [--runs EXPRESSION] [--workers N] [--tsa URL|self]`

In DIR, which must not exist, it clones this repository at its commit, stamps that commit as the
tree of the study's registration (a tree token must name an ancestor of what runs, so it is made in
the clone and committed there), runs the study sealed on the embedded cluster, verifies the evidence
offline and adjudicates it. Everything stays in DIR: evidence in `clone/.sremut/evidence`. It prints
each command and ends with JSON. `--runs` is a `-k` expression over runs, such as `m01-r01`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
WHO = ("-c", "user.name=sealed", "-c", "user.email=sealed@localhost")


class Steps:
    """Runs commands in the clone and notes how each ended."""

    def __init__(self, clone: Path) -> None:
        self.clone = clone
        self.rows: list[dict[str, Any]] = []

    def run(self, name: str, *command: str, where: Path | None = None) -> int:
        """One command, its output passed through; its exit status."""
        print(f"$ {' '.join(command)}", flush=True)
        # The clone's own product runs: `python -m` takes what lies where it is started.
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        began = time.perf_counter()
        code = subprocess.run(
            command, cwd=where or self.clone, env=environment, check=False
        ).returncode
        seconds = round(time.perf_counter() - began, 1)
        self.rows.append({"step": name, "code": code, "seconds": seconds})
        return code

    def evidence(self) -> Path:
        """The one evidence directory that there is."""
        (found,) = (self.clone / ".sremut" / "evidence").iterdir()
        return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--study", default="missing_service_social_network")
    parser.add_argument("--runs", default="", help="-k expression (default: every run)")
    parser.add_argument("--workers", type=int, default=0, help="xdist workers (default: none)")
    parser.add_argument("--tsa", default="self")
    arguments = parser.parse_args()
    arguments.directory.mkdir(parents=True)
    clone = (arguments.directory / "clone").resolve()
    steps = Steps(clone)
    python, study = sys.executable, arguments.study
    sremut = (python, "-m", "pytest_sremut.cli")
    selection = ("-k", arguments.runs) if arguments.runs else ()
    workers = ("-n", str(arguments.workers)) if arguments.workers else ("-p", "no:xdist")

    def carried_out() -> bool:
        clone_it = ("git", "clone", "-q", "--no-hardlinks", str(ROOT), str(clone))
        if steps.run("clone", *clone_it, where=ROOT):
            return False
        if steps.run("stamp", *sremut, "freeze", study, "--tsa", arguments.tsa, "--tree"):
            return False
        steps.run("add", "git", "add", "attestation")
        message = f"Stamp the tree of {study}"
        if steps.run("commit", "git", *WHO, "commit", "-q", "-m", message):
            return False
        run = (
            python, "-m", "pytest", f"audits/{study}", "--sremut-sealed",
            f"--sremut-tsa={arguments.tsa}", "-p", "no:cacheprovider", *workers, *selection,
        )  # fmt: skip
        sound = steps.run("run", *run) == 0
        evidence = str(steps.evidence())
        sound &= steps.run("verify", *sremut, "verify", evidence) == 0
        judge = (
            python, "-m", "pytest", f"audits/{study}", "--sremut-adjudicate",
            f"--sremut-evidence={evidence}", "-p", "no:cacheprovider", "-p", "no:xdist",
            *selection,
        )  # fmt: skip
        return (steps.run("adjudicate", *judge) == 0) and sound

    passed = carried_out()
    seals: list[dict[str, Any]] = []
    ledger = clone / ".sremut" / "ledger.json"
    if ledger.is_file():
        for one in json.loads(ledger.read_bytes())["studies"]:
            if one["id"] == study:
                seals = one["registration"].get("seals", [])
    held = [row for row in seals if row["holds"] and row["guards_held"]]
    print(
        json.dumps(
            {
                "benchmark": "sealed",
                "study": study,
                "sealed": len(seals),
                "hold_with_every_guard": len(held),
                "labels": sorted({row["label"] for row in seals}),
                "steps": steps.rows,
                "passed": passed and bool(seals) and len(held) == len(seals),
            },
            indent=2,
        )
    )
    return 0 if passed and seals and len(held) == len(seals) else 1


if __name__ == "__main__":
    sys.exit(main())
