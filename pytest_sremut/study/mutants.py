"""Mutants as bodies: the captured object, less what the server manages, with the patch applied.

Pure: a run hands in the object that it captured and gets the body that it must create; loading
uses the same functions on the registry's reference, so what was proven is what is applied.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from ipaddress import AddressValueError, IPv4Address
from typing import Any, Final

from pytest_sremut.errors import HarnessError, InputError
from pytest_sremut.study.model import Mutant

__all__ = [
    "POD_ADDRESSES",
    "build_body",
    "differing_paths",
    "resolve_templates",
    "strip_server_fields",
    "template_workloads",
]

POD_ADDRESSES: Final = "$eligible-pod-addresses"
"""Template key. `{$eligible-pod-addresses: Deployment/NAME}` becomes a list of addresses."""

_METADATA: Final = frozenset(
    {
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "generation",
        "managedFields",
        "selfLink",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    }
)
_SPEC: Final = frozenset({"clusterIP", "clusterIPs", "healthCheckNodePort"})


def strip_server_fields(body: Mapping[str, Any]) -> dict[str, Any]:
    """A deep copy without what the server manages; labels and annotations stay.

    Taken out: `status`; of `metadata` uid, resourceVersion, creationTimestamp, generation,
    managedFields, selfLink and deletion*; of a Service's `spec` clusterIP(s),
    healthCheckNodePort and each port's nodePort.
    """
    stripped: dict[str, Any] = copy.deepcopy({k: v for k, v in body.items() if k != "status"})
    metadata = stripped.get("metadata")
    if isinstance(metadata, dict):
        stripped["metadata"] = {k: v for k, v in metadata.items() if k not in _METADATA}
    spec = stripped.get("spec")
    if stripped.get("kind") == "Service" and isinstance(spec, dict):
        stripped["spec"] = {k: v for k, v in spec.items() if k not in _SPEC}
        ports = spec.get("ports")
        if isinstance(ports, list):
            stripped["spec"]["ports"] = [
                {k: v for k, v in port.items() if k != "nodePort"}
                if isinstance(port, dict)
                else port
                for port in ports
            ]
    return stripped


def build_body(
    mutant: Mutant,
    captured: Mapping[str, Any],
    *,
    file: str = "captured object",
    place: str = "",
) -> dict[str, Any] | None:
    """The object that the mutant puts in place of the captured one; None where it is absent.

    Args:
        mutant: Whose patch is applied.
        captured: The object as captured live or as the registry's reference. Not changed.
        file: Named in errors.
        place: Place inside the file, named in errors.

    Raises:
        InputError: An operation of the patch does not apply, or it makes something that is no
            object; names the operation.
    """
    if mutant.absent:
        return None
    from jsonpatch import JsonPatch, JsonPatchException
    from jsonpointer import JsonPointerException

    body: Any = strip_server_fields(captured)
    for number, operation in enumerate(mutant.patch):
        where = f"{place}.patch[{number}]" if place else f"{mutant.id}: patch[{number}]"
        said = f"{operation['op']} {operation['path']}"
        try:
            body = JsonPatch([copy.deepcopy(dict(operation))]).apply(body)
        except (JsonPatchException, JsonPointerException, TypeError, KeyError, ValueError) as error:
            # The libraries let TypeError and KeyError out where a pointer goes through a scalar.
            raise InputError(
                file=file,
                place=where,
                found=f"`{said}`, which does not apply: {_reason(error)}",
                allowed="an RFC 6902 operation that applies to the captured object",
            ) from None
        if not isinstance(body, dict):
            raise InputError(
                file=file,
                place=where,
                found=f"`{said}`, which leaves no object",
                allowed="a patch whose result is an object",
            )
    patched: dict[str, Any] = body
    return patched


def differing_paths(before: Any, after: Any) -> tuple[str, ...]:
    """JSON pointers of the smallest parts in which two JSON values differ, sorted.

    Two mappings without a common key differ as a whole, and so do two lists of unequal length:
    a selector by other labels is one difference, not one per label. `true` and `1` differ.
    """
    return tuple(sorted(_differences(before, after, "")))


def template_workloads(templates: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """The workloads (`Deployment/NAME`) whose pods these templates ask for, sorted."""
    found: set[str] = set()
    _walk(list(templates), found)
    return tuple(sorted(found))


def resolve_templates(
    templates: Sequence[Mapping[str, Any]], pods: Mapping[str, Sequence[Mapping[str, Any]]]
) -> tuple[dict[str, Any], ...]:
    """The objects that templates stand for.

    Args:
        templates: `Mutant.creates`.
        pods: Workload (`Deployment/NAME`) to its eligible pods as the server sent them: Ready,
            not terminating, with an IPv4 `status.podIP`.

    Returns:
        Fresh objects. An address is `{"ip", "targetRef": {kind, namespace, name, uid}}`, in
        numeric order of address.

    Raises:
        HarnessError: A workload has no eligible pod, or a pod has no address: there is nothing
            that could be pinned, and an empty list would be another mutant.
    """
    return tuple(_resolved(dict(template), pods) for template in templates)


def _differences(before: Any, after: Any, path: str) -> list[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        shared = [key for key in before if key in after]
        if not shared and (before or after):
            return [path]
        found = [f"{path}/{_escape(key)}" for key in before.keys() ^ after.keys()]
        for key in shared:
            found += _differences(before[key], after[key], f"{path}/{_escape(key)}")
        return found
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        found = []
        for index, (one, other) in enumerate(zip(before, after, strict=True)):
            found += _differences(one, other, f"{path}/{index}")
        return found
    return [] if _equal(before, after) else [path]


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equal(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def _workload_of(value: Any) -> str | None:
    if isinstance(value, dict) and value.keys() == {POD_ADDRESSES}:
        return str(value[POD_ADDRESSES])
    return None


def _walk(value: Any, found: set[str]) -> None:
    workload = _workload_of(value)
    if workload is not None:
        found.add(workload)
    elif isinstance(value, dict):
        for item in value.values():
            _walk(item, found)
    elif isinstance(value, list):
        for item in value:
            _walk(item, found)


def _resolved(value: Any, pods: Mapping[str, Sequence[Mapping[str, Any]]]) -> Any:
    workload = _workload_of(value)
    if workload is not None:
        eligible = pods.get(workload, ())
        if not eligible:
            raise HarnessError(f"{workload} has no eligible pod whose address could be written")
        return sorted(map(_address, eligible), key=lambda one: IPv4Address(one["ip"]))
    if isinstance(value, dict):
        return {key: _resolved(item, pods) for key, item in value.items()}
    if isinstance(value, list):
        return [_resolved(item, pods) for item in value]
    return copy.deepcopy(value)


def _address(pod: Mapping[str, Any]) -> dict[str, Any]:
    metadata = pod["metadata"]
    ip = pod.get("status", {}).get("podIP", "")
    try:
        IPv4Address(ip)
    except AddressValueError:
        raise HarnessError(f"pod {metadata['name']} has no IPv4 address to write: {ip!r}") from None
    reference = {
        "kind": "Pod",
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
    }
    return {"ip": ip, "targetRef": reference}
