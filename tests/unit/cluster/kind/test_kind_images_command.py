"""`sremut cluster images`, with engines that note what they were asked."""

from __future__ import annotations

import json
import re
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from fake_kube import FakeKube
from kubeconfigs import write_kubeconfig

from pytest_sremut.cli import main
from pytest_sremut.cluster.context import ContextBackend
from pytest_sremut.cluster.kind.images import IMAGES, context_of

DIGEST = "sha256:" + "ab" * 32
ENGINE = f"""#!{sys.executable}
import json, os, pathlib, sys
arguments = sys.argv[1:]
with open(os.environ["ASKED"], "a") as file:
    file.write(json.dumps([pathlib.Path(sys.argv[0]).name, *arguments]) + chr(10))
if os.environ.get("BREAKS") == arguments[0]:
    sys.exit("no space left")
for one in arguments:
    if one.startswith("--output="):
        pathlib.Path(one.removeprefix("--output=")).write_text("archive")
    if one.startswith("--digestfile="):
        pathlib.Path(one.removeprefix("--digestfile=")).write_text("{DIGEST}")
    if one.startswith("docker-archive:"):
        pathlib.Path(one.split(":")[1]).write_text("archive")
if arguments[0] == "build":
    assert pathlib.Path(arguments[-1], "Dockerfile").is_file()
if arguments[0] == "push" and sys.argv[0].endswith("docker"):
    print("1: digest: {DIGEST} size: 5")
"""


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What engines were asked, a JSON list a line; `engines` makes some."""
    monkeypatch.setenv("ASKED", str(tmp_path / "asked"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "bin").mkdir()
    return tmp_path / "asked"


def engines(tmp_path: Path, *names: str) -> None:
    for name in names:
        (tmp_path / "bin" / name).write_text(ENGINE)
        (tmp_path / "bin" / name).chmod(0o755)


def calls(asked: Path) -> list[list[str]]:
    return [json.loads(line) for line in asked.read_text().splitlines()]


def images(*arguments: str) -> int:
    return main(["cluster", "images", *arguments])


def without_options(call: Sequence[str]) -> list[str]:
    return [one for one in call if not one.startswith("--")]


def test_it_lists_names_and_digests(capsys: pytest.CaptureFixture[str]) -> None:
    assert images() == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(": ")[0] for line in lines] == [spec.name for spec in IMAGES]
    for spec, line in zip(IMAGES, lines, strict=True):
        with context_of(spec) as (_, digest):
            assert line.endswith(f"context sha256:{digest}")


def test_contexts_are_written_whole_and_never_over_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert images("--write", str(tmp_path / "contexts")) == 0
    for spec in IMAGES:
        folder = tmp_path / "contexts" / spec.name.rpartition(":")[0].replace("/", "-")
        text = (folder / "Dockerfile").read_text()
        for line in re.findall(r"^COPY (?!--from)(.+)$", text, re.MULTILINE):
            for source in line.split()[:-1]:
                assert list(folder.glob(source)), source
    assert images("--write", str(tmp_path / "contexts")) == 2
    assert "exists; name a directory without it" in capsys.readouterr().err


@pytest.mark.parametrize("engine", ["docker", "podman", "buildah"])
def test_they_are_built_and_pushed(
    engine: str, tmp_path: Path, asked: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    engines(tmp_path, engine)
    assert images("--build", "--push", "registry.example.org/team/") == 0
    made = calls(asked)
    assert {call[0] for call in made} == {engine}
    built = [call for call in made if call[1] == "build"]
    tags = [one for call in built for one in call if one.startswith("--tag=")]
    assert tags == [f"--tag={spec.local}" for spec in IMAGES]
    pushed = [call[-1] for call in made if call[1] == "push"]
    prefix = "" if engine == "docker" else "docker://"
    assert pushed == [
        f"{prefix}registry.example.org/team/{name}"
        for name in ("sremut-demo:1", "sremut-load:1", "busybox:1.36")
    ]
    out = capsys.readouterr().out
    assert f"    images:\n      demo: registry.example.org/team/sremut-demo@{DIGEST}\n" in out
    assert f"      probe: registry.example.org/team/busybox@{DIGEST}\n" in out


@pytest.mark.parametrize(
    ("engine", "files"),
    [
        ("docker", ["images.tar"]),
        ("podman", ["images.tar"]),
        (
            "buildah",
            ["images-busybox.tar", "images-sremut-demo.tar", "images-sremut-load.tar"],
        ),
    ],
)
def test_they_are_saved_and_never_over_another(
    engine: str,
    files: list[str],
    tmp_path: Path,
    asked: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    engines(tmp_path, engine)
    command = ("--build", "--save", str(tmp_path / "out" / "images.tar"))
    (tmp_path / "out").mkdir()
    assert images(*command) == 0
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == files
    assert images(*command) == 2
    assert "never overwritten" in capsys.readouterr().err


def test_the_first_engine_on_path_is_taken_or_the_one_that_is_named(
    tmp_path: Path, asked: Path
) -> None:
    engines(tmp_path, "podman", "buildah")
    assert images("--build") == 0
    assert {call[0] for call in calls(asked)} == {"podman"}
    asked.unlink()
    assert images("--build", "--engine", "buildah") == 0
    assert {call[0] for call in calls(asked)} == {"buildah"}


@pytest.mark.parametrize("verb", ["build", "push"])
def test_an_engine_that_fails_is_quoted(
    verb: str,
    tmp_path: Path,
    asked: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    engines(tmp_path, "docker")
    monkeypatch.setenv("BREAKS", verb)
    assert images("--build", "--push", "r.example.org/x") == 1
    err = capsys.readouterr().err
    assert "docker exited with 1: no space left" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--build"], "no engine on PATH; allowed: docker, podman, buildah"),
        (["--push", "r/x"], "--push and --save: allowed only with --build"),
        (["--save", "x.tar"], "--push and --save: allowed only with --build"),
        (["--engine", "podman"], "--engine: allowed only with --build"),
        (["--build", "--push", ""], "--push: found nothing; allowed: registry/path"),
    ],
)
def test_mistakes(
    arguments: list[str], told: str, asked: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert images(*arguments) == 2
    assert told in capsys.readouterr().err
    assert not asked.exists()


class Nodes(FakeKube):
    """Somebody's cluster: one node, with so many of the images."""

    def __init__(self, has: int, *, forbidden: bool = False) -> None:
        super().__init__()
        names = ["docker.io/library/other:1", *(spec.full for spec in IMAGES[:has])]
        listed = [{"names": [name]} for name in names]
        self.put({"kind": "Node", "metadata": {"name": "n1"}, "status": {"images": listed}})
        if forbidden:
            self.break_always("list", "Node", status=403, reason="Forbidden")

    @property
    def api(self) -> FakeKube:
        return self

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("nodes", "code", "told"),
    [
        (Nodes(3), 0, "sremut/load:1: on n1"),
        (Nodes(1), 1, "sremut/load:1: not on n1"),
        (Nodes(0, forbidden=True), 3, "sremut/load:1: not told: nodes may not be read"),
    ],
    ids=["there", "lacking", "not-told"],
)
def test_what_a_context_lacks(
    nodes: Nodes,
    code: int,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(ContextBackend, "open", lambda **_: nodes)
    assert images("--context", "theirs") == code
    assert told in capsys.readouterr().out.splitlines()


def test_a_context_that_does_not_answer_is_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path, address)))
    assert images("--context", "test") == 3
    assert "sremut/load:1: not told: " in capsys.readouterr().out
