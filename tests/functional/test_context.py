"""An existing cluster, by an account that may do the least: what it asks for, and what it lacks.

That the whole job gives the same verdicts there is in `test_runs.py`.
"""

from __future__ import annotations

import copy
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import needs
import pytest
import yaml
from contexts import CONTEXT, NAMESPACE, OPTIONS, Theirs, theirs
from quick import HOW, PATIENCE, require_clusters, run, session
from small import make_small

from pytest_sremut.cli import main
from pytest_sremut.cluster import rbac
from pytest_sremut.cluster.client import load
from pytest_sremut.cluster.context import ContextBackend
from pytest_sremut.cluster.port import Listing

ONE = ("-m", "mutant", "-k", "ms-m01 and healthy and O1")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Theirs]:
    require_clusters()
    with theirs(tmp_path_factory.mktemp("theirs")) as made:
        yield made


def left(cluster: Theirs) -> list[str]:
    """What is in the namespace that a run could have put there."""
    client = load(cluster.kubeconfig, CONTEXT)
    found = []
    for kind in ("Deployment", "Service", "Job", "Pod"):
        listing = client.list(kind, NAMESPACE)
        assert isinstance(listing, Listing)
        found += [f"{kind} {item['metadata']['name']}" for item in listing.items]
    client.close()
    return found


def refused(result_out: str, code: int) -> str:
    assert code == pytest.ExitCode.TESTS_FAILED
    return next(line for line in result_out.splitlines() if "INFRASTRUCTURE_FAILURE" in line)


def test_a_namespace_that_was_not_named_is_left_alone(cluster: Theirs, tmp_path: Path) -> None:
    options = [option for option in OPTIONS if "use-namespace" not in option]
    result = run(make_small(tmp_path), *ONE, *HOW["-n2"], *options, environment=cluster.environment)
    told = refused(result.out, result.code)
    assert f"namespace {NAMESPACE} is taken" in told
    assert f"--sremut-use-namespace={NAMESPACE}" in told


def test_one_right_that_is_missing_stops_a_run_before_it_touches_anything(
    cluster: Theirs, tmp_path: Path
) -> None:
    whole = next(item for item in documents() if item["kind"] == "Role")
    less = copy.deepcopy(whole)
    for rule in less["rules"]:
        if rule["resources"] == ["pods/exec"]:
            rule["verbs"] = ["get"]
    cluster.put(less)
    try:
        result = run(
            make_small(tmp_path),
            *ONE,
            *HOW["no xdist"],
            *OPTIONS,
            environment=cluster.environment,
        )
    finally:
        cluster.put(whole)
    told = refused(result.out, result.code)
    assert (
        f"rights: the user of context {CONTEXT} lacks: create pods/exec in namespace {NAMESPACE}; "
        f"`sremut cluster rbac --namespace {NAMESPACE}` prints the manifest that grants them"
    ) in told
    assert left(cluster) == []
    (attempt,) = result.attempts()
    journal = (result.directory(attempt) / "journal.jsonl").read_text()
    assert "INTENT" not in journal


def documents() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(rbac.manifest(NAMESPACE)))


def test_each_right_that_is_taken_away_is_named_and_no_other(cluster: Theirs) -> None:
    """By the server's own evaluation, verb by verb and rule by rule."""
    client = load(cluster.kubeconfig, CONTEXT)
    assert rbac.lacking(client, NAMESPACE) == []
    taken = 0
    for document in documents():
        rules = document.get("rules", [])
        for place, rule in enumerate(rules):
            for verb in rule["verbs"]:
                less = copy.deepcopy(document)
                less["rules"][place]["verbs"] = [v for v in rule["verbs"] if v != verb] or [
                    "nothing"
                ]
                cluster.put(less)
                (missing,) = rbac.lacking(client, NAMESPACE)
                assert missing.startswith(f"{verb} {rule['resources'][0].partition('/')[0]}")
                taken += 1
        if rules:
            cluster.put(document)
    assert taken == len(rbac.required(NAMESPACE))
    assert rbac.lacking(client, NAMESPACE, create=True) == [
        "create namespaces at the cluster scope"
    ]
    client.close()


