"""Sessions that are killed on a cluster that outlives them, and what puts it back."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from quick import HOW, OPTIONS, PATIENCE, Result, Session, require_clusters, session
from small import make_small

from pytest_sremut import embedded
from pytest_sremut.cluster.client import KubeClient, load
from pytest_sremut.cluster.embedded import images
from pytest_sremut.cluster.port import Listing, ObjectRef
from pytest_sremut.evidence.load import load_attempt

NS = "social-network"
HEALTHY = ("-m", "mutant", "-k", "ms-m01 and healthy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outliving:
    """A cluster that was there before the sessions, and its kubeconfig."""

    state: Path
    kubeconfig: Path
    context: str
    client: KubeClient

    @property
    def options(self) -> tuple[str, ...]:
        """For a session on it."""
        return (
            *OPTIONS,
            f"--sremut-cluster=context:{self.context}",
            f"--sremut-allow-context={self.context}",
        )

    @property
    def environment(self) -> dict[str, str]:
        """For a session on it, and for the command."""
        return {"XDG_STATE_HOME": str(self.state), "KUBECONFIG": str(self.kubeconfig)}

    def marks(self) -> list[Path]:
        return list(self.state.rglob("*.dirty"))

    def left(self) -> list[str]:
        found = []
        for kind in ("Deployment", "Service", "Job", "Pod"):
            listing = self.client.list(kind, NS)
            assert isinstance(listing, Listing)
            found += [f"{kind} {item['metadata']['name']}" for item in listing.items]
        return found

    def recover(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "pytest_sremut.cli", "recover", *arguments],
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outliving]:
    require_clusters()
    state = tmp_path_factory.mktemp("state")
    directory = state / "sremut" / "clusters" / "outliving"
    up = embedded.up(directory=directory, name="outliving", images=images(), detach=True)
    client = load(up.kubeconfig, up.context)
    try:
        yield Outliving(state=state, kubeconfig=up.kubeconfig, context=up.context, client=client)
    finally:
        client.close()
        up.close()


def killed(cluster: Outliving, project: Path, at: str, *arguments: str) -> Result:
    """A session that is killed once its journal says `at`."""
    with session(
        project, "-m", "mutant", *arguments, options=cluster.options,
        environment=cluster.environment,
    ) as running:  # fmt: skip
        running.until_journal(at)
        running.signal(signal.SIGKILL)
        result = running.end()
        running.until_gone()
    assert result.code == -signal.SIGKILL
    return result


def ran(cluster: Outliving, project: Path, *arguments: str) -> Result:
    with session(
        project, *arguments, options=cluster.options, environment=cluster.environment
    ) as running:
        return running.end()


def attempts(project: Path) -> list[dict[str, Any]]:
    """Closing entries of every evidence directory, by their names."""
    files = sorted(project.glob(".sremut/evidence/*/attempts/*.closed.json"))
    return [json.loads(file.read_text()) for file in files]


def check_recovered(result: Result, died_in: str) -> None:
    (attempt,) = result.attempts()
    assert attempt["outcome"] == "DRIVER_ABORTED"
    assert f"died in {died_in}; recovered by " in attempt["reason"]
    record = load_attempt(result.directory(attempt))
    assert record.problems == ()
    passed = [entry.transition for entry in record.journal.entries]
    assert passed[-2:] == ["ABORTED_SAFE", "CLOSING"]
    assert "RESTORE_VERIFIED" in passed[passed.index("RECOVERY_STARTED") :]
    (verified,) = result.directory(attempt).glob("raw/recovery-*.json")
    assert json.loads(verified.read_text())["contract"]["verdict"] == "PASS"


def test_a_killed_session_is_recovered_by_the_command(cluster: Outliving, tmp_path: Path) -> None:
    died = killed(cluster, make_small(tmp_path), "MUTANT_STATE_VERIFIED", "-k", "ms-m02")
    assert len(cluster.marks()) == 1
    assert cluster.left()
    recovered = cluster.recover()
    assert recovered.returncode == 0, recovered.stderr
    assert f"{cluster.context}: missing_service_social_network/ms-m02-r01 attempt 1: " in (
        recovered.stdout
    )
    assert cluster.left() == []
    assert cluster.marks() == []
    check_recovered(died, "ORACLE_STARTED")
    again = cluster.recover()
    assert (again.returncode, again.stdout) == (0, "nothing to recover: no cluster is marked\n")
    again = cluster.recover("--cluster", "outliving")
    assert (again.returncode, again.stdout) == (0, f"{cluster.context}: nothing to recover\n")


def test_what_cannot_be_put_back_safely_is_blocked_and_then_recovered_by_a_session(
    cluster: Outliving, tmp_path: Path
) -> None:
    project = make_small(tmp_path)
    died = killed(cluster, project, "MUTANT_STATE_VERIFIED", "-k", "ms-m01")
    theirs = cluster.client.create(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "user-service"},
            "spec": {"ports": [{"port": 1}]},
        },
        namespace=NS,
    ).body["metadata"]
    blocked = cluster.recover("--context", cluster.context)
    assert blocked.returncode == 1
    assert "RESTORATION_BLOCKED: Service social-network/user-service is neither" in blocked.stderr
    assert f"UID found: {theirs['uid']}" in blocked.stderr
    assert "captured-target.json" in blocked.stderr
    assert "Traceback" not in blocked.stderr
    refused = ran(cluster, project, *HEALTHY, *HOW["no xdist"])
    assert refused.code == pytest.ExitCode.USAGE_ERROR, refused.out
    assert "nothing was run: RESTORATION_BLOCKED" in refused.out
    assert f"UID found: {theirs['uid']}" in refused.out
    ref = ObjectRef(kind="Service", namespace=NS, name="user-service")
    found = cluster.client.get(ref)
    assert found.body["metadata"]["uid"] == theirs["uid"]  # type: ignore[union-attr]
    cluster.client.delete(ref, uid=theirs["uid"])
    following = ran(cluster, project, *HEALTHY, *HOW["no xdist"])
    assert following.code == pytest.ExitCode.OK, following.out
    assert "sremut: recovered missing_service_social_network/ms-m01-r01 attempt 1: " in (
        following.out
    )
    assert cluster.marks() == []
    first, second = attempts(project)
    assert "died in RESTORATION_BLOCKED; recovered by" in first["reason"]
    assert second["reason"].startswith("the selection ended after the healthy state")
    assert died.project == project


def worker_of(running: Session) -> int:
    (head,) = running.project.glob(".sremut/evidence/*/*/ms-m03-r01/a01/attempt.json")
    return int(json.loads(head.read_text())["pid"])


def test_a_worker_that_is_killed_is_recovered_by_its_successor(
    cluster: Outliving, tmp_path: Path
) -> None:
    """All workers share the one cluster: one does the runs, and another takes over."""
    with session(
        make_small(tmp_path), "-m", "mutant", "-k", "ms-m03", *HOW["-n2"],
        options=cluster.options, environment=cluster.environment,
    ) as running:  # fmt: skip
        running.until_journal("MUTANT_INJECTED")
        os.kill(worker_of(running), signal.SIGKILL)
        result = running.end()
        assert running.left() == []
    assert "sremut: one cluster: one worker does all runs, one after the other" in result.out
    assert "sremut: recovered missing_service_social_network/ms-m03-r01 attempt 1: " in result.out
    assert [(a["attempt"], a["outcome"]) for a in result.attempts()] == [
        (1, "DRIVER_ABORTED"),
        (2, "COMPLETE"),
    ]
    assert cluster.marks() == []
    assert cluster.left() == []
