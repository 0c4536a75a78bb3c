"""What a cluster may leave behind: descriptors, processes, mounts, namespaces."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

from pytest_sremut.embedded import Image, up

IMAGES = {"busybox:1.36": Image(kind="commands")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Traces:
    """What can be counted from outside."""

    descriptors: int
    processes: frozenset[int]
    mounts: int


def of(directory: Path) -> Traces:
    """The traces that clusters below `directory` have now."""
    found = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            links = [str(fd.readlink()) for fd in (entry / "fd").iterdir()]
        except OSError:
            continue
        if any(link.startswith(f"{directory}/") for link in links):
            found.add(int(entry.name))
    mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8")
    return Traces(
        descriptors=sum(1 for _ in Path("/proc/self/fd").iterdir()),
        processes=frozenset(found),
        mounts=mounts.count(str(directory)),
    )


def cycle(directory: Path, number: int, *, timeout: float = 30) -> None:
    """A cluster up and down; every third one is killed instead."""
    cluster = up(directory=directory, name="cycle", images=IMAGES, timeout=timeout)
    if number % 3 == 2:
        os.kill(cluster.pid, signal.SIGKILL)
    cluster.close()
