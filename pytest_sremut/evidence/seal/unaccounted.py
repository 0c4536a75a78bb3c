"""Files and directories of an evidence directory of which its ledger of attempts does not speak."""

from __future__ import annotations

from collections.abc import Iterator, Set
from pathlib import Path
from typing import Final

from pytest_sremut.evidence.seal.session import SESSIONS
from pytest_sremut.ground.durable.atomic import TEMPORARY

__all__ = ["unaccounted"]

_OWN: Final = frozenset({"attempts", SESSIONS, "published", "clusters", "recoveries"})
"""Directories of an evidence directory that are no study's; of the last three no seal speaks."""
_UNKNOWN: Final = "the ledger of attempts does not know it"


def unaccounted(directory: Path, known: Set[str]) -> Iterator[tuple[str, str]]:
    """Yields (path, what is wrong) for each; `known` are the attempts as `study/run/aNN`."""
    studies = {place.split("/")[0] for place in known}
    for top in _children(directory):
        if top.name in _OWN:
            if not _is_directory(top):
                yield top.name, "no directory: it has no place here"
        elif top.name in studies and _is_directory(top):
            yield from _of_study(top, known)
        else:
            yield top.name, _UNKNOWN
    for path in _children(directory / "attempts"):
        if path.name.startswith(".") or path.is_symlink():  # the ledger's check reports the others
            yield f"attempts/{path.name}", "no entry of the ledger"


def _of_study(study: Path, known: Set[str]) -> Iterator[tuple[str, str]]:
    runs = {place.rpartition("/")[0] for place in known}
    for run in _children(study):
        place = f"{study.name}/{run.name}"
        if place not in runs or not _is_directory(run):
            yield place, _UNKNOWN
            continue
        for attempt in _children(run):
            here = f"{place}/{attempt.name}"
            if here not in known or not _is_directory(attempt):
                yield here, _UNKNOWN


def _children(directory: Path) -> list[Path]:
    """What a directory holds, without the temporary files that a crash left."""
    if not directory.is_dir():
        return []
    return sorted(path for path in directory.iterdir() if not path.name.startswith(TEMPORARY))


def _is_directory(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()
