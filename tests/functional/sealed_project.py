"""A project that may run sealed: registered, committed, its commit stamped, all by ourselves."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TRUST = "schema: sremut/trust/v1\nroots: []\n"
_WHO = ("-c", "user.name=nobody", "-c", "user.email=nobody@example.org")


def git(directory: Path, *arguments: str) -> None:
    """One git command in the project."""
    subprocess.run(
        ["git", *_WHO, "-c", "core.hooksPath=/dev/null", *arguments],
        cwd=directory,
        check=True,
        capture_output=True,
    )


def sremut(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command line in the project."""
    return subprocess.run(
        [sys.executable, "-m", "pytest_sremut.cli", *arguments],
        cwd=directory,
        check=False,
        capture_output=True,
        text=True,
    )


def register(directory: Path, *studies: str, tree: bool = True) -> None:
    """Register studies of a project, and stamp the commit that holds them."""
    (directory / "attestation").mkdir()
    (directory / "attestation" / "trust.yaml").write_text(TRUST)
    (directory / ".gitignore").write_text(
        ".sremut/\ntmp/\nstate/\nsession.log\njunit.xml\n__pycache__/\n"
    )
    git(directory, "init", "-q", "-b", "main")
    for step in ((), ("--tree",)) if tree else ((),):
        for study in studies:
            done = sremut(directory, "freeze", study, "--tsa", "self", *step)
            assert done.returncode == 0, done.stderr
        git(directory, "add", "-A")
        git(directory, "commit", "-q", "-m", "stamped" if step else "registered")
