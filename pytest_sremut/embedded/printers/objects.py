"""Printers of tables, one function per kind. Pods and workloads have modules of their own.

Rules kept here:

* each function returns the values for the columns of its kind in `definitions.COLUMNS`, in order;
* absent values print as the real server prints them: ``<none>``, ``<unset>``, an empty cell.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pytest_sremut.embedded.meta.jsonvalue import JsonObject
from pytest_sremut.embedded.meta.selectors import format_label_selector
from pytest_sremut.embedded.printers.values import (
    NONE,
    UNKNOWN,
    Printer,
    age,
    labels_text,
    name_of,
    since,
    spec_of,
    status_of,
)
from pytest_sremut.embedded.printers.workloads import WORKLOAD_PRINTERS

__all__ = ["PRINTERS"]

MAX_ENDPOINTS = 3


def _service(value: JsonObject, now: datetime) -> list[Any]:
    spec = spec_of(value)
    ports = []
    for port in spec.get("ports") or []:
        text = str(port.get("port", ""))
        if port.get("nodePort"):
            text += f":{port['nodePort']}"
        ports.append(f"{text}/{port.get('protocol', 'TCP')}")
    return [
        name_of(value),
        spec.get("type", ""),
        spec.get("clusterIP") or NONE,
        _external_ip(spec, status_of(value)),
        ",".join(ports) or NONE,
        age(value, now),
        labels_text(spec.get("selector")),
    ]


def _external_ip(spec: JsonObject, status: JsonObject) -> str:
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName") or NONE)
    addresses = list(spec.get("externalIPs") or [])
    if spec.get("type") == "LoadBalancer":
        ingress = (status.get("loadBalancer") or {}).get("ingress") or []
        addresses = [item.get("ip") or item.get("hostname", "") for item in ingress] + addresses
        return ",".join(addresses) or "<pending>"
    return ",".join(addresses) or NONE


def _endpoints(value: JsonObject, now: datetime) -> list[Any]:
    found = []
    for subset in value.get("subsets") or []:
        for port in subset.get("ports") or [{}]:
            for address in subset.get("addresses") or []:
                number = port.get("port")
                found.append(
                    f"{address.get('ip', '')}:{number}" if number else address.get("ip", "")
                )
    shown = ",".join(found[:MAX_ENDPOINTS]) or NONE
    if len(found) > MAX_ENDPOINTS:
        shown += f" + {len(found) - MAX_ENDPOINTS} more..."
    return [name_of(value), shown, age(value, now)]


def _slice(value: JsonObject, now: datetime) -> list[Any]:
    ports = [str(port["port"]) for port in value.get("ports") or [] if port.get("port")]
    addresses = [
        address for item in value.get("endpoints") or [] for address in item.get("addresses") or []
    ]

    def shown(items: list[str], empty: str) -> str:
        if len(items) > MAX_ENDPOINTS:
            return f"{','.join(items[:MAX_ENDPOINTS])} + {len(items) - MAX_ENDPOINTS} more..."
        return ",".join(items) or empty

    return [
        name_of(value),
        value.get("addressType", ""),
        shown(ports, "<unset>"),
        shown(addresses, "<unset>"),
        age(value, now),
    ]


def _namespace(value: JsonObject, now: datetime) -> list[Any]:
    return [name_of(value), status_of(value).get("phase", ""), age(value, now)]


def _node(value: JsonObject, now: datetime) -> list[Any]:
    spec, status = spec_of(value), status_of(value)
    ready = next(
        (item for item in status.get("conditions") or [] if item.get("type") == "Ready"), None
    )
    state = "Unknown"
    if ready is not None:
        state = "Ready" if ready.get("status") == "True" else "NotReady"
    if spec.get("unschedulable"):
        state += ",SchedulingDisabled"
    prefix = "node-role.kubernetes.io/"
    labels = value["metadata"].get("labels") or {}
    roles = sorted(key[len(prefix) :] for key in labels if key.startswith(prefix))
    addresses = {item.get("type"): item.get("address") for item in status.get("addresses") or []}
    info = status.get("nodeInfo") or {}
    return [
        name_of(value),
        state,
        ",".join(roles) or NONE,
        age(value, now),
        info.get("kubeletVersion", ""),
        addresses.get("InternalIP") or NONE,
        addresses.get("ExternalIP") or NONE,
        info.get("osImage") or UNKNOWN,
        info.get("kernelVersion") or UNKNOWN,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _config_map(value: JsonObject, now: datetime) -> list[Any]:
    count = len(value.get("data") or {}) + len(value.get("binaryData") or {})
    return [name_of(value), str(count), age(value, now)]


def _secret(value: JsonObject, now: datetime) -> list[Any]:
    return [name_of(value), value.get("type", ""), len(value.get("data") or {}), age(value, now)]


def _service_account(value: JsonObject, now: datetime) -> list[Any]:
    return [name_of(value), str(len(value.get("secrets") or [])), age(value, now)]


def _event(value: JsonObject, now: datetime) -> list[Any]:
    about = value.get("involvedObject") or {}
    source = value.get("source") or {}
    host = source.get("host") or value.get("reportingInstance", "")
    parts = [source.get("component") or value.get("reportingComponent", ""), host]
    first = value.get("firstTimestamp") or value.get("eventTime")
    last = value.get("lastTimestamp") or first
    return [
        since(last, now),
        value.get("type", ""),
        value.get("reason", ""),
        f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}",
        about.get("fieldPath", ""),
        ", ".join(part for part in parts if part),
        str(value.get("message", "")).strip(),
        since(first, now),
        value.get("count") or 1,
        name_of(value),
    ]


def _claim(value: JsonObject, now: datetime) -> list[Any]:
    spec, status = spec_of(value), status_of(value)
    phase = status.get("phase", "")
    if "deletionTimestamp" in value["metadata"]:
        phase = "Terminating"
    bound = bool(spec.get("volumeName"))
    capacity = (status.get("capacity") or {}).get("storage", "") if bound else ""
    return [
        name_of(value),
        phase,
        spec.get("volumeName", ""),
        capacity,
        _access_modes(status.get("accessModes")) if bound else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName") or "<unset>",
        age(value, now),
        spec.get("volumeMode") or "<unset>",
    ]


def _volume(value: JsonObject, now: datetime) -> list[Any]:
    spec, status = spec_of(value), status_of(value)
    claim = spec.get("claimRef") or {}
    return [
        name_of(value),
        (spec.get("capacity") or {}).get("storage", ""),
        _access_modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy", ""),
        status.get("phase", ""),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName") or "<unset>",
        status.get("reason", ""),
        age(value, now),
        spec.get("volumeMode") or "<unset>",
    ]


def _access_modes(modes: Any) -> str:
    short = {
        "ReadWriteOnce": "RWO",
        "ReadOnlyMany": "ROX",
        "ReadWriteMany": "RWX",
        "ReadWriteOncePod": "RWOP",
    }
    return ",".join(short.get(mode, str(mode)) for mode in modes or [])


def _quota(value: JsonObject, now: datetime) -> list[Any]:
    status = status_of(value)
    hard, used = status.get("hard") or {}, status.get("used") or {}
    requests: list[str] = []
    limits: list[str] = []
    for name in sorted(hard):
        target = limits if name.startswith("limits.") else requests
        target.append(f"{name}: {used.get(name, '0')}/{hard[name]}")
    return [name_of(value), ", ".join(requests), ", ".join(limits), age(value, now)]


def _network_policy(value: JsonObject, now: datetime) -> list[Any]:
    return [
        name_of(value),
        format_label_selector(spec_of(value).get("podSelector")),
        age(value, now),
    ]


def _ingress(value: JsonObject, now: datetime) -> list[Any]:
    spec, status = spec_of(value), status_of(value)
    hosts = [rule.get("host", "") for rule in spec.get("rules") or []]
    hosts = [host for host in hosts if host]
    ingress = (status.get("loadBalancer") or {}).get("ingress") or []
    return [
        name_of(value),
        spec.get("ingressClassName") or NONE,
        ",".join(hosts) or "*",
        ",".join(item.get("ip") or item.get("hostname", "") for item in ingress),
        "80, 443" if spec.get("tls") else "80",
        age(value, now),
    ]


def _lease(value: JsonObject, now: datetime) -> list[Any]:
    return [name_of(value), spec_of(value).get("holderIdentity") or "", age(value, now)]


def _created(value: JsonObject, now: datetime) -> list[Any]:
    del now
    return [name_of(value), value["metadata"].get("creationTimestamp", "")]


def _binding(value: JsonObject, now: datetime) -> list[Any]:
    role = value.get("roleRef") or {}
    kinds: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for subject in value.get("subjects") or []:
        name = str(subject.get("name", ""))
        if subject.get("kind") == "ServiceAccount":
            name = f"{subject.get('namespace', '')}/{name}"
        kinds.setdefault(str(subject.get("kind", "")), []).append(name)
    return [
        name_of(value),
        f"{role.get('kind', '')}/{role.get('name', '')}",
        age(value, now),
        ", ".join(kinds["User"]),
        ", ".join(kinds["Group"]),
        ", ".join(kinds["ServiceAccount"]),
    ]


def _priority_class(value: JsonObject, now: datetime) -> list[Any]:
    return [
        name_of(value),
        value.get("value", 0),
        bool(value.get("globalDefault")),
        age(value, now),
        value.get("preemptionPolicy") or "PreemptLowerPriority",
    ]


def _storage_class(value: JsonObject, now: datetime) -> list[Any]:
    return [
        name_of(value),
        value.get("provisioner", ""),
        value.get("reclaimPolicy") or "Delete",
        value.get("volumeBindingMode") or "Immediate",
        bool(value.get("allowVolumeExpansion")),
        age(value, now),
    ]


PRINTERS: dict[str, Printer] = {
    **WORKLOAD_PRINTERS,
    "services": _service,
    "endpoints": _endpoints,
    "namespaces": _namespace,
    "nodes": _node,
    "configmaps": _config_map,
    "secrets": _secret,
    "serviceaccounts": _service_account,
    "events": _event,
    "persistentvolumeclaims": _claim,
    "persistentvolumes": _volume,
    "resourcequotas": _quota,
    "limitranges": _created,
    "endpointslices.discovery.k8s.io": _slice,
    "networkpolicies.networking.k8s.io": _network_policy,
    "ingresses.networking.k8s.io": _ingress,
    "leases.coordination.k8s.io": _lease,
    "roles.rbac.authorization.k8s.io": _created,
    "clusterroles.rbac.authorization.k8s.io": _created,
    "rolebindings.rbac.authorization.k8s.io": _binding,
    "clusterrolebindings.rbac.authorization.k8s.io": _binding,
    "priorityclasses.scheduling.k8s.io": _priority_class,
    "storageclasses.storage.k8s.io": _storage_class,
}
