"""kubectl command lines: which object and field each verb reads or changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pytest_sremut.census.interpreter.machine import Machine
from pytest_sremut.census.interpreter.values import Const, ListV, Unknown, Value
from pytest_sremut.census.model import Reason
from pytest_sremut.census.models.kubectl_line import Given, is_setting, split, targets
from pytest_sremut.census.models.kubectl_manifests import apply, delete, patch
from pytest_sremut.census.models.kubectl_reads import get, logs, top, wait
from pytest_sremut.census.models.signals import in_pod

__all__ = ["kubectl"]


_CLUSTER_READS: Final = frozenset(
    {"version", "config", "cluster-info", "api-resources", "api-versions", "auth", "explain"}
    | {"completion", "proxy", "port-forward", "diff", "plugin", "attach", "options"}
)


def kubectl(m: Machine, words: list[str], stdin: Value) -> Value:
    """Record a kubectl command. Returns its output as a value."""
    given = split(words, stdin)
    handler = _VERBS.get(given.verb)
    if handler is not None:
        return handler(m, given)
    if given.verb not in _CLUSTER_READS and given.verb:
        m.trail(Reason.OPAQUE_COMMAND, f"kubectl {given.raw}")
    return Unknown("output")


def _exec(m: Machine, given: Given) -> Value:
    pod, words = (given.rest[:1] or [""])[0], given.inner or given.rest[1:]
    command: Value = ListV([Const(word) for word in words])
    if words in (["sh"], ["bash"]) or words in (["sh", "-s"], ["bash", "-s"]):
        command = given.stdin
    return in_pod(m, command, namespace=given.namespace, pod=pod)


def _run(m: Machine, given: Given) -> Value:
    name = (given.rest[:1] or [""])[0]
    words = given.inner or given.rest[1:]
    m.effect("create", "Pod", namespace=given.namespace, name=name, fields=("*",), via="kubectl")
    if words:
        in_pod(m, ListV([Const(word) for word in words]), namespace=given.namespace, pod=name)
    return Unknown("output")


def _simple(fields: tuple[str, ...], verb: str = "update") -> Callable[[Machine, Given], Value]:
    return lambda m, given: _affect(m, given, given.rest, fields, verb)


def _affect(
    m: Machine, given: Given, named: list[str], fields: tuple[str, ...], verb: str = "update"
) -> Value:
    for kind, name in targets(m, given, named):
        m.effect(
            verb,
            kind,
            namespace=given.namespace,
            name=name,
            fields=fields,
            via="kubectl",
            detail=given.raw,
        )
    return Unknown("output")


def _label(m: Machine, given: Given) -> Value:
    field_name = "metadata.labels" if given.verb == "label" else "metadata.annotations"
    keys = [word.partition("=")[0].rstrip("-") for word in given.rest if is_setting(word)]
    rest = [word for word in given.rest if not is_setting(word)]
    fields = tuple(f"{field_name}.{key}" for key in keys) or (field_name,)
    for kind, name in targets(m, given, rest):
        m.effect("update", kind, namespace=given.namespace, name=name, fields=fields, via="kubectl")
    return Unknown("output")


def _taint(m: Machine, given: Given) -> Value:
    rest = [word for word in given.rest if not is_setting(word) and ":" not in word]
    for kind, name in targets(m, given, rest):
        m.effect("update", kind, name=name, fields=("spec.taints",), via="kubectl")
    return Unknown("output")


def _node(m: Machine, given: Given) -> Value:
    name = (given.rest[:1] or [""])[0]
    m.effect("update", "Node", name=name, fields=("spec.unschedulable",), via="kubectl")
    if given.verb == "drain":
        m.effect("delete", "Pod", namespace="*", via="kubectl")
    return Unknown("output")


def _set(m: Machine, given: Given) -> Value:
    what, rest = (given.rest[:1] or [""])[0], given.rest[1:]
    base = "spec.template.spec.containers[]"
    fields = {
        "image": (f"{base}.image",),
        "env": (f"{base}.env",),
        "resources": (f"{base}.resources",),
        "selector": ("spec.selector",),
        "serviceaccount": ("spec.template.spec.serviceAccountName",),
    }.get(what, ("*",))
    m.written |= {word.partition("=")[2] for word in rest if "=" in word}
    return _affect(m, given, [word for word in rest if not is_setting(word)], fields)


def _rollout(m: Machine, given: Given) -> Value:
    what, rest = (given.rest[:1] or [""])[0], given.rest[1:]
    for kind, name in targets(m, given, rest):
        if what == "restart":
            m.effect("restart", kind, namespace=given.namespace, name=name, via="kubectl")
        elif what == "status":
            m.read(kind, namespace=given.namespace, name=name, is_list=False).root.reads[
                "status"
            ] = m.cited()
            m.effect(
                "wait",
                kind,
                namespace=given.namespace,
                name=name,
                via="kubectl",
                detail="rollout status",
            )
        elif what in {"undo", "pause", "resume"}:
            fields = ("spec.template",) if what == "undo" else ("spec.paused",)
            m.effect(
                "update", kind, namespace=given.namespace, name=name, fields=fields, via="kubectl"
            )
    return Unknown("output")


def _copy(m: Machine, given: Given) -> Value:
    m.effect(
        "exec",
        "EXEC",
        namespace=given.namespace,
        name="/".join(given.rest[:1]),
        fields=("cp",),
        detail=given.raw,
        via="kubectl",
    )
    return Unknown("output")


_VERBS: Final[dict[str, Callable[[Machine, Given], Value]]] = {
    "get": get,
    "describe": get,
    "top": top,
    "logs": logs,
    "exec": _exec,
    "debug": _exec,
    "run": _run,
    "cp": _copy,
    "apply": apply,
    "create": apply,
    "replace": apply,
    "delete": delete,
    "patch": patch,
    "scale": _simple(("spec.replicas",)),
    "autoscale": _simple(("spec",), "create"),
    "expose": _simple(("spec",), "create"),
    "edit": _simple(("*",)),
    "label": _label,
    "annotate": _label,
    "taint": _taint,
    "cordon": _node,
    "uncordon": _node,
    "drain": _node,
    "set": _set,
    "rollout": _rollout,
    "wait": wait,
}
