"""Secrets that a grader says, and those of the session's environment: nowhere in what it leaves."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from quick import MAIN, require_clusters, run
from small import edit, make_small

CANARY = "canary-7Qx41zPw0sLk93"
KNOWN = "kNow+n/9f3b2c7a5e1d="

GRADERS = """\
import base64, os, sys

PLANTED = "-".join(["canary", "7Qx41zPw0sLk93"])

def everything():
    known = os.environ.get("CI_JOB_TOKEN", "")  # an isolated one does not get it
    encoded = base64.b64encode(known.encode()).decode()
    return f"password={PLANTED} Authorization: Bearer {PLANTED}\\n{known} {encoded}"

class Tells:
    def __init__(self, context): ...
    def evaluate(self):
        print(everything())
        print(everything(), file=sys.stderr)
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"},
                  "data": {"any": PLANTED}}
        return {"success": True, "token": PLANTED, "log": everything(), "secret": secret}

class Raises:
    def __init__(self, context): ...
    def evaluate(self):
        raise RuntimeError(f"401 for https://admin:{PLANTED}@registry/v2: {everything()}")
"""
"""Two graders that say too much; the one in process has the session's environment."""


def test_nothing_that_a_session_leaves_holds_a_secret(tmp_path: Path) -> None:
    require_clusters()
    project = make_small(tmp_path)
    (project / "too_talkative.py").write_text(GRADERS)
    ours = {"pods-and-deployments": "Tells", "service-endpoints": "Raises"}
    edit(
        project / "audits" / MAIN / "study.yaml",
        {f"reference:{name}": f"python:too_talkative:{kind}" for name, kind in ours.items()},
    )
    result = run(
        project,
        "-m",
        "mutant",
        "-k",
        f"{MAIN} and healthy and m01",
        "-p",
        "no:xdist",
        "--sremut-report=json:out/ledger.json",
        "--sremut-report=md:out/ledger.md",
        environment={"CI_JOB_TOKEN": KNOWN},
    )
    assert result.code == pytest.ExitCode.TESTS_FAILED, result.out
    assert "401 for https://[redacted]@registry/v2" in result.out
    (attempt, *_) = result.attempts()
    assert attempt["outcome"] == "STOPPED_AT_HEALTHY_GATE"
    forms = [CANARY.encode(), KNOWN.encode(), base64.b64encode(KNOWN.encode())]
    files = [path for path in project.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    assert {"session.log", "junit.xml", "ledger.json", "ledger.md", "record.json"} <= {
        path.name for path in files
    }
    raw = (path.read_text() for path in files if path.name == "healthy-O1-in-process.json")
    assert "[redacted]" in next(raw)
    leaks = [
        f"{path.relative_to(project)}: {form!r}"
        for path in files
        for form in forms
        if form in path.read_bytes()
    ]
    assert leaks == []
