"""Putting the system back: the mutant goes, the captured target comes back."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from pytest_sremut.cluster.port import Absent, Failed, ObjectRef, Present
from pytest_sremut.cluster.waiting import object_gone
from pytest_sremut.engine.faults.writes import recycle, target_ref
from pytest_sremut.engine.journal_ops import Captured, OperationKind
from pytest_sremut.engine.observe.stability import listed
from pytest_sremut.engine.own_pods import is_probe
from pytest_sremut.engine.state import Role
from pytest_sremut.engine.stops import RunStoppedError, told
from pytest_sremut.errors import ClusterUnavailableError
from pytest_sremut.study.verdict import Outcome

if TYPE_CHECKING:
    from pytest_sremut.engine.faults.port import Fault
    from pytest_sremut.engine.state import Owned, RunContext, RunState

__all__ = ["abandoned_probes", "patiently", "restore"]

_PAUSES: Final = (1.0, 2.0, 4.0, 8.0)  # seconds between attempts to put a cluster back


def restore(
    ctx: RunContext, state: RunState, fault: Fault, owned: Owned, *, only_ours: bool = False
) -> None:
    """Take the mutant away, put the captured target back, recycle every pod, wait.

    Args:
        ctx: The run.
        state: What is known of the system now.
        fault: Puts the target back.
        owned: Gets what is gone, and the restored target.
        only_ours: Recycle only pods of the application that this attempt deployed: nobody knows
            who else came since.

    Raises:
        RunStoppedError: `RESTORATION_FAILURE`: an object that is neither the mutant's nor the
            captured one has the target's name; it is left alone.
    """
    ctx.tell("restoring")
    assert state.target is not None
    _remove_mutant(ctx, state.mutants, owned)
    ref = target_ref(ctx)
    found = ctx.api.get(ref)
    match found:
        case Failed():
            raise ClusterUnavailableError(
                f"{found.what}: {found.message}", status=found.status, reason=found.reason
            )
        case Present() if found.body["metadata"]["uid"] == state.target["metadata"]["uid"]:
            # The fault never took effect: the original is still there.
            recycle(ctx, state, only_ours=only_ours)
        case Present():
            raise RunStoppedError(
                Outcome.RESTORATION_FAILURE,
                f"{ref} (uid {found.body['metadata']['uid']}) is neither the captured object nor "
                "the mutant: an unexpected object is never overwritten",
            )
        case Absent():
            fault.recover(ctx, state, owned, only_ours=only_ours)


def patiently(ctx: RunContext, put_back: Callable[[], None]) -> None:
    """Put a cluster back; ask an API that was away again, after ever longer pauses.

    Each step of `put_back` asks what is there before it writes, so it may be repeated.
    """
    for pause in _PAUSES:
        try:
            put_back()
        except ClusterUnavailableError as error:
            ctx.tell(f"putting back: again in {pause:g} s ({told(error)})")
            ctx.clock.wait(pause)
        else:
            return
    put_back()


def abandoned_probes(ctx: RunContext, known: tuple[Captured, ...]) -> tuple[Captured, ...]:
    """Probe pods whose grader was interrupted and will not take them away, less the `known`."""
    uids = {item.uid for item in known}
    return tuple(
        Captured(
            ref=ObjectRef(kind="Pod", namespace=ctx.namespace, name=pod["metadata"]["name"]),
            uid=pod["metadata"]["uid"],
        )
        for pod in listed(ctx.api.list("Pod", ctx.namespace))
        if is_probe(pod, ctx.study) and pod["metadata"]["uid"] not in uids
    )


def _remove_mutant(ctx: RunContext, mutants: tuple[Captured, ...], owned: Owned) -> None:
    if not mutants:
        return
    ctx.guard.delete(OperationKind.DELETE_MUTANT, mutants)
    for item in mutants:
        object_gone(ctx.api, item.ref, item.uid, timeout=ctx.protocol.stable_timeout)
    owned.gone(Role.MUTANT, *mutants)
