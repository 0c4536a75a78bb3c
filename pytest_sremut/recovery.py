"""Putting a cluster back that a dead session left mutated: by `sremut recover`, and first thing
whenever a session leases one.

The lease's dirty mark says where to look; so does the evidence itself, which is searched for
attempts on this cluster that never ended. Whoever holds the lease is alone, so each of them is
dead.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_sremut.errors import ClusterError, SremutError, UsageError

if TYPE_CHECKING:
    from pytest_sremut.cluster.lease import DirtyMark, Lease
    from pytest_sremut.cluster.port import Cluster, ClusterIdentity
    from pytest_sremut.engine.recovery import Pending
    from pytest_sremut.options import Settings

__all__ = ["Place", "add_arguments", "recover_before", "recover_leased"]

_OK, _BLOCKED, _CANNOT_TELL = 0, 1, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where evidence may lie that speaks of a cluster, and who asks."""

    project: Path  # where the studies' files lie, for evidence that is found by searching
    evidence: tuple[Path, ...]  # evidence directories
    session: str
    progress: Callable[[str], None] = lambda _text: None

    @classmethod
    def of_project(cls, project: Path, *, session: str, more: Iterable[Path] = ()) -> Place:
        """A project's own evidence directories, and others."""
        own = sorted((project / ".sremut" / "evidence").glob("*"))
        return cls(project=project, evidence=(*own, *more), session=session)


def recover_leased(
    cluster: Cluster,
    identity: ClusterIdentity,
    lease: Lease,
    place: Place,
    *,
    allowed_contexts: frozenset[str],
) -> list[str]:
    """Recover every attempt that left something on a leased cluster, and release its mark.

    Returns:
        A line for each; empty where nothing was to be done.
    Raises:
        BlockedError: One cannot be put back safely. The mark stays.
        ClusterError: The cluster gave no answer. The mark stays.
        EvidenceError: An attempt's evidence cannot be read or written. The mark stays.
    """
    from pytest_sremut.engine.clock import SystemClock
    from pytest_sremut.engine.recovery import Recoverer

    mark = lease.dirty()
    pending = list(_pending(mark, place, identity.kube_system_uid))
    if mark is not None and not pending:
        _check_stale(mark, lease.mark_file)
    recoverer = Recoverer(
        cluster=cluster,
        identity=identity,
        allowed_contexts=allowed_contexts,
        session=place.session,
        clock=SystemClock(),
        progress=place.progress,
        aside=lease.aside(),
    )
    done = [str(recoverer.recover(item)) for item in pending]
    if mark is not None:
        lease.mark_clean()
    place.progress("")
    if mark is not None and not done:
        return [f"the mark of session {mark.session} was released: its run had put everything back"]
    return done


def _pending(mark: DirtyMark | None, place: Place, uid: str) -> Iterator[Pending]:
    from pytest_sremut.engine.recovery import pending_attempts

    seen: set[Path] = set()
    searches = [(place.evidence, place.project)]
    if mark is not None and _knows(mark):
        searches.insert(0, ((Path(mark.facts["evidence"]),), Path(mark.facts["project"])))
    for evidence, project in searches:
        for item in pending_attempts(evidence, uid, project=project):
            if item.directory.resolve() not in seen:
                seen.add(item.directory.resolve())
                yield item


def _knows(mark: DirtyMark) -> bool:
    return {"evidence", "project", "attempt"} <= mark.facts.keys()


def _check_stale(mark: DirtyMark, file: Path) -> None:
    """A mark without an attempt that is to be recovered is stale only if its attempt is there."""
    from pytest_sremut.engine.recovery import BlockedError

    attempt = Path(mark.facts["attempt"]) if _knows(mark) else None
    if attempt is not None and (attempt / "attempt.json").is_file():
        return
    where = f"the evidence of its run is gone ({attempt})" if attempt else "the mark does not say"
    raise BlockedError(
        f"session {mark.session} left the cluster mutated ({mark.note}), and how to put it back "
        f"cannot be told: {where}",
        look=(
            f"mark: {file}",
            "put the objects back by hand or take the cluster down, then remove the mark",
        ),
    )


def recover_before(settings: Settings, place: Place) -> list[str]:
    """Before a session on an existing cluster: recover what earlier ones left there.

    Returns:
        A line for each attempt that was recovered.
    Raises:
        UsageError: Another session holds the cluster.
        BlockedError: See `recover_leased`.
    """
    from pytest_sremut.cluster.context import ContextBackend

    try:
        cluster = ContextBackend.open(
            context=settings.cluster.partition(":")[2], allowed=settings.allowed_contexts
        )
    except UsageError:
        return []  # each cell will tell
    try:
        return _leased_and_recovered(cluster, place, settings.allowed_contexts)
    finally:
        cluster.close()


