"""Whole runs of an application that the benchmark's own code deploys, on the embedded cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from bench_project import SAY, make_bench_project
from minibench import git
from quick import HOW, Result, require_clusters, run, session

WITH = ("-m", "mutant", "--sremut-benchmark=checkout", *HOW["no xdist"])
ONE = '\n  P1: {use: "minibench:PodsRunning"}\n'
OURS = "benchmark-", "deploy-", "remove-"


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    """Sessions mostly wait, so they run side by side."""
    require_clusters()

    def project(application: str) -> Path:
        return make_bench_project(
            tmp_path_factory.mktemp(application),
            oracles=ONE,
            say={"P1": SAY["P1"]},
            instruments="[own]",
            application=application,
        )

    with session(project("shop"), *WITH) as whole:
        found = {"half": run(project("half_a_shop"), *WITH), "none": run(project("till"), *WITH)}
        return found | {"whole": whole.end()}


def operations(result: Result) -> list[tuple[str, list[dict[str, Any]]]]:
    """Each operation on the application as a whole with what its receipt says, in order."""
    (attempt,) = result.attempts()
    journal = result.journal(attempt)
    receipts = {
        entry["facts"]["operation"]: entry["facts"]["effects"]
        for entry in journal
        if entry["transition"] == "RECEIPT"
    }
    intents = [entry["facts"] for entry in journal if entry["transition"] == "INTENT"]
    return [
        (intent["kind"], receipts[intent["operation"]])
        for intent in intents
        if intent["kind"].startswith(OURS)
    ]


def raw(result: Result, name: str) -> dict[str, Any]:
    (attempt,) = result.attempts()
    told: dict[str, Any] = json.loads((result.directory(attempt) / "raw" / name).read_text())
    return told


def test_a_run_is_complete_on_what_the_benchmark_deployed(sessions: dict[str, Result]) -> None:
    result = sessions["whole"]
    assert result.code == 0, result.out
    (attempt,) = result.attempts()
    assert attempt["outcome"] == "COMPLETE"
    assert {cell: said[0] for cell, said in result.verdicts().items() if "P1" in cell} == {
        f"ms-m01-r01-{state}-P1": "own=ACCEPT" for state in ("healthy", "faulted", "restored")
    }


def test_its_code_deploys_and_takes_away_and_every_object_is_noted(
    sessions: dict[str, Result],
) -> None:
    done = operations(sessions["whole"])
    assert [kind for kind, _ in done] == [
        "benchmark-remove", "benchmark-deploy", "benchmark-remove",
    ]  # fmt: skip
    ((target,), made, (gone,)) = (effects for _, effects in done)
    name = "Service social-network/user-service"
    assert target == gone == {"object": name, "observed": "absent"}
    kinds = [effect["object"].partition(" ")[0] for effect in made]
    assert {kind: kinds.count(kind) for kind in kinds} == {
        "Service": 2, "Deployment": 2, "ConfigMap": 1,
    }  # fmt: skip
    assert all(effect["uid"] for effect in made)
    assert raw(sessions["whole"], "deployer-01-remove.json")["stdout"] == "taken away\n"
    assert raw(sessions["whole"], "deployer-02-deploy.json")["stdout"] == "deployed 4 objects\n"
    assert raw(sessions["whole"], "deployer-03-remove.json")["stdout"] == "taken away\n"


def test_what_a_deployer_writes_beside_its_files_stays_out_of_the_checkout(
    sessions: dict[str, Result],
) -> None:
    for name in ("whole", "half"):
        assert git(sessions[name].project / "checkout", "status", "--porcelain", "--ignored") == ""


def test_a_deployment_that_fails_is_an_outcome_and_is_taken_away(
    sessions: dict[str, Result],
) -> None:
    result = sessions["half"]
    assert result.code == 1
    (attempt,) = result.attempts()
    assert attempt["outcome"] == "INFRASTRUCTURE_FAILURE"
    assert attempt["reason"] == (
        "the benchmark did not deploy: deploy half_a_shop: minibench.apps:HalfAShop.deploy() of "
        "half_a_shop: RuntimeError: timed out waiting for the condition"
    )
    done = operations(result)
    assert [kind for kind, _ in done] == [
        "benchmark-remove", "benchmark-deploy", "benchmark-remove",
    ]  # fmt: skip
    assert "conclusion" in done[1][1][0]  # the receipt of what failed says what was seen
    assert "ABORTED_SAFE" in [entry["transition"] for entry in result.journal(attempt)]


def test_an_application_that_the_benchmark_does_not_have_refuses_the_session(
    sessions: dict[str, Result],
) -> None:
    result = sessions["none"]
    assert result.code == 4
    assert "application: found minibench:till; allowed: minibench:elsewhere, " in result.out
    assert not (result.project / ".sremut").exists()
