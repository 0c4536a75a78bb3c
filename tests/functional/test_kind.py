"""`--sremut-cluster=kind` from the command line to the last container, with fake programs.

Behind the fake kind stands an embedded cluster, so everything but the containers is real.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from quick import HOW, MAIN, ROOT, Result, require_clusters, run, session
from small import make_small

sys.path.insert(0, str(ROOT / "tests" / "unit" / "support"))
from kind_fakes import Fakes

HOOK = Path(__file__).with_name("kind_embedded.py")
# No --sremut-profile: a kind cluster takes the study's profile `kind`.
OPTIONS = ("-p", "no:cacheprovider", "--sremut-exploratory", "--sremut-cluster=kind")
# The kernel's limits and the disk of this machine are not what is tested.
CONFTEST = """\
from pathlib import Path
from pytest_sremut.cluster.kind import preflight
preflight.survey.__kwdefaults__["inotify"] = Path({limits!r})
preflight.survey.__kwdefaults__["usage"] = lambda path: 100 << 30
"""


@pytest.fixture
def fakes(tmp_path: Path) -> Fakes:
    made = Fakes(tmp_path / "world")
    hook = [sys.executable, str(HOOK), str(tmp_path / "embedded")]
    made.change(create=[*hook, "create"], delete=[*hook, "delete"])
    return made


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The small project, whose quick profile is the one for kind."""
    made = make_small(tmp_path / "project")
    for study in made.glob("audits/*/study.yaml"):
        text = study.read_text().replace("\n  kind:\n", "\n  published:\n")
        study.write_text(text.replace("\n  quick:\n", "\n  kind:\n"))
    limits = tmp_path / "limits"
    limits.mkdir()
    for name in ("max_user_instances", "max_user_watches"):
        (limits / name).write_text("1000000")
    (made / "conftest.py").write_text(CONFTEST.format(limits=str(limits)))
    return made


def environment(fakes: Fakes) -> dict[str, str]:
    return {"PATH": f"{fakes.bin}:{os.environ['PATH']}", "XDG_CACHE_HOME": str(fakes.cache)}


def sremut(project: Path, fakes: Fakes, *arguments: str) -> subprocess.CompletedProcess[str]:
    around = {**os.environ, **environment(fakes), "XDG_STATE_HOME": str(project / "state")}
    command = [sys.executable, "-m", "pytest_sremut.cli", *arguments]
    return subprocess.run(command, env=around, capture_output=True, text=True, check=False)


def cluster_of(result: Result) -> dict[str, Any]:
    (attempt,) = result.attempts()
    body = json.loads((result.directory(attempt) / "attempt.json").read_text())
    assert body["profile"] == "kind"
    found: dict[str, Any] = body["cluster"]
    return found


def test_a_whole_run_on_a_cluster_that_is_kept(project: Path, fakes: Fakes) -> None:
    require_clusters()
    asked = ("-m", "mutant", "-k", f"{MAIN} and ms-m01", "--sremut-keep-cluster")
    with session(
        project, *asked, *HOW["no xdist"], options=OPTIONS, environment=environment(fakes)
    ) as running:
        result = running.end()
    try:
        assert result.code == 0, result.out
        (attempt,) = result.attempts()
        assert attempt["outcome"] == "COMPLETE"
        cluster = cluster_of(result)
        (name,) = fakes.clusters()
        assert re.fullmatch(r"sremut-[0-9a-f]{6}-main", name)
        assert (cluster["kind"], cluster["name"], cluster["context"]) == (
            "kind", name, f"kind-{name}",
        )  # fmt: skip
        assert sorted(cluster["facts"]["images"]) == [
            "busybox:1.36", "sremut/demo:1", "sremut/load:1",
        ]  # fmt: skip
        assert not (result.evidence() / "clusters").exists()  # nothing to explain
        # How it is reached, and taken away.
        state = project / "state" / "sremut" / "kind" / name
        lines = result.out.splitlines()
        assert f"sremut: cluster {name} was kept:" in lines
        assert f"  export KUBECONFIG={state / 'kubeconfig'}" in lines
        assert f"  sremut cluster down --name {name}" in lines
        told = sremut(project, fakes, "cluster", "kubeconfig", "--name", name)
        assert told.stdout == f"{state / 'kubeconfig'}\n"
        status = sremut(project, fakes, "cluster", "status")
        assert status.stdout.startswith(f"kind cluster {name}: kept, session ")
        spared = sremut(project, fakes, "cluster", "down", "--orphans")
        assert (spared.returncode, spared.stdout) == (0, "no kind cluster was left behind\n")
    finally:
        for name in fakes.clusters():
            down = sremut(project, fakes, "cluster", "down", "--name", name)
            assert (down.returncode, down.stdout) == (0, f"kind cluster {name} is down\n")
    assert fakes.clusters() == []
    assert not state.exists()
    running.until_gone()


