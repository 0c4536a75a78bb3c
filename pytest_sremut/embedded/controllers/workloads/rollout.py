"""The arithmetic of a Deployment's rollout.

Rules kept here:

* pure: ReplicaSets and Deployment in, wanted numbers of replicas out;
* never more than ``replicas + maxSurge`` pods are wanted, and an old ReplicaSet gives up a pod that
  serves only while ``replicas - maxUnavailable`` others do; pods that do not serve go first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pytest_sremut.embedded.controllers.objects import resolve_count, whole
from pytest_sremut.embedded.meta.jsonvalue import JsonObject

__all__ = [
    "DESIRED",
    "MAX_REPLICAS",
    "available",
    "by_age",
    "desired",
    "is_rolling",
    "max_surge",
    "max_unavailable",
    "new_replicas",
    "old_replicas",
    "proportional",
    "wanted",
]

DESIRED = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS = "deployment.kubernetes.io/max-replicas"


def wanted(value: JsonObject) -> int:
    """``spec.replicas`` of a Deployment or ReplicaSet."""
    return int(value["spec"].get("replicas", 1))


def available(replicasets: Iterable[JsonObject]) -> int:
    """Available replicas, summed."""
    return sum((item.get("status") or {}).get("availableReplicas", 0) for item in replicasets)


def is_rolling(deployment: JsonObject) -> bool:
    """Whether the strategy is ``RollingUpdate``."""
    strategy = deployment["spec"].get("strategy") or {}
    return bool(strategy.get("type", "RollingUpdate") == "RollingUpdate")


def max_surge(deployment: JsonObject) -> int:
    """How many pods more than wanted there may be."""
    return _fence(deployment)[0]


def max_unavailable(deployment: JsonObject) -> int:
    """How many pods fewer than wanted may serve."""
    return min(_fence(deployment)[1], wanted(deployment))


def _fence(deployment: JsonObject) -> tuple[int, int]:
    total = wanted(deployment)
    if not is_rolling(deployment):
        return 0, 0
    bounds = (deployment["spec"].get("strategy") or {}).get("rollingUpdate") or {}
    surge = resolve_count(bounds.get("maxSurge", "25%"), total, round_up=True)
    missing = resolve_count(bounds.get("maxUnavailable", "25%"), total, round_up=False)
    if surge == 0 and missing == 0:
        missing = 1  # else the rollout could never move
    return surge, missing


def by_age(replicasets: Iterable[JsonObject]) -> list[JsonObject]:
    """Oldest first; equal ages by name."""
    return sorted(
        replicasets,
        key=lambda item: (item["metadata"]["creationTimestamp"], item["metadata"]["name"]),
    )


def desired(replicaset: JsonObject) -> int | None:
    """The Deployment's replicas when the ReplicaSet was last scaled by it, or ``None``."""
    return _annotated(replicaset, DESIRED)


def _annotated(replicaset: JsonObject, annotation: str) -> int | None:
    return whole((replicaset["metadata"].get("annotations") or {}).get(annotation, ""))


def new_replicas(deployment: JsonObject, everything: Iterable[JsonObject], new: int) -> int:
    """Replicas that the new ReplicaSet should have.

    Args:
        everything: all ReplicaSets, the new one too if it is there.
        new: its replicas now; 0 when it is yet to be made.
    """
    total = wanted(deployment)
    if not is_rolling(deployment):
        return total
    if new > total:
        return total
    room = total + max_surge(deployment) - sum(map(wanted, everything))
    if room <= 0:
        return new
    return new + min(room, total - new)


def old_replicas(
    deployment: JsonObject, old: Sequence[JsonObject], new: JsonObject
) -> dict[str, int]:
    """Replicas that old ReplicaSets should give way to, by name; those that stay are left out."""
    count = {item["metadata"]["name"]: wanted(item) for item in old}
    if not any(count.values()):
        return {}
    floor = wanted(deployment) - max_unavailable(deployment)
    not_serving = wanted(new) - available([new])
    spare = sum(count.values()) + wanted(new) - floor - not_serving
    if spare <= 0:
        return {}
    plan: dict[str, int] = {}
    for item in by_age(old):  # what does not serve anyhow
        name = item["metadata"]["name"]
        idle = min(spare, count[name] - available([item]))
        if count[name] and idle > 0:
            count[name] -= idle
            plan[name] = count[name]
            spare -= idle
    serving = available([*old, new]) - floor
    for item in by_age(old):  # what may stop serving
        name = item["metadata"]["name"]
        taken = min(serving, count[name])
        if taken > 0:
            count[name] -= taken
            plan[name] = count[name]
            serving -= taken
    return plan


def proportional(deployment: JsonObject, active: Sequence[JsonObject]) -> dict[str, int]:
    """Replicas of each active ReplicaSet when a Deployment is scaled in the middle of a rollout."""
    total = wanted(deployment)
    allowed = total + max_surge(deployment) if total else 0
    change = allowed - sum(map(wanted, active))
    newest_first = list(reversed(by_age(active)))
    ordered = newest_first if change > 0 else by_age(active)
    ordered.sort(key=wanted, reverse=True)
    sizes: dict[str, int] = {}
    given = 0
    for item in ordered:
        share = 0
        if change and change != given:
            share = _share(deployment, item, allowed)
            left = change - given
            share = min(share, left) if change > 0 else max(share, left)
        sizes[item["metadata"]["name"]] = wanted(item) + share
        given += share
    # What rounding leaves is the largest's, and the next one's what would take that below zero.
    rest = change - given
    for name, size in sizes.items():
        share = max(rest, -size)
        sizes[name] = size + share
        rest -= share
    return sizes


def _share(deployment: JsonObject, replicaset: JsonObject, allowed: int) -> int:
    size = wanted(replicaset)
    if not wanted(deployment):
        return -size
    before = _annotated(replicaset, MAX_REPLICAS)
    if not before:
        before = (deployment.get("status") or {}).get("replicas", 0)
    if not before:
        return 0
    return (2 * size * allowed + before) // (2 * before) - size
