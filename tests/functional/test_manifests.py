"""An application that is given as files, in a real run: deployed, audited, taken away."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from quick import HOW, MAIN, make_project, require_clusters, run

from pytest_sremut.demo.manifests import deployment, service
from pytest_sremut.demo.roles import ROLES

NAMESPACE = "social-network"
APPLICATION = "apps/small"
SETTINGS: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "settings"},
    "data": {"settings.json": "{}\n"},
}


def make_small(directory: Path) -> Path:
    """The main study with one mutant and an application of two Deployments. Its load asks the
    target itself, for what it answers alone."""
    project = make_project(directory)
    study = project / "audits" / MAIN / "study.yaml"
    text = study.read_text()
    mix = text[text.index("  mix:\n") : text.index("\nprofiles:")]
    for old, new in {
        "instruments: [in-process, isolated]": "instruments: [in-process]",
        "demo:social-network": f"manifests:{APPLICATION}",
        f"predictions: audits/{MAIN}/predictions.yaml\n": "only: [MS-M02]\n",
        "http://nginx-thrift:8080": "http://user-service:9090",
        mix: "  mix: [{name: health, path: /healthz, weight: 100}]\n",
    }.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    study.write_text(text)
    bodies = [SETTINGS]
    for name in ("user-service", "media-service"):
        body = deployment(ROLES[name], NAMESPACE)
        spec = body["spec"]["template"]["spec"]
        spec["volumes"] = [{"name": "settings", "configMap": {"name": "settings"}}]
        spec["containers"][0]["volumeMounts"] = [{"name": "settings", "mountPath": "/settings"}]
        bodies = [body, *bodies, service(ROLES[name], NAMESPACE)]
    (project / APPLICATION).mkdir(parents=True)
    (project / APPLICATION / "all.yaml").write_text(
        "".join(f"---\n{json.dumps(body)}\n" for body in bodies)
    )
    return project


def test_a_run(tmp_path: Path) -> None:
    require_clusters()
    result = run(make_small(tmp_path), f"audits/{MAIN}", *HOW["no xdist"])
    (attempt,) = result.attempts()
    assert attempt["outcome"] == "COMPLETE", result.out
    assert result.code == pytest.ExitCode.OK, result.out
    seen = {cell.removeprefix("ms-m02-r01-"): told for cell, told in result.verdicts().items()}
    assert seen["faulted-O1"] == ("ACCEPT", "")
    assert seen["faulted-O3"] == ("REJECT", "")
    assert seen["faulted-contract"] == ("REJECT", "MS-I2 MS-I3 MS-I4 MS-I6")
    assert {seen[f"{state}-contract"][0] for state in ("healthy", "restored")} == {"PASS"}
    directory = result.directory(attempt)
    files = json.loads((directory / "attempt.json").read_text())["files"]
    assert set(files) == {"study", "mutants", "contract", "application/all.yaml"}
    journal = (directory / "journal.jsonl").read_text().splitlines()
    facts = [json.loads(line)["facts"] for line in journal]
    (deployed,) = [one for one in facts if one.get("kind") == "deploy-application"]
    assert [call["object"] for call in deployed["calls"]] == [
        f"ConfigMap {NAMESPACE}/settings",
        *[f"Service {NAMESPACE}/{name}" for name in ("user-service", "media-service")],
        *[f"Deployment {NAMESPACE}/{name}" for name in ("media-service", "user-service")],
    ]
    (removed,) = [one for one in facts if one.get("kind") == "remove-application"]
    (settled,) = [one for one in facts if one.get("operation") == removed["operation"]][1:]
    assert {item["observed"] for item in settled["effects"]} <= {"absent", "terminating"}
    assert f"ConfigMap {NAMESPACE}/settings" in {item["object"] for item in settled["effects"]}


def test_a_mistake_in_a_file_is_told_while_collecting(tmp_path: Path) -> None:
    project = make_small(tmp_path)
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
