"""An application that is given as files, in a real run: deployed, audited, taken away."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import contexts
import pytest
from contexts import NAMESPACE
from quick import HOW, MAIN, require_clusters, run
from small import APPLICATION, edit, make_small, small_application, write_application

from pytest_sremut.cluster import rbac
from pytest_sremut.cluster.client import load
from pytest_sremut.cluster.port import Listing

SETTINGS: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "settings"},
    "data": {"settings.json": "{}\n"},
}
THEIRS = {**SETTINGS, "metadata": {"name": "theirs", "namespace": NAMESPACE}}


def make_configured(directory: Path) -> Path:
    """The small project with one mutant, read in one way, and settings that every pod mounts."""
    project = make_small(directory)
    edit(
        project / "audits" / MAIN / "study.yaml",
        {
            "instruments: [in-process, isolated]": "instruments: [in-process]",
            f"predictions: audits/{MAIN}/predictions.yaml\n": "only: [MS-M02]\n",
        },
    )
    bodies = [*small_application(), SETTINGS]
    for body in bodies:
        if body["kind"] == "Deployment":
            spec = body["spec"]["template"]["spec"]
            spec["volumes"] = [{"name": "settings", "configMap": {"name": "settings"}}]
            spec["containers"][0]["volumeMounts"] = [{"name": "settings", "mountPath": "/settings"}]
    write_application(project, bodies)
    return project


def test_a_run_by_an_account_that_may_do_the_least(tmp_path: Path) -> None:
    """Everything of it, on a cluster that is somebody else's: with a ConfigMap of theirs."""
    require_clusters()
    with contexts.theirs(tmp_path / "theirs", configmaps=True) as cluster:
        cluster.post(THEIRS)
        project = make_configured(tmp_path / "project")
        there = (*HOW["no xdist"], *contexts.OPTIONS)
        result = run(project, f"audits/{MAIN}", *there, environment=cluster.environment)
        asked = cluster.asked()
        client = load(cluster.kubeconfig, contexts.CONTEXT)
        found = client.list("ConfigMap", NAMESPACE)
        client.close()
    (attempt,) = result.attempts()
    assert attempt["outcome"] == "COMPLETE", result.out
    # Without predictions soundness is asked for, and O1 does not see the mutant.
    assert result.code == pytest.ExitCode.TESTS_FAILED, result.out
    assert "in-process: false accept: ACCEPT, while the contract says REJECT" in result.out
    assert "1 failed, 11 passed" in result.out
    seen = {cell.removeprefix("ms-m02-r01-"): told for cell, (told, _) in result.verdicts().items()}
    assert seen["faulted-O1"] == "in-process=ACCEPT"
    assert seen["faulted-O3"] == "in-process=REJECT"
    contract = [seen[f"{state}-contract"] for state in ("healthy", "faulted", "restored")]
    assert contract == ["contract=PASS", "contract=REJECT", "contract=PASS"]
    # What was created is what was taken away, and nothing of anybody else's.
    assert isinstance(found, Listing)
    names = {item["metadata"]["name"] for item in found.items}
    assert "settings" not in names
    assert "theirs" in names
    # The rights for ConfigMaps were needed, and were enough.
    verbs = {
        verb for verb, _, resource, _, allowed in asked if resource == "configmaps" and allowed
    }
    assert (
        {"create", "delete", "get", "list"}
        <= verbs
        <= {
            one.verb
            for one in rbac.required(NAMESPACE, configmaps=True)
            if one.resource == "configmaps"
        }
    )
    # And the record says which files they were.
    directory = result.directory(attempt)
    files = json.loads((directory / "attempt.json").read_text())["files"]
    assert set(files) == {"study", "mutants", "contract", "application/all.yaml"}
    facts = [entry["facts"] for entry in result.journal(attempt)]
    (deployed,) = [one for one in facts if one.get("kind") == "deploy-application"]
    assert deployed["calls"][0]["object"] == f"ConfigMap {NAMESPACE}/settings"
    (removed,) = [one for one in facts if one.get("kind") == "remove-application"]
    gone = {call["object"] for call in removed["calls"]}
    assert gone == {call["object"] for call in deployed["calls"]}


def test_a_mistake_in_a_file_is_told_while_collecting(tmp_path: Path) -> None:
    project = make_configured(tmp_path)
    (project / APPLICATION / "secret.yaml").write_text(
        "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {password: hunter2}\n"
    )
    result = run(project, f"audits/{MAIN}", *HOW["no xdist"])
    assert result.code in {pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.INTERRUPTED}
    assert (
        f"{APPLICATION}/secret.yaml: kind (line 2, column 7): found text 'Secret'; allowed: "
        "ConfigMap, Deployment or Service"
    ) in result.out
    assert "hunter2" not in result.out
    assert "Traceback" not in result.out
    assert not (project / ".sremut").exists()
