"""When a new cluster can be worked with: seen by watching, not guessed by waiting."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from pytest_sremut.cluster.kind.tools import KindError
from pytest_sremut.cluster.port import Kind, KubeApi
from pytest_sremut.cluster.waiting import (
    Objects,
    Predicate,
    WaitTimeoutError,
    deployment_lacks,
    wait_for,
)

__all__ = ["await_ready"]

_OUTAGE = 60.0  # a new API server restarts now and then


def await_ready(api: KubeApi, *, nodes: int, timeout: float) -> None:
    """Wait until every node is Ready, cluster DNS is rolled out and pods can have an account.

    Args:
        api: Of the cluster.
        nodes: How many nodes there must be.
        timeout: Seconds for all of it together.

    Raises:
        KindError: It is not, with what is still missing.
        ClusterUnavailableError: The API stays away.
    """
    deadline = time.monotonic() + timeout
    steps: tuple[tuple[Kind, str, Predicate], ...] = (
        ("Node", "", _nodes_ready(nodes)),
        ("Deployment", "kube-system", _dns_ready),
        ("ServiceAccount", "default", _account_there),
    )
    for kind, namespace, predicate in steps:
        left = max(0.1, deadline - time.monotonic())
        try:
            wait_for(api, kind, namespace, predicate, timeout=left, outage=_OUTAGE)
        except WaitTimeoutError as error:
            raise KindError(
                f"the cluster did not become ready within {timeout:g} s: {error}",
                "see the exported logs of its nodes",
            ) from error


def _nodes_ready(count: int) -> Predicate:
    def predicate(nodes: Objects) -> str:
        unready = sorted(node["metadata"]["name"] for node in nodes if not _is_ready(node))
        if unready:
            return f"node {unready[0]} is not Ready"
        return "" if len(nodes) == count else f"{len(nodes)} of {count} nodes are there"

    return predicate


def _is_ready(node: Mapping[str, Any]) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)


def _dns_ready(deployments: Objects) -> str:
    for deployment in deployments:
        if deployment["metadata"]["name"] == "coredns":
            return deployment_lacks(deployment)
    return "Deployment coredns does not exist"


def _account_there(accounts: Objects) -> str:
    there = any(account["metadata"]["name"] == "default" for account in accounts)
    return "" if there else "ServiceAccount default does not exist in namespace default"
