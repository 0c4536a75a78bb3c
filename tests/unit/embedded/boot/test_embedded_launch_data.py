"""What crosses the border between launcher and daemon, and what is left on disk."""

from __future__ import annotations

import errno
import json
import os
import pickle
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import pytest_sremut.embedded as embedded
from pytest_sremut.embedded.boot import kubeconfig
from pytest_sremut.embedded.boot.cluster import EmbeddedCluster, cluster_of, state_of
from pytest_sremut.embedded.boot.config import DaemonConfig, Options
from pytest_sremut.embedded.failure import EmbeddedError
from pytest_sremut.embedded.kubelet.images import Image
from pytest_sremut.embedded.linux.processes import ProcessIdentity


def test_the_package_is_cheap_to_import_and_complete() -> None:
    code = (
        "import sys, pytest_sremut.embedded as e\n"
        "heavy = {'aiohttp', 'dnslib', 'kubernetes', 'asyncio'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "assert all(getattr(e, name) for name in e.__all__)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="nothing"):
        embedded.nothing  # noqa: B018


def test_an_error_says_step_errno_and_advice_and_survives_json() -> None:
    error = EmbeddedError("make a namespace", errno=errno.EPERM, advice="Ask root.")
    assert str(error) == "make a namespace: Operation not permitted (EPERM)\n  Ask root."
    copy = EmbeddedError.from_json(json.loads(error.to_json()))
    assert (copy.step, copy.errno, copy.advice) == (error.step, error.errno, error.advice)
    assert str(EmbeddedError("just a step")) == "just a step"


def test_a_config_survives_json() -> None:
    config = DaemonConfig(
        directory="/x",
        name="n",
        detach=True,
        parent=1,
        listener=3,
        control=4,
        ready=5,
        lock=6,
        options=Options(routing="forwarder", nodes=2),
        images={"a": Image(kind="python", module="m")},
    )
    assert DaemonConfig.from_json(config.to_json()) == config


def test_a_kubeconfig_is_private_and_has_one_context(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text("older, and readable by all")
    kubeconfig.write(path, name="one", server="http://127.0.0.1:1")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    document = json.loads(path.read_text())
    assert document["current-context"] == "sremut-one"
    assert [c["cluster"]["server"] for c in document["clusters"]] == ["http://127.0.0.1:1"]
    assert document["users"] == [{"name": "sremut-one", "user": {}}]


def test_a_reused_pid_is_another_process() -> None:
    me = ProcessIdentity.of(os.getpid())
    assert me.alive()
    other = ProcessIdentity(pid=os.getpid(), started="1")
    assert not other.alive()
    assert other.wait_gone(0)
    other.signal(signal.SIGKILL)  # does nothing, or this test would not go on


def test_the_end_of_a_process_is_waited_for() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    identity = ProcessIdentity.of(child.pid)
    assert not identity.wait_gone(0.01)
    identity.signal(signal.SIGTERM)
    assert identity.wait_gone(10)
    child.communicate()
    assert child.returncode == -signal.SIGTERM
    assert not identity.alive()
    assert identity.wait_gone(0)


def test_a_process_that_never_was_is_gone() -> None:
    nobody = ProcessIdentity.of(2**22 + 1)
    assert not nobody.alive()
    assert nobody.wait_gone(0)


def _cluster(directory: Path) -> EmbeddedCluster:
    return EmbeddedCluster(
        directory=directory,
        name="one",
        server="http://127.0.0.1:1",
        supervisor=ProcessIdentity(pid=2**22 + 1, started="5"),
        init=ProcessIdentity(pid=2**22 + 2, started="6"),
    )


def test_a_state_file_describes_its_cluster(tmp_path: Path) -> None:
    cluster = _cluster(tmp_path)
    again = cluster_of(tmp_path, json.loads(json.dumps(state_of(cluster))))
    assert state_of(again) == state_of(cluster)
    assert again.context == "sremut-one"


def test_a_cluster_that_is_gone_says_so_and_can_be_closed(tmp_path: Path) -> None:
    with _cluster(tmp_path) as cluster:
        assert not cluster.alive()
        with pytest.raises(EmbeddedError, match=r"does not answer /sremut/v1/status") as caught:
            cluster.status()
        assert "is gone" in caught.value.advice
    cluster.close()


@pytest.mark.parametrize("value", [Options(), Image(kind="pause")])
def test_options_and_images_can_be_pickled(value: object) -> None:
    assert pickle.loads(pickle.dumps(value)) == value
