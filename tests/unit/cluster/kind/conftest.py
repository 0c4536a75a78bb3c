"""A machine that can have kind clusters, as far as its programs say."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from fake_kube import FakeKube
from kind_fakes import Fakes

from pytest_sremut.cluster.kind import backend, images, preflight, tools


class Api(FakeKube):
    """A new cluster's API as the client sees it."""

    server = "https://127.0.0.1:9"

    def __init__(self, nodes: int = 1) -> None:
        super().__init__()
        self.closed = 0
        for number in range(nodes):
            self.put(node(f"n{number}"))
        self.put(dns())
        self.put({"kind": "ServiceAccount", "metadata": {"name": "default"}})

    def close(self) -> None:
        self.closed += 1


def node(name: str, *, ready: str = "True") -> dict[str, Any]:
    condition = {"type": "Ready", "status": ready}
    return {"kind": "Node", "metadata": {"name": name}, "status": {"conditions": [condition]}}


def dns(*, ready: int = 2) -> dict[str, Any]:
    return {
        "kind": "Deployment",
        "metadata": {"name": "coredns", "namespace": "kube-system", "generation": 1},
        "spec": {"replicas": 2},
        "status": {
            "observedGeneration": 1,
            "replicas": 2,
            "updatedReplicas": 2,
            "readyReplicas": ready,
            "availableReplicas": ready,
        },
    }


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where built images are kept, for all tests that do not ask how they are built."""
    return tmp_path_factory.mktemp("kind-cache")


@pytest.fixture
def fakes(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Fakes:
    """The programs, and one image in place of all."""
    monkeypatch.setattr(images, "IMAGES", images.IMAGES[2:])
    return Fakes(tmp_path / "world", cache=cache)


@pytest.fixture
def impatient(fakes: Fakes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit is over as soon as the program has begun to hang, however slow the machine is."""

    class Program(subprocess.Popen[bytes]):
        def wait(self, timeout: float | None = None) -> int:
            while timeout is not None and timeout > tools._GRACE:
                if (fakes.directory / "hanging").exists():
                    (fakes.directory / "hanging").rename(fakes.directory / "hung")
                    raise subprocess.TimeoutExpired(self.args, timeout)
                if self.poll() is not None:
                    break
                time.sleep(0.01)  # another process: nothing to wait on portably
            return super().wait(timeout)

    monkeypatch.setattr(tools.subprocess, "Popen", Program)


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Api:
    made = Api()
    monkeypatch.setattr("pytest_sremut.cluster.context.load", lambda kubeconfig, context: made)
    return made


@pytest.fixture
def inotify(tmp_path: Path) -> Path:
    """The kernel's limits, raised as kind's documentation says."""
    directory = tmp_path / "inotify"
    directory.mkdir()
    (directory / "max_user_instances").write_text("512\n")
    (directory / "max_user_watches").write_text("524288\n")
    return directory


@pytest.fixture
def look(inotify: Path) -> Any:
    """The preflight on that machine."""

    def survey(environ: Any, **more: Any) -> preflight.Survey:
        more = {"inotify": inotify, "usage": lambda path: 100 << 30, **more}
        return preflight.survey(environ, **more)

    return survey


@pytest.fixture
def start(fakes: Fakes, api: Api, look: Any) -> Any:
    """Start a cluster there; arguments are the plan's, less `limits` and `tell`."""

    def started(**fields: Any) -> backend.KindBackend:
        how = {key: fields.pop(key) for key in ("limits", "tell") if key in fields}
        plan = backend.Plan(
            **{"name": "1f2e3d-gw0", "session": "s-1f2e3d", "evidence": None} | fields
        )
        return backend.KindBackend.start(plan, environ=fakes.environ, look=look, **how)

    return started
