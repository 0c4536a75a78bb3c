"""Calls of the Kubernetes client: which object each reads or changes, by the method's name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from pytest_sremut.census.interpreter.bodies import (
    body_fields,
    body_values,
    kind_of_body,
    manifests,
)
from pytest_sremut.census.interpreter.machine import Machine
from pytest_sremut.census.interpreter.texts import external_text
from pytest_sremut.census.interpreter.values import (
    Const,
    Dict,
    Ext,
    KObj,
    Root,
    Unknown,
    Value,
    camel,
)
from pytest_sremut.census.model import Reason
from pytest_sremut.census.models import files
from pytest_sremut.census.models.signals import in_pod, probe_in_body

__all__ = ["call_client", "call_dynamic"]

Args = list[Value]
Kwargs = dict[str, Value]


_API: Final = re.compile(r"\.(\w*Api)\(\)\.(\w+)$")
_BODY: Final = re.compile(r"\.(V\d+\w*|CoreV1Event)$")
_METHOD: Final = re.compile(
    r"(delete_collection|connect_get|connect_post|list|read|get|create|patch|replace|delete)_(.+)"
)
_PARTS: Final = (
    "_status",
    "_scale",
    "_log",
    "_exec",
    "_eviction",
    "_approval",
    "_ephemeralcontainers",
)
_VERBS: Final = {
    "list": "read",
    "read": "read",
    "get": "read",
    "create": "create",
    "patch": "update",
    "replace": "update",
    "delete": "delete",
    "delete_collection": "delete",
    "apply": "update",
    "connect_get": "exec",
    "connect_post": "exec",
}


def call_client(m: Machine, ext: Ext, args: Args, kwargs: Kwargs) -> Value:
    """The value of calling a name of the package `kubernetes`."""
    path = ext.path
    found = _API.search(path)
    if found:
        return _api(m, found[2], args, kwargs)
    if _BODY.search(path):
        entries = {camel(key): value for key, value in kwargs.items()}
        return Dict(entries, kind=path.rpartition(".")[2])
    tail = path.rpartition(".")[2]
    if tail == "stream":
        return _stream(m, args, kwargs)
    if path.endswith(".resources.get"):
        kind = files.plain_path(kwargs.get("kind", Const("⟦kind⟧")))
        return Ext(f"dynamic:{kind}")
    if tail in {"create_from_dict", "create_from_yaml"}:
        source = args[1] if len(args) > 1 else next(iter(kwargs.values()), Unknown())
        for kind, namespace, name, fields in manifests(source):
            m.effect("create", kind, namespace=namespace, name=name, fields=fields)
        return Unknown("created")
    if tail == "call_api":
        m.trail(Reason.EXTERNAL_CALL, path)
        return Unknown("answer")
    return Ext(f"{path}()", args[0] if args else ext.about)


def _api(m: Machine, method: str, args: Args, kwargs: Kwargs) -> Value:
    """A method of one of the client's API classes, by its name."""
    match = _METHOD.match(method.removesuffix("_with_http_info"))
    if match is None:
        return Unknown(method)
    verb, rest = match[1], match[2]
    is_namespaced = rest.startswith("namespaced_")
    rest = rest.removeprefix("namespaced_").removesuffix("_for_all_namespaces")
    if rest in {"custom_object", "cluster_custom_object"} or rest.startswith(
        ("custom_object_", "cluster_custom_object_")
    ):
        return _custom(m, verb, is_namespaced, args, kwargs)
    given = dict(zip(_parameters(verb, is_namespaced), args, strict=False)) | kwargs
    namespace, who = external_text(given.get("namespace")), external_text(given.get("name"))
    rest, part = _split_part(rest)
    kind = m.rules.kind_of_method(rest)
    if part == "log":
        m.effect("logs", kind, namespace=namespace, name=who)
        return Unknown("log")
    if part == "exec":
        return _stream(m, [Unknown("exec"), *args], kwargs)
    body = given.get("body", Unknown("body"))
    selector = external_text(given.get("label_selector")) or external_text(
        given.get("field_selector")
    )
    target = Target(kind=kind, namespace=namespace, name=who, selector=selector)
    return _act(m, target, body, verb, part=part)


