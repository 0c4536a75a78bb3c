"""Rules that objects must keep, with the API server's sentences.

Rules kept here:

* every broken rule of an object is listed, in the order of the real server;
* validation changes nothing, and takes objects as `schema.conform` leaves them: right JSON types,
  anything missing.
"""

from __future__ import annotations

from collections.abc import Callable

from pytest_sremut.embedded.meta.errors import bad_request, invalid
from pytest_sremut.embedded.meta.fielderrors import FieldErrors
from pytest_sremut.embedded.meta.jsonvalue import JsonObject
from pytest_sremut.embedded.meta.names import dns_label, dns_subdomain, label_value, qualified_name
from pytest_sremut.embedded.meta.resources import Resource
from pytest_sremut.embedded.registry.validation import network, pods, workloads
from pytest_sremut.embedded.registry.validation.config import (
    check_config_map,
    check_config_update,
    check_secret,
)

__all__ = ["check_create", "check_update"]

MAX_ANNOTATIONS = 256 * 1024
LABEL_NAMES = frozenset(("namespaces", "services"))
PATH_NAMES = frozenset(
    (
        "roles.rbac.authorization.k8s.io",
        "clusterroles.rbac.authorization.k8s.io",
        "rolebindings.rbac.authorization.k8s.io",
        "clusterrolebindings.rbac.authorization.k8s.io",
    )
)
Check = Callable[[JsonObject, FieldErrors], None]
UpdateCheck = Callable[[JsonObject, JsonObject, FieldErrors], None]

_CHECKS: dict[str, Check] = {
    "pods": pods.check_pod,
    "services": network.check_service,
    "endpoints": network.check_endpoints,
    "endpointslices.discovery.k8s.io": network.check_slice,
    "configmaps": check_config_map,
    "secrets": check_secret,
    "deployments.apps": workloads.check_deployment,
    "replicasets.apps": workloads.check_replica_set,
    "statefulsets.apps": workloads.check_replica_set,
    "daemonsets.apps": workloads.check_daemon_set,
    "jobs.batch": workloads.check_job,
    "cronjobs.batch": workloads.check_cron_job,
    "poddisruptionbudgets.policy": workloads.check_budget,
    "persistentvolumeclaims": pods.check_claim,
}
_UPDATE_CHECKS: dict[str, UpdateCheck] = {
    "pods": pods.check_pod_update,
    "services": network.check_service_update,
    "endpointslices.discovery.k8s.io": network.check_slice_update,
    "configmaps": check_config_update,
    "secrets": check_config_update,
    "deployments.apps": workloads.check_selector_update,
    "replicasets.apps": workloads.check_selector_update,
    "statefulsets.apps": workloads.check_selector_update,
    "daemonsets.apps": workloads.check_selector_update,
    "jobs.batch": workloads.check_job_update,
    "persistentvolumeclaims": pods.check_claim_update,
}


def check_create(table: Resource, value: JsonObject) -> None:
    """Refuse a new object that breaks a rule.

    Raises:
        ApiStatus: 422 with every cause.
    """
    errors = FieldErrors()
    _check_metadata(table, value, errors)
    check = _CHECKS.get(table.key)
    if check is not None:
        check(value, errors)
    _refuse(table, value, errors)


def check_update(
    table: Resource,
    value: JsonObject,
    old: JsonObject,
    *,
    subresource: str = "",
    external: bool = False,
) -> None:
    """Refuse an update that breaks a rule.

    Args:
        external: whether a client asks: only controllers may put a pod on a node.

    Raises:
        ApiStatus: 422 with every cause.
    """
    if subresource:
        return
    errors = FieldErrors()
    _check_metadata(table, value, errors)
    check = _CHECKS.get(table.key)
    if check is not None:
        check(value, errors)
    update_check = _UPDATE_CHECKS.get(table.key)
    node = (value.get("spec") or {}).get("nodeName") if table.key == "pods" else None
    if node and not external and not old["spec"].get("nodeName"):
        # The scheduler of this cluster binds by writing the field.
        old = {**old, "spec": {**old["spec"], "nodeName": node}}
    if update_check is not None:
        update_check(value, old, errors)
    _refuse(table, value, errors)


def _refuse(table: Resource, value: JsonObject, errors: FieldErrors) -> None:
    if errors.causes:
        name = value["metadata"].get("name", "")
        raise invalid(table.qualified_kind, name, errors.causes)


def _check_metadata(table: Resource, value: JsonObject, errors: FieldErrors) -> None:
    metadata = value["metadata"]
    name = metadata.get("name", "")
    prefix = metadata.get("generateName", "")
    if not name:
        errors.required("metadata.name", "name or generateName is required")
    elif "/" in name or "%" in name or name in (".", ".."):
        _check_path_name(table, name, errors)
    elif table.key not in PATH_NAMES:
        check = dns_label if table.key in LABEL_NAMES else dns_subdomain
        errors.each_invalid("metadata.name", name, check(name))
    if prefix and table.key not in PATH_NAMES:
        trimmed = prefix.rstrip("-.") or prefix
        check = dns_label if table.key in LABEL_NAMES else dns_subdomain
        whys = [why for why in check(trimmed) if not why.startswith("must be no more")]
        errors.each_invalid("metadata.generateName", prefix, whys)
    for key, item in (metadata.get("labels") or {}).items():
        errors.each_invalid("metadata.labels", key, qualified_name(key))
        errors.each_invalid("metadata.labels", item, label_value(item))
    _check_annotations(metadata.get("annotations") or {}, errors)
    for index, item in enumerate(metadata.get("ownerReferences") or []):
        for key in ("apiVersion", "kind", "name", "uid"):
            if not item.get(key):
                errors.invalid(f"metadata.ownerReferences[{index}].{key}", "", "must not be empty")
    for finalizer in metadata.get("finalizers") or []:
        errors.each_invalid("metadata.finalizers", finalizer, qualified_name(finalizer))


def _check_path_name(table: Resource, name: str, errors: FieldErrors) -> None:
    if table.key not in PATH_NAMES:
        errors.each_invalid("metadata.name", name, dns_subdomain(name))
        return
    if name in (".", ".."):
        errors.invalid("metadata.name", name, f"may not be '{name}'")
    for char in "/%":
        if char in name:
            errors.invalid("metadata.name", name, f"may not contain '{char}'")


def _check_annotations(annotations: dict[str, str], errors: FieldErrors) -> None:
    total = 0
    for key, item in annotations.items():
        errors.each_invalid("metadata.annotations", key, qualified_name(key.lower()))
        total += len(key.encode("utf-8", "replace")) + len(item.encode("utf-8", "replace"))
    if total > MAX_ANNOTATIONS:
        raise bad_request(
            f"metadata.annotations: Too long: may not be more than {MAX_ANNOTATIONS} bytes"
        )
