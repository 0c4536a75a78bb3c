"""One session on one cluster, and none on a cluster that was left mutated."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pytest_sremut.cluster.lease import (
    DirtyMark,
    Lease,
    default_directory,
    directory_for,
    marks,
    own_directories,
)
from pytest_sremut.cluster.port import ClusterIdentity
from pytest_sremut.errors import UsageError

CLUSTER = ClusterIdentity(kube_system_uid="uid-1", server_version="v1", server="http://a")
SAME = ClusterIdentity(kube_system_uid="uid-1", server_version="v1", server="http://alias")
OTHER = ClusterIdentity(kube_system_uid="uid-2", server_version="v1", server="http://b")


def test_the_second_session_is_refused_with_the_first_ones_name(tmp_path: Path) -> None:
    with Lease.acquire(CLUSTER, directory=tmp_path, holder="s1"):
        with pytest.raises(UsageError, match=rf"in use by session s1 \(process {os.getpid()}\)"):
            Lease.acquire(SAME, directory=tmp_path, holder="s2")
        Lease.acquire(OTHER, directory=tmp_path, holder="s2").release()
    Lease.acquire(SAME, directory=tmp_path, holder="s2").release()


def test_it_waits_as_long_as_it_is_told(tmp_path: Path) -> None:
    first = Lease.acquire(CLUSTER, directory=tmp_path, holder="s1")
    timer = threading.Timer(0.1, first.release)
    timer.start()
    Lease.acquire(CLUSTER, directory=tmp_path, holder="s2", timeout=10).release()
    timer.join()


def test_the_lock_ends_with_its_holder(tmp_path: Path) -> None:
    code = f"""
import os
from pathlib import Path
from pytest_sremut.cluster.lease import Lease
from pytest_sremut.cluster.port import ClusterIdentity
identity = ClusterIdentity(kube_system_uid="uid-1", server_version="v1", server="http://a")
lease = Lease.acquire(identity, directory=Path({str(tmp_path)!r}), holder="dead")
lease.mark_dirty("run ms-m01-r01")
os.kill(os.getpid(), 9)
"""
    ended = subprocess.run([sys.executable, "-c", code], check=False)
    assert ended.returncode == -9
    with pytest.raises(
        UsageError, match=r"session dead \(run ms-m01-r01\).*sremut recover.*\.dirty"
    ):
        Lease.acquire(CLUSTER, directory=tmp_path, holder="s2")
    with Lease.acquire(CLUSTER, directory=tmp_path, holder="r", allow_dirty=True) as lease:
        assert lease.dirty() == DirtyMark(session="dead", note="run ms-m01-r01")
        lease.mark_clean()
        assert lease.dirty() is None
        lease.mark_clean()
    Lease.acquire(CLUSTER, directory=tmp_path, holder="s2").release()


def test_a_dirty_mark_stays_when_the_lease_ends(tmp_path: Path) -> None:
    with Lease.acquire(CLUSTER, directory=tmp_path, holder="s1") as lease:
        lease.mark_dirty("x")
    with pytest.raises(UsageError, match="left mutated"):
        Lease.acquire(CLUSTER, directory=tmp_path, holder="s1")
    # The refusal gave the lock back.
    Lease.acquire(CLUSTER, directory=tmp_path, holder="r", allow_dirty=True).release()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"session": 1}', "\xff"])
def test_a_mark_that_cannot_be_read_is_dirty(tmp_path: Path, text: str) -> None:
    (tmp_path / "uid-1.dirty").write_text(text, "latin-1")
    with pytest.raises(UsageError, match="cannot be read"):
        Lease.acquire(CLUSTER, directory=tmp_path, holder="s1")


def test_release_twice_and_nothing_stays(tmp_path: Path) -> None:
    lease = Lease.acquire(CLUSTER, directory=tmp_path, holder="s1")
    lease.release()
    lease.release()
    assert list(tmp_path.iterdir()) == []


def test_many_that_race_hold_it_one_at_a_time(tmp_path: Path) -> None:
    held: list[int] = []
    seen: list[int] = []

    def work() -> None:
        for _ in range(20):
            with Lease.acquire(CLUSTER, directory=tmp_path, holder="s", timeout=60):
                held.append(1)
                seen.append(len(held))
                held.pop()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [1] * 80


def test_an_identity_cannot_leave_the_directory(tmp_path: Path) -> None:
    odd = ClusterIdentity(kube_system_uid="../../x", server_version="v1", server="http://a")
    with Lease.acquire(odd, directory=tmp_path / "in", holder="s1") as lease:
        lease.mark_dirty("x")
        assert {path.parent for path in tmp_path.rglob("*.dirty")} == {tmp_path / "in"}


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot lease"):
        Lease.acquire(CLUSTER, directory=tmp_path / "file" / "x", holder="s1")


def test_where_leases_are_kept() -> None:
    assert default_directory({"XDG_STATE_HOME": "/s"}) == Path("/s/sremut/leases")
    assert default_directory({}) == Path("~/.local/state/sremut/leases").expanduser()


def test_a_mark_says_where_the_evidence_is(tmp_path: Path) -> None:
    environ = {"XDG_STATE_HOME": str(tmp_path)}
    directory = default_directory(environ)
    facts = {"attempt": "/e/study/run/a01", "context": "c"}
    with Lease.acquire(CLUSTER, directory=directory, holder="s1") as lease:
        lease.mark_dirty("run ms-m01-r01", facts)
        file = lease.mark_file
    home = tmp_path / "sremut" / "clusters" / "dev"
    with Lease.acquire(OTHER, directory=home, holder="s2") as lease:
        lease.mark_dirty("another")
        other = lease.mark_file
    assert marks(environ) == {
        file: DirtyMark(session="s1", note="run ms-m01-r01", facts=facts),
        other: DirtyMark(session="s2", note="another"),
    }
    assert own_directories(environ) == [home]
    with Lease.acquire(CLUSTER, directory=directory, holder="r", allow_dirty=True) as lease:
        lease.mark_clean()
    assert list(marks(environ)) == [other]


def test_what_is_kept_aside_is_private_and_goes_with_the_mark(tmp_path: Path) -> None:
    with Lease.acquire(CLUSTER, directory=tmp_path, holder="s1") as lease:
        assert lease.aside() == b""
        lease.mark_dirty("x")
        lease.keep_aside(b"the whole body")
    (file,) = tmp_path.glob("*.target")
    assert file.stat().st_mode & 0o777 == 0o600
    with Lease.acquire(CLUSTER, directory=tmp_path, holder="r", allow_dirty=True) as lease:
        assert lease.aside() == b"the whole body"
        lease.mark_clean()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["clusters", "kind"])
def test_a_cluster_of_our_own_has_one_lease_however_it_is_reached(
    tmp_path: Path, kind: str
) -> None:
    environ = {"XDG_STATE_HOME": str(tmp_path)}
    home = tmp_path / "sremut" / kind / "dev"
    assert directory_for(home / "kubeconfig", environ) == home
    assert directory_for(tmp_path / "config", environ) == default_directory(environ)
