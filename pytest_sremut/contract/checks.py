"""The predicates behind a contract's invariants: one look each.

A look says `Holds`, `Lacks` (what is missing) or `Unknown` (the API or the probe gave no answer):
the third is never taken for the second. Looks of one round share what they read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Final

from pytest_sremut.cluster.overlap import overlapped
from pytest_sremut.cluster.port import Absent, Failed, Kind, ObjectRef
from pytest_sremut.contract.contract_port import ContractPort
from pytest_sremut.contract.observations import (
    Backends,
    Body,
    EligibleEndpoint,
    capacity_lacks,
    cluster_ip,
    eligible_endpoints,
    routing_lacks,
)
from pytest_sremut.contract.probes import exec_facts, lookup_answers, tool_trouble
from pytest_sremut.errors import HarnessError
from pytest_sremut.study.names import Check

__all__ = ["LOOKS", "Look", "Snapshot", "UnreadError"]

# For the way to the pod and back, over a tool's own limit. A tool ends by that limit where nobody
# answers; so this decides nothing but how busy a machine may be.
_SLACK: Final = 10.0
_LOOKUP: Final = 5.0  # after which `nslookup` gives up
_SERVICE_NAME: Final = "kubernetes.io/service-name"


class UnreadError(Exception):
    """A read or a probe gave no answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What one look at one predicate saw.

    `holds` is None where nothing could be seen; `observed` is one sentence.
    """

    holds: bool | None
    observed: str
    facts: Mapping[str, Any] = field(default_factory=dict)


class Snapshot:
    """The objects around the target as one round of looks reads them, each at most once.

    Every property raises UnreadError where the API gave no answer.
    """

    def __init__(self, port: ContractPort) -> None:
        self._port = port
        self.versions: dict[Kind, str] = {}  # of each list that was read: what came later is news

    @cached_property
    def service(self) -> Body | None:
        """The target Service, None where it is absent."""
        return self._get("Service", self._port.target.name)

    @cached_property
    def endpoints(self) -> tuple[EligibleEndpoint, ...]:
        """Eligible endpoints, by the union of the Service's slices."""
        label = f"{_SERVICE_NAME}={self._port.target.name}"
        return eligible_endpoints(self._list("EndpointSlice", labels=label))

    @cached_property
    def backends(self) -> Backends:
        """Pods and owners."""
        workload = self._port.target.workload_name
        reads: list[Callable[[], Any]] = [
            partial(self._get, "Deployment", workload),
            partial(self._list, "ReplicaSet"),
            partial(self._list, "Pod"),
        ]
        deployment, replica_sets, pods = overlapped(reads)
        return Backends(
            workload=workload, deployment=deployment, replica_sets=replica_sets, pods=pods
        )

    @cached_property
    def deployments(self) -> tuple[Body, ...]:
        """All Deployments of the namespace."""
        return self._list("Deployment")

    def _get(self, kind: Kind, name: str) -> Body | None:
        found = self._port.api.get(ObjectRef(kind=kind, namespace=self._port.namespace, name=name))
        if isinstance(found, Failed):
            raise UnreadError(f"{found.what}: {found.reason}: {found.message}")
        return None if isinstance(found, Absent) else found.body

    def _list(self, kind: Kind, *, labels: str = "") -> tuple[Body, ...]:
        found = self._port.api.list(kind, self._port.namespace, labels=labels)
        if isinstance(found, Failed):
            raise UnreadError(f"{found.what}: {found.reason}: {found.message}")
        self.versions[kind] = found.resource_version
        return found.items


