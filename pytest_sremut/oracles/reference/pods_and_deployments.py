"""Does everything look healthy? Deployments and Pods of one namespace, nothing else.

This is the commonest grader of live benchmarks, and its blindness is the point: it cannot see a
Service, a route or a request. Two traits of that kind are kept on purpose:

- every pod of the namespace must be Running with all containers ready, so a finished Job's pod or
  an old Failed pod makes it reject a right repair;
- Deployments are compared with what they desire *now*; the baseline only tells which must exist
  and must not have been scaled to nothing. Without a baseline these checks do not apply.

It reads once and does not wait. It raises when a read fails.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_sremut.oracles.baseline import capture_baseline
from pytest_sremut.oracles.context import GraderContext, listed

__all__ = ["PodsAndDeployments"]


class PodsAndDeployments:
    """Accepts when no Deployment and no Pod looks unhealthy."""

    def __init__(self, context: GraderContext) -> None:
        self._context = context
        self._baseline = dict(context.baseline)

    def capture_baseline(self) -> dict[str, int]:
        """Remember what is desired now."""
        self._baseline = capture_baseline(self._context.api, self._context.namespace)
        return dict(self._baseline)

    def evaluate(self) -> dict[str, Any]:
        """`success`, and `reasons`: one sentence for each thing that looks unhealthy."""
        api, namespace = self._context.api, self._context.namespace
        deployments = listed(api.list("Deployment", namespace))
        pods = listed(api.list("Pod", namespace))
        reasons = [*_missing(deployments, self._baseline)]
        for deployment in deployments:
            reasons += _deployment(deployment, self._baseline)
        if not pods:
            reasons.append("there is no pod")  # nothing at all is no health
        for pod in pods:
            reasons += _pod(pod)
        return {"success": not reasons, "reasons": reasons}


def _missing(deployments: Sequence[Mapping[str, Any]], baseline: Mapping[str, int]) -> list[str]:
    present = {item["metadata"]["name"] for item in deployments}
    return [f"Deployment {name} is gone" for name in sorted(baseline) if name not in present]


def _deployment(deployment: Mapping[str, Any], baseline: Mapping[str, int]) -> list[str]:
    name = deployment["metadata"]["name"]
    status = deployment.get("status") or {}
    desired = deployment["spec"].get("replicas", 1)
    reasons = []
    if baseline.get(name, 0) > 0 and desired == 0:
        reasons.append(f"Deployment {name} is scaled to zero")
    if (ready := status.get("readyReplicas") or 0) < desired:
        reasons.append(f"Deployment {name}: {ready} of {desired} ready")
    if unavailable := status.get("unavailableReplicas") or 0:
        reasons.append(f"Deployment {name}: {unavailable} unavailable")
    paused = deployment["spec"].get("paused", False)
    updated = status.get("updatedReplicas") or 0
    if updated < desired and not paused:
        reasons.append(f"Deployment {name}: {updated} of {desired} updated")
    return reasons


def _pod(pod: Mapping[str, Any]) -> list[str]:
    name = pod["metadata"]["name"]
    status = pod.get("status") or {}
    if (phase := status.get("phase")) != "Running":
        return [f"Pod {name} is {phase or 'without a phase'}"]
    containers = status.get("containerStatuses") or []
    if len(containers) < len(pod["spec"]["containers"]):
        return [f"Pod {name}: {len(containers)} of its containers have a status"]
    return [
        f"Pod {name}: container {container['name']} is not ready ({_state(container)})"
        for container in containers
        if container.get("ready") is not True
    ]


def _state(container: Mapping[str, Any]) -> str:
    for state in ("waiting", "terminated"):
        detail = (container.get("state") or {}).get(state)
        if detail:
            return f"{state}: {detail.get('reason', 'no reason given')}"
    return "running"
