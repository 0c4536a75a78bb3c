"""The demo, load and probe images: built once for all sessions, loaded into each cluster.

An image is what its build context says: archives are kept by the context's digest, so a changed
source is another image and an unchanged one is never built again. Each is built for one platform
and saved as an archive (an index of many platforms cannot be loaded out of every store), and after
loading it is looked for on every node under the very name that the pods will ask for: none of our
tags is `latest`, so the kubelet then never pulls.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, Final

from pytest_sremut.cluster.kind.commands import Node, images_on, load_archive, name_image
from pytest_sremut.cluster.kind.tools import KindError, Tools
from pytest_sremut.errors import UsageError

__all__ = ["IMAGES", "Archive", "ImageSpec", "archive_of", "context_of", "digests", "load"]

_BUILD: Final = 1800.0
_SAVE: Final = 300.0
_LOOK_AGAIN: Final = (0.1, 0.2, 0.5, 1.0, 2.0, 4.0)  # for an image that was just loaded
_WAIT: Final = 2100.0  # for another process that builds the same image
_SAVE_PLATFORM: Final = (1, 48)  # Docker's API from which `save` can be told a platform


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageSpec:
    """An image and where its context comes from, as paths below the package `pytest_sremut`."""

    name: str  # as pods ask for it
    local: str  # the full reference under which it is built here, a name of our own
    dockerfile: str
    sources: tuple[str, ...]  # globs; files go to the context's root

    @property
    def full(self) -> str:
        """The reference under which a node's store knows `name`."""
        return f"docker.io/{self.name}" if "/" in self.name else f"docker.io/library/{self.name}"


IMAGES: Final = (
    ImageSpec(
        name="sremut/demo:1",
        local="docker.io/sremut/demo:1",
        dockerfile="demo/Dockerfile",
        sources=("demo/*.py",),
    ),
    ImageSpec(
        name="sremut/load:1",
        local="docker.io/sremut/load:1",
        dockerfile="cluster/kind/images/wrk2/Dockerfile",
        sources=(
            "cluster/kind/images/wrk2/fetch.py",
            "cluster/kind/images/wrk2/mix.lua",
            *(f"workload/{m}.py" for m in ("draws", "mix", "plan", "rounds", "settings", "units")),
        ),
    ),
    ImageSpec(
        # Under a name of ours here: what the user calls busybox:1.36 stays as it is.
        name="busybox:1.36",
        local="docker.io/sremut/busybox:1.36",
        dockerfile="cluster/kind/images/probe/Dockerfile",
        sources=(),
    ),
)
"""What `engine.own_pods` names, for a cluster whose nodes have nothing of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """A built image."""

    spec: ImageSpec
    path: Path
    context: str  # SHA-256 over the context's files
    sha256: str  # of the archive

    def facts(self) -> dict[str, str]:
        """JSON-ready."""
        return {"context": self.context, "archive": self.sha256}


@contextlib.contextmanager
def context_of(spec: ImageSpec) -> Iterator[tuple[Path, str]]:
    """The build context in a temporary directory, and its digest.

    The digest is SHA-256 over one line `SHA256  PATH` per file, sorted by path.
    """
    with as_file(files("pytest_sremut")) as package, tempfile.TemporaryDirectory() as made:
        context = Path(made)
        shutil.copyfile(package / spec.dockerfile, context / "Dockerfile")
        for pattern in spec.sources:
            found = sorted(package.glob(pattern))
            if not found:
                raise UsageError(f"image {spec.name}: the package has no {pattern}; reinstall it")
            for file in found:
                shutil.copyfile(file, context / file.name)
        lines = [
            f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n"
            for file in sorted(context.iterdir())
        ]
        yield context, hashlib.sha256("".join(lines).encode()).hexdigest()


def _cache(environ: Mapping[str, str]) -> Path:
    base = environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "sremut" / "images"


def archive_of(
    spec: ImageSpec, tools: Tools, *, platform: str, tell: Callable[[str], None]
) -> Archive:
    """The image's archive for a platform (`linux/amd64`), built if there is none yet.

    Of several processes one builds and the others wait for it.

    Raises:
        KindError: It was not built or saved, or another process took too long over it.
        UsageError: The cache cannot be written.
    """
    from filelock import FileLock, Timeout

    with context_of(spec) as (context, digest):
        stem = f"{spec.name.replace('/', '-').replace(':', '-')}-{digest[:16]}-"
        path = _cache(tools.environ) / f"{stem}{tools.provider}-{platform.replace('/', '-')}.tar"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(f"{path}.lock", timeout=_WAIT):
                sha256 = _known(path, digest)
                if not sha256:
                    tell(f"building image {spec.name}")
                    sha256 = _build(spec, tools, context, path, platform=platform, digest=digest)
        except Timeout:
            raise KindError(
                f"image {spec.name}: another process has been building it for {_WAIT:g} s",
                f"see whether {tools.provider} answers",
            ) from None
        except OSError as error:
            raise UsageError(f"{path}: cannot be written: {error.strerror}") from error
        return Archive(spec=spec, path=path, context=digest, sha256=sha256)


def _known(path: Path, context: str) -> str:
    """SHA-256 of an archive that is whole and of that context; empty if it is not. Raises OSError
    only for what is not a missing file."""
    try:
        told = json.loads(path.with_suffix(".json").read_bytes())
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except (FileNotFoundError, ValueError):
        return ""
    return found if told == {"context": context, "archive": found} else ""


def _build(
    spec: ImageSpec, tools: Tools, context: Path, path: Path, *, platform: str, digest: str
) -> str:
    """Build and save; the archive's SHA-256."""
    tools.engine(
        "build",
        f"--platform={platform}",
        f"--tag={spec.local}",
        f"--label=sremut.context={digest}",
        str(context),
        timeout=_BUILD,
    ).checked(
        f"image {spec.name} was not built",
        "its base image and sources come from the network; see the engine's own words above",
    )
    temporary = path.with_name(f".{path.name}-{os.getpid()}")
    try:
        tools.engine(
            "save",
            *_one_platform(tools, platform),
            f"--output={temporary}",
            spec.local,
            timeout=_SAVE,
        ).checked(
            f"image {spec.name} was not saved",
            "with a buildx builder of its own an image does not get into Docker's store: "
            "docker buildx use default",
        )
        with temporary.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        temporary.replace(path)
    except FileNotFoundError:
        raise KindError(f"image {spec.name} was not saved: {tools.provider} wrote none") from None
    finally:
        temporary.unlink(missing_ok=True)
    facts = json.dumps({"context": digest, "archive": sha256})
    path.with_suffix(".json").write_text(facts, "utf-8")
    return sha256


