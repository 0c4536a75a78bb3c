"""One cluster by kind from its making to its end, and every way in which that goes wrong."""

from __future__ import annotations

import json
import logging
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from kind_fakes import Fakes

from pytest_sremut.cluster.kind.backend import KindBackend, Limits
from pytest_sremut.cluster.kind.records import directory_of
from pytest_sremut.cluster.kind.settings import pins
from pytest_sremut.cluster.kind.tools import KindError
from pytest_sremut.cluster.port import Cluster, LogSource
from pytest_sremut.errors import ClusterUnavailableError, UsageError
from pytest_sremut.ground.durable.uninterrupted import interrupt

NAME = "sremut-1f2e3d-gw0"


def _directory(fakes: Fakes) -> Path:
    return directory_of(NAME, fakes.environ).path


def test_a_cluster_of_one_worker(fakes: Fakes, start: Any, api: Any) -> None:
    told: list[str] = []
    backend: Cluster = start(tell=told.append)
    directory = _directory(fakes)
    assert (backend.name, backend.context) == (NAME, f"kind-{NAME}")
    assert backend.kubeconfig == directory / "kubeconfig"
    assert backend.identity().kube_system_uid == backend.kube_system_uid() == "cluster-1"
    assert backend.fit_for_verdicts(timeout=1) == []
    assert isinstance(backend, LogSource)
    (create,) = fakes.calls("kind", "create")
    assert create == [
        "kind", "create", "cluster", f"--name={NAME}", f"--image={pins().node_image}",
        f"--config={directory / 'config.yaml'}", f"--kubeconfig={directory / 'kubeconfig'}",
        "--retain", "--wait=0s",
    ]  # fmt: skip
    assert f"kind: creating cluster {NAME}" in told
    backend.close()
    assert fakes.clusters() == []
    assert api.closed == 1
    assert not directory.exists()


def test_what_a_record_says_of_it(fakes: Fakes, start: Any) -> None:
    facts = start().facts()
    assert (facts.kind, facts.name, facts.context) == ("kind", NAME, f"kind-{NAME}")
    values = facts.values
    assert values["node_image"] == pins().node_image
    assert values["provider"] == "docker 29.9.2, linux/amd64"
    assert values["executables"]["kind"]["version"] == "kind v0.33.0 go1.26.1 linux/amd64"
    assert len(values["executables"]["kind"]["sha256"]) == 64
    assert values["executables"]["kubectl"]["version"] == "Client Version: v1.36.2"
    assert {len(told["context"]) for told in values["images"].values()} == {64}
    assert values["nodes"] == 1
    json.dumps(values)
    assert str(fakes.directory) not in json.dumps(values)  # paths tell who somebody is


