"""Logs that are kept with the evidence: redacted, bounded, never over others."""

from __future__ import annotations

from pathlib import Path

import pytest
from kind_fakes import Fakes

from pytest_sremut.cluster.kind import logs
from pytest_sremut.cluster.kind.tools import KindError, Tools
from pytest_sremut.errors import EvidenceError


@pytest.fixture
def tools(fakes: Fakes) -> Tools:
    fakes.change(clusters={"c": [{"id": "aa", "name": "n0"}]})
    return Tools(
        environ=fakes.environ,
        provider="docker",
        kubeconfig=fakes.directory / "kubeconfig",
        cache=fakes.directory / "kubectl",
    )


def contents(directory: Path) -> dict[str, str]:
    return {
        file.relative_to(directory).as_posix(): file.read_text()
        for file in sorted(directory.rglob("*"))
        if not file.is_dir()
    }


def test_what_is_kept(tools: Tools, tmp_path: Path) -> None:
    """No description of a container, which has its environment; no link; no credential."""
    where = logs.export(tools, "c", tmp_path / "clusters")
    assert where == tmp_path / "clusters" / "c"
    assert contents(where) == {"n0/kubelet.log": "started\nAuthorization: [redacted]\n"}


def test_nothing_is_overwritten(tools: Tools, tmp_path: Path) -> None:
    names = [logs.export(tools, "c", tmp_path).name for _ in range(3)]
    assert names == ["c", "c-2", "c-3"]


def test_of_a_long_log_the_end_is_kept(
    tools: Tools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "_MOST", 5)
    where = logs.export(tools, "c", tmp_path)
    (text,) = contents(where).values()
    assert text == "[40 bytes left out]\nter2\n"


def test_a_part_is_better_than_nothing(fakes: Fakes, tools: Tools, tmp_path: Path) -> None:
    fakes.rule("kind export", effect=True, code=1, stderr="ERROR: node n1: token=abcdefgh\n")
    where = logs.export(tools, "c", tmp_path)
    assert sorted(contents(where)) == ["incomplete.txt", "n0/kubelet.log"]
    told = contents(where)["incomplete.txt"]
    assert "kind exited with 1: ERROR: node n1: token=[redacted]" in told


def test_nothing_is_an_error(fakes: Fakes, tools: Tools, tmp_path: Path) -> None:
    fakes.rule("kind export", stdout="done\n", times=1)
    with pytest.raises(KindError, match="kind exported none"):
        logs.export(tools, "c", tmp_path / "clusters")
    with pytest.raises(KindError, match='unknown cluster "d"'):
        logs.export(tools, "d", tmp_path / "clusters")
    assert not (tmp_path / "clusters").exists()


def test_where_nothing_can_be_written(tools: Tools, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EvidenceError, match="cannot be created"):
        logs.export(tools, "c", tmp_path / "file" / "clusters")
