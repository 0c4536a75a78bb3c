"""Deploying the audited application, and taking it away again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pytest_sremut.cluster.port import Failed, Kind, ObjectRef, Present
from pytest_sremut.cluster.waiting import Objects, object_gone, wait_for
from pytest_sremut.engine.journal_ops import Captured, OperationKind, captured
from pytest_sremut.engine.observe.stability import listed, stable
from pytest_sremut.engine.own_pods import OWNER_LABEL, image_of
from pytest_sremut.engine.state import Role
from pytest_sremut.errors import ClusterUnavailableError, UsageError

if TYPE_CHECKING:
    from pytest_sremut.engine.state import Owned, RunContext, RunState
    from pytest_sremut.engine.steps.deployer import Deployer

__all__ = ["deploy", "manifests_of", "remove", "remove_temporary"]


def manifests_of(application: str, namespace: str, image: str) -> list[dict[str, Any]]:
    """The objects of an application that ships with the product, in the order of their creation.

    `image` is that of the demo application, where it is one.

    Raises:
        UsageError: The study names an application that cannot be deployed here.
    """
    if application == "demo:social-network":
        from pytest_sremut.demo.manifests import manifests

        return manifests(namespace, image=image)
    raise UsageError(f"application: found {application!r}; allowed: demo:social-network")


def deploy(ctx: RunContext, deployer: Deployer | None, owned: Owned) -> dict[str, int]:
    """Create the namespace if it is not there, the application in it, and wait until it is ready.

    Args:
        ctx: The run.
        deployer: Deploys in our place, where the application is a benchmark's.
        owned: Gets each object of the application as soon as it exists.

    Returns:
        Deployment -> the replicas that are wanted of it.

    Raises:
        RunStoppedError: The application did not become ready (infrastructure).
        ClusterError: The server refused an object.
    """
    ctx.tell("deploying")
    _ensure_namespace(ctx)
    if deployer is None:
        replicas = _deploy_ours(ctx, owned)
    else:
        deployer.deploy(ctx, owned)
        replicas = _replicas(ctx)
    stable(ctx, replicas, gone=(), timeout=ctx.protocol.deploy_timeout)
    return _replicas(ctx)


def _deploy_ours(ctx: RunContext, owned: Owned) -> dict[str, int]:
    """Create the objects that ship with the product or are in files; their replicas."""
    bodies = ctx.study.manifests or manifests_of(
        ctx.study.application, ctx.namespace, image_of(ctx.protocol, "demo")
    )
    ctx.guard.create(
        OperationKind.DEPLOY_APPLICATION,
        bodies,
        note=lambda seen: owned.made(Role.APPLICATION, captured(seen.body)),
    )
    return {
        body["metadata"]["name"]: body["spec"].get("replicas", 1)
        for body in bodies
        if body["kind"] == "Deployment"
    }


def _replicas(ctx: RunContext) -> dict[str, int]:
    """Deployment -> the replicas that are wanted of it now."""
    return {
        item["metadata"]["name"]: item["spec"]["replicas"]
        for item in listed(ctx.api.list("Deployment", ctx.namespace))
    }


def _ensure_namespace(ctx: RunContext) -> None:
    ref = ObjectRef(kind="Namespace", namespace="", name=ctx.namespace)
    found = ctx.api.get(ref)
    if isinstance(found, Failed):
        raise ClusterUnavailableError(
            f"{found.what}: {found.message}", status=found.status, reason=found.reason
        )
    if isinstance(found, Present):
        return  # preflight saw that it is ours and empty
    body = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": ctx.namespace, "labels": {OWNER_LABEL: "true"}},
    }
    ctx.guard.create(OperationKind.CREATE_NAMESPACE, [body])


def remove_temporary(ctx: RunContext, temporary: tuple[Captured, ...], owned: Owned) -> None:
    """Delete the load Jobs and probe pods that an interrupted step left behind."""
    if temporary:
        ctx.guard.delete(
            OperationKind.DELETE_OWN_POD,
            temporary,
            grace_period=0,
            propagation="Background",
        )
        owned.gone(Role.TEMPORARY, *temporary)


_OWN_KINDS: Final[tuple[Kind, ...]] = ("Deployment", "Service", "Job", "Pod")
"""Of these the namespace held none when the run began, see `preflight`."""


def remove(ctx: RunContext, state: RunState, deployer: Deployer | None, owned: Owned) -> None:
    """Delete every object that this attempt deployed, by UID, and wait until its pods are gone.

    The benchmark's own code first takes away what it deployed. The namespace stays: we delete no
    namespaces.
    """
    ctx.tell("removing the application")
    remove_temporary(ctx, state.temporary, owned)
    left = state.application
    if deployer is not None and deployer.began:
        left = deployer.remove(ctx, state)
    if left:
        ctx.guard.delete(OperationKind.REMOVE_APPLICATION, left, propagation="Background")
    owned.gone(Role.APPLICATION, *state.application)
    if deployer is not None:
        deployer.ended()

    def nothing_left(items: Objects) -> str:
        names = ", ".join(item["metadata"]["name"] for item in items[:3])
        return f"{len(items)} objects are still there: {names}" if items else ""

    timeout = ctx.protocol.stable_timeout
    with ctx.timings.phase("cluster"):
        for kind in _OWN_KINDS:
            wait_for(ctx.api, kind, ctx.namespace, nothing_left, timeout=timeout)
        for item in state.application:
            # Of the others a namespace may hold somebody else's.
            if item.ref.kind not in _OWN_KINDS:
                object_gone(ctx.api, item.ref, item.uid, timeout=timeout)
