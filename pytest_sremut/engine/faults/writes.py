"""The built-in fault: delete the target Service, recycle every pod, wait until all are ready.

It restores exactly the surface that a pod-watching grader sees, and leaves the Service gone. Its
recovery is the reverse: delete what stands under the Service's name, put the captured body back,
recycle every pod, wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pytest_sremut.cluster.port import Absent, Failed, ObjectRef, Present
from pytest_sremut.cluster.waiting import Objects, object_gone
from pytest_sremut.engine.faults import benchmark as foreign
from pytest_sremut.engine.guard import Captured, OperationKind, captured
from pytest_sremut.engine.steps.deploy import listed, stable
from pytest_sremut.engine.stops import RunStoppedError
from pytest_sremut.errors import ClusterUnavailableError
from pytest_sremut.study.mutants import strip_server_fields
from pytest_sremut.study.verdict import Outcome

if TYPE_CHECKING:
    from pytest_sremut.engine.state import RunContext

__all__ = ["inject", "owned_pods", "recover", "target_ref"]


_ONE_INJECTION_AND_RECOVERY: Final = 2


def target_ref(ctx: RunContext) -> ObjectRef:
    """The object that the fault hits."""
    return ObjectRef(kind="Service", namespace=ctx.namespace, name=ctx.study.target.name)


def inject(ctx: RunContext) -> None:
    """Delete the captured target and recycle every pod; returns when the application is stable.

    A benchmark's own injector does so, or whatever it does, where the fault is one of its.
    """
    ctx.tell("injecting the fault")
    assert ctx.target is not None
    if ":" in ctx.fault:
        foreign.inject(ctx, target_ref(ctx), ctx.fault)
        return
    original = captured(ctx.target)
    ctx.guard.delete(OperationKind.DELETE_TARGET, [original])
    object_gone(ctx.api, original.ref, original.uid, timeout=ctx.protocol.stable_timeout)
    _recycle(ctx)


def recover(ctx: RunContext, *, only_ours: bool = False) -> None:
    """Take the mutant away, put the captured target back, recycle every pod, wait.

    Args:
        ctx: The run.
        only_ours: Recycle only pods of the application that this attempt deployed: nobody knows
            who else came since.

    Raises:
        RunStoppedError: `RESTORATION_FAILURE`: an object that is neither the mutant's nor the
            captured one stands under the target's name; it is left alone.
    """
    ctx.tell("restoring")
    assert ctx.target is not None
    _remove_mutant(ctx)
    ref = target_ref(ctx)
    found = ctx.api.get(ref)
    match found:
        case Failed():
            raise ClusterUnavailableError(
                f"{found.what}: {found.message}", status=found.status, reason=found.reason
            )
        case Present() if found.body["metadata"]["uid"] == ctx.target["metadata"]["uid"]:
            pass  # the fault never took effect: the original is still there
        case Present():
            raise RunStoppedError(
                Outcome.RESTORATION_FAILURE,
                f"{ref} (uid {found.body['metadata']['uid']}) is neither the captured object nor "
                "the mutant: an unexpected object is never overwritten",
            )
        case Absent() if ":" in ctx.fault and ctx.operations < _ONE_INJECTION_AND_RECOVERY:
            foreign.recover(ctx, ref, ctx.fault)
            return
        case Absent():  # also where a benchmark's recovery failed: ours is the way out
            body = strip_server_fields(ctx.target)

            def note(restored: Present) -> None:
                # From here on this is the target: a second recovery finds it in place, and taking
                # the application away must name its UID.
                ctx.target = restored.body
                others = [item for item in ctx.application if item.ref != ref]
                ctx.application = [*others, captured(restored.body)]

            ctx.guard.create(OperationKind.RESTORE_TARGET, [body], note=note)
    _recycle(ctx, only_ours=only_ours)


def _remove_mutant(ctx: RunContext) -> None:
    if not ctx.mutant_objects:
        return
    ctx.guard.delete(OperationKind.DELETE_MUTANT, ctx.mutant_objects)
    for item in ctx.mutant_objects:
        object_gone(ctx.api, item.ref, item.uid, timeout=ctx.protocol.stable_timeout)
    ctx.mutant_objects = []


def _recycle(ctx: RunContext, *, only_ours: bool = False) -> None:
    """Delete each pod that is there now, once; pods that appear later are never added."""
    there = listed(ctx.api.list("Pod", ctx.namespace))
    pods = [
        Captured(
            ref=ObjectRef(kind="Pod", namespace=ctx.namespace, name=pod["metadata"]["name"]),
            uid=pod["metadata"]["uid"],
        )
        for pod in (owned_pods(ctx, there) if only_ours else there)
    ]
    ctx.guard.delete(OperationKind.RECYCLE_PODS, pods)
    stable(
        ctx,
        ctx.baseline,
        gone=[pod.uid for pod in pods],
        timeout=ctx.protocol.stable_timeout,
    )


def owned_pods(ctx: RunContext, pods: Objects) -> list[Mapping[str, Any]]:
    """The pods whose owners, by UID, are Deployments that this attempt deployed."""
    deployed = {item.uid for item in ctx.application}
    sets = {
        item["metadata"]["uid"]
        for item in listed(ctx.api.list("ReplicaSet", ctx.namespace))
        if _owners(item) & deployed
    }
    return [pod for pod in pods if _owners(pod) & sets]


def _owners(item: Mapping[str, Any]) -> set[str]:
    return {owner["uid"] for owner in item["metadata"].get("ownerReferences") or ()}
