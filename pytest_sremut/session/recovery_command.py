"""`sremut recover`: put back what dead sessions left mutated.

Exit codes: 0 put back, or nothing to do; 1 blocked; 2 misuse; 3 the cluster does not answer.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_sremut.errors import ClusterError, EvidenceError, UsageError
from pytest_sremut.session.recovery import Place, recover_leased

if TYPE_CHECKING:
    from pytest_sremut.cluster.port import Cluster

__all__ = ["add_arguments"]

_OK, _BLOCKED, _CANNOT_TELL = 0, 1, 3


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
    mark: Path | None = None  # that led here


def _command(arguments: argparse.Namespace) -> int:
    from pytest_sremut.evidence.identity import new_session_id
    from pytest_sremut.ground.durable.clock import SystemClock

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
    found: dict[tuple[str, str], _Reached] = {}
    for file, mark in marks(os.environ).items():
        if "kubeconfig" not in mark.facts or "context" not in mark.facts:
            raise UsageError(
                f"{file}: the mark of session {mark.session} does not say how its cluster is "
                "reached; name it with --cluster or --context"
            )
        kubeconfig, context = mark.facts["kubeconfig"], mark.facts["context"]
        found.setdefault(
            (kubeconfig, context),
            _Reached(kubeconfig=Path(kubeconfig), context=context, mark=file),
        )
    return list(found.values())


def _own(name: str) -> _Reached:
    """A cluster that we made: its kubeconfig lies in its directory."""
    import yaml

    from pytest_sremut.cluster.lease import own_directories

    for directory in own_directories(os.environ):
        file = directory / "kubeconfig"
        if directory.name == name and file.is_file():
            try:
                context = yaml.safe_load(file.read_text(encoding="utf-8"))["current-context"]
            except (OSError, ValueError, TypeError, KeyError, yaml.YAMLError):
                raise UsageError(
                    f"{file}: found no current context; allowed: a kubeconfig as we write it"
                ) from None
            return _Reached(kubeconfig=file, context=str(context))
    known = ", ".join(sorted(one.name for one in own_directories(os.environ))) or "none"
    raise UsageError(f"--cluster: found {name!r}; allowed: a cluster of our own ({known})")


def _recover_one(reached: _Reached, place: Place) -> int:
    from pytest_sremut.cluster.context import ContextBackend
    from pytest_sremut.engine.recovery import BlockedError

    allowed = frozenset({reached.context})
    gone = f"; if the cluster is gone, remove {reached.mark}" if reached.mark else ""
    try:
        cluster = ContextBackend.open(
            context=reached.context, allowed=allowed, kubeconfig=reached.kubeconfig
        )
    except UsageError as error:
        if reached.mark is None:
            raise
        return _complain(reached, f"{error}{gone}", _CANNOT_TELL)
    try:
        done = _leased(cluster, reached, place, allowed)
    except BlockedError as error:
        return _complain(reached, str(error), _BLOCKED, error.look)
    except ClusterError as error:
        return _complain(reached, f"{error}{gone}", _CANNOT_TELL)
    except EvidenceError as error:
        return _complain(reached, str(error), _BLOCKED)
    finally:
        cluster.close()
    for line in done or ["nothing to recover"]:
        print(f"{reached.context}: {line}")
    return _OK


def _leased(
    cluster: Cluster, reached: _Reached, place: Place, allowed: frozenset[str]
) -> list[str]:
    from pytest_sremut.cluster.lease import Lease, directory_for

    identity = cluster.identity()
    directory = directory_for(reached.kubeconfig, os.environ)
    with Lease.acquire(
        identity, holder=place.session, directory=directory, allow_dirty=True
    ) as lease:
        if reached.mark is not None and lease.mark_file != reached.mark:
            raise ClusterError(f"{reached.kubeconfig} reaches another cluster than the marked one")
        return recover_leased(cluster, identity, lease, place, allowed_contexts=allowed)


def _complain(reached: _Reached, message: str, code: int, look: tuple[str, ...] = ()) -> int:
    print(f"sremut: {reached.context}: {message}", file=sys.stderr)
    for line in look:
        print(f"  {line}", file=sys.stderr)
    return code
