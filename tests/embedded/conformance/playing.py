"""Scenarios in clusters of their own, side by side.

Rules kept here: one cluster a scenario, so that none sees another's objects; a scenario that breaks
off says so instead of counting as played.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pytest_sremut.embedded import Image, up

from .commands import Commands
from .outcome import Outcome
from .recorded import FOLDERS
from .replay import Scenario
from .world import World

IMAGES = {
    "busybox:1.36": Image(kind="commands"),
    "busybox:1.36.1": Image(kind="commands"),
}

# What the product's verdicts depend on, in the part of the recordings that takes little time.
QUICK: Mapping[str, Collection[int]] = {
    "01-discovery": range(1, 40),
    "02-deployment": range(1, 25),
    "03-service": range(1, 99),
    "04-pods": [*range(1, 63), 65, 66, *range(69, 73)],
    "05-errors": [*range(1, 122), 126, 127, 131],
    "07-connect-timing": [1, 2, 3, 4, 5, 6, 7, 900],
}


def play(folder: str, wanted: Collection[int] | None = None) -> list[Outcome]:
    """Play a scenario, or the wanted steps of it, in a cluster of its own."""
    with tempfile.TemporaryDirectory(prefix="sremut-conformance-") as directory:
        place = Path(directory)
        with up(directory=place / "cluster", name="conformance", images=IMAGES) as cluster:
            world = World(cluster.kubeconfig)
            try:
                if folder == "06-kubectl":
                    scratch = place / "scratch"
                    scratch.mkdir()
                    outcomes = list(Commands(world, cluster.kubeconfig, scratch).play(wanted))
                else:
                    outcomes = list(Scenario(folder, world).play(wanted))
                failures = cluster.status()["failures"]
            finally:
                world.close()
    if failures:
        raise AssertionError(f"{folder}: the cluster reports defects: {failures}")
    return outcomes


def play_all(
    wanted: Mapping[str, Collection[int]] | None = None, *, at_once: int = 3
) -> dict[str, list[Outcome]]:
    """Play scenarios side by side; all of them, or the wanted steps of the wanted ones."""
    folders = list(FOLDERS if wanted is None else wanted)
    # The longest first, so that none is left over at the end.
    folders.sort(key=lambda folder: folder not in ("03-service", "06-kubectl", "08-faults"))
    with ThreadPoolExecutor(max_workers=at_once) as pool:
        futures = {
            folder: pool.submit(play, folder, None if wanted is None else wanted[folder])
            for folder in folders
        }
        return {folder: future.result() for folder, future in sorted(futures.items())}
