"""Reads that must not fail, and waiting until an application is stable.

Stable means: the pods themselves were seen Ready. A Deployment's counters lag behind its pods, so
after a recycling they could still speak of the pods that are gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_sremut.cluster.port import Failed, Listing
from pytest_sremut.cluster.waiting import (
    Objects,
    Predicate,
    WaitTimeoutError,
    deployments_ready,
    pods_gone,
    wait_for,
)
from pytest_sremut.engine.stops import RunStoppedError
from pytest_sremut.errors import ClusterUnavailableError
from pytest_sremut.study.verdict import Outcome

if TYPE_CHECKING:
    from pytest_sremut.engine.state import RunContext

__all__ = ["listed", "pod_is_ready", "stable"]


def listed(read: Listing | Failed) -> Objects:
    """The items of a list that must not fail. Raises ClusterUnavailableError."""
    if isinstance(read, Failed):
        raise ClusterUnavailableError(
            f"{read.what}: {read.reason}: {read.message}", status=read.status, reason=read.reason
        )
    return read.items


def stable(
    ctx: RunContext, replicas: Mapping[str, int], *, gone: Sequence[str], timeout: float
) -> None:
    """Wait until the pods `gone` have gone and every Deployment has its Ready pods.

    Raises:
        RunStoppedError: Not within `timeout` seconds: an infrastructure failure that says
            what was still missing.
    """
    deadline = ctx.clock.monotonic() + timeout

    def left() -> float:
        return max(0.1, deadline - ctx.clock.monotonic())

    try:
        with ctx.timings.phase("cluster"):
            if gone:
                wait_for(ctx.api, "Pod", ctx.namespace, pods_gone(gone), timeout=left())
            selectors = {
                item["metadata"]["name"]: item["spec"]["selector"].get("matchLabels", {})
                for item in listed(ctx.api.list("Deployment", ctx.namespace))
            }
            ready = _ready_pods(replicas, selectors, frozenset(gone))
            wait_for(ctx.api, "Pod", ctx.namespace, ready, timeout=left())
            rolled_out = deployments_ready(replicas)
            wait_for(ctx.api, "Deployment", ctx.namespace, rolled_out, timeout=left())
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