def _split_part(rest: str) -> tuple[str, str]:
    """The kind and the subresource in a method's name (`pod_log`: `pod`, `log`)."""
    part = ""
    for suffix in _PARTS:
        if rest.endswith(suffix) and rest != "component_status":
            rest, part = rest.removesuffix(suffix), suffix[1:]
    return rest, part


def _parameters(verb: str, is_namespaced: bool) -> list[str]:
    if verb in {"list", "delete_collection"}:
        order = ["namespace"]
    elif verb == "create":
        order = ["namespace", "body"]
    elif verb in {"patch", "replace"}:
        order = ["name", "namespace", "body"]
    else:
        order = ["name", "namespace"]
    return order if is_namespaced else [one for one in order if one != "namespace"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The object or objects that a call of the Kubernetes client concerns."""

    kind: str
    namespace: str
    name: str
    selector: str = ""


def _act(m: Machine, target: Target, body: Value, call: str, *, part: str = "") -> Value:
    verb = _VERBS[call]
    kind, namespace, name = target.kind, target.namespace, target.name
    if verb == "read":
        return m.read(
            kind,
            namespace=namespace,
            name=name,
            is_list=call == "list",
            selector=target.selector,
        )
    if verb == "delete":
        detail = "all" if call == "delete_collection" else ""
        m.effect("delete", kind, namespace=namespace, name=name, detail=detail)
        return Unknown("deleted")
    fields = ("spec.replicas",) if part == "scale" else body_fields(body)
    if verb == "create":
        if isinstance(body, Dict):
            name = name or external_text(_entry(body, "metadata", "name"))
            kind = kind if kind != "?" else kind_of_body(body)
        if part == "eviction":
            m.effect("delete", "Pod", namespace=namespace, name=name)
            return Unknown("evicted")
        if kind in {"Pod", "Job"}:
            probe_in_body(m, body, namespace, name)
    m.written |= body_values(body)
    m.effect(verb, kind, namespace=namespace, name=name, fields=fields)
    return KObj(Root(kind=kind, namespace=namespace, name=name, place=m.cited()))


def _entry(value: Value, *keys: str) -> Value | None:
    for key in keys:
        if not isinstance(value, Dict) or key not in value.entries:
            return None
        value = value.entries[key]
    return value


def _custom(m: Machine, verb: str, is_namespaced: bool, args: Args, kwargs: Kwargs) -> Value:
    order = ["group", "version", *(["namespace"] if is_namespaced else []), "plural"]
    order += {"list": [], "create": ["body"], "get": ["name"], "delete": ["name"]}.get(
        verb, ["name", "body"]
    )
    given = dict(zip(order, args, strict=False)) | kwargs
    kind = m.rules.kind_of_word(external_text(given.get("plural"))) or "CustomResource"
    namespace, who = external_text(given.get("namespace")), external_text(given.get("name"))
    target = Target(kind=kind, namespace=namespace, name=who)
    return _act(m, target, given.get("body", Unknown()), verb)


def call_dynamic(m: Machine, path: str, args: Args, kwargs: Kwargs) -> Value:
    """A method of a resource of the dynamic client, named `dynamic:KIND.METHOD`."""
    tail = path.rpartition(".")[2]
    kind = path.removeprefix("dynamic:").partition(".")[0]
    namespace, name = external_text(kwargs.get("namespace")), external_text(kwargs.get("name"))
    if tail in {"get", "create", "patch", "replace", "delete", "apply"}:
        body = kwargs.get("body", args[0] if args else Unknown())
        target = Target(kind=kind, namespace=namespace, name=name)
        return _act(m, target, body, tail)
    return Unknown(tail)


def _stream(m: Machine, args: Args, kwargs: Kwargs) -> Value:
    """Run a command in a pod through the client."""
    given = dict(zip(("name", "namespace"), args[1:], strict=False))
    given |= kwargs
    command = given.get("command", Unknown("command"))
    return in_pod(
        m,
        command,
        namespace=external_text(given.get("namespace")),
        pod=external_text(given.get("name")),
    )
