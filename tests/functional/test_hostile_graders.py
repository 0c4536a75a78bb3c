"""Graders of a project's own that attack the session; whole sessions on the embedded cluster."""

from __future__ import annotations

import json
from pathlib import Path

import needs
import pytest
from quick import HOW, MAIN, Result, require_clusters, run, session
from small import edit, make_small

GRADERS = """
import os
from pathlib import Path

from pytest_sremut.cluster.port import ObjectRef, Present


class Grader:
    def __init__(self, context, **arguments):
        self.context, self.arguments = context, arguments

    def repaired(self):
        found = self.context.api.get(ObjectRef(
            kind=self.context.target.kind,
            namespace=self.context.namespace,
            name=self.context.target.name,
        ))
        return isinstance(found, Present)


class Leaves(Grader):
    def evaluate(self):
        if not self.repaired():
            os._exit(0)
        return {"success": True}


class Flatters(Grader):
    def evaluate(self):
        from pytest_sremut.oracles import conclude
        from pytest_sremut.study import returned

        returned.judge = conclude.judge = lambda *_: "ACCEPT"
        return {"success": self.repaired()}


class Scribbles(Grader):
    def evaluate(self):
        told = []
        for path in sorted(Path(".sremut/evidence").glob("*/*/*/*/journal.jsonl")):
            for attack in (lambda: path.open("a"), lambda: (path.parent / "raw/evil.json").touch()):
                try:
                    attack()
                    told.append("done")
                except OSError as error:
                    told.append(error.strerror)
        return {"success": self.repaired(), "told": told}
"""
ADDS_A_FILE = """
from pathlib import Path


def pytest_runtest_logfinish():
    for raw in Path(".sremut/evidence").glob("*/*/*/*/raw"):
        (raw / "evil.json").write_text("{}")
"""
ONE = ("-m", "mutant", "-k", "ms-m01", *HOW["no xdist"])


def hostile(directory: Path, *, adds: bool = False) -> Path:
    """A project whose graders are hostile; or honest, with a plugin that is not."""
    project = make_small(directory)
    study = project / "audits" / MAIN / "study.yaml"
    text = study.read_text()
    begin, end = text.index("oracles:"), text.index("# The application's published load")
    names = ("Leaves", "Flatters", "Scribbles")
    own = "".join(f'  {name}: {{use: "python:hostile:{name}"}}\n' for name in names)
    honest = '  O1: {use: "reference:pods-and-deployments"}\n'
    predictions = f"predictions: audits/{MAIN}/predictions.yaml\n"
    edit(study, {text[begin:end]: f"oracles:\n{honest if adds else own}\n", predictions: ""})
    (project / "hostile.py").write_text(GRADERS)
    if adds:
        (project / "conftest.py").write_text(ADDS_A_FILE)
    return project


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    """Two, side by side."""
    require_clusters()
    adds = hostile(tmp_path_factory.mktemp("adds"), adds=True)
    with session(hostile(tmp_path_factory.mktemp("graders")), *ONE) as graders:
        found = {"adds": run(adds, *ONE)}
        found["graders"] = graders.end()
        assert graders.left() == []
    return found


def test_a_grader_that_leaves_is_an_error_and_the_session_fails(
    sessions: dict[str, Result],
) -> None:
    result = sessions["graders"]
    assert result.code == pytest.ExitCode.TESTS_FAILED, result.out
    (attempt,) = result.attempts()
    assert attempt["outcome"] == "COMPLETE", result.out  # restored, and read again
    said = {
        state: {
            (one["oracle"], one["instrument"]): one["verdict"]
            for one in record["readings"]
            if one["oracle"] == "Leaves"
        }
        for state, record in result.states(attempt).items()
    }
    instruments = [("Leaves", "in-process"), ("Leaves", "isolated")]
    assert said == {
        "healthy": dict.fromkeys(instruments, "ACCEPT"),
        "faulted": dict.fromkeys(instruments, "ERROR"),
        "restored": dict.fromkeys(instruments, "ACCEPT"),
    }


def test_a_grader_that_patches_the_judge_is_judged(sessions: dict[str, Result]) -> None:
    (attempt,) = sessions["graders"].attempts()
    faulted = sessions["graders"].states(attempt)["faulted"]["readings"]
    verdicts = [one["verdict"] for one in faulted if one["oracle"] == "Flatters"]
    assert verdicts == ["REJECT", "REJECT"]


def test_a_grader_cannot_write_to_the_evidence(sessions: dict[str, Result]) -> None:
    result = sessions["graders"]
    (attempt,) = result.attempts()
    for record in result.states(attempt).values():
        for one in record["readings"]:
            walls = one["instrument_facts"]["walls"]
            if not walls["closed"]:
                needs.lacking("walls", f"needs walls: {walls['why']}")
            if one["oracle"] == "Scribbles":
                raw = result.directory(attempt) / one["returned"]["path"]
                told = json.loads(raw.read_text())["returned"]["told"]
                assert set(told) == {"Read-only file system"}
    assert "does not verify" not in result.out


def test_a_session_whose_evidence_does_not_verify_is_not_green(
    sessions: dict[str, Result],
) -> None:
    result = sessions["adds"]
    assert result.code == pytest.ExitCode.TESTS_FAILED
    assert f"the evidence of this session does not verify: {MAIN}/ms-m01-r01/a01: " in result.out
    assert "raw/evil.json: nothing in the record speaks of it" in result.out