def test_nobody_elses_kubeconfig_is_touched(
    fakes: Fakes, start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = start()
    backend.export_logs(fakes.directory / "logs")
    backend.close()
    own = _directory(fakes)
    later = fakes.all_calls()[3:]  # before that, the machine is only looked at
    assert {call["argv"][0] for call in later} == {"kind", "docker"}
    for call in later:
        assert call["environment"] == {
            "KUBECONFIG": str(own / "kubeconfig"),
            "KUBECACHEDIR": str(own / "kubectl-cache"),
            "KIND_EXPERIMENTAL_PROVIDER": "docker",
            "BUILDX_NO_DEFAULT_ATTESTATIONS": "1",
        }
    assert not (fakes.directory / "home").exists()


def test_workers_and_an_image_of_ones_own(fakes: Fakes, start: Any, api: Any) -> None:
    fakes.change(kind_version="kind v0.31.0 go1.25 linux/amd64")
    for name in ("n1", "n2"):
        condition = {"type": "Ready", "status": "True"}
        api.put({"kind": "Node", "metadata": {"name": name}, "status": {"conditions": [condition]}})
    image = "kindest/node:v1.35.0@sha256:" + "a" * 64
    start(workers=2, image=image)
    assert [node["name"] for node in fakes.state["clusters"][NAME]] == [
        f"{NAME}-control-plane", f"{NAME}-worker1", f"{NAME}-worker2",
    ]  # fmt: skip
    assert f"--image={image}" in fakes.calls("create")[0]
    looked = {call[2] for call in fakes.calls("docker", "exec", "crictl")}
    assert len(looked) == 3  # each node was asked


def test_a_kept_cluster_stays_and_is_nobodys_orphan(fakes: Fakes, start: Any) -> None:
    backend = start(keep=True)
    backend.close()
    assert fakes.clusters() == [NAME]
    directory = directory_of(NAME, fakes.environ)
    assert directory.record().kept
    assert not directory.held()
    assert directory.kubeconfig.exists()


def test_a_machine_that_lacks_something_is_refused_before_anything_is_made(
    fakes: Fakes, start: Any, inotify: Path
) -> None:
    (inotify / "max_user_instances").write_text("128\n")
    fakes.rule("docker info", code=1, stderr="Cannot connect to the Docker daemon\n")
    with pytest.raises(KindError) as caught:
        start()
    told = str(caught.value)
    assert "engine: docker info: Cannot connect to the Docker daemon" in told
    assert "fs.inotify.max_user_instances: 128, needed 512" in told
    advice = caught.value.diagnostics()
    assert "systemctl start docker" in advice
    assert "sudo sysctl fs.inotify.max_user_instances=512" in advice
    assert fakes.calls("create") == fakes.calls("build") == []
    assert not _directory(fakes).exists()


def test_a_creation_that_fails_keeps_the_logs_and_leaves_nothing(
    fakes: Fakes, start: Any, tmp_path: Path
) -> None:
    fakes.rule("kind create", effect=True, code=1, stderr="ERROR: failed to init node\n")
    with pytest.raises(KindError, match="exited with 1: ERROR: failed to init node") as caught:
        start(evidence=tmp_path / "evidence")
    assert fakes.clusters() == []
    assert not _directory(fakes).exists()
    logs = tmp_path / "evidence" / "clusters" / NAME
    assert caught.value.__notes__ == [f"logs of cluster {NAME}: {logs}"]
    assert [file.name for file in logs.rglob("*.log")] == ["kubelet.log"]


@pytest.mark.usefixtures("impatient")
def test_a_creation_that_hangs_is_ended_with_all_that_it_started(fakes: Fakes, start: Any) -> None:
    fakes.rule("kind create", effect=True, hang=True, leave_child=True)
    with pytest.raises(KindError, match=r"kind create cluster did not end within 900 s") as caught:
        start()
    assert "kind get clusters" in caught.value.diagnostics()
    pid = int((fakes.directory / "hung").read_text())
    with pytest.raises(ProcessLookupError):
        os.killpg(os.getpgid(pid), 0)
    assert fakes.clusters() == []


def test_nodes_without_a_kubeconfig_get_it_exported(fakes: Fakes, start: Any, api: Any) -> None:
    """Created, and then the file is not there: it is asked for once more."""
    fakes.change(write_kubeconfig=False)
    unpatched = _needs_a_file(api)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pytest_sremut.cluster.context.load", unpatched)
        backend = start()
    assert len(fakes.calls("kind", "export", "kubeconfig")) == 1
    assert backend.kubeconfig.exists()


def test_nodes_that_never_get_a_kubeconfig(fakes: Fakes, start: Any, api: Any) -> None:
    fakes.change(write_kubeconfig=False)
    fakes.rule("kind export kubeconfig", stdout="garbage \x00\xff\n")  # says 0, does nothing
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pytest_sremut.cluster.context.load", _needs_a_file(api))
        with pytest.raises(KindError, match="has no usable kubeconfig"):
            start()
    assert fakes.clusters() == []


def _needs_a_file(api: Any) -> Any:
    def load(kubeconfig: Path, context: str) -> Any:
        if not kubeconfig.is_file():
            raise UsageError(f"{kubeconfig}: cannot be read")
        return api

    return load


def test_a_cluster_that_does_not_become_ready(fakes: Fakes, start: Any, api: Any) -> None:
    api.drop("Deployment", "kube-system", "coredns")
    with pytest.raises(KindError, match=r"within 0\.2 s: .*Deployment coredns does not exist"):
        start(limits=Limits(ready=0.2))
    assert fakes.clusters() == []


def test_a_cluster_of_that_name_that_is_not_ours_is_never_taken_away(
    fakes: Fakes, start: Any
) -> None:
    fakes.change(clusters={NAME: [{"id": "abc", "name": f"{NAME}-control-plane"}]})
    with pytest.raises(KindError, match="exists already, and it is not ours"):
        start()
    assert fakes.clusters() == [NAME]
    assert fakes.calls("kind", "delete") == []


def test_two_workers_have_two(fakes: Fakes, start: Any) -> None:
    first, second = start(name="1f2e3d-gw0"), start(name="1f2e3d-gw1")
    assert fakes.clusters() == ["sremut-1f2e3d-gw0", "sremut-1f2e3d-gw1"]
    assert first.kubeconfig != second.kubeconfig
    first.close()
    assert fakes.clusters() == ["sremut-1f2e3d-gw1"]


def test_two_processes_never_share_a_name(fakes: Fakes, start: Any) -> None:
    start(keep=True)
    with pytest.raises(UsageError, match="in use by another process"):
        start()
    directory_of(NAME, fakes.environ)


def test_a_kept_one_is_not_made_again(fakes: Fakes, start: Any) -> None:
    start(keep=True).close()
    with pytest.raises(UsageError, match=f"sremut cluster down --name {NAME}"):
        start()
    assert fakes.clusters() == [NAME]


def test_an_interrupt_while_it_is_made_leaves_nothing(fakes: Fakes, start: Any, api: Any) -> None:
    """As SIGTERM does, midway through `kind create`."""
    previous = signal.signal(signal.SIGTERM, lambda *_: interrupt("SIGTERM received"))
    try:
        fakes.rule("kind create", effect=True, signal=int(signal.SIGTERM), target=os.getpid())
        with pytest.raises(KeyboardInterrupt, match="SIGTERM received"):
            start()
    finally:
        signal.signal(signal.SIGTERM, previous)
    assert fakes.clusters() == []
    assert not _directory(fakes).exists()


def test_what_cannot_be_taken_away_stays_written_down(fakes: Fakes, start: Any) -> None:
    fakes.rule("kind create", effect=True, code=1, stderr="ERROR: no\n")
    fakes.rule("kind delete", code=1, stderr="ERROR: failed to delete nodes\n")
    with pytest.raises(KindError, match="was not created") as caught:
        start()
    (note,) = caught.value.__notes__
    assert f"cluster {NAME} was not deleted: kind exited with 1" in note
    assert f"sremut cluster down --name {NAME} tries again" in note
    assert directory_of(NAME, fakes.environ).record().name == NAME


# -- its end ---------------------------------------------------------------------------------


def test_a_locked_kubeconfig_is_a_warning_when_the_cluster_is_gone(
    fakes: Fakes, start: Any, caplog: pytest.LogCaptureFixture
) -> None:
    backend = start()
    trouble = "ERROR: failed to lock config file: open kubeconfig.lock: file exists"
    fakes.rule("kind delete", effect=True, code=1, stderr=f"{trouble}\n")
    with caplog.at_level(logging.WARNING):
        backend.close()
    assert fakes.clusters() == []
    assert f"cluster {NAME} is gone, but kind exited with 1: {trouble}" in caplog.text
    assert not _directory(fakes).exists()


@pytest.mark.parametrize("code", [0, 1])
def test_a_cluster_that_is_still_there_is_an_error(fakes: Fakes, start: Any, code: int) -> None:
    backend = start()
    fakes.rule("kind delete", code=code, stderr="cannot\n")
    with pytest.raises(KindError, match=f"was not deleted: .*left: {NAME}-control-plane") as caught:
        backend.close()
    assert caught.value.diagnostics() == f"kind delete cluster --name {NAME}"
    # It is written down, and found again by whoever comes next.
    assert not directory_of(NAME, fakes.environ).held()
    assert directory_of(NAME, fakes.environ).record().name == NAME


def test_nobody_can_tell_whether_it_is_gone(fakes: Fakes, start: Any) -> None:
    backend = start()
    fakes.rule("docker ps", stdout="<html>\x1b[31m busy\n")
    with pytest.raises(KindError, match=r"cannot be listed: docker said '<html>\?\[31m busy'"):
        backend.close()
    assert _directory(fakes).exists()


def test_logs_that_cannot_be_had_are_no_error(
    fakes: Fakes, start: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    backend: KindBackend = start()
    fakes.rule("kind export logs", code=1, stderr="ERROR: no\n")
    with caplog.at_level(logging.WARNING):
        backend.export_logs(tmp_path / "logs")
    assert "were not exported: kind exited with 1: ERROR: no" in caplog.text


def test_it_is_an_unavailable_cluster_for_everybody_else() -> None:
    assert issubclass(KindError, ClusterUnavailableError)
