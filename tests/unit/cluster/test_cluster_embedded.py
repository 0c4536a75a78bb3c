"""The embedded cluster behind the port."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kubeconfigs import write_kubeconfig

import pytest_sremut.embedded
from pytest_sremut.cluster.embedded import EmbeddedBackend, EmbeddedClusterError, images
from pytest_sremut.cluster.port import ClusterFacts
from pytest_sremut.embedded import EmbeddedError


class _Report:
    def __init__(self, *deviations: str, ok: bool) -> None:
        self.deviations = list(deviations)
        self.ok = ok


class _Cluster:
    """A launcher's handle."""

    name, context, server = "x", "test", "http://127.0.0.1:9"

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.kubeconfig = write_kubeconfig(directory)
        self.closed = 0
        self.report = _Report(ok=True)

    def facts(self) -> dict[str, Any]:
        return {"isolation": "userns"}

    def selftest(self, timeout: float) -> _Report:
        return self.report

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> tuple[list[_Cluster], list[dict[str, Any]]]:
    """Clusters that `up` made, and what it was asked."""
    clusters: list[_Cluster] = []
    asked: list[dict[str, Any]] = []

    def up(**arguments: Any) -> _Cluster:
        asked.append(arguments)
        clusters.append(_Cluster(arguments["directory"]))
        return clusters[-1]

    monkeypatch.setattr(pytest_sremut.embedded, "up", up)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return clusters, asked


def test_the_images_that_the_study_uses() -> None:
    table = images()
    assert sorted(table) == [
        "busybox:1.36", "busybox:1.36.1", "registry.k8s.io/pause:3.10",
        "sremut/demo:1", "sremut/load:1",
    ]  # fmt: skip
    assert table["sremut/demo:1"].module == "pytest_sremut.demo.service"
    assert table["sremut/load:1"].module == "pytest_sremut.workload.generator"


def test_a_cluster_of_one_session(started: Any) -> None:
    (clusters, asked) = started
    backend = EmbeddedBackend.start(name="x")
    (directory,) = {arguments["directory"] for arguments in asked}
    assert asked[0]["detach"] is False
    assert backend.facts() == ClusterFacts(
        kind="embedded", name="x", context="test", values={"isolation": "userns"}
    )
    assert backend.kubeconfig == directory / "kubeconfig"
    backend.close()
    assert clusters[0].closed == 1
    assert not directory.exists()


def test_a_kept_cluster_stays(started: Any) -> None:
    (clusters, asked) = started
    backend = EmbeddedBackend.start(name="x", keep=True)
    backend.close()
    assert asked[0]["detach"] is True
    assert clusters[0].closed == 0
    assert backend.directory.is_dir()


def test_a_given_directory_stays(started: Any, tmp_path: Path) -> None:
    directory = tmp_path / "mine"
    directory.mkdir()
    backend = EmbeddedBackend.start(name="x", directory=directory)
    backend.close()
    assert directory.is_dir()


@pytest.mark.parametrize(
    ("report", "sentences"),
    [
        (_Report(ok=True), []),
        (_Report("nc: refused", ok=False), ["nc: refused"]),
        (_Report(ok=False), ["no probe was run"]),
    ],
)
def test_fit_for_verdicts(started: Any, report: _Report, sentences: list[str]) -> None:
    backend = EmbeddedBackend.start(name="x")
    started[0][0].report = report
    assert backend.fit_for_verdicts(timeout=1) == sentences


def test_a_start_that_fails_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def up(*, directory: Path, **_: Any) -> Any:
        (directory / "daemon.log").write_text("the last words\n")
        raise EmbeddedError("create a user namespace", errno=28, advice="Raise the limit.")

    monkeypatch.setattr(pytest_sremut.embedded, "up", up)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(EmbeddedClusterError, match=r"create a user namespace.*ENOSPC") as caught:
        EmbeddedBackend.start(name="x")
    assert caught.value.diagnostics() == "Raise the limit."
    assert "the last words" in caught.value.__notes__[0]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "call",
    [
        lambda backend: backend.facts(),
        lambda backend: backend.fit_for_verdicts(timeout=1),
        lambda backend: backend.close(),
    ],
)
def test_a_cluster_that_is_gone(
    started: Any, monkeypatch: pytest.MonkeyPatch, call: Callable[[EmbeddedBackend], Any]
) -> None:
    backend = EmbeddedBackend.start(name="x")

    def gone(*_: Any, **__: Any) -> Any:
        raise EmbeddedError("it does not answer", advice="See the log.")

    for name in ("facts", "selftest", "close"):
        monkeypatch.setattr(started[0][0], name, gone)
    with pytest.raises(EmbeddedClusterError, match="does not answer"):
        call(backend)


def test_nothing_to_attach_to(tmp_path: Path) -> None:
    with pytest.raises(EmbeddedClusterError, match="no cluster runs"):
        EmbeddedBackend.attach(tmp_path)
