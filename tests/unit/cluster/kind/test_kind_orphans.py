"""Clusters of sessions that have ended: found, told, and taken away, and only ours."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kind_fakes import Fakes

from pytest_sremut import cli
from pytest_sremut.cluster.kind import records
from pytest_sremut.cluster.kind.orphans import (
    State,
    left_behind,
    look,
    take_down,
    take_down_orphans,
)
from pytest_sremut.cluster.kind.records import Record, directory_of, kept_clusters, parse_record
from pytest_sremut.cluster.kind.tools import KindError
from pytest_sremut.cluster.lease import Lease
from pytest_sremut.cluster.port import ClusterIdentity
from pytest_sremut.embedded.linux.processes import ProcessIdentity
from pytest_sremut.errors import UsageError

NAME = "sremut-1f2e3d-gw0"
IDS = ("aa", "bb")


@pytest.fixture(scope="module")
def dead() -> ProcessIdentity:
    """A process that has ended."""
    child = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
    identity = ProcessIdentity.of(child.pid)
    child.communicate(b"\n")
    return identity


@pytest.fixture
def leave(fakes: Fakes, dead: ProcessIdentity) -> Callable[..., Record]:
    """A cluster whose session has ended, with other fields as given."""

    def left(name: str = NAME, *, nodes: tuple[str, ...] = IDS, **fields: Any) -> Record:
        record = Record.of_this_process(
            name=name, session="s-1f2e3d", provider="docker", image="i", evidence=""
        )
        owner = {"pid": dead.pid, "started": dead.started, "containers": IDS}
        record = replace(record, **{**owner, **fields})
        directory = directory_of(name, fakes.environ)
        directory.path.mkdir(parents=True)
        directory.write(record)
        there = [{"id": identity, "name": f"{name}-{identity}"} for identity in nodes]
        if there:
            fakes.change(clusters={**fakes.state["clusters"], name: there})
        return record

    return left


def state_of(fakes: Fakes, name: str = NAME) -> State:
    return look(directory_of(name, fakes.environ), fakes.environ).state


def mutate(fakes: Fakes, name: str = NAME) -> None:
    """Leave the cluster as a lease does whose session dies in the middle."""
    identity = ClusterIdentity(kube_system_uid="u1", server_version="v1", server="s")
    directory = directory_of(name, fakes.environ).path
    with Lease.acquire(identity, holder="s-1f2e3d", directory=directory) as lease:
        lease.mark_dirty("ms-m01-r01: target deleted")


# -- which is what ---------------------------------------------------------------------------


def test_one_of_a_dead_session_is_an_orphan(fakes: Fakes, leave: Any) -> None:
    leave()
    assert state_of(fakes) is State.ORPHAN
    assert left_behind(fakes.environ) == [NAME]


def test_one_that_was_made_and_never_fully_known_is_an_orphan(fakes: Fakes, leave: Any) -> None:
    leave(containers=())
    assert state_of(fakes) is State.ORPHAN


def test_one_without_nodes_is_gone(fakes: Fakes, leave: Any) -> None:
    leave(nodes=())
    assert state_of(fakes) is State.GONE


def test_nodes_that_are_not_the_ones_we_made_are_somebody_elses(fakes: Fakes, leave: Any) -> None:
    leave(nodes=("aa", "other"))
    assert state_of(fakes) is State.FOREIGN


def test_a_living_process_is_never_disturbed(fakes: Fakes, leave: Any) -> None:
    mine = ProcessIdentity.of(os.getpid())
    leave(pid=mine.pid, started=mine.started)
    assert state_of(fakes) is State.LIVE
    assert left_behind(fakes.environ) == []


def test_a_pid_that_is_somebody_elses_by_now_is_not_the_owner(fakes: Fakes, leave: Any) -> None:
    leave(pid=os.getpid())
    assert state_of(fakes) is State.ORPHAN


def test_a_held_lock_is_a_living_session_whatever_its_pid(fakes: Fakes, leave: Any) -> None:
    """As that of a session in a container with pids of its own."""
    leave()
    holder = directory_of(NAME, fakes.environ)
    assert holder.hold()
    assert state_of(fakes) is State.LIVE
    assert left_behind(fakes.environ) == []
    holder.let_go()
    assert state_of(fakes) is State.ORPHAN


def test_one_from_before_a_reboot_is_an_orphan(fakes: Fakes, leave: Any) -> None:
    mine = ProcessIdentity.of(os.getpid())
    leave(pid=mine.pid, started=mine.started, boot="another")
    assert state_of(fakes) is State.ORPHAN


def test_another_machines_session_cannot_be_asked(fakes: Fakes, leave: Any) -> None:
    leave(boot="another", host=f"not-{platform.node()}")
    assert state_of(fakes) is State.LIVE


def test_a_kept_one_is_kept(fakes: Fakes, leave: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    leave(kept=True)
    assert state_of(fakes) is State.KEPT
    assert left_behind(fakes.environ) == []
    monkeypatch.setenv("XDG_STATE_HOME", fakes.environ["XDG_STATE_HOME"])
    assert kept_clusters("s-1f2e3d") == {NAME: directory_of(NAME, fakes.environ).path}
    assert kept_clusters("s-another") == {}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": "x"}', '{"schema": null}'])
def test_a_note_that_cannot_be_read_is_told_and_left(fakes: Fakes, leave: Any, text: str) -> None:
    leave()
    (directory_of(NAME, fakes.environ).path / "record.json").write_text(text)
    found = look(directory_of(NAME, fakes.environ), fakes.environ)
    assert found.state is State.UNKNOWN
    assert "record.json: " in found.detail
    assert "allowed: " in found.detail
    assert take_down_orphans(fakes.environ, dirty=True)[1] is False
    assert fakes.clusters() == [NAME]


def test_a_note_of_another_cluster_is_not_followed(fakes: Fakes, leave: Any) -> None:
    record = leave()
    directory_of(NAME, fakes.environ).write(replace(record, name="sremut-other-gw0"))
    assert state_of(fakes) is State.UNKNOWN


def test_an_engine_that_does_not_answer_leaves_it_unknown(fakes: Fakes, leave: Any) -> None:
    leave()
    fakes.rule("docker ps", code=1, stderr="Cannot connect\n")
    lines, clean = take_down_orphans(fakes.environ, dirty=False)
    assert clean is False
    assert "unknown" in lines[0]
    assert "Cannot connect" in lines[0]
    assert "left alone" in lines[0]
    assert fakes.calls("kind", "delete") == []


# -- taking away -----------------------------------------------------------------------------


def test_orphans_are_taken_away_and_nobody_elses(fakes: Fakes, leave: Any, tmp_path: Path) -> None:
    evidence = tmp_path / "evidence"
    evidence.mkdir()
    leave(evidence=str(evidence))
    leave("sremut-1f2e3d-gw1", nodes=())
    leave("sremut-kept-main", kept=True)
    leave("sremut-foreign-main", nodes=("other",))
    others = {"kind": [{"id": "1", "name": "x"}], "sremut-aaaaaa-gw0": [{"id": "2", "name": "y"}]}
    fakes.change(clusters={**fakes.state["clusters"], **others})
    lines, clean = take_down_orphans(fakes.environ, dirty=False)
    assert clean is False  # the foreign one is told
    logs = evidence / "clusters" / NAME
    assert lines[:3] == [
        f"kind cluster {NAME}: logs in {logs}",
        f"kind cluster {NAME} is down",
        "kind cluster sremut-1f2e3d-gw1 was gone already",
    ]
    assert lines[3].startswith("kind cluster sremut-foreign-main: foreign, session s-1f2e3d")
    assert len(lines) == 4
    assert fakes.clusters() == [
        "kind", "sremut-aaaaaa-gw0", "sremut-foreign-main", "sremut-kept-main",
    ]  # fmt: skip
    assert {call[3] for call in fakes.calls("kind", "delete")} == {f"--name={NAME}"}
    assert not directory_of(NAME, fakes.environ).path.exists()
    assert [file.name for file in logs.rglob("*") if file.is_file()] == ["kubelet.log"] * 2


def test_one_that_was_left_mutated_is_not_swept_away(fakes: Fakes, leave: Any) -> None:
    leave()
    mutate(fakes)
    lines, clean = take_down_orphans(fakes.environ, dirty=False)
    assert clean is False
    assert "left mutated: ms-m01-r01: target deleted (session s-1f2e3d)" in lines[0]
    assert "sremut recover" in lines[0]
    assert fakes.clusters() == [NAME]
    lines, clean = take_down_orphans(fakes.environ, dirty=True)
    assert (lines, clean) == ([f"kind cluster {NAME} is down"], True)
    assert fakes.clusters() == []


def test_a_mark_that_cannot_be_read_is_a_mark(fakes: Fakes, leave: Any) -> None:
    leave()
    (directory_of(NAME, fakes.environ).path / "u1.dirty").write_text("{")
    assert take_down_orphans(fakes.environ, dirty=False)[1] is False
    assert fakes.clusters() == [NAME]


def test_one_that_cannot_be_taken_away_is_told_and_stays_written_down(
    fakes: Fakes, leave: Any
) -> None:
    leave()
    fakes.rule("kind delete", code=1, stderr="busy\n")
    lines, clean = take_down_orphans(fakes.environ, dirty=False)
    assert clean is False
    assert "was not deleted: kind exited with 1: busy" in lines[0]
    assert state_of(fakes) is State.ORPHAN
    with pytest.raises(KindError, match="was not deleted"):
        take_down(NAME, fakes.environ)


def test_by_name_also_a_kept_and_a_mutated_one(fakes: Fakes, leave: Any) -> None:
    leave(kept=True)
    mutate(fakes)
    assert take_down(NAME, fakes.environ) == [f"kind cluster {NAME} is down"]
    with pytest.raises(UsageError, match=f"no kind cluster {NAME} of ours is known"):
        take_down(NAME, fakes.environ)


def test_by_name_never_a_living_or_a_foreign_one(fakes: Fakes, leave: Any) -> None:
    mine = ProcessIdentity.of(os.getpid())
    leave(pid=mine.pid, started=mine.started)
    leave("sremut-foreign-main", nodes=("other",))
    for name, state in ((NAME, "live"), ("sremut-foreign-main", "foreign")):
        with pytest.raises(UsageError, match=f"{name}: {state}, .* it is left alone"):
            take_down(name, fakes.environ)
    assert fakes.calls("kind", "delete") == []


# -- the command line ------------------------------------------------------------------------


@pytest.fixture
def sremut(
    fakes: Fakes, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    for key, value in fakes.environ.items():
        monkeypatch.setenv(key, value)

    def call(*arguments: str) -> tuple[int, str, str]:
        code = cli.main(["cluster", *arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


def test_the_command_line(fakes: Fakes, leave: Any, sremut: Any) -> None:
    assert sremut("down", "--orphans") == (0, "no kind cluster was left behind\n", "")
    leave()
    mutate(fakes)
    code, out, _ = sremut("status")
    assert (code, out.split(",")[0]) == (0, f"kind cluster {NAME}: orphan")
    assert sremut("status", "--name", NAME) == (code, out, "")
    kubeconfig = directory_of(NAME, fakes.environ).kubeconfig
    assert sremut("kubeconfig", "--name", NAME) == (0, f"{kubeconfig}\n", "")
    code, out, _ = sremut("down", "--orphans")
    assert (code, "or give --dirty" in out) == (1, True)
    assert sremut("down", "--orphans", "--dirty") == (0, f"kind cluster {NAME} is down\n", "")
    code, out, err = sremut("down", "--dirty")
    assert (code, out) == (2, "")
    assert err == "sremut: cluster down: --dirty: allowed only with --orphans\n"


# -- what is written down --------------------------------------------------------------------

_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
_good = {
    "schema": "sremut/kind-cluster/v1", "name": "n", "session": "s", "pid": 7, "started": "1",
    "boot": "b", "host": "h", "created": "c", "provider": "docker", "image": "i", "evidence": "",
    "containers": ["aa"], "kept": False,
}  # fmt: skip


def test_a_record_comes_back_as_it_was_written(tmp_path: Path) -> None:
    directory = records.ClusterDirectory(tmp_path)
    record = Record.of_this_process(
        name="n", session="s", provider="docker", image="i", evidence="/e"
    )
    directory.write(record)
    assert directory.record() == record
    directory.change(containers=("aa",), kept=True)
    assert directory.record() == replace(record, containers=("aa",), kept=True)
    assert record.owner_alive()


@given(key=st.sampled_from(sorted(_good)), value=_json)
def test_a_record_with_a_wrong_field_is_refused_with_its_place(key: str, value: Any) -> None:
    data = json.dumps({**_good, key: value}).encode()
    try:
        record = parse_record(data, what="record.json")
    except UsageError as error:
        assert str(error).startswith(f"record.json: {key}: found ")  # noqa: PT017
        assert "; allowed: " in str(error)  # noqa: PT017
    else:
        assert key != "schema" or value == _good["schema"]
        assert isinstance(record.pid, int)


@given(st.binary(max_size=40))
def test_whatever_stands_there_is_a_record_or_is_refused(data: bytes) -> None:
    with pytest.raises(UsageError, match=r"^record\.json: "):
        parse_record(data, what="record.json")


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be used: Not a directory"):
        records.ClusterDirectory(tmp_path / "file" / "x").hold()
    with pytest.raises(UsageError, match="cannot be written"):
        records.ClusterDirectory(tmp_path / "none").write(
            Record.of_this_process(name="n", session="", provider="", image="", evidence="")
        )
