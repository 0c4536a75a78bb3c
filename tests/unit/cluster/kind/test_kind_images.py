"""Images: built once, for one platform, and really on every node afterwards."""

from __future__ import annotations

import hashlib
import io
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from kind_fakes import Fakes

from pytest_sremut.cluster.kind import images
from pytest_sremut.cluster.kind.commands import Node, nodes_of
from pytest_sremut.cluster.kind.images import Archive, archive_of, context_of, load
from pytest_sremut.cluster.kind.tools import KindError, Tools
from pytest_sremut.engine.own_pods import DEMO, LOAD, PROBE
from pytest_sremut.errors import UsageError

DEMO_SPEC, LOAD_SPEC, PROBE_SPEC = images.IMAGES
ROOT = Path(images.__file__).parent / "images"


@pytest.fixture
def fakes(tmp_path: Path) -> Fakes:
    """With a cache of its own, in which nothing is yet."""
    return Fakes(tmp_path / "world", "kind", "docker", "podman")


def tools_of(fakes: Fakes, provider: str = "docker") -> Tools:
    return Tools(
        environ=fakes.environ,
        provider=provider,
        kubeconfig=fakes.directory / "kubeconfig",
        cache=fakes.directory / "kubectl",
    )


def built(fakes: Fakes, spec: images.ImageSpec = PROBE_SPEC, provider: str = "docker") -> Archive:
    return archive_of(spec, tools_of(fakes, provider), platform="linux/amd64", tell=lambda _: None)


def test_they_are_the_images_that_the_engine_asks_for() -> None:
    assert [spec.name for spec in images.IMAGES] == [DEMO, LOAD, PROBE]
    assert [spec.full for spec in images.IMAGES] == [
        "docker.io/sremut/demo:1", "docker.io/sremut/load:1", "docker.io/library/busybox:1.36",
    ]  # fmt: skip


@pytest.mark.parametrize("spec", images.IMAGES, ids=lambda spec: spec.name)
def test_a_context_holds_all_that_its_dockerfile_copies(spec: images.ImageSpec) -> None:
    with context_of(spec) as (context, digest):
        text = (context / "Dockerfile").read_text()
        for line in re.findall(r"^COPY (?!--from)(.+)$", text, re.MULTILINE):
            *sources, _ = line.split()
            for source in sources:
                assert list(context.glob(source)), source
        lines = "".join(
            f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n"
            for file in sorted(context.iterdir())
        )
        assert digest == hashlib.sha256(lines.encode()).hexdigest()
    assert not context.exists()


def test_the_load_image_holds_all_that_its_program_needs(tmp_path: Path) -> None:
    inside = tmp_path / "pytest_sremut" / "workload"
    inside.mkdir(parents=True)
    with context_of(LOAD_SPEC) as (context, _):
        text = (context / "Dockerfile").read_text()
        (line,) = re.findall(r"^COPY (.+) pytest_sremut/workload/$", text, re.MULTILINE)
        for source in line.split():
            shutil.copy(context / source, inside)
    # -S: no site-packages, so the standard library is all there is.
    found = subprocess.run(
        [sys.executable, "-S", "-m", "pytest_sremut.workload.rounds", "-R1", "-d0.5s", "http://f"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (found.returncode, found.stdout) == (2, "")
    assert "--duration: found 0.5; allowed with wrk2" in found.stderr


def test_a_package_without_a_source_is_told() -> None:
    spec = images.ImageSpec(
        name="x:1", local="x:1", dockerfile="demo/Dockerfile", sources=("demo/*.nope",)
    )
    with (
        pytest.raises(UsageError, match=r"the package has no demo/\*\.nope; reinstall it"),
        context_of(spec),
    ):
        pass


def test_built_once(fakes: Fakes) -> None:
    first, second = built(fakes), built(fakes)
    assert first == second
    (build,) = fakes.calls("docker", "build")
    assert build[2:5] == [
        "--platform=linux/amd64",
        "--tag=docker.io/sremut/busybox:1.36",
        f"--label=sremut.context={first.context}",
    ]
    (save,) = fakes.calls("docker", "save")
    assert save[2] == "--platform=linux/amd64"
    assert save[-1] == "docker.io/sremut/busybox:1.36"
    assert first.sha256 == hashlib.sha256(first.path.read_bytes()).hexdigest()
    assert first.facts() == {"context": first.context, "archive": first.sha256}


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.write_bytes(b"half"),
        lambda path: path.unlink(),
        lambda path: path.with_suffix(".json").write_text("{"),
        lambda path: path.with_suffix(".json").unlink(),
    ],
    ids=["cut", "gone", "garbage", "untold"],
)
def test_a_spoilt_archive_is_built_again(fakes: Fakes, spoil: Callable[[Path], Any]) -> None:
    archive = built(fakes)
    spoil(archive.path)
    assert built(fakes) == archive
    assert len(fakes.calls("docker", "build")) == 2


@pytest.mark.parametrize("api", ["1.47 1.51", "1.51 1.47", "garbage", ""])
def test_an_older_docker_is_not_told_a_platform(fakes: Fakes, api: str) -> None:
    fakes.change(api=api)
    built(fakes)
    (save,) = fakes.calls("docker", "save")
    assert not [word for word in save if word.startswith("--platform")]


def test_podman(fakes: Fakes) -> None:
    built(fakes, provider="podman")
    (save,) = fakes.calls("podman", "save")
    assert save[2] == "--format=docker-archive"
    assert fakes.calls("docker") == []


