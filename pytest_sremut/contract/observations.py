"""What objects of the API say, as pure functions.

An *eligible endpoint* is an IPv4 address of any EndpointSlice of the Service (the union of all, the
hand-made and the mirrored included) that is ready and not terminating. An unknown readiness counts
as ready, as the API defines it and as proxies route: whether the pod itself is ready is asked of
the pod. A pod belongs to a Deployment by the UIDs of its owner chain, never by labels or names.
"""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = [
    "Backends",
    "EligibleEndpoint",
    "capacity_lacks",
    "cluster_ip",
    "eligible_endpoints",
    "is_ready",
    "routing_lacks",
]

Body = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class EligibleEndpoint:
    """An address that the Service's traffic may reach, and the slices that say so."""

    address: str
    slices: tuple[str, ...]


def eligible_endpoints(slices: Iterable[Body]) -> tuple[EligibleEndpoint, ...]:
    """The eligible endpoints of a Service's EndpointSlices, each address once, sorted."""
    found: dict[str, list[str]] = {}
    for item in slices:
        if item.get("addressType") != "IPv4":
            continue
        for endpoint in item.get("endpoints") or ():
            conditions = endpoint.get("conditions") or {}
            if conditions.get("ready") is False or conditions.get("terminating") is True:
                continue
            for address in endpoint.get("addresses") or ():
                found.setdefault(address, []).append(item["metadata"]["name"])
    return tuple(
        EligibleEndpoint(address=address, slices=tuple(sorted(set(names))))
        for address, names in sorted(found.items())
    )


def cluster_ip(service: Body) -> str:
    """The Service's IPv4 ClusterIP; empty for a headless, an external or an IPv6-only one."""
    spec = service.get("spec") or {}
    if spec.get("type") == "ExternalName":
        return ""
    for text in (spec.get("clusterIP"), *(spec.get("clusterIPs") or ())):
        try:
            address = ipaddress.ip_address(text or "")
        except ValueError:
            continue
        if address.version == 4:
            return str(address)
    return ""


def is_ready(pod: Body) -> bool:
    """Running, Ready and not being deleted."""
    status = pod.get("status") or {}
    return (
        status.get("phase") == "Running"
        and "deletionTimestamp" not in pod["metadata"]
        and any(
            condition.get("type") == "Ready" and condition.get("status") == "True"
            for condition in status.get("conditions") or ()
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Backends:
    """The pods of a namespace, and which of them the target's workload owns.

    Args:
        workload: Name of the Deployment.
        deployment: The Deployment, None where it does not exist.
        replica_sets: Those of the namespace.
        pods: Those of the namespace.
    """

    workload: str
    deployment: Body | None
    replica_sets: Sequence[Body]
    pods: Sequence[Body]

    def owned(self) -> list[Body]:
        """Pods whose controller chain Pod -> ReplicaSet -> Deployment ends at the workload."""
        if self.deployment is None:
            return []
        uid = self.deployment["metadata"]["uid"]
        sets = {
            item["metadata"]["uid"]
            for item in self.replica_sets
            if _controller(item, "Deployment") == uid
        }
        return [pod for pod in self.pods if _controller(pod, "ReplicaSet") in sets]

    def owned_ready(self) -> list[Body]:
        """Those of `owned` that are ready, sorted by name."""
        ready = [pod for pod in self.owned() if is_ready(pod)]
        return sorted(ready, key=lambda pod: str(pod["metadata"]["name"]))

    def behind(self, endpoints: Sequence[EligibleEndpoint]) -> list[Body]:
        """Those of `owned_ready` whose address is an eligible endpoint, sorted by name."""
        addresses = {endpoint.address for endpoint in endpoints}
        return [pod for pod in self.owned_ready() if _addresses(pod) & addresses]

    def holder(self, address: str) -> str:
        """Who has an address, for a sentence."""
        holders = [pod for pod in self.pods if address in _addresses(pod)]
        if not holders:
            return "no pod"
        names = ", ".join(sorted(pod["metadata"]["name"] for pod in holders))
        if not {pod["metadata"]["uid"] for pod in holders} & {
            pod["metadata"]["uid"] for pod in self.owned()
        }:
            return f"{names}, not owned by Deployment/{self.workload}"
        return f"{names}, not ready"


def routing_lacks(endpoints: Sequence[EligibleEndpoint], backends: Backends) -> str:
    """Why not every eligible endpoint is a ready pod of the workload; empty when all are."""
    if not endpoints:
        return "the Service has no eligible endpoint"
    good: set[str] = set()
    for pod in backends.owned_ready():
        good |= _addresses(pod)
    stray = [endpoint.address for endpoint in endpoints if endpoint.address not in good]
    if not stray:
        return ""
    first = f"{stray[0]} is {backends.holder(stray[0])}"
    return f"{len(stray)} of {len(endpoints)} eligible endpoints lead elsewhere: {first}"


def capacity_lacks(
    deployments: Iterable[Body], baseline: Mapping[str, int], floor_percent: int
) -> tuple[str, dict[str, Any]]:
    """Which baseline Deployment is below its floor (empty: none), and the numbers of all."""
    present = {item["metadata"]["name"]: item for item in deployments}
    numbers: dict[str, Any] = {}
    lacks: list[str] = []
    for name, replicas in sorted(baseline.items()):
        floor = math.ceil(replicas * floor_percent / 100)
        if name not in present:
            numbers[name] = {"floor": floor, "present": False}
            lacks.append(f"Deployment {name} does not exist")
            continue
        spec, status = present[name].get("spec") or {}, present[name].get("status") or {}
        found = {
            "desired": spec.get("replicas", 1),
            "ready": status.get("readyReplicas") or 0,
            "available": status.get("availableReplicas") or 0,
        }
        numbers[name] = {"floor": floor, **found}
        low = ", ".join(f"{count} {key}" for key, count in found.items() if count < floor)
        if low:
            lacks.append(f"Deployment {name}: {low}, floor {floor}")
    if len(lacks) > 1:
        return f"{len(lacks)} Deployments below their floor; {lacks[0]}", numbers
    return "".join(lacks), numbers


def _controller(item: Body, kind: str) -> str:
    """UID of the controlling owner of that kind; empty without one."""
    for reference in item["metadata"].get("ownerReferences") or ():
        if reference.get("controller") is True and reference.get("kind") == kind:
            return str(reference.get("uid") or "")
    return ""


def _addresses(pod: Body) -> set[str]:
    """The pod's addresses while it can have any: an ended pod's may be another's by now."""
    status = pod.get("status") or {}
    if status.get("phase") in ("Succeeded", "Failed"):
        return set()
    addresses = {status.get("podIP")} | {entry.get("ip") for entry in status.get("podIPs") or ()}
    return {address for address in addresses if address}
