"""Discovery: which groups, versions and resources there are.

Rules kept here:

* everything comes from the table of resources, in the three forms that clients ask for: the old
  lists, aggregated discovery, and the index of paths;
* the documents do not change while the server lives, so each is built once.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from pytest_sremut.embedded.meta.jsonvalue import JsonObject
from pytest_sremut.embedded.meta.resources import GROUPS, RESOURCES, Resource

__all__ = [
    "AGGREGATED",
    "aggregated",
    "api_group",
    "api_group_list",
    "api_versions",
    "paths",
    "resource_list",
    "subresource_kind",
    "version_info",
]

AGGREGATED = "apidiscovery.k8s.io"
VERSION = "v1.36.2"

_SUBRESOURCES: dict[str, tuple[str, str, str, tuple[str, ...]]] = {
    "attach": ("", "", "PodAttachOptions", ("create", "get")),
    "binding": ("", "", "Binding", ("create",)),
    "eviction": ("policy", "v1", "Eviction", ("create",)),
    "exec": ("", "", "PodExecOptions", ("create", "get")),
    "log": ("", "", "", ("get",)),
    "portforward": ("", "", "PodPortForwardOptions", ("create", "get")),
    "scale": ("autoscaling", "v1", "Scale", ("get", "patch", "update")),
    "status": ("", "", "", ("get", "patch", "update")),
    "finalize": ("", "", "", ("update",)),
    "token": ("authentication.k8s.io", "v1", "TokenRequest", ("create",)),
}


def subresource_kind(name: str) -> str:
    """Kind of the bodies of a subresource; empty when it is the resource's own."""
    return _SUBRESOURCES[name][2]


@cache
def version_info() -> JsonObject:
    """``/version``: the version that is modelled, marked as ours."""
    return {
        "major": "1",
        "minor": "36",
        "emulationMajor": "1",
        "emulationMinor": "36",
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "35",
        "gitVersion": f"{VERSION}+sremut",
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "",
        "goVersion": "",
        "compiler": "",
        "platform": "linux/amd64",
    }


@cache
def api_versions() -> JsonObject:
    """``/api``."""
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": ""}],
    }


@cache
def api_group_list() -> JsonObject:
    """``/apis``."""
    groups = []
    for name in GROUPS:
        group = dict(api_group(name) or {})
        del group["kind"], group["apiVersion"]
        groups.append(group)
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


@cache
def api_group(name: str) -> JsonObject | None:
    """``/apis/GROUP``; ``None`` when it is not served."""
    if name not in GROUPS:
        return None
    version = {"groupVersion": f"{name}/{GROUPS[name]}", "version": GROUPS[name]}
    return {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": name,
        "versions": [version],
        "preferredVersion": version,
    }


@cache
def resource_list(group: str, version: str) -> JsonObject | None:
    """``/api/v1`` and ``/apis/GROUP/VERSION``; ``None`` when it is not served."""
    tables = _tables(group, version)
    if not tables:
        return None
    head: JsonObject = {"kind": "APIResourceList"}
    if group:
        head["apiVersion"] = "v1"
    head["groupVersion"] = f"{group}/{version}" if group else version
    entries = []
    for table in tables:
        entry: JsonObject = {
            "name": table.plural,
            "singularName": table.singular,
            "namespaced": table.namespaced,
            "kind": table.kind,
            "verbs": list(table.verbs),
        }
        if table.short_names:
            entry["shortNames"] = list(table.short_names)
        if table.categories:
            entry["categories"] = list(table.categories)
        entries.append(entry)
        entries += [_sub_entry(table, name) for name in table.subresources]
    return {**head, "resources": entries}


@cache
def aggregated(core: bool) -> JsonObject:
    """Aggregated discovery of the core group, or of all named ones."""
    items: list[JsonObject] = []
    for group, version in {"": "v1"}.items() if core else GROUPS.items():
        entry = {
            "version": version,
            "resources": [_aggregated_resource(table) for table in _tables(group, version)],
            "freshness": "Current",
        }
        items.append({"metadata": {"name": group} if group else {}, "versions": [entry]})
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"{AGGREGATED}/v2",
        "metadata": {},
        "items": items,
    }


@cache
def paths() -> JsonObject:
    """``/``: what can be asked for."""
    found = ["/api", "/api/v1", "/apis", "/apis/"]
    for group, version in sorted(GROUPS.items()):
        found += [f"/apis/{group}", f"/apis/{group}/{version}"]
    found += ["/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"]
    return {"paths": found}


def _tables(group: str, version: str) -> list[Resource]:
    found = [
        table for table in RESOURCES.values() if (table.group, table.version) == (group, version)
    ]
    return sorted(found, key=lambda table: table.plural)


def _sub_entry(table: Resource, name: str) -> JsonObject:
    group, version, kind, verbs = _SUBRESOURCES[name]
    entry: JsonObject = {
        "name": f"{table.plural}/{name}",
        "singularName": "",
        "namespaced": table.namespaced,
    }
    if group:
        entry |= {"group": group, "version": version}
    return {**entry, "kind": kind or table.kind, "verbs": list(verbs)}


def _aggregated_resource(table: Resource) -> JsonObject:
    entry: JsonObject = {
        "resource": table.plural,
        "responseKind": _kind("", "", table.kind),
        "scope": "Namespaced" if table.namespaced else "Cluster",
        "singularResource": table.singular,
        "verbs": list(table.verbs),
    }
    if table.short_names:
        entry["shortNames"] = list(table.short_names)
    if table.categories:
        entry["categories"] = list(table.categories)
    if table.subresources:
        entry["subresources"] = []
        for name in table.subresources:
            group, version, kind, verbs = _SUBRESOURCES[name]
            entry["subresources"].append(
                {
                    "subresource": name,
                    "responseKind": _kind(group, version, kind or table.kind),
                    "verbs": list(verbs),
                }
            )
    return entry


def _kind(group: str, version: str, kind: str) -> dict[str, Any]:
    return {"group": group, "version": version, "kind": kind}