def _identity(
    port: ContractPort, snapshot: Snapshot, _parameters: Mapping[str, Any], first: bool
) -> Look:
    service = snapshot.service
    name = port.target.name
    address = "" if service is None else cluster_ip(service)
    lacks = ""
    if service is None:
        lacks = f"Service {name} does not exist"
    elif not address:
        found = (service.get("spec") or {}).get("clusterIP")
        lacks = f"Service {name} has no ClusterIP (clusterIP is {found!r})"
    facts: dict[str, Any] = {"cluster_ip": address}
    if lacks and not first:
        return Look(holds=False, observed=lacks, facts=facts)
    host = _host(port)
    result = port.probe(["nslookup", host], timeout=_lookup_limit(port))
    facts["nslookup"] = exec_facts(result)
    if lacks:
        return Look(holds=False, observed=lacks, facts=facts)
    if trouble := tool_trouble(result):
        raise UnreadError(trouble)
    assert not isinstance(result, Failed)
    answers = lookup_answers(result.stdout)
    facts["answers"] = sorted(answers)
    if address in answers:
        return Look(holds=True, observed=f"{host} resolves to {address}", facts=facts)
    said = ", ".join(sorted(answers)) or ("nothing in time" if result.timed_out else "no address")
    return Look(holds=False, observed=f"{host} resolves to {said}, not {address}", facts=facts)


def _routing(
    port: ContractPort, snapshot: Snapshot, parameters: Mapping[str, Any], first: bool
) -> Look:
    endpoints = snapshot.endpoints
    lacks = routing_lacks(endpoints, snapshot.backends)
    facts: dict[str, Any] = {"endpoints": [endpoint.address for endpoint in endpoints]}
    if lacks and not first:
        return Look(holds=False, observed=lacks, facts=facts)
    seconds = max(1, math.ceil(parameters["connect_timeout"]))
    host, service_port = _host(port), str(port.target.port)
    result = port.probe(
        ["nc", "-z", "-w", str(seconds), host, service_port], timeout=seconds + _SLACK
    )
    facts["connect"] = exec_facts(result)
    if lacks:
        return Look(holds=False, observed=lacks, facts=facts)
    if trouble := tool_trouble(result):
        raise UnreadError(trouble)
    assert not isinstance(result, Failed)
    if result.exit_code == 0:
        count = len(endpoints)
        observed = (
            f"{count} eligible endpoints, all of the workload; {host}:{service_port} connects"
        )
        return Look(holds=True, observed=observed, facts=facts)
    how = "no answer in time" if result.timed_out else f"exit code {result.exit_code}"
    said = " ".join(result.stderr.split())[:120]
    observed = f"no connection to {host}:{service_port} ({how}{': ' + said if said else ''})"
    return Look(holds=False, observed=observed, facts=facts)


def _endpoints(
    port: ContractPort, snapshot: Snapshot, parameters: Mapping[str, Any], _first: bool
) -> Look:
    addresses = [endpoint.address for endpoint in snapshot.endpoints]
    minimum = parameters["minimum"]
    return Look(
        holds=len(addresses) >= minimum,
        observed=f"eligible endpoints of Service {port.target.name}: {len(addresses)}, "
        f"at least {minimum} wanted",
        facts={"endpoints": addresses},
    )


def _capacity(
    port: ContractPort, snapshot: Snapshot, parameters: Mapping[str, Any], _first: bool
) -> Look:
    if not port.baseline:
        raise HarnessError("no replica baseline was captured: capacity cannot be judged")
    lacks, numbers = capacity_lacks(
        snapshot.deployments, port.baseline, parameters["floor_percent"]
    )
    kept = f"{len(numbers)} Deployments at or above their floor"
    return Look(holds=not lacks, observed=lacks or kept, facts={"deployments": numbers})


LOOKS: Final[Mapping[Check, Callable[[ContractPort, Snapshot, Mapping[str, Any], bool], Look]]] = {
    Check.SERVICE_IDENTITY: _identity,
    Check.BACKEND_ROUTING: _routing,
    Check.READY_ENDPOINTS: _endpoints,
    Check.CAPACITY_PRESERVED: _capacity,
}
"""Checks that are polled. On the `first` look a probe runs even where the objects already decide,
so that the record holds what a client saw; later ones spare it."""


def _host(port: ContractPort) -> str:
    return f"{port.target.name}.{port.namespace}.svc.cluster.local"


def _lookup_limit(port: ContractPort) -> float:
    return max(_LOOKUP, port.protocol.poll) + _SLACK
