"""The table of resources that this API serves.

Rules kept here:

* a resource is named everywhere by its key, the plural and the group: ``pods``,
  ``deployments.apps``;
* discovery, routing, storage and printing read this table and nothing else, so a kind is either
  served everywhere or nowhere;
* groups, versions, short names and verbs are as recorded from Kubernetes 1.36.2, less the groups
  that no controller, client or benchmark here makes use of.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["GROUPS", "RESOURCES", "Resource", "by_kind", "by_path"]

STANDARD_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One resource of the API.

    Attributes:
        group: API group; empty for the core group.
        version: the version that is served.
        kind: kind of its objects.
        plural: name in paths.
        singular: name that clients show.
        namespaced: whether its objects live in a namespace.
        short_names: abbreviations that kubectl knows.
        categories: groups of resources that kubectl knows (``all``).
        verbs: what may be done; empty for resources that are reviewed, not stored.
        subresources: names below an object.
        generation: whether `metadata.generation` counts changes of the specification.
        stored_as: key of the resource that holds the objects, when it is not this one.
    """

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = STANDARD_VERBS
    subresources: tuple[str, ...] = ()
    generation: bool = False
    stored_as: str = ""

    @property
    def key(self) -> str:
        """Plural and group: ``deployments.apps``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def qualified_kind(self) -> str:
        """Kind and group: ``Deployment.apps``, as error messages name it."""
        return f"{self.kind}.{self.group}" if self.group else self.kind

    @property
    def api_version(self) -> str:
        """``apps/v1``; ``v1`` for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def has_status(self) -> bool:
        """Whether `status` is written through a subresource of its own."""
        return "status" in self.subresources


def _resource(
    group_version: str,
    kind: str,
    plural: str,
    *,
    namespaced: bool = True,
    short: str = "",
    every: bool = False,
    verbs: tuple[str, ...] = STANDARD_VERBS,
    sub: str = "",
    generation: bool = False,
    stored_as: str = "",
) -> Resource:
    group, _, version = group_version.rpartition("/")
    return Resource(
        group=group,
        version=version,
        kind=kind,
        plural=plural,
        singular=kind.lower(),
        namespaced=namespaced,
        short_names=tuple(short.split()),
        categories=("all",) if every else (),
        verbs=verbs,
        subresources=tuple(sub.split()),
        generation=generation,
        stored_as=stored_as,
    )


_CREATE_ONLY = ("create",)
_NO_COLLECTION = ("create", "delete", "get", "list", "patch", "update", "watch")
_POD_SUB = "attach binding eviction exec log portforward status"
_AUTHN = "authentication.k8s.io/v1"
_AUTHZ = "authorization.k8s.io/v1"
_RBAC = "rbac.authorization.k8s.io/v1"
_NET = "networking.k8s.io/v1"

