"""What every cluster holds before anybody asks for anything.

Rules kept here:

* what is there already is left alone;
* the API and the DNS server are not pods, so their Services have no selector: the API's addresses
  are in its Endpoints, as in every cluster, and the DNS server's, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_sremut.embedded.controllers.clusterroles import CLUSTER_ROLES
from pytest_sremut.embedded.controllers.networking.serviceports import SERVICE_NAME
from pytest_sremut.embedded.controllers.node import FIRST_NODE_ADDRESS, create_nodes
from pytest_sremut.embedded.meta.jsonvalue import JsonObject
from pytest_sremut.embedded.registry.registry import SYSTEM_NAMESPACES, Registry

__all__ = ["API_ENDPOINT", "DNS_ENDPOINT", "Endpoint", "bootstrap"]

SKIP_MIRROR = "endpointslice.kubernetes.io/skip-mirror"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where a server listens."""

    address: str
    port: int


API_ENDPOINT = Endpoint(address=str(FIRST_NODE_ADDRESS), port=6443)
DNS_ENDPOINT = Endpoint(address=str(FIRST_NODE_ADDRESS), port=53)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Server:
    """A Service whose server is no pod. Ports: name, protocol, number of the Service."""

    namespace: str
    name: str
    address: str
    labels: dict[str, str]
    ports: tuple[tuple[str, str, int], ...]
    endpoint: Endpoint


def bootstrap(
    registry: Registry,
    *,
    node_names: Sequence[str],
    api: Endpoint = API_ENDPOINT,
    dns: Endpoint = DNS_ENDPOINT,
) -> None:
    """Create system namespaces, nodes, and the Services of the API (``.1``) and DNS (``.10``).

    Args:
        api: where the API is served to pods over HTTPS.
        dns: where the DNS server answers.

    Raises:
        ApiStatus: one of the addresses is taken.
    """
    for name in SYSTEM_NAMESPACES:
        if registry.get("namespaces", "", name) is None:
            registry.create("namespaces", "", {"metadata": {"name": name}})
    for name, rules in CLUSTER_ROLES.items():
        if registry.get("clusterroles.rbac.authorization.k8s.io", "", name) is None:
            role = {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRole",
                "metadata": {
                    "name": name,
                    "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
                },
                "rules": rules,
            }
            registry.create("clusterroles.rbac.authorization.k8s.io", "", role)
    create_nodes(registry, node_names)
    kubernetes = _Server(
        namespace="default",
        name="kubernetes",
        address=str(registry.service_cidr[1]),
        labels={"component": "apiserver", "provider": "kubernetes"},
        ports=(("https", "TCP", 443),),
        endpoint=api,
    )
    kube_dns = _Server(
        namespace="kube-system",
        name="kube-dns",
        address=str(registry.service_cidr[10]),
        labels={
            "k8s-app": "kube-dns",
            "kubernetes.io/cluster-service": "true",
            "kubernetes.io/name": "CoreDNS",
        },
        ports=(("dns", "UDP", 53), ("dns-tcp", "TCP", 53)),
        endpoint=dns,
    )
    _create(registry, "services", kubernetes, _service(kubernetes))
    _create(registry, "services", kube_dns, _service(kube_dns))
    # As in every cluster the API's own slice is not a mirror; that of the DNS server is.
    _create(registry, "endpoints", kubernetes, _endpoints(kubernetes, {SKIP_MIRROR: "true"}))
    _create(registry, "endpointslices.discovery.k8s.io", kubernetes, _slice(kubernetes))
    _create(registry, "endpoints", kube_dns, _endpoints(kube_dns, kube_dns.labels))


def _create(registry: Registry, resource: str, server: _Server, body: JsonObject) -> None:
    if registry.get(resource, server.namespace, server.name) is None:
        registry.create(resource, server.namespace, body)


def _service(server: _Server) -> JsonObject:
    target = server.endpoint.port
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": server.name, "labels": server.labels},
        "spec": {
            "clusterIP": server.address,
            "ports": [
                {"name": name, "protocol": protocol, "port": port, "targetPort": target}
                for name, protocol, port in server.ports
            ],
        },
    }


def _endpoint_ports(server: _Server) -> list[JsonObject]:
    port = server.endpoint.port
    return [
        {"name": name, "port": port, "protocol": protocol} for name, protocol, _ in server.ports
    ]


def _endpoints(server: _Server, labels: dict[str, str]) -> JsonObject:
    addresses = [{"ip": server.endpoint.address}]
    return {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": server.name, "labels": labels},
        "subsets": [{"addresses": addresses, "ports": _endpoint_ports(server)}],
    }


def _slice(server: _Server) -> JsonObject:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": server.name, "labels": {SERVICE_NAME: server.name}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [server.endpoint.address], "conditions": {"ready": True}}],
        "ports": _endpoint_ports(server),
    }