@pytest.mark.parametrize(
    ("verb", "behaviour", "told"),
    [
        ("build", {"code": 1, "stderr": "ERROR: 403 Forbidden\n"}, "was not built: docker exited"),
        ("save", {"code": 1, "stderr": "no such image\n"}, "was not saved: docker exited"),
        ("save", {"stdout": "garbage\n"}, "was not saved: docker wrote none"),
        ("version", {"code": 1}, "docker's version cannot be read"),
    ],
)
def test_a_build_that_fails(fakes: Fakes, verb: str, behaviour: dict[str, Any], told: str) -> None:
    fakes.rule(f"docker {verb}", **behaviour)
    with pytest.raises(KindError, match=told):
        built(fakes)
    cache = fakes.cache / "sremut" / "images"
    assert [path.name for path in cache.iterdir() if path.suffix != ".lock"] == []
    fakes.heal()
    assert built(fakes).path.exists()


def test_of_two_at_the_same_time_one_builds(fakes: Fakes) -> None:
    """Two threads, which the lock tells apart as it does two processes."""
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: built(fakes), range(2))
    assert first == second
    assert len(fakes.calls("docker", "build")) == 1


# -- on the nodes ----------------------------------------------------------------------------


@pytest.fixture
def nodes(fakes: Fakes) -> tuple[Node, ...]:
    fakes.change(clusters={"c": [{"id": "aa", "name": "n0"}, {"id": "bb", "name": "n1"}]})
    return nodes_of(tools_of(fakes), "c")


def test_each_node_has_it_under_the_name_that_pods_ask_for(
    fakes: Fakes, nodes: tuple[Node, ...]
) -> None:
    assert nodes == (Node(id="aa", name="n0"), Node(id="bb", name="n1"))
    archive = built(fakes)
    load(tools_of(fakes), "c", nodes, archive)
    (call,) = fakes.calls("kind", "load")
    assert call == ["kind", "load", "image-archive", str(archive.path), "--name=c"]
    names = ["docker.io/sremut/busybox:1.36", "docker.io/library/busybox:1.36"]
    assert fakes.state["images"] == {"n0": names, "n1": names}
    # One that has its name already is not named again.
    load(tools_of(fakes), "c", nodes, built(fakes, DEMO_SPEC))
    assert len(fakes.calls("ctr")) == 2


def test_an_image_that_the_kubelet_sees_a_little_later(
    fakes: Fakes, nodes: tuple[Node, ...]
) -> None:
    fakes.rule("crictl n0", stdout='{"images": []}\n', times=2)
    load(tools_of(fakes), "c", nodes, built(fakes))
    assert len(fakes.calls("crictl", "n0")) == 4


def test_loaded_and_not_there(
    fakes: Fakes, nodes: tuple[Node, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an index of many platforms does: kind says that it was loaded."""
    monkeypatch.setattr(images, "_LOOK_AGAIN", (0.0,))
    archive = built(fakes)
    fakes.rule("kind load", stdout="done\n")
    with pytest.raises(KindError, match="not on node n0 although it was loaded; there: none") as e:
        load(tools_of(fakes), "c", nodes, archive)
    assert "Docker 28 or newer" in e.value.diagnostics()


@pytest.mark.parametrize(
    ("match", "behaviour", "told"),
    [
        ("kind load", {"code": 1, "stderr": "ERROR: content digest: not found\n"}, "digest: not f"),
        ("crictl", {"stdout": "garbage\n"}, "cannot be listed: crictl said 'garbage'"),
        ("crictl", {"stdout": '{"images": 1}\n'}, "cannot be listed: crictl said"),
        ("crictl", {"code": 1, "stderr": "no runtime\n"}, "no runtime"),
        ("ctr", {"code": 1, "stderr": "no\n"}, r"was not named docker\.io/library/busybox:1\.36"),
    ],
)
def test_a_load_that_fails(
    fakes: Fakes, nodes: tuple[Node, ...], match: str, behaviour: dict[str, Any], told: str
) -> None:
    archive = built(fakes)
    fakes.rule(match, **behaviour)
    with pytest.raises(KindError, match=told):
        load(tools_of(fakes), "c", nodes, archive)


# -- where wrk2's source comes from ----------------------------------------------------------


def _archive(**files: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o755
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def test_a_source_is_taken_only_if_its_files_are_the_expected_ones(tmp_path: Path) -> None:
    main = runpy.run_path(str(ROOT / "wrk2" / "fetch.py"))["main"]
    archive = tmp_path / "a.tar.gz"
    archive.write_bytes(_archive(**{"top/wrk2/src/a.c": b"a", "top/other/b": b"b"}))
    digest = hashlib.sha256(
        f"{hashlib.sha256(b'a').hexdigest()}  wrk2/src/a.c\n".encode()
    ).hexdigest()
    target = tmp_path / "out"
    assert main([archive.as_uri(), "wrk2", digest, str(target)]) == 0
    assert [file for file in target.rglob("*") if file.is_file()] == [target / "src" / "a.c"]
    archive.write_bytes(_archive(**{"top/wrk2/src/a.c": b"A"}))
    with pytest.raises(SystemExit, match=f"allowed: {digest}"):
        main([archive.as_uri(), "wrk2", digest, str(tmp_path / "none")])
    archive.write_bytes(_archive(**{"top/../../etc/passwd": b"A"}))
    with pytest.raises(SystemExit, match="leaves the archive"):
        main([archive.as_uri(), ".", digest, str(tmp_path / "none")])
    assert not (tmp_path / "none").exists()
