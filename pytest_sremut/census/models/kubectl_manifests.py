"""kubectl verbs that take a manifest or a patch: apply, create, replace, delete, patch."""

from __future__ import annotations

import re

from pytest_sremut.census.interpreter.bodies import (
    body_fields,
    body_values,
    json_pointer,
    manifests,
)
from pytest_sremut.census.interpreter.machine import Machine
from pytest_sremut.census.interpreter.values import Const, KObj, Root, Unknown, Value
from pytest_sremut.census.model import Reason
from pytest_sremut.census.models.files import read_file
from pytest_sremut.census.models.kubectl_line import Given, kind_of, targets
from pytest_sremut.census.models.signals import probe_in_body

__all__ = ["apply", "delete", "patch"]


def apply(m: Machine, given: Given) -> Value:
    """`kubectl apply`, `create` and `replace`."""
    verb = {"apply": "apply", "create": "create", "replace": "update"}[given.verb]
    file = given.flag("-f", "--filename", "-k")
    if file is None and "--recursive" not in given.flags:
        for name, values in given.flags.items():
            if name.startswith("-R") and values:
                file = values[-1] or (given.rest[0] if given.rest else None)
    if file is None:
        return _create(m, given)
    source = given.stdin if file == "-" else read_file(m, file)
    found = manifests(source)
    m.written |= body_values(source)
    if not found:
        m.trail(Reason.OPAQUE_MANIFEST, f"kubectl {given.verb} -f {file}")
        m.effect(verb, "?", namespace=given.namespace, fields=("*",), via="kubectl", detail=file)
        return Unknown("output")
    for kind, namespace, name, fields in found:
        if kind in {"Pod", "Job"}:
            probe_in_body(m, source, namespace or given.namespace, name)
        m.effect(
            verb,
            kind,
            namespace=namespace or given.namespace,
            name=name,
            fields=fields,
            via="kubectl",
            detail=file,
        )
    return Unknown("output")


def _create(m: Machine, given: Given) -> Value:
    rest = list(given.rest)
    if not rest:
        return Unknown("output")
    kind = kind_of(m, rest[0], given)
    if kind == "Secret" and len(rest) > 2:
        rest = [rest[0], *rest[2:]]  # create secret generic NAME
    if kind == "Service" and len(rest) > 2:
        rest = [rest[0], *rest[2:]]
    name = rest[1] if len(rest) > 1 else ""
    if given.flag("--dry-run") is not None:
        root = Root(kind=kind, namespace=given.namespace, name=name, place=m.cited())
        root.writes["data" if kind in {"ConfigMap", "Secret"} else "*"] = m.cited()
        return KObj(root)
    m.effect("create", kind, namespace=given.namespace, name=name, fields=("*",), via="kubectl")
    return Unknown("output")


def delete(m: Machine, given: Given) -> Value:
    """`kubectl delete`."""
    file = given.flag("-f", "--filename")
    if file is not None:
        source = given.stdin if file == "-" else read_file(m, file)
        found = manifests(source)
        if not found:
            m.trail(Reason.OPAQUE_MANIFEST, f"kubectl delete -f {file}")
        for kind, namespace, name, _ in found:
            where = namespace or given.namespace
            m.effect("delete", kind, namespace=where, name=name, via="kubectl")
        return Unknown("output")
    detail = "all" if "--all" in given.flags else given.flag("-l", "--selector") or ""
    for kind, name in targets(m, given, given.rest):
        m.effect("delete", kind, namespace=given.namespace, name=name, via="kubectl", detail=detail)
    return Unknown("output")


def patch(m: Machine, given: Given) -> Value:
    """`kubectl patch`."""
    text = given.flag("-p", "--patch")
    file = given.flag("--patch-file")
    source: Value = Const(text) if text is not None else Unknown("patch")
    if file is not None:
        source = read_file(m, file)
    fields = body_fields(source)
    m.written |= body_values(source)
    if fields == ("*",):
        fields = _loose_fields(text or "")
    if fields == ("*",):
        m.trail(Reason.OPAQUE_MANIFEST, f"kubectl {given.raw}")
    for kind, name in targets(m, given, given.rest):
        m.effect("update", kind, namespace=given.namespace, name=name, fields=fields, via="kubectl")
    return Unknown("output")


def _loose_fields(patch: str) -> tuple[str, ...]:
    """Fields of a patch that is not JSON because of a hole in it."""
    pointers = re.findall(r'"path"\s*:\s*"(/[^"]+)"', patch)
    if pointers:
        return tuple(sorted({json_pointer(one) for one in pointers}))
    return ("*",)
