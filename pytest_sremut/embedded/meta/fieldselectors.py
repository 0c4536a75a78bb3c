"""Field selectors.

Rules kept here:

* only the fields that the real server selects by are known, kind by kind, and the refusal is worded
  as that kind words it;
* an absent field selects as the zero value of its type.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from pytest_sremut.embedded.meta.errors import bad_request
from pytest_sremut.embedded.meta.jsonvalue import JsonObject

__all__ = ["parse_field_selector"]

_METADATA_FIELDS = ("metadata.name", "metadata.namespace")
_FIELDS: dict[str, tuple[str, ...]] = {
    "pods": (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ),
    "events": (
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
    "namespaces": ("status.phase",),
    "nodes": ("spec.unschedulable",),
    "secrets": ("type",),
    "services": ("spec.clusterIP", "spec.type"),
    "replicasets.apps": ("status.replicas",),
    "jobs.batch": ("status.successful",),
}
# Kinds whose conversion names the field; the others list what they know.
_TERSE = frozenset(_FIELDS)
_ZEROS = {"unschedulable": "false", "hostNetwork": "false", "replicas": "0", "succeeded": "0"}
_PATHS = {"status.successful": "status.succeeded", "source": "source.component"}


def parse_field_selector(resource: str, text: str) -> Callable[[JsonObject], bool]:
    """Parse ``status.phase=Running,metadata.name!=x`` for objects of `resource`.

    Raises:
        ApiStatus: 400, malformed or a field that cannot be selected by.
    """
    terms = [_field_term(resource, term) for term in re.split(r"(?<!\\),", text) if term]

    def matches(value: JsonObject) -> bool:
        return all((_lookup(value, path) == wanted) is equal for path, wanted, equal in terms)

    return matches


def _field_term(resource: str, term: str) -> tuple[tuple[str, ...], str, bool]:
    match = re.match(r"([^=!]*)(==|!=|=)(.*)\Z", term, re.DOTALL)
    if match is None:
        raise bad_request(f"invalid selector: '{term}'; can't understand '{term}'")
    label, operator, wanted = match.groups()
    wanted = re.sub(r"\\([,=\\])", r"\1", wanted)
    if label not in _METADATA_FIELDS and label not in _FIELDS.get(resource, ()):
        if resource in _TERSE:
            raise bad_request(f"field label not supported: {label}")
        known = ", ".join(f'"{name}"' for name in _METADATA_FIELDS)
        raise bad_request(f'"{label}" is not a known field selector: only {known}')
    path = tuple(_PATHS.get(label, label).split("."))
    return path, wanted, operator != "!="


def _lookup(value: Any, path: tuple[str, ...]) -> str:
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    if value is None:
        return _ZEROS.get(path[-1], "")
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
