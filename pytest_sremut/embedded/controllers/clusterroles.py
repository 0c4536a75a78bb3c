"""The roles that every cluster has for its users: cluster-admin, admin, edit, view.

Rules kept here:

* made from the table of resources, so that a kind that is served is covered;
* as on a real cluster: ``view`` reads no Secret and no RBAC object, ``edit`` writes no RBAC object
  and no quota, ``admin`` writes all but quotas and the namespace itself.
"""

from __future__ import annotations

from typing import Any

from pytest_sremut.embedded.meta.resources import RESOURCES

__all__ = ["CLUSTER_ROLES"]

_READ = ["get", "list", "watch"]
_WRITE = ["create", "delete", "deletecollection", "patch", "update"]
_RBAC = "rbac.authorization.k8s.io"
_READ_ONLY = frozenset(("events", "limitranges", "resourcequotas"))
_UNSEEN = frozenset(("secrets", "leases"))
_COMMANDS = ["pods/attach", "pods/exec", "pods/portforward"]


def _rules(verbs: list[str], *, wanted: Any) -> list[dict[str, Any]]:
    groups: dict[str, list[str]] = {}
    for table in RESOURCES.values():
        if table.namespaced and not table.stored_as and "list" in table.verbs and wanted(table):
            names = groups.setdefault(table.group, [])
            names.append(table.plural)
            names += [
                f"{table.plural}/{sub}" for sub in ("log", "scale", "status") if _has(table, sub)
            ]
    return [
        {"apiGroups": [group], "resources": sorted(names), "verbs": verbs}
        for group, names in groups.items()
    ]


def _has(table: Any, subresource: str) -> bool:
    return subresource in table.subresources


_VIEW = [
    *_rules(_READ, wanted=lambda table: table.group != _RBAC and table.plural not in _UNSEEN),
    {"apiGroups": [""], "resources": ["namespaces"], "verbs": _READ},
]
_EDIT = [
    *_VIEW,
    *_rules(_WRITE, wanted=lambda table: table.group != _RBAC and table.plural not in _READ_ONLY),
    {"apiGroups": [""], "resources": ["secrets", *_COMMANDS], "verbs": _READ},
    {"apiGroups": [""], "resources": _COMMANDS, "verbs": _WRITE},
    {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": [*_READ, *_WRITE]},
]

CLUSTER_ROLES: dict[str, list[dict[str, Any]]] = {
    "cluster-admin": [
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
    ],
    "admin": [*_EDIT, *_rules([*_READ, *_WRITE], wanted=lambda table: table.group == _RBAC)],
    "edit": _EDIT,
    "view": _VIEW,
}
