"""The replica baseline: what was desired while the application was healthy."""

from __future__ import annotations

from pytest_sremut.cluster.port import KubeApi
from pytest_sremut.cluster.waiting import deployment_lacks
from pytest_sremut.errors import ClusterError
from pytest_sremut.oracles.context import listed

__all__ = ["capture_baseline"]


def capture_baseline(api: KubeApi, namespace: str) -> dict[str, int]:
    """Deployment -> desired replicas, sorted by name.

    A baseline over nothing, or over a rollout in flight, would disarm every check against it.

    Raises:
        ClusterError: There is no Deployment, or one is not completely rolled out.
        ClusterUnavailableError: The read failed.
    """
    deployments = listed(api.list("Deployment", namespace))
    if not deployments:
        raise ClusterError(f"no Deployment in {namespace}: there is no baseline to capture")
    for deployment in deployments:
        if lacks := deployment_lacks(deployment):
            raise ClusterError(f"no baseline can be captured in {namespace}: {lacks}")
    return {d["metadata"]["name"]: d["spec"].get("replicas", 1) for d in deployments}
