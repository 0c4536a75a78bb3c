"""The built-in fault: delete the target Service, recycle every pod, wait until all are ready.

It restores exactly the surface that a pod-watching grader sees, and leaves the Service gone. Its
recovery puts the captured body back, recycles every pod and waits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pytest_sremut.cluster.port import ObjectRef
from pytest_sremut.cluster.waiting import Objects, object_gone
from pytest_sremut.engine.journal_ops import Captured, OperationKind, captured
from pytest_sremut.engine.observe.stability import listed, stable
from pytest_sremut.study.mutants import strip_server_fields

if TYPE_CHECKING:
    from pytest_sremut.engine.state import Owned, RunContext, RunState

__all__ = ["Writes", "owned_pods", "recycle", "target_ref"]


def target_ref(ctx: RunContext) -> ObjectRef:
    """The object that the fault hits."""
    return ObjectRef(kind="Service", namespace=ctx.namespace, name=ctx.study.target.name)


class Writes:
    """See the module. A `Fault`."""

    def inject(self, ctx: RunContext, state: RunState) -> None:
        """Delete the captured target and recycle every pod."""
        assert state.target is not None
        original = captured(state.target)
        ctx.guard.delete(OperationKind.DELETE_TARGET, [original])
        with ctx.timings.phase("cluster"):
            object_gone(ctx.api, original.ref, original.uid, timeout=ctx.protocol.stable_timeout)
        recycle(ctx, state)

    def recover(
        self, ctx: RunContext, state: RunState, owned: Owned, *, only_ours: bool = False
    ) -> None:
        """Create the captured target again and recycle the pods."""
        assert state.target is not None
        ctx.guard.create(
            OperationKind.RESTORE_TARGET,
            [strip_server_fields(state.target)],
            note=lambda seen: owned.restored(seen.body),
        )
        recycle(ctx, state, only_ours=only_ours)


def recycle(ctx: RunContext, state: RunState, *, only_ours: bool = False) -> None:
    """Delete each pod that is there now, once, and wait; pods that appear later are never added.

    Args:
        ctx: The run.
        state: For the wanted replicas, and for the application's Deployments.
        only_ours: Only pods of the application that this attempt deployed.
    """
    there = listed(ctx.api.list("Pod", ctx.namespace))
    pods = [
        Captured(
            ref=ObjectRef(kind="Pod", namespace=ctx.namespace, name=pod["metadata"]["name"]),
            uid=pod["metadata"]["uid"],
        )
        for pod in (owned_pods(ctx, state.application, there) if only_ours else there)
    ]
    ctx.guard.delete(OperationKind.RECYCLE_PODS, pods)
    stable(ctx, state.baseline, gone=[pod.uid for pod in pods], timeout=ctx.protocol.stable_timeout)


def owned_pods(
    ctx: RunContext, application: tuple[Captured, ...], pods: Objects
) -> list[Mapping[str, Any]]:
    """The pods whose owners, by UID, are Deployments that this attempt deployed."""
    deployed = {item.uid for item in application}
    sets = {
        item["metadata"]["uid"]
        for item in listed(ctx.api.list("ReplicaSet", ctx.namespace))
        if _owners(item) & deployed
    }
    return [pod for pod in pods if _owners(pod) & sets]


def _owners(item: Mapping[str, Any]) -> set[str]:
    return {owner["uid"] for owner in item["metadata"].get("ownerReferences") or ()}
