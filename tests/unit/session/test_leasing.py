"""The cluster of one process: taken once, marked by attempts, given back whatever happens."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_sremut.cluster.lease import Lease
from pytest_sremut.cluster.port import ClusterFacts, ClusterIdentity
from pytest_sremut.errors import ClusterError, UsageError
from pytest_sremut.options.settings import Settings
from pytest_sremut.session import leasing
from pytest_sremut.session.leasing import LeaseMark, Leasing
from pytest_sremut.session.members import Member

IDENTITY = ClusterIdentity(kube_system_uid="uid-1", server="https://there", server_version="v1")


class OneCluster:
    """As far as leasing needs one."""

    def __init__(self, directory: Path, *, kind: str = "embedded") -> None:
        self.kubeconfig = directory / "kubeconfig"
        self.context = "here"
        self.kind = kind
        self.done: list[str] = []
        self.fails = False

    def identity(self) -> ClusterIdentity:
        return IDENTITY

    def facts(self) -> ClusterFacts:
        return ClusterFacts(kind=self.kind, name="one", context=self.context, values={"a": "b"})

    def close(self) -> None:
        self.done.append("closed")
        if self.fails:
            raise ClusterError("it does not end")


class WithLogs(OneCluster):
    """One whose logs can be kept."""

    def export_logs(self, directory: Path) -> None:
        self.done.append(f"logs in {directory.name}")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(
        root=tmp_path,
        audits=tmp_path / "audits",
        cluster="embedded",
        allowed_contexts=frozenset(),
        profile="",
        evidence=None,
        keep_cluster=False,
        exploratory=True,
        require="predictions",
        fail_under=None,
    )


def leasing_of(cluster: Any, settings: Settings, opened: list[str] | None = None) -> Leasing:
    def open_cluster(_settings: Settings, name: str) -> Any:
        if opened is not None:
            opened.append(name)
        return cluster

    member = Member(session="20260101-abcdef", evidence=settings.root / "evidence", worker="gw3")
    return Leasing(settings, member, progress=lambda _text: None, open_cluster=open_cluster)


def is_free(directory: Path) -> bool:
    try:
        Lease.acquire(IDENTITY, holder="another", directory=directory).release()
    except UsageError:
        return False
    return True


def test_one_cluster_for_all_runs(tmp_path: Path, settings: Settings) -> None:
    opened: list[str] = []
    its = leasing_of(OneCluster(tmp_path), settings, opened)
    assert not its.is_taken()
    assert its.take() is its.take()
    assert its.is_taken()
    assert opened == ["abcdef-gw3"]
    assert not is_free(tmp_path)
    its.close(keep_logs=False)
    assert is_free(tmp_path)


def test_what_an_attempt_says_of_its_cluster(tmp_path: Path, settings: Settings) -> None:
    leased = leasing_of(OneCluster(tmp_path), settings).take()
    assert leased.record() == {
        "kind": "embedded",
        "name": "one",
        "context": "here",
        "kube_system_uid": "uid-1",
        "server_version": "v1",
        "facts": {"a": "b"},
    }
    leased.lease.release()


def test_only_a_cluster_of_ours_may_be_written_to_unasked(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = leasing_of(OneCluster(tmp_path), settings).take()
    assert ours.own_context == {"here"}
    ours.lease.release()
    recovered: list[str] = []
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(leasing, "recover_leased", lambda *_, **__: recovered.append("x") or ["a"])
    its = leasing_of(OneCluster(tmp_path, kind="context"), settings)
    theirs = its.take()
    assert theirs.own_context == frozenset()
    assert its.recovered == ["a"]
    assert recovered == ["x"]
    its.close(keep_logs=False)


def test_a_cluster_of_ours_is_not_searched_for_the_dead(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leasing, "recover_leased", lambda *_, **__: pytest.fail("it was"))
    its = leasing_of(OneCluster(tmp_path), settings)
    its.take()
    assert its.recovered == []
    its.close(keep_logs=False)


@pytest.mark.parametrize(
    ("keep", "done"), [(True, ["logs in clusters", "closed"]), (False, ["closed"])]
)
def test_logs_are_kept_before_the_cluster_is_gone(
    tmp_path: Path, settings: Settings, *, keep: bool, done: list[str]
) -> None:
    cluster = WithLogs(tmp_path)
    its = leasing_of(cluster, settings)
    its.take()
    its.close(keep_logs=keep)
    its.close(keep_logs=keep)
    assert cluster.done == done


def test_the_lease_is_given_back_though_the_cluster_does_not_end(
    tmp_path: Path, settings: Settings
) -> None:
    cluster = OneCluster(tmp_path)
    cluster.fails = True
    its = leasing_of(cluster, settings)
    its.take()
    with pytest.raises(ClusterError, match="it does not end"):
        its.close(keep_logs=False)
    assert is_free(tmp_path)


def test_the_mark_leads_to_the_journal(tmp_path: Path, settings: Settings) -> None:
    leased = leasing_of(OneCluster(tmp_path), replace(settings, cluster="embedded")).take()
    attempt: Any = SimpleNamespace(
        identity=SimpleNamespace(study="s"), run="r", directory=tmp_path / "s" / "r" / "a01"
    )
    mark = leased.mark_of(attempt, settings=settings, evidence=tmp_path / "evidence")
    assert isinstance(mark, LeaseMark)
    mark.mark_dirty("r, journal j")
    found = leased.lease.dirty()
    assert found is not None
    assert (found.session, found.note) == ("20260101-abcdef", "r, journal j")
    assert found.facts == {
        "study": "s",
        "run": "r",
        "attempt": str(tmp_path / "s" / "r" / "a01"),
        "evidence": str(tmp_path / "evidence"),
        "project": str(tmp_path),
        "kind": "embedded",
        "context": "here",
        "kubeconfig": str(tmp_path / "kubeconfig"),
    }
    mark.mark_clean()
    assert leased.lease.dirty() is None
    leased.lease.release()
