"""The shape of every field of an object that anything here looks into.

An answer that is JSON of the right kind and of the wrong shape is a failed read like any other: it
is told apart here, once, and nowhere else has to doubt a field's type. Fields that nobody looks
into are not described and may be anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pytest_sremut.cluster.port import Kind

__all__ = ["misfit"]

Shape = Any
"""A type; `[shape]` for a list of it, a dict for a mapping with these keys, `{"*": shape}` for one
with any. Lists and mappings may be null, which is how the API writes some empty ones."""

_TEXTS: Final[Shape] = {"*": str}
_CONDITIONS: Final[Shape] = [{"type": str, "status": str}]
_METADATA: Final[Shape] = {
    "name": str,
    "namespace": str,
    "uid": str,
    "resourceVersion": str,
    "generation": int,
    "deletionTimestamp": str,
    "labels": _TEXTS,
    "annotations": _TEXTS,
    "ownerReferences": [{"kind": str, "name": str, "uid": str, "controller": bool}],
}
_POD_STATUS: Final[Shape] = {
    "phase": str,
    "podIP": str,
    "podIPs": [{"ip": str}],
    "conditions": _CONDITIONS,
    "containerStatuses": [{"name": str, "ready": bool, "restartCount": int, "state": {}}],
}
_COUNTS: Final[Shape] = {
    "observedGeneration": int,
    "replicas": int,
    "updatedReplicas": int,
    "readyReplicas": int,
    "availableReplicas": int,
    "unavailableReplicas": int,
    "conditions": _CONDITIONS,
}
_ADDRESSES: Final[Shape] = [{"ip": str, "targetRef": {"kind": str, "name": str, "uid": str}}]

_KINDS: Final[Mapping[Kind, Shape]] = {
    "Deployment": {
        "spec": {"replicas": int, "selector": {"matchLabels": _TEXTS}},
        "status": _COUNTS,
    },
    "EndpointSlice": {
        "addressType": str,
        "endpoints": [
            {
                "addresses": [str],
                "conditions": {"ready": bool, "serving": bool, "terminating": bool},
                "targetRef": {"kind": str, "name": str, "uid": str},
            }
        ],
        "ports": [{}],
    },
    "Endpoints": {
        "subsets": [{"addresses": _ADDRESSES, "notReadyAddresses": _ADDRESSES, "ports": [{}]}]
    },
    "Job": {"status": {"conditions": _CONDITIONS}},
    "Node": {"spec": {}, "status": {"conditions": _CONDITIONS}},
    "Pod": {"spec": {"containers": [{"name": str}]}, "status": _POD_STATUS},
    "ReplicaSet": {"spec": {"replicas": int}, "status": _COUNTS},
    "Service": {
        "spec": {
            "type": str,
            "clusterIP": str,
            "clusterIPs": [str],
            "selector": _TEXTS,
            "ports": [{"name": str, "port": int, "protocol": str}],
        }
    },
}


def misfit(kind: str, body: Any) -> str:
    """Where an object of that kind is not shaped as it must be, and what stands there; empty
    where it is. Name and UID must be there; of the rest, what is there must fit."""
    metadata = body.get("metadata") if isinstance(body, dict) else None
    if not isinstance(metadata, dict):
        return "an object without metadata"
    for key in ("name", "uid"):
        if not isinstance(metadata.get(key), str) or not metadata[key]:
            return f"an object without metadata.{key}"
    shape = {"metadata": _METADATA, **_KINDS.get(kind, {})}  # type: ignore[call-overload]
    return _misfit(body, shape, "")


def _misfit(value: Any, shape: Shape, path: str) -> str:
    if isinstance(shape, type):
        # A bool is an int to Python and not to JSON.
        fits = type(value) is bool if shape is bool else isinstance(value, shape)
        if fits and not (shape is int and type(value) is bool):
            return ""
        return f"{path} is {_said(value)}"
    if value is None:
        return ""
    if isinstance(shape, list):
        if not isinstance(value, list):
            return f"{path} is {_said(value)}"
        found = (_misfit(item, shape[0], f"{path}[{n}]") for n, item in enumerate(value))
        return next(filter(None, found), "")
    if not isinstance(value, dict):
        return f"{path} is {_said(value)}"
    for key, item in value.items():
        inner = shape.get(key, shape.get("*"))
        if inner is not None and (told := _misfit(item, inner, f"{path}.{key}".lstrip("."))):
            return told
    return ""


def _said(value: Any) -> str:
    """Its type alone: what stands there may be anything."""
    return {type(None): "null", dict: "a mapping", list: "a list", str: "a text"}.get(
        type(value), f"of type {type(value).__name__}"
    )
