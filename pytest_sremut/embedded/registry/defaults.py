"""Defaults that the API server writes into objects.

Rules kept here:

* `prepare_create` clears what a client may not set and gives a new object its first status;
* `apply` fills what was left out; applied twice it changes nothing the second time;
* which defaults there are is as recorded in the create answers of Kubernetes 1.36.2;
* a value of the wrong JSON type is left alone: decoding or validation names it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pytest_sremut.embedded.meta.jsonvalue import JsonObject, clone
from pytest_sremut.embedded.meta.resources import Resource
from pytest_sremut.embedded.registry.podspec import (
    default_container_claims,
    default_pod,
    default_pod_template,
)

__all__ = ["apply", "keep_addresses", "prepare_create"]

PROTECTION = "kubernetes.io/pvc-protection"
DEFAULT_SHARE = "25%"


def prepare_create(table: Resource, value: JsonObject) -> None:
    """Reset the status of a new object to what it starts with."""
    if table.has_status:
        value["status"] = clone(_FIRST_STATUS.get(table.key, {}))
    if table.key == "namespaces":
        labels = value["metadata"].setdefault("labels", {})
        if isinstance(labels, dict):
            labels["kubernetes.io/metadata.name"] = value["metadata"].get("name", "")
        spec = value.setdefault("spec", {})
        if isinstance(spec, dict):
            spec["finalizers"] = ["kubernetes"]
    elif table.key == "daemonsets.apps":
        annotations = value["metadata"].setdefault("annotations", {})
        if isinstance(annotations, dict):
            annotations["deprecated.daemonset.template.generation"] = "1"
    elif table.key == "persistentvolumeclaims":
        held = value["metadata"].get("finalizers") or []
        if isinstance(held, list) and PROTECTION not in held:
            value["metadata"]["finalizers"] = [*held, PROTECTION]
    elif table.key == "secrets":
        _fold_string_data(value)


def apply(table: Resource, value: JsonObject) -> None:
    """Fill in the defaults of `value`, in place."""
    default = _DEFAULTS.get(table.key)
    if default is not None:
        default(value)


def keep_addresses(value: JsonObject, old: JsonObject) -> None:
    """Carry over what an update of a Service leaves out: its addresses, its node ports."""
    spec, before = value.get("spec"), old.get("spec")
    if not isinstance(spec, dict) or not isinstance(before, dict):
        return
    if spec.get("type") == "ExternalName":
        if spec.get("clusterIP") == before.get("clusterIP"):
            for key in (
                "clusterIP",
                "clusterIPs",
                "ipFamilies",
                "ipFamilyPolicy",
                "internalTrafficPolicy",
            ):
                spec.pop(key, None)
        return
    if before.get("type") != "ExternalName":
        for key in ("clusterIP", "clusterIPs"):
            if not spec.get(key) and before.get(key):
                spec[key] = clone(before[key])
    _keep_node_ports(spec, before)


def _keep_node_ports(spec: JsonObject, before: JsonObject) -> None:
    if spec.get("type") == "ClusterIP":
        spec.pop("externalTrafficPolicy", None)
        spec.pop("allocateLoadBalancerNodePorts", None)
        if before.get("type") in ("NodePort", "LoadBalancer"):
            for port in _objects(spec.get("ports")):
                port.pop("nodePort", None)
        return
    known = {
        (port.get("port"), port.get("protocol")): port.get("nodePort")
        for port in _objects(before.get("ports"))
    }
    for port in _objects(spec.get("ports")):
        kept = known.get((port.get("port"), port.get("protocol")))
        if kept and not port.get("nodePort"):
            port["nodePort"] = kept


def _fold_string_data(value: JsonObject) -> None:
    import base64

    plain = value.pop("stringData", None)
    if isinstance(plain, dict) and plain:
        data = value.setdefault("data", {})
        if isinstance(data, dict):
            for key, text in plain.items():
                data[key] = base64.b64encode(str(text).encode()).decode()


def _service(value: JsonObject) -> None:
    spec = _object(value, "spec")
    if spec is None:
        return
    spec.setdefault("sessionAffinity", "None")
    kind = spec.setdefault("type", "ClusterIP")
    for port in _objects(spec.get("ports")):
        port.setdefault("protocol", "TCP")
        if port.get("targetPort") in (None, 0, "") and "port" in port:
            port["targetPort"] = port["port"]
    if kind != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if kind in ("NodePort", "LoadBalancer"):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
    if spec["sessionAffinity"] == "ClientIP":
        spec.setdefault("sessionAffinityConfig", {})
        config = _object(spec, "sessionAffinityConfig")
        if config is not None:
            config.setdefault("clientIP", {"timeoutSeconds": 10800})
    _drop_empty(spec, "clusterIP", "externalName")


def _drop_empty(spec: JsonObject, *keys: str) -> None:
    for key in keys:
        if spec.get(key) == "":
            del spec[key]


def _deployment(value: JsonObject) -> None:
    spec = _object(value, "spec")
    if spec is None:
        return
    spec.setdefault("replicas", 1)
    default_pod_template(spec)
    _rolling_update(spec, "strategy", maxUnavailable=DEFAULT_SHARE, maxSurge=DEFAULT_SHARE)
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)


def _rolling_update(spec: JsonObject, key: str, **numbers: int | str) -> None:
    """A rolling update with these numbers, as far as the strategy under `key` says nothing else."""
    strategy = spec.setdefault(key, {})
    if not isinstance(strategy, dict):
        return
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] != "RollingUpdate":
        return
    rolling = strategy.setdefault("rollingUpdate", {})
    if isinstance(rolling, dict):
        for name, number in numbers.items():
            rolling.setdefault(name, number)


def _replica_set(value: JsonObject) -> None:
    spec = _object(value, "spec")
    if spec is None:
        return
    spec.setdefault("replicas", 1)
    default_pod_template(spec)
    value.setdefault("status", {}).setdefault("replicas", 0)


def _stateful_set(value: JsonObject) -> None:
    spec = _object(value, "spec")
    if spec is None:
        return
    spec.setdefault("replicas", 1)
    default_pod_template(spec)
    spec.setdefault("podManagementPolicy", "OrderedReady")
    _rolling_update(spec, "updateStrategy", partition=0)
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault(
        "persistentVolumeClaimRetentionPolicy", {"whenDeleted": "Retain", "whenScaled": "Retain"}
    )


def _daemon_set(value: JsonObject) -> None:
    spec = _object(value, "spec")
    if spec is None:
        return
    default_pod_template(spec)
    _rolling_update(spec, "updateStrategy", maxUnavailable=1, maxSurge=0)
    spec.setdefault("revisionHistoryLimit", 10)


def _job_spec(spec: JsonObject) -> None:
    default_pod_template(spec)
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("podReplacementPolicy", "TerminatingOrFailed")


def _job(value: JsonObject) -> None:
    """A Job picks its pods by its own uid, unless it brings a selector."""
    spec = _object(value, "spec")
    if spec is None:
        return
    _job_spec(spec)
    template = spec.get("template")
    if spec.setdefault("manualSelector", False) is not True:
        uid, name = value["metadata"].get("uid", ""), value["metadata"].get("name", "")
        spec.setdefault("selector", {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}})
        if isinstance(template, dict):
            metadata = template.setdefault("metadata", {})
            if isinstance(metadata, dict):
                labels = metadata.setdefault("labels", {})
                if isinstance(labels, dict):
                    for prefix in ("batch.kubernetes.io/", ""):
                        labels.setdefault(f"{prefix}controller-uid", uid)
                        labels.setdefault(f"{prefix}job-name", name)
    if not value["metadata"].get("labels") and isinstance(template, dict):
        metadata = template.get("metadata")
        if isinstance(metadata, dict) and metadata.get("labels"):
            value["metadata"]["labels"] = clone(metadata["labels"])


def _cron_job(value: JsonObject) -> None:
    spec = _object(value, "spec")
    if spec is None:
        return
    spec.setdefault("concurrencyPolicy", "Allow")
    spec.setdefault("suspend", False)
    job = _object(spec, "jobTemplate")
    if job is not None:
        job.setdefault("metadata", {})
    inner = _object(job, "spec") if job is not None else None
    if inner is not None:
        default_pod_template(inner)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)


def _pod(value: JsonObject) -> None:
    default_pod(value)


def _secret(value: JsonObject) -> None:
    value.setdefault("type", "Opaque")


def _claim(value: JsonObject) -> None:
    spec = _object(value, "spec")
    if spec is not None:
        spec.setdefault("volumeMode", "Filesystem")


def _storage_class(value: JsonObject) -> None:
    value.setdefault("reclaimPolicy", "Delete")
    value.setdefault("volumeBindingMode", "Immediate")


def _endpoints(value: JsonObject) -> None:
    for subset in _objects(value.get("subsets")):
        for port in _objects(subset.get("ports")):
            port.setdefault("protocol", "TCP")


def _slice(value: JsonObject) -> None:
    for endpoint in _objects(value.get("endpoints")):
        endpoint.setdefault("conditions", {})
    for port in _objects(value.get("ports")):
        port.setdefault("name", "")
        port.setdefault("protocol", "TCP")


def _network_policy(value: JsonObject) -> None:
    spec = _object(value, "spec")
    if spec is None:
        return
    for direction in ("ingress", "egress"):
        for rule in _objects(spec.get(direction)):
            for port in _objects(rule.get("ports")):
                port.setdefault("protocol", "TCP")
    if "policyTypes" not in spec:
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]


def _limit_range(value: JsonObject) -> None:
    spec = _object(value, "spec")
    if spec is None:
        return
    for limit in _objects(spec.get("limits")):
        default_container_claims(limit)


def _object(value: Any, key: str) -> JsonObject | None:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else None


def _objects(value: Any) -> list[JsonObject]:
    if not isinstance(value, list):
        return []
    return [item for item in value if isinstance(item, dict)]


_DEFAULTS: dict[str, Callable[[JsonObject], None]] = {
    "services": _service,
    "pods": _pod,
    "secrets": _secret,
    "endpoints": _endpoints,
    "limitranges": _limit_range,
    "persistentvolumeclaims": _claim,
    "deployments.apps": _deployment,
    "replicasets.apps": _replica_set,
    "statefulsets.apps": _stateful_set,
    "daemonsets.apps": _daemon_set,
    "jobs.batch": _job,
    "cronjobs.batch": _cron_job,
    "endpointslices.discovery.k8s.io": _slice,
    "networkpolicies.networking.k8s.io": _network_policy,
    "storageclasses.storage.k8s.io": _storage_class,
}

_FIRST_STATUS: dict[str, JsonObject] = {
    "pods": {"phase": "Pending"},
    "namespaces": {"phase": "Active"},
    "services": {"loadBalancer": {}},
    "replicasets.apps": {"replicas": 0},
    "statefulsets.apps": {"replicas": 0, "availableReplicas": 0},
    "daemonsets.apps": {
        "currentNumberScheduled": 0,
        "numberMisscheduled": 0,
        "desiredNumberScheduled": 0,
        "numberReady": 0,
    },
    "poddisruptionbudgets.policy": {
        "disruptionsAllowed": 0,
        "currentHealthy": 0,
        "desiredHealthy": 0,
        "expectedPods": 0,
    },
    "horizontalpodautoscalers.autoscaling": {"currentReplicas": 0, "desiredReplicas": 0},
    "persistentvolumeclaims": {"phase": "Pending"},
    "ingresses.networking.k8s.io": {"loadBalancer": {}},
}