def test_sigterm_keeps_the_logs_and_takes_the_cluster_away(project: Path, fakes: Fakes) -> None:
    require_clusters()
    asked = ("-m", "mutant", "-k", f"{MAIN} and ms-m01", *HOW["no xdist"])
    with session(project, *asked, options=OPTIONS, environment=environment(fakes)) as running:
        running.until_journal("PREFLIGHT_PASS")
        running.signal(signal.SIGTERM)
        result = running.end()
        running.until_gone()
    assert result.code == 2, result.out
    assert fakes.clusters() == []
    assert list((project / "state" / "sremut" / "kind").iterdir()) == []
    (logs,) = (result.evidence() / "clusters").iterdir()
    assert logs.name == cluster_of(result)["name"]
    texts = [file.read_text() for file in logs.rglob("*") if file.is_file()]
    assert texts == ["started\nAuthorization: [redacted]\n"]


def test_a_session_that_was_killed_is_cleaned_up_after(project: Path, fakes: Fakes) -> None:
    """Between the cluster's making and our knowing of it, where nothing can be left to us."""
    fakes.change(create=[], delete=[])
    fakes.rule("kind create", effect=True, hang=True, times=1)
    asked = ("-m", "mutant", "-k", f"{MAIN} and ms-m01", *HOW["no xdist"])
    with session(project, *asked, options=OPTIONS, environment=environment(fakes)) as running:
        running.until((fakes.directory / "hanging").exists, "kind create")
        live = sremut(project, fakes, "cluster", "down", "--orphans")
        assert live.stdout == "no kind cluster was left behind\n"
        running.signal(signal.SIGKILL)
        running.end()
    os.kill(int((fakes.directory / "hanging").read_text()), signal.SIGKILL)
    # Somebody else's, of a name like ours.
    mine = fakes.state["clusters"]
    fakes.change(clusters={**mine, "sremut-aaaaaa-gw0": [{"id": "abc", "name": "other"}]})
    (name,) = mine

    # The next session says so. That it gets no cluster itself is told, and leaves nothing.
    fakes.rule("kind create", effect=True, code=1, stderr="ERROR: no space left on device\n")
    result = run(
        project, "-m", "mutant", "-k", f"{MAIN} and ms-m01 and healthy", *HOW["-n0"],
        options=OPTIONS, environment=environment(fakes),
    )  # fmt: skip
    assert result.code == 1, result.out
    assert (
        f"sremut: left behind by ended sessions: {name}; `sremut cluster down --orphans` takes "
        "them away"
    ) in result.out.splitlines()
    assert "kind exited with 1: ERROR: no space left on device" in result.out
    assert "Traceback" not in result.out
    assert fakes.clusters() == sorted(["sremut-aaaaaa-gw0", name])
    assert len(fakes.calls("kind", "create")) == 2  # tried once, whatever the number of cells
    assert len(fakes.calls("docker", "build")) == 3  # by the first session
    status = sremut(project, fakes, "cluster", "status")
    assert status.stdout.startswith(f"kind cluster {name}: orphan, session ")
    down = sremut(project, fakes, "cluster", "down", "--orphans")
    assert (down.returncode, down.stdout.splitlines()[-1]) == (0, f"kind cluster {name} is down")
    assert fakes.clusters() == ["sremut-aaaaaa-gw0"]


@pytest.mark.parametrize(
    ("ini", "told"),
    [
        ("sremut_kind_workers = 9", "sremut_kind_workers: found '9'; allowed: 0 to 4"),
        (
            "sremut_kind_image = kindest/node:v1.36.4",
            "sremut_kind_image: found 'kindest/node:v1.36.4'; allowed: an image by digest",
        ),
    ],
)
def test_what_the_ini_file_may_say(pytester: pytest.Pytester, ini: str, told: str) -> None:
    pytester.makeini(f"[pytest]\n{ini}\n")
    result = pytester.runpytest_inprocess("-m", "mutant", "--sremut-cluster=kind")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert told in result.stderr.str() + result.stdout.str()
