"""Deploying the audited application, waiting until it is stable, and taking it away again.

Stable means: the pods themselves were seen Ready. A Deployment's counters lag behind its pods, so
after a recycling they could still speak of the pods that are gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pytest_sremut.cluster.port import Failed, Kind, Listing, ObjectRef, Present
from pytest_sremut.cluster.waiting import (
    Objects,
    Predicate,
    WaitTimeoutError,
    deployments_ready,
    object_gone,
    pods_gone,
    wait_for,
)
from pytest_sremut.engine.faults import deployer
from pytest_sremut.engine.guard import OperationKind, captured
from pytest_sremut.engine.images import image_of
from pytest_sremut.engine.labels import OWNER_LABEL
from pytest_sremut.engine.stops import RunStoppedError
from pytest_sremut.errors import ClusterUnavailableError, UsageError
from pytest_sremut.study.verdict import Outcome

if TYPE_CHECKING:
    from pytest_sremut.engine.state import RunContext

__all__ = [
    "deploy",
    "listed",
    "manifests_of",
    "pod_is_ready",
    "remove",
    "remove_temporary",
    "stable",
]


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


def listed(read: Listing | Failed) -> Objects:
    """The items of a list that must not fail. Raises ClusterUnavailableError."""
    if isinstance(read, Failed):
        raise ClusterUnavailableError(
            f"{read.what}: {read.reason}: {read.message}", status=read.status, reason=read.reason
        )
    return read.items


def deploy(ctx: RunContext) -> None:
    """Create the namespace if it is not there, the application in it, and wait until it is ready.

    Raises:
        RunStoppedError: The application did not become ready (infrastructure).
        ClusterError: The server refused an object.
    """
    ctx.tell("deploying")
    _ensure_namespace(ctx)
    replicas = _deploy_ours(ctx) if not ctx.study.deployer else _deploy_theirs(ctx)
    stable(ctx, replicas, gone=(), timeout=ctx.protocol.deploy_timeout)
    ctx.baseline = _replicas(ctx)


def _deploy_ours(ctx: RunContext) -> dict[str, int]:
    """Create the objects that ship with the product or stand in files; their replicas."""
    bodies = ctx.study.manifests or manifests_of(
        ctx.study.application, ctx.namespace, image_of(ctx.protocol, "demo")
    )
    ctx.guard.create(
        OperationKind.DEPLOY_APPLICATION,
        bodies,
        note=lambda seen: ctx.application.append(captured(seen.body)),
    )
    return {
        body["metadata"]["name"]: body["spec"].get("replicas", 1)
        for body in bodies
        if body["kind"] == "Deployment"
    }


def _deploy_theirs(ctx: RunContext) -> dict[str, int]:
    deployer.deploy(ctx)
    return _replicas(ctx)


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


def stable(
    ctx: RunContext, replicas: Mapping[str, int], *, gone: Sequence[str], timeout: float
) -> None:
    """Wait until the pods `gone` have gone and every Deployment has its Ready pods.

    Raises:
        RunStoppedError: Not within `timeout` seconds: an infrastructure failure, told with what
            was still missing.
    """
    deadline = ctx.clock.monotonic() + timeout

    def left() -> float:
        return max(0.1, deadline - ctx.clock.monotonic())

    try:
        if gone:
            wait_for(ctx.api, "Pod", ctx.namespace, pods_gone(gone), timeout=left())
        selectors = {
            item["metadata"]["name"]: item["spec"]["selector"].get("matchLabels", {})
            for item in listed(ctx.api.list("Deployment", ctx.namespace))
        }
        ready = _ready_pods(replicas, selectors, frozenset(gone))
        wait_for(ctx.api, "Pod", ctx.namespace, ready, timeout=left())
        wait_for(ctx.api, "Deployment", ctx.namespace, deployments_ready(replicas), timeout=left())
    except WaitTimeoutError as error:
        raise RunStoppedError(
            Outcome.INFRASTRUCTURE_FAILURE, f"the application is not ready: {error}"
        ) from error


def pod_is_ready(pod: Mapping[str, Any]) -> bool:
    """Running, with condition Ready, and not being deleted."""
    status = pod.get("status") or {}
    ready = any(
        c.get("type") == "Ready" and c.get("status") == "True"
        for c in status.get("conditions") or ()
    )
    return status.get("phase") == "Running" and ready and "deletionTimestamp" not in pod["metadata"]


def _ready_pods(
    replicas: Mapping[str, int], selectors: Mapping[str, Mapping[str, str]], old: frozenset[str]
) -> Predicate:
    def predicate(pods: Objects) -> str:
        fresh = [p for p in pods if pod_is_ready(p) and p["metadata"]["uid"] not in old]
        for name, wanted in sorted(replicas.items()):
            labels = selectors.get(name)
            if labels is None:
                return f"Deployment {name} does not exist"
            found = sum(
                labels.items() <= (p["metadata"].get("labels") or {}).items() for p in fresh
            )
            if found < wanted:
                return f"Deployment {name}: {found} of {wanted} pods are ready"
        return ""

    return predicate


def remove_temporary(ctx: RunContext) -> None:
    """Delete the load Jobs and probe pods that an interrupted step left behind."""
    if ctx.temporary:
        ctx.guard.delete(
            OperationKind.DELETE_OWN_POD,
            ctx.temporary,
            grace_period=0,
            propagation="Background",
        )
        ctx.temporary = []


_OWN_KINDS: Final[tuple[Kind, ...]] = ("Deployment", "Service", "Job", "Pod")
"""Of these the namespace held none when the run began, see `preflight`."""


def remove(ctx: RunContext) -> None:
    """Delete every object that this attempt deployed, by UID, and wait until its pods are gone.

    What a benchmark deployed, its own code takes away first.

    The namespace stays: we delete no namespaces.
    """
    ctx.tell("removing the application")
    remove_temporary(ctx)
    deployed = list(ctx.application)
    if ctx.deployed_by_benchmark:
        deployer.remove(ctx)
    if ctx.application:
        ctx.guard.delete(
            OperationKind.REMOVE_APPLICATION, ctx.application, propagation="Background"
        )
    ctx.application = []
    ctx.deployed_by_benchmark = False

    def nothing_left(items: Objects) -> str:
        names = ", ".join(item["metadata"]["name"] for item in items[:3])
        return f"{len(items)} objects are still there: {names}" if items else ""

    for kind in _OWN_KINDS:
        wait_for(ctx.api, kind, ctx.namespace, nothing_left, timeout=ctx.protocol.stable_timeout)
    for item in deployed:
        if item.ref.kind not in _OWN_KINDS:  # of the others a namespace may hold somebody else's
            object_gone(ctx.api, item.ref, item.uid, timeout=ctx.protocol.stable_timeout)
