"""`sremut recover` where no cluster answers: one sentence, an exit code, no traceback."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_sremut.cli import main

FACTS = {"evidence": "/e", "project": "/p", "attempt": "/e/s/r/a01", "context": "gone"}


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sremut" / "leases").mkdir(parents=True)
    return tmp_path / "sremut"


def mark(state: Path, facts: dict[str, str]) -> Path:
    file = state / "leases" / "uid-1.dirty"
    file.write_text(json.dumps({"session": "s1", "note": "ms-m01-r01", "facts": facts}))
    return file


def test_nothing_is_marked(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recover"]) == 0
    assert capsys.readouterr().out == "nothing to recover: no cluster is marked\n"


def test_a_mark_that_does_not_say_how_its_cluster_is_reached(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = mark(state, {})
    assert main(["recover"]) == 2
    told = capsys.readouterr().err
    assert f"{file}: the mark of session s1 does not say how its cluster is reached" in told


def test_a_marked_cluster_whose_kubeconfig_is_gone(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = mark(state, {**FACTS, "kubeconfig": str(state / "gone")})
    assert main(["recover"]) == 3
    assert f"if the cluster is gone, remove {file}" in capsys.readouterr().err
    assert file.exists()


def test_a_marked_cluster_that_does_not_answer(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kubeconfig = state / "kubeconfig"
    kubeconfig.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}],
                "users": [{"name": "u", "user": {}}],
                "contexts": [{"name": "gone", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "gone",
            }
        )
    )
    file = mark(state, {**FACTS, "kubeconfig": str(kubeconfig)})
    assert main(["recover"]) == 3
    told = capsys.readouterr().err
    assert f"if the cluster is gone, remove {file}" in told
    assert file.exists()


def test_a_cluster_that_is_none_of_ours(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (state / "clusters" / "dev").mkdir(parents=True)
    assert main(["recover", "--cluster", "other"]) == 2
    assert "found 'other'; allowed: a cluster of our own (dev)" in capsys.readouterr().err
    (state / "clusters" / "dev" / "kubeconfig").write_text("[]")
    assert main(["recover", "--cluster", "dev"]) == 2
    assert "found no current context" in capsys.readouterr().err
