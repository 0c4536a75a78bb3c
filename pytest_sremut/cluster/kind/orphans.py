"""Clusters of ours whose session is no more: found by what was written down, taken away on request.

Ours is only what stands in our state directory, and a cluster of that name whose nodes are others
than the ones we made is somebody else's. A session that lives is never disturbed, nor one of
another machine; a cluster that was kept is nobody's orphan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from pytest_sremut.cluster.kind import commands, logs
from pytest_sremut.cluster.kind.records import ClusterDirectory, Record, directories, directory_of
from pytest_sremut.cluster.kind.tools import KindError, Tools
from pytest_sremut.errors import SremutError, UsageError

__all__ = ["Found", "State", "known", "left_behind", "look", "take_down", "take_down_orphans"]


class State(StrEnum):
    """What became of a cluster that we made."""

    LIVE = "live"  # its session works with it
    KEPT = "kept"  # on purpose
    ORPHAN = "orphan"  # its session has ended without taking it away
    GONE = "gone"  # no node is left; only our note of it
    FOREIGN = "foreign"  # the nodes of that name are not the ones we made
    UNKNOWN = "unknown"  # it cannot be told, so nothing is done


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One cluster of ours."""

    name: str
    state: State
    directory: ClusterDirectory
    record: Record | None = None
    dirty: str = ""  # what was left mutated
    detail: str = ""  # why its state is unknown

    def line(self) -> str:
        """For people."""
        told = f"kind cluster {self.name}: {self.state}"
        if self.record is not None:
            told += f", session {self.record.session or '?'}, made {self.record.created}"
        if self.dirty:
            told += f", left mutated: {self.dirty}"
        return f"{told} ({self.detail})" if self.detail else told


def known(name: str, environ: Mapping[str, str]) -> bool:
    """Whether a cluster of that name stands in our state directory."""
    return (directory_of(name, environ).path / "record.json").exists()


def left_behind(environ: Mapping[str, str]) -> list[str]:
    """Names of clusters whose session has ended without taking them away; asks no engine."""
    names = []
    for directory in directories(environ):
        try:
            record = directory.record()
        except UsageError:
            continue  # `look` tells
        if not (record.kept or directory.held() or record.owner_alive()):
            names.append(record.name)
    return names


def look(directory: ClusterDirectory, environ: Mapping[str, str]) -> Found:
    """What became of one cluster. Reads only."""
    name = directory.path.name
    try:
        record = directory.record()
        if record.name != name:
            raise UsageError(f"{directory.path}: its record is of {record.name}")
        live = directory.held() or record.owner_alive()
        nodes = commands.nodes_of(_tools(directory, record, environ), name)
    except SremutError as error:
        return Found(name=name, state=State.UNKNOWN, directory=directory, detail=str(error))
    return Found(
        name=name,
        state=_state(record, nodes, live=live),
        directory=directory,
        record=record,
        dirty=directory.dirty(),
    )


def _state(record: Record, nodes: tuple[commands.Node, ...], *, live: bool) -> State:
    if live and not record.kept:
        return State.LIVE
    if not nodes:
        return State.GONE
    if record.containers and not {node.id for node in nodes} <= set(record.containers):
        return State.FOREIGN
    return State.KEPT if record.kept else State.ORPHAN


def take_down(name: str, environ: Mapping[str, str]) -> list[str]:
    """Take a cluster away that was named on purpose, kept or mutated. Returns what to tell.

    Raises:
        UsageError: A session works with it, it is not ours, or it is not known.
        KindError: It is still there.
    """
    if not known(name, environ):
        raise UsageError(f"no kind cluster {name} of ours is known")
    found = look(directory_of(name, environ), environ)
    if found.state in {State.ORPHAN, State.KEPT, State.GONE}:
        return _removed(found, environ)
    raise UsageError(f"{found.line()}; it is left alone")


def take_down_orphans(environ: Mapping[str, str], *, dirty: bool) -> tuple[list[str], bool]:
    """Take away what dead sessions left. Returns what to tell, and whether nothing is left.

    Args:
        environ: Where programs and state are found.
        dirty: Also those that were left mutated: what they could still show is lost.
    """
    lines, clean = [], True
    for directory in directories(environ):
        found = look(directory, environ)
        match found.state:
            case State.ORPHAN if found.dirty and not dirty:
                clean = False
                lines.append(
                    f"{found.line()}; left alone: close its attempt first (sremut recover), or "
                    f"give --dirty"
                )
            case State.ORPHAN | State.GONE:
                try:
                    lines += _removed(found, environ)
                except SremutError as error:
                    clean = False
                    lines.append(f"kind cluster {found.name}: {error}")
            case State.UNKNOWN | State.FOREIGN:
                clean = False
                lines.append(f"{found.line()}; left alone")
            case State.LIVE | State.KEPT:
                pass
    return lines, clean


def _removed(found: Found, environ: Mapping[str, str]) -> list[str]:
    """Take it away, keeping its logs with its session's evidence where that still is."""
    record, directory = found.record, found.directory
    assert record is not None
    if not directory.hold():
        raise KindError(f"cluster {found.name} is in use by another process")
    tools = _tools(directory, record, environ)
    lines = []
    try:
        if found.state is State.ORPHAN and record.evidence and Path(record.evidence).is_dir():
            try:
                where = logs.export(tools, found.name, Path(record.evidence) / "clusters")
                lines.append(f"kind cluster {found.name}: logs in {where}")
            except SremutError as error:
                lines.append(f"kind cluster {found.name}: no logs: {error}")
        if found.state is not State.GONE and (warning := commands.delete(tools, found.name)):
            lines.append(f"warning: {warning}")
    except BaseException:
        directory.let_go()
        raise
    directory.remove()
    what = "was gone already" if found.state is State.GONE else "is down"
    return [*lines, f"kind cluster {found.name} {what}"]


def _tools(directory: ClusterDirectory, record: Record, environ: Mapping[str, str]) -> Tools:
    return Tools(
        environ=environ,
        provider=record.provider,
        kubeconfig=directory.kubeconfig,
        cache=directory.cache,
    )
