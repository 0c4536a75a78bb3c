"""What the API server adds to or refuses of new objects, by the state of the cluster.

Rules kept here:

* nothing is created in a namespace that is missing or going;
* a pod gets its service account, the account's token volume and the default tolerations, in the
  order and form recorded;
* refusals use the recorded sentences.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pytest_sremut.embedded.meta.errors import Cause, forbidden, not_found
from pytest_sremut.embedded.meta.jsonvalue import JsonObject
from pytest_sremut.embedded.meta.resources import Resource
from pytest_sremut.embedded.registry.limits import apply_limit_ranges
from pytest_sremut.embedded.registry.lookup import Lookup
from pytest_sremut.embedded.registry.podspec import qos_class

__all__ = ["admit_create"]

TOKEN_MOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - a path
TOKEN_SECONDS = 3607
DEFAULT_TOLERATION_SECONDS = 300


def admit_create(
    registry: Lookup, table: Resource, value: JsonObject, *, suffix: Callable[[], str]
) -> None:
    """Check and complete a new object, in place.

    Args:
        suffix: makes the ends of generated names.

    Raises:
        ApiStatus: the object is not admitted.
    """
    if table.namespaced:
        _check_namespace(registry, table, value)
    if table.key == "pods" and isinstance(value.get("spec"), dict):
        apply_limit_ranges(registry, value)
        _service_account(registry, value, suffix=suffix)
        _tolerations(value["spec"])
        value["spec"].setdefault("priority", 0)
        value["spec"].setdefault("preemptionPolicy", "PreemptLowerPriority")
        value["status"]["qosClass"] = qos_class(value["spec"])


def _check_namespace(registry: Lookup, table: Resource, value: JsonObject) -> None:
    name = value["metadata"]["namespace"]
    namespace = registry.get("namespaces", "", name)
    if namespace is None:
        raise not_found("namespaces", name)
    if "deletionTimestamp" in namespace["metadata"]:
        cause = Cause(
            reason="NamespaceTerminating",
            message=f"namespace {name} is being terminated",
            field="metadata.namespace",
        )
        raise forbidden(
            table.key,
            value["metadata"].get("name", ""),
            f"unable to create new content in namespace {name} because it is being terminated",
            causes=[cause],
        )


def _service_account(registry: Lookup, value: JsonObject, *, suffix: Callable[[], str]) -> None:
    spec: JsonObject = value["spec"]
    account = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
    namespace = value["metadata"]["namespace"]
    found = registry.get("serviceaccounts", namespace, account)
    if found is None and account != "default":
        raise forbidden(
            "pods",
            value["metadata"].get("name", ""),
            f"error looking up service account {namespace}/{account}: "
            f'serviceaccount "{account}" not found',
        )
    spec["serviceAccountName"] = account
    spec["serviceAccount"] = account
    automount = spec.get("automountServiceAccountToken")
    if automount is None:
        automount = (found or {}).get("automountServiceAccountToken")
    if automount is False:
        return
    _mount_token(spec, suffix=suffix)


def _mount_token(spec: JsonObject, *, suffix: Callable[[], str]) -> None:
    containers = [
        item
        for key in ("initContainers", "containers")
        for item in (spec[key] if isinstance(spec.get(key), list) else [])
        if isinstance(item, dict)
    ]
    without = [item for item in containers if not _mounts(item, TOKEN_MOUNT)]
    if not without:
        return
    name = f"kube-api-access-{suffix()}"
    for container in without:
        mounts = container.setdefault("volumeMounts", [])
        if isinstance(mounts, list):
            mounts.append({"name": name, "readOnly": True, "mountPath": TOKEN_MOUNT})
    volumes = spec.setdefault("volumes", [])
    if isinstance(volumes, list):
        volumes.append(_token_volume(name))


def _mounts(container: JsonObject, path: str) -> bool:
    mounts = container.get("volumeMounts")
    if not isinstance(mounts, list):
        return False
    return any(isinstance(item, dict) and item.get("mountPath") == path for item in mounts)


def _token_volume(name: str) -> JsonObject:
    namespace: dict[str, Any] = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
    return {
        "name": name,
        "projected": {
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
                {
                    "configMap": {
                        "name": "kube-root-ca.crt",
                        "items": [{"key": "ca.crt", "path": "ca.crt"}],
                    }
                },
                {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": namespace}]}},
            ],
            "defaultMode": 420,
        },
    }


def _tolerations(spec: JsonObject) -> None:
    tolerations = spec.setdefault("tolerations", [])
    if not isinstance(tolerations, list):
        return
    for condition in ("not-ready", "unreachable"):
        key = f"node.kubernetes.io/{condition}"
        if any(
            isinstance(item, dict)
            and item.get("key") in (key, None, "")
            and item.get("effect") in ("NoExecute", None, "")
            for item in tolerations
        ):
            continue
        tolerations.append(
            {
                "key": key,
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": DEFAULT_TOLERATION_SECONDS,
            }
        )
