"""Where each kind lives in the API. The list is closed: what is not here is never touched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from pytest_sremut.cluster.port import Kind, ObjectRef

__all__ = ["READ_ONLY", "RESOURCES", "Resource", "collection_path", "object_path", "segment"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One row: API prefix, plural as in URLs and in `details.kind` of a Status."""

    prefix: str
    api_version: str
    plural: str
    namespaced: bool


def _core(plural: str, *, namespaced: bool = True) -> Resource:
    return Resource(prefix="/api/v1", api_version="v1", plural=plural, namespaced=namespaced)


def _group(group_version: str, plural: str, *, namespaced: bool = True) -> Resource:
    return Resource(
        prefix=f"/apis/{group_version}",
        api_version=group_version,
        plural=plural,
        namespaced=namespaced,
    )


def _admission(plural: str) -> Resource:
    return _group("admissionregistration.k8s.io/v1", plural, namespaced=False)


RESOURCES: Final[dict[Kind, Resource]] = {
    "ConfigMap": _core("configmaps"),
    "CustomResourceDefinition": _group(
        "apiextensions.k8s.io/v1", "customresourcedefinitions", namespaced=False
    ),
    "DaemonSet": _group("apps/v1", "daemonsets"),
    "Deployment": _group("apps/v1", "deployments"),
    "EndpointSlice": _group("discovery.k8s.io/v1", "endpointslices"),
    "Endpoints": _core("endpoints"),
    "Event": _core("events"),
    "Job": _group("batch/v1", "jobs"),
    "MutatingWebhookConfiguration": _admission("mutatingwebhookconfigurations"),
    "Namespace": _core("namespaces", namespaced=False),
    "Node": _core("nodes", namespaced=False),
    "Pod": _core("pods"),
    "PriorityClass": _group("scheduling.k8s.io/v1", "priorityclasses", namespaced=False),
    "ReplicaSet": _group("apps/v1", "replicasets"),
    "Service": _core("services"),
    "ServiceAccount": _core("serviceaccounts"),
    "StorageClass": _group("storage.k8s.io/v1", "storageclasses", namespaced=False),
    "ValidatingWebhookConfiguration": _admission("validatingwebhookconfigurations"),
}

READ_ONLY: Final[frozenset[Kind]] = frozenset(
    {
        "CustomResourceDefinition",
        "DaemonSet",
        "MutatingWebhookConfiguration",
        "Node",
        "PriorityClass",
        "ServiceAccount",
        "StorageClass",
        "ValidatingWebhookConfiguration",
    }
)
"""Kinds that are looked at and never written: they belong to the cluster, or to nobody of ours."""


def collection_path(kind: Kind, namespace: str) -> str:
    """URL path of a kind's collection; over all namespaces when `namespace` is empty.

    Raises ValueError for a namespace that would leave its place in the path.
    """
    row = RESOURCES[kind]
    if not row.namespaced or not namespace:
        return f"{row.prefix}/{row.plural}"
    return f"{row.prefix}/namespaces/{segment(namespace)}/{row.plural}"


def object_path(ref: ObjectRef) -> str:
    """URL path of one object. Raises ValueError for a name or namespace that cannot be one."""
    if not ref.name:
        raise ValueError(f"{ref.kind} without a name")
    if RESOURCES[ref.kind].namespaced and not ref.namespace:
        raise ValueError(f"{ref.kind} {ref.name} without a namespace")
    return f"{collection_path(ref.kind, ref.namespace)}/{segment(ref.name)}"


def segment(name: str) -> str:
    """A name as one segment of a URL path. Raises ValueError for `.` and `..`."""
    if name in (".", ".."):  # not escaped by quoting, and removed by HTTP libraries
        raise ValueError(f"{name!r} cannot be a name")
    return quote(name, safe="")