def _leased_and_recovered(
    cluster: Cluster, place: Place, allowed_contexts: frozenset[str]
) -> list[str]:
    from pytest_sremut.cluster.lease import Lease, directory_for

    try:
        identity = cluster.identity()
    except ClusterError:
        return []  # each cell will tell
    directory = directory_for(cluster.kubeconfig, os.environ)
    with Lease.acquire(
        identity, holder=place.session, directory=directory, allow_dirty=True
    ) as lease:
        return recover_leased(cluster, identity, lease, place, allowed_contexts=allowed_contexts)


# -- the command --------------------------------------------------------------------------------


def add_arguments(commands: argparse._SubParsersAction[Any]) -> None:
    """Declare `sremut recover`."""
    command = commands.add_parser(
        "recover",
        help="put back a cluster that a dead session left mutated, from its journal",
        description="Without a cluster's name: every cluster that is marked. Exit codes: 0 put "
        "back, or nothing to do; 1 blocked; 2 misuse; 3 the cluster does not answer.",
    )
    which = command.add_mutually_exclusive_group()
    which.add_argument("--cluster", metavar="NAME", help="a cluster of our own, by its name")
    which.add_argument(
        "--context", metavar="NAME", help="a kubeconfig context, which is allowed by naming it"
    )
    command.add_argument(
        "--evidence",
        metavar="DIR",
        action="append",
        default=[],
        type=Path,
        help="an evidence directory to search, besides what the mark names and the project's own; "
        "may be given several times",
    )
    command.add_argument(
        "--project",
        metavar="DIR",
        type=Path,
        default=Path(),
        help="where audits/ lies, for evidence that no mark names (default: here)",
    )
    command.set_defaults(run=_command)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reached:
    """How a cluster is reached."""

    kubeconfig: Path
    context: str

    def __str__(self) -> str:
        return f"{self.context} ({self.kubeconfig})"


def _command(arguments: argparse.Namespace) -> int:
    from pytest_sremut.evidence.clock import SystemClock
    from pytest_sremut.evidence.identity import new_session_id

    place = Place.of_project(
        arguments.project.resolve(),
        session=new_session_id(SystemClock()),
        more=[one.resolve() for one in arguments.evidence],
    )
    reached = _clusters(arguments)
    if not reached:
        print("nothing to recover: no cluster is marked")
        return _OK
    return max(_recover_one(one, place) for one in reached)


def _clusters(arguments: argparse.Namespace) -> list[_Reached]:
    from pytest_sremut.cluster.context import kubeconfig_path
    from pytest_sremut.cluster.lease import marks

    if arguments.context:
        return [_Reached(kubeconfig=kubeconfig_path(os.environ), context=arguments.context)]
    if arguments.cluster:
        return [_own(arguments.cluster)]
    found: dict[_Reached, None] = {}
    for file, mark in marks(os.environ).items():
        if "kubeconfig" not in mark.facts or "context" not in mark.facts:
            raise UsageError(
                f"{file}: the mark of session {mark.session} does not say how its cluster is "
                "reached; name it with --cluster or --context"
            )
        found[
            _Reached(kubeconfig=Path(mark.facts["kubeconfig"]), context=mark.facts["context"])
        ] = None
    return list(found)


def _own(name: str) -> _Reached:
    """A cluster that we made: its kubeconfig lies in its directory."""
    import yaml

    from pytest_sremut.cluster.lease import own_directories

    for directory in own_directories(os.environ):
        file = directory / "kubeconfig"
        if directory.name == name and file.is_file():
            context = yaml.safe_load(file.read_text(encoding="utf-8"))["current-context"]
            return _Reached(kubeconfig=file, context=str(context))
    known = ", ".join(sorted(one.name for one in own_directories(os.environ))) or "none"
    raise UsageError(f"--cluster: found {name!r}; allowed: a cluster of our own ({known})")


def _recover_one(reached: _Reached, place: Place) -> int:
    from pytest_sremut.cluster.context import ContextBackend
    from pytest_sremut.cluster.lease import Lease, directory_for
    from pytest_sremut.engine.recovery import BlockedError

    allowed = frozenset({reached.context})
    cluster = ContextBackend.open(
        context=reached.context, allowed=allowed, kubeconfig=reached.kubeconfig
    )
    try:
        identity = cluster.identity()
        directory = directory_for(reached.kubeconfig, os.environ)
        with Lease.acquire(
            identity, holder=place.session, directory=directory, allow_dirty=True
        ) as lease:
            done = recover_leased(cluster, identity, lease, place, allowed_contexts=allowed)
    except BlockedError as error:
        return _complain(reached, error, _BLOCKED)
    except ClusterError as error:
        return _complain(reached, error, _CANNOT_TELL)
    except UsageError:
        raise
    except SremutError as error:
        return _complain(reached, error, _BLOCKED)
    finally:
        cluster.close()
    for line in done or ["nothing to recover"]:
        print(f"{reached.context}: {line}")
    return _OK


def _complain(reached: _Reached, error: SremutError, code: int) -> int:
    print(f"sremut: {reached.context}: {error}", file=sys.stderr)
    for line in error.diagnostics().splitlines():
        print(f"  {line}", file=sys.stderr)
    return code
