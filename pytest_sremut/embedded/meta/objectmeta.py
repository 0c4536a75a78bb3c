"""Metadata that the server keeps, whatever a write says of it."""

from __future__ import annotations

from typing import Any

from pytest_sremut.embedded.meta.errors import bad_request, conflict
from pytest_sremut.embedded.meta.jsonvalue import JsonObject, clone
from pytest_sremut.embedded.meta.resources import Resource

__all__ = [
    "IMMUTABLE_METADATA",
    "check_preconditions",
    "merge_for_update",
    "metadata_of",
    "respecified",
]

IMMUTABLE_METADATA = ("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")


def metadata_of(value: JsonObject, table: Resource, namespace: str) -> JsonObject:
    """The metadata of a new object, in the namespace where it is to be created.

    Raises:
        ApiStatus: 400, the object says another namespace.
    """
    metadata: Any = value.setdefault("metadata", {})
    if table.namespaced:
        if metadata.setdefault("namespace", namespace) != namespace:
            raise bad_request(
                "the namespace of the provided object does not match the namespace sent on the "
                "request"
            )
    else:
        metadata.pop("namespace", None)
    result: JsonObject = metadata
    return result


def check_preconditions(table: Resource, old: JsonObject, metadata: JsonObject) -> None:
    """Compare the uid and the resource version that an update brings with those stored.

    Raises:
        ApiStatus: 409.
    """
    stored = old["metadata"]
    name = stored["name"]
    uid = metadata.get("uid")
    if uid and uid != stored["uid"]:
        group = f"{table.group}/" if table.group else ""
        place = "/".join(part for part in (stored.get("namespace", ""), name) if part)
        raise conflict(
            table.key,
            name,
            f"StorageError: invalid object, Code: 4, Key: /registry/{group}{table.plural}/{place}, "
            f"ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: "
            f"{uid}, UID in object meta: {stored['uid']}",
        )
    version = metadata.get("resourceVersion")
    if version and version != stored["resourceVersion"]:
        raise conflict(
            table.key,
            name,
            "the object has been modified; please apply your changes to the latest version "
            "and try again",
        )


def merge_for_update(
    table: Resource, old: JsonObject, value: JsonObject, subresource: str
) -> JsonObject:
    """What an update may change: all but the status, or the status alone."""
    stored = old["metadata"]
    if subresource == "status":
        merged = {**old, "metadata": dict(stored)}
        annotations = (value.get("metadata") or {}).get("annotations")
        if annotations is not None:
            merged["metadata"]["annotations"] = annotations
        if "status" in value:
            merged["status"] = value["status"]
        return clone(merged)  # type: ignore[no-any-return]
    metadata: JsonObject = value.setdefault("metadata", {})
    for field in (*IMMUTABLE_METADATA, "uid", "generation", "namespace", "generateName"):
        if field in stored:
            metadata[field] = stored[field]
        else:
            metadata.pop(field, None)
    metadata["resourceVersion"] = stored["resourceVersion"]
    if "managedFields" not in metadata and "managedFields" in stored:
        metadata["managedFields"] = stored["managedFields"]
    value.setdefault("kind", table.kind)
    value.setdefault("apiVersion", table.api_version)
    if table.has_status and subresource != "finalize":
        if "status" in old:
            value["status"] = clone(old["status"])
        else:
            value.pop("status", None)
    return value


def respecified(table: Resource, old: JsonObject, value: JsonObject) -> bool:
    """Whether the update changes what is asked for; putting a pod on a node does not."""
    before, after = _specification(old), _specification(value)
    if table.key == "pods" and not before["spec"].get("nodeName"):
        before["spec"] = {**before["spec"], "nodeName": after["spec"].get("nodeName", "")}
        after["spec"] = {"nodeName": "", **after["spec"]}
    return before != after


def _specification(value: JsonObject) -> JsonObject:
    return {
        key: item
        for key, item in value.items()
        if key not in ("metadata", "status", "kind", "apiVersion")
    }