def test_a_session_that_died_there_is_recovered_with_the_same_rights(
    cluster: Theirs, tmp_path: Path
) -> None:
    project = make_small(tmp_path)
    around = {**cluster.environment, "XDG_STATE_HOME": str(tmp_path / "state")}
    faulted = ("-m", "mutant", "-k", "ms-m03 and faulted and O1", *HOW["no xdist"], *OPTIONS)
    with session(project, *faulted, environment=around) as running:
        running.until_journal("MUTANT_INJECTED")
        running.signal(signal.SIGKILL)
        running.end()
        running.until_gone()
    done = subprocess.run(
        [sys.executable, "-m", "pytest_sremut.cli", "recover", "--context", CONTEXT],
        env={**os.environ, **around}, capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert f"{CONTEXT}: missing_service_social_network/ms-m03-r01 attempt 1: " in done.stdout
    assert left(cluster) == []
    # By the end of it nothing was asked for in vain but what only makes a record richer.
    optional = {(o.verb, o.group, o.resource, o.namespace) for o in rbac.observed(NAMESPACE)}
    assert {what[:4] for what in cluster.asked() if not what[4]} <= optional


def test_what_is_told_of_a_cluster_by_the_least_and_by_more(cluster: Theirs) -> None:
    backend = ContextBackend.open(context=CONTEXT, allowed={CONTEXT}, kubeconfig=cluster.kubeconfig)
    facts = dict(backend.facts().values)
    assert facts.pop("server_version").startswith("v1.")
    assert set(facts.values()) == {"not observable"}
    assert backend.fit_for_verdicts(timeout=5) == []
    backend.close()
    for document in list(yaml.safe_load_all(rbac.manifest(NAMESPACE, observe=True)))[5:]:
        cluster.post(document)
    backend = ContextBackend.open(context=CONTEXT, allowed={CONTEXT}, kubeconfig=cluster.kubeconfig)
    facts = dict(backend.facts().values)
    assert (facts["nodes"], facts["proxy_mode"]) == (1, "no kube-proxy")
    backend.close()


def test_the_command_that_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", "rbac", "--namespace", "shop", "--account", "auditor"]) == 0
    least = capsys.readouterr().out
    assert least == rbac.manifest("shop", "auditor")
    assert main(["cluster", "rbac", "--namespace", "shop", "--observe"]) == 0
    more = capsys.readouterr().out
    assert len(list(yaml.safe_load_all(more))) == len(list(yaml.safe_load_all(least))) + 4
    assert main(["cluster", "rbac", "--namespace", "shop", "--configmaps"]) == 0
    assert capsys.readouterr().out == rbac.manifest("shop", configmaps=True)
    assert main(["cluster", "rbac", "--namespace", "Shop"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("sremut: --namespace: found 'Shop'; allowed: up to 63 lower-case")


@needs.program("kubectl")
def test_kubectl_takes_the_manifest_and_gives_a_token(cluster: Theirs, tmp_path: Path) -> None:
    manifest = subprocess.run(
        [sys.executable, "-m", "pytest_sremut.cli", "cluster", "rbac", "--namespace", NAMESPACE,
         "--account", "auditor"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert "# Which cluster is this?" in manifest

    def kubectl(*arguments: str, kubeconfig: Path = cluster.cluster.kubeconfig, **how: Any) -> str:
        done = subprocess.run(
            ["kubectl", "--kubeconfig", str(kubeconfig), *arguments],
            env={"PATH": "/usr/local/bin:/usr/bin:/bin", "KUBECACHEDIR": str(tmp_path / "cache"),
                 "HOME": str(tmp_path)},
            capture_output=True, text=True, timeout=120, check=False, **how,
        )  # fmt: skip
        return str(done.stdout + done.stderr).strip()

    assert "created" in kubectl("apply", "-f", "-", input=manifest)
    token = kubectl("create", "token", "auditor", "-n", NAMESPACE)
    document = json.loads(cluster.kubeconfig.read_text())
    document["users"] = [{"name": "account", "user": {"token": token}}]
    own = tmp_path / "auditor.yaml"
    own.write_text(json.dumps(document))
    who = ("-n", NAMESPACE)
    assert kubectl("auth", "can-i", "create", "pods", *who, kubeconfig=own) == "yes"
    assert kubectl("auth", "can-i", "create", "pods/exec", *who, kubeconfig=own) == "yes"
    assert kubectl("auth", "can-i", "patch", "services", *who, kubeconfig=own) == "no"
    assert kubectl("auth", "can-i", "list", "secrets", *who, kubeconfig=own) == "no"
    told = kubectl("get", "secrets", *who, kubeconfig=own)
    assert (
        f'User "system:serviceaccount:{NAMESPACE}:auditor" cannot list resource "secrets" in API '
        f'group "" in the namespace "{NAMESPACE}"'
    ) in told