_TABLE = (
    _resource("v1", "ConfigMap", "configmaps", short="cm"),
    _resource("v1", "Endpoints", "endpoints", short="ep"),
    _resource("v1", "Event", "events", short="ev"),
    _resource("v1", "LimitRange", "limitranges", short="limits"),
    _resource(
        "v1",
        "Namespace",
        "namespaces",
        namespaced=False,
        short="ns",
        verbs=_NO_COLLECTION,
        sub="finalize status",
    ),
    _resource("v1", "Node", "nodes", namespaced=False, short="no", sub="status"),
    _resource("v1", "PersistentVolumeClaim", "persistentvolumeclaims", short="pvc", sub="status"),
    _resource(
        "v1", "PersistentVolume", "persistentvolumes", namespaced=False, short="pv", sub="status"
    ),
    _resource("v1", "Pod", "pods", short="po", every=True, sub=_POD_SUB, generation=True),
    _resource("v1", "ResourceQuota", "resourcequotas", short="quota", sub="status"),
    _resource("v1", "Secret", "secrets"),
    _resource("v1", "ServiceAccount", "serviceaccounts", short="sa", sub="token"),
    _resource("v1", "Service", "services", short="svc", every=True, sub="status"),
    _resource("apps/v1", "ControllerRevision", "controllerrevisions"),
    _resource(
        "apps/v1",
        "DaemonSet",
        "daemonsets",
        short="ds",
        every=True,
        sub="status",
        generation=True,
    ),
    _resource(
        "apps/v1",
        "Deployment",
        "deployments",
        short="deploy",
        every=True,
        sub="scale status",
        generation=True,
    ),
    _resource(
        "apps/v1",
        "ReplicaSet",
        "replicasets",
        short="rs",
        every=True,
        sub="scale status",
        generation=True,
    ),
    _resource(
        "apps/v1",
        "StatefulSet",
        "statefulsets",
        short="sts",
        every=True,
        sub="scale status",
        generation=True,
    ),
    _resource(
        "batch/v1", "CronJob", "cronjobs", short="cj", every=True, sub="status", generation=True
    ),
    _resource("batch/v1", "Job", "jobs", every=True, sub="status", generation=True),
    _resource("discovery.k8s.io/v1", "EndpointSlice", "endpointslices", generation=True),
    _resource("events.k8s.io/v1", "Event", "events", short="ev", stored_as="events"),
    _resource(_NET, "Ingress", "ingresses", short="ing", sub="status", generation=True),
    _resource(_NET, "NetworkPolicy", "networkpolicies", short="netpol", generation=True),
    _resource(
        "policy/v1",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        short="pdb",
        sub="status",
        generation=True,
    ),
    _resource(
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        short="hpa",
        every=True,
        sub="status",
    ),
    _resource("coordination.k8s.io/v1", "Lease", "leases"),
    _resource(_RBAC, "ClusterRoleBinding", "clusterrolebindings", namespaced=False),
    _resource(_RBAC, "ClusterRole", "clusterroles", namespaced=False),
    _resource(_RBAC, "RoleBinding", "rolebindings"),
    _resource(_RBAC, "Role", "roles"),
    _resource(
        "scheduling.k8s.io/v1",
        "PriorityClass",
        "priorityclasses",
        namespaced=False,
        short="pc",
        generation=True,
    ),
    _resource("storage.k8s.io/v1", "StorageClass", "storageclasses", namespaced=False, short="sc"),
    _resource(
        _AUTHN, "SelfSubjectReview", "selfsubjectreviews", namespaced=False, verbs=_CREATE_ONLY
    ),
    _resource(_AUTHN, "TokenReview", "tokenreviews", namespaced=False, verbs=_CREATE_ONLY),
    _resource(
        _AUTHZ,
        "SelfSubjectAccessReview",
        "selfsubjectaccessreviews",
        namespaced=False,
        verbs=_CREATE_ONLY,
    ),
    _resource(
        _AUTHZ,
        "SelfSubjectRulesReview",
        "selfsubjectrulesreviews",
        namespaced=False,
        verbs=_CREATE_ONLY,
    ),
    _resource(
        _AUTHZ, "SubjectAccessReview", "subjectaccessreviews", namespaced=False, verbs=_CREATE_ONLY
    ),
)

RESOURCES: MappingProxyType[str, Resource] = MappingProxyType({item.key: item for item in _TABLE})
"""Every resource by its key."""

GROUPS: MappingProxyType[str, str] = MappingProxyType(
    {item.group: item.version for item in _TABLE if item.group}
)
"""The version served of each named group, in the order of the table."""

_BY_PATH = {(item.group, item.version, item.plural): item for item in _TABLE}
_BY_KIND = {(item.api_version, item.kind): item for item in _TABLE}


def by_path(group: str, version: str, plural: str) -> Resource | None:
    """The resource that a path names, or ``None``."""
    return _BY_PATH.get((group, version, plural))


def by_kind(api_version: str, kind: str) -> Resource | None:
    """The resource whose objects carry `api_version` and `kind`, or ``None``."""
    return _BY_KIND.get((api_version, kind))
