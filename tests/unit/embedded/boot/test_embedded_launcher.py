"""What can go wrong before anything is started, and on the way up."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import sys
from pathlib import Path

import pytest

from pytest_sremut.embedded import EmbeddedError, Image, Options, attach, up
from pytest_sremut.embedded.boot import launcher
from pytest_sremut.embedded.boot.cluster import LOG_FILE, STATE_FILE


@pytest.mark.parametrize("name", ["", "Up", "a b", "-a", "a-", "a" * 43, "a/b", "ä"])
def test_a_bad_name_is_refused_before_anything_is_made(tmp_path: Path, name: str) -> None:
    with pytest.raises(EmbeddedError, match="cannot be named"):
        up(directory=tmp_path / "c", name=name, images={})
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize("nodes", [0, -1, 101])
def test_a_number_of_nodes_out_of_range_is_refused(tmp_path: Path, nodes: int) -> None:
    with pytest.raises(EmbeddedError, match=r"cannot have .* nodes"):
        up(directory=tmp_path, name="n", images={}, options=Options(nodes=nodes))


def test_an_image_name_that_cannot_be_parsed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EmbeddedError, match="UPPER"):
        up(directory=tmp_path, name="n", images={"UPPER": Image(kind="pause")})


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(EmbeddedError, match=f"port in use: 127.0.0.1:{port}") as caught:
            up(directory=tmp_path, name="n", images={}, options=Options(port=port))
    assert caught.value.errno == errno.EADDRINUSE
    assert not (tmp_path / "kubeconfig").exists()


@pytest.mark.parametrize("port", [-1, 65536])
def test_a_port_that_is_none_is_refused(tmp_path: Path, port: int) -> None:
    with pytest.raises(EmbeddedError, match="listen on"):
        up(directory=tmp_path, name="n", images={}, options=Options(port=port))


def test_a_directory_that_is_a_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("")
    with pytest.raises(EmbeddedError, match="make the cluster's directory"):
        up(directory=path, name="n", images={})


def test_a_locked_directory_has_a_cluster(tmp_path: Path) -> None:
    handle = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(EmbeddedError, match="a cluster already runs in"):
            up(directory=tmp_path, name="n", images={})
    finally:
        os.close(handle)


def _interpreter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Let the "interpreter" that is started be a shell script."""
    path = tmp_path / "python"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(path))


def test_a_daemon_that_dies_leaves_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _interpreter(tmp_path, monkeypatch, "echo alas >&2; exit 3")
    with pytest.raises(EmbeddedError, match="ended while it started") as caught:
        up(directory=tmp_path, name="n", images={})
    assert "alas" in caught.value.advice
    assert LOG_FILE in caught.value.advice


def test_a_daemon_that_says_nothing_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launcher, "CLOSE_GRACE", 0.05)
    _interpreter(tmp_path, monkeypatch, "exec sleep 1000")
    with pytest.raises(EmbeddedError, match=r"was not ready within 0.2 s"):
        up(directory=tmp_path, name="n", images={}, timeout=0.2)


def test_a_failed_step_comes_from_the_daemon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = EmbeddedError("create a user namespace", errno=errno.ENOSPC, advice="Look there.")
    # The config, at the descriptor that argument 3 names, has the descriptor to answer on.
    ready = 'ready=$(sed "s/.*\\"ready\\": \\([0-9]*\\).*/\\1/" /proc/self/fd/$3)'
    script = f"{ready}\necho '{answer.to_json()}' >/proc/self/fd/$ready"
    _interpreter(tmp_path, monkeypatch, script)
    with pytest.raises(EmbeddedError) as caught:
        up(directory=tmp_path, name="n", images={})
    assert (caught.value.step, caught.value.errno) == (answer.step, answer.errno)


def test_an_interpreter_that_cannot_be_started_is_a_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nothing"))
    with pytest.raises(EmbeddedError, match="start the cluster's daemon") as caught:
        up(directory=tmp_path, name="n", images={})
    assert caught.value.errno == errno.ENOENT


def test_there_is_nothing_to_attach_to(tmp_path: Path) -> None:
    with pytest.raises(EmbeddedError, match="no cluster runs in"):
        attach(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"schema": "other"}', "\x00", "null"])
def test_a_broken_state_file_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / STATE_FILE).write_text(text)
    with pytest.raises(EmbeddedError, match="is not the state file of a cluster"):
        attach(tmp_path)


def test_a_state_file_of_a_dead_cluster_is_not_attached_to(tmp_path: Path) -> None:
    state = {
        "schema": "sremut/embedded/v1",
        "name": "n",
        "server": "http://127.0.0.1:1",
        "pid": os.getpid(),  # alive, but it began at another time
        "started": "1",
        "init": 1,
        "init_started": "1",
    }
    (tmp_path / STATE_FILE).write_text(json.dumps(state))
    with pytest.raises(EmbeddedError, match="is gone"):
        attach(tmp_path)