def _one_platform(tools: Tools, platform: str) -> list[str]:
    """How `save` is told to save one platform only."""
    if tools.provider == "podman":
        return ["--format=docker-archive"]  # of one image by nature
    answer = tools.engine(
        "version", "--format", "{{.Client.APIVersion}} {{.Server.APIVersion}}", timeout=60.0
    ).checked("docker's version cannot be read")
    versions = [_version(word) for word in answer.stdout.split()]
    new = len(versions) == 2 and min(versions) >= _SAVE_PLATFORM
    # An older one has the one platform that the build made, and nothing else under this name.
    return [f"--platform={platform}"] if new else []


def _version(text: str) -> tuple[int, ...]:
    parts = text.split(".")
    return tuple(int(p) for p in parts) if all(p.isdigit() and p.isascii() for p in parts) else ()


def load(tools: Tools, cluster: str, nodes: tuple[Node, ...], archive: Archive) -> None:
    """Load an image into a cluster, and see that every node has it under its name.

    Raises:
        KindError: A node does not have it.
    """
    load_archive(tools, cluster, archive.path)
    spec = archive.spec
    for node in nodes:
        there = _seen(tools, node, spec.local)
        if spec.full not in there and spec.local in there:
            name_image(tools, node, image=spec.local, name=spec.full)
            there = _seen(tools, node, spec.full)
        if spec.full not in there:
            raise KindError(
                f"image {spec.name} is not on node {node.name} although it was loaded; there: "
                + (", ".join(sorted(there)) or "none"),
                f"remove {archive.path} and try again; with Docker's containerd image store "
                "Docker 28 or newer is needed",
            )


def _seen(tools: Tools, node: Node, wanted: str) -> frozenset[str]:
    """The images on a node, asked for until `wanted` is among them or it has had its time.

    The kubelet's view follows the store's by events of which nobody else hears.
    """
    for pause in (*_LOOK_AGAIN, 0.0):
        there = images_on(tools, node)
        if wanted in there:
            break
        threading.Event().wait(pause)
    return there


def digests(archives: list[Archive]) -> dict[str, Any]:
    """What a record says of the images, by name."""
    return {archive.spec.name: archive.facts() for archive in archives}
