"""Definitions of the columns of each kind's table.

Rule kept here: names, order and priorities are the real server's. Priority 0 is always shown,
1 with ``-o wide``.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["COLUMNS", "Column"]


@dataclass(frozen=True, slots=True)
class Column:
    """One column definition of a ``Table``."""

    name: str
    type: str = "string"
    priority: int = 0
    format: str = ""
    description: str = ""


def _columns(text: str) -> tuple[Column, ...]:
    """``Name Ready Desired:integer +Images``: ``+`` is wide, ``_`` a blank."""
    found = []
    for word in text.split():
        name, _, kind = word.lstrip("+").partition(":")
        name = name.replace("_", " ")
        found.append(
            Column(
                name=name,
                type=kind or "string",
                priority=1 if word.startswith("+") else 0,
                format="name" if name == "Name" else "",
            )
        )
    return tuple(found)


_WORKLOAD = "+Containers +Images +Selector"

COLUMNS: dict[str, tuple[Column, ...]] = {
    key: _columns(text)
    for key, text in {
        "": "Name Age",
        "pods": "Name Ready Status Restarts Age +IP +Node +Nominated_Node +Readiness_Gates",
        "services": "Name Type Cluster-IP External-IP Port(s) Age +Selector",
        "endpoints": "Name Endpoints Age",
        "namespaces": "Name Status Age",
        "nodes": "Name Status Roles Age Version +Internal-IP +External-IP +OS-Image "
        "+Kernel-Version +Container-Runtime",
        "configmaps": "Name Data Age",
        "secrets": "Name Type Data:integer Age",
        "serviceaccounts": "Name Secrets Age",
        "events": "Last_Seen Type Reason Object +Subobject +Source Message +First_Seen +Count "
        "+Name",
        "persistentvolumeclaims": "Name Status Volume Capacity Access_Modes StorageClass "
        "VolumeAttributesClass Age +VolumeMode",
        "persistentvolumes": "Name Capacity Access_Modes Reclaim_Policy Status Claim StorageClass "
        "VolumeAttributesClass Reason Age +VolumeMode",
        "resourcequotas": "Name Request Limit Age",
        "limitranges": "Name Created_At",
        "deployments.apps": f"Name Ready Up-to-date Available Age {_WORKLOAD}",
        "replicasets.apps": f"Name Desired:integer Current:integer Ready:integer Age {_WORKLOAD}",
        "statefulsets.apps": "Name Ready Age +Containers +Images",
        "daemonsets.apps": "Name Desired:integer Current:integer Ready:integer Up-to-date:integer "
        f"Available:integer Node_Selector Age {_WORKLOAD}",
        "controllerrevisions.apps": "Name Controller Revision Age",
        "jobs.batch": f"Name Status Completions Duration Age {_WORKLOAD}",
        "cronjobs.batch": "Name Schedule Timezone Suspend Active:integer Last_Schedule Age "
        f"{_WORKLOAD}",
        "endpointslices.discovery.k8s.io": "Name AddressType Ports Endpoints Age",
        "networkpolicies.networking.k8s.io": "Name Pod-Selector Age",
        "ingresses.networking.k8s.io": "Name Class Hosts Address Ports Age",
        "poddisruptionbudgets.policy": "Name Min_Available Max_Unavailable "
        "Allowed_Disruptions:integer Age",
        "horizontalpodautoscalers.autoscaling": "Name Reference Targets MinPods MaxPods Replicas "
        "Age",
        "leases.coordination.k8s.io": "Name Holder Age",
        "roles.rbac.authorization.k8s.io": "Name Created_At",
        "clusterroles.rbac.authorization.k8s.io": "Name Created_At",
        "rolebindings.rbac.authorization.k8s.io": "Name Role Age +Users +Groups +ServiceAccounts",
        "clusterrolebindings.rbac.authorization.k8s.io": "Name Role Age +Users +Groups "
        "+ServiceAccounts",
        "priorityclasses.scheduling.k8s.io": "Name Value Global-Default Age PreemptionPolicy",
        "storageclasses.storage.k8s.io": "Name Provisioner ReclaimPolicy VolumeBindingMode "
        "AllowVolumeExpansion Age",
    }.items()
}
