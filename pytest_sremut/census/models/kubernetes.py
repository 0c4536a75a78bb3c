"""External libraries: what calling them does to the cluster, or that it does nothing.

The Kubernetes client's methods are understood by their names; the standard library by a table;
which modules have no effect at all is rule data. A library that neither names is a trail's end.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pytest_sremut.census.interpreter.machine import Machine
from pytest_sremut.census.interpreter.texts import external_text
from pytest_sremut.census.interpreter.values import (
    Const,
    Dict,
    Ext,
    KObj,
    ListV,
    Native,
    Rec,
    Root,
    Unknown,
    Value,
    camel,
)
from pytest_sremut.census.model import Reason
from pytest_sremut.census.models import files
from pytest_sremut.census.models.commands import run_command
from pytest_sremut.census.models.fields import body_fields, body_values, kind_of_body, manifests
from pytest_sremut.census.models.signals import endpoint, probe_in_body
from pytest_sremut.census.models.stdlib import STANDARD

__all__ = ["call_external"]

Args = list[Value]
Kwargs = dict[str, Value]
_API: Final = re.compile(r"\.(\w*Api)\(\)\.(\w+)$")
_BODY: Final = re.compile(r"\.(V\d+\w*|CoreV1Event)$")
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


def call_external(m: Machine, ext: Ext, args: Args, kwargs: Kwargs) -> Value:
    """The value of calling an external name."""
    path = ext.path
    handler = _EXACT.get(path) or STANDARD.get(path)
    if handler is not None:
        return handler(m, args, kwargs)
    if path.startswith("kubernetes"):
        return _kubernetes(m, ext, args, kwargs)
    tail = path.rpartition(".")[2]
    if path.startswith(("requests.", "httpx.", "urllib.request.", "urllib3.", "http.client.")):
        return _http(m, path, args, kwargs)
    if path.startswith("socket."):
        return _socket(m, path, args, kwargs)
    if path.startswith("dynamic:"):
        return _dynamic(m, path, tail, args, kwargs)
    if path.startswith(("threading.", "concurrent.futures.", "multiprocessing.")):
        return _threads(m, path, args, kwargs)
    if path.startswith("paramiko."):
        return _ssh(m, path, tail, args)
    if m.rules.is_pure(path):
        return Ext(f"{path}()", args[0] if args else ext.about)
    if path.startswith("?"):
        return Unknown(path, is_trail=True)
    m.trail(Reason.EXTERNAL_CALL, path)
    return Ext(f"{path}()")


# -- the Kubernetes client ---------------------------------------------------------------------


def _kubernetes(m: Machine, ext: Ext, args: Args, kwargs: Kwargs) -> Value:
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
    name = method.removesuffix("_with_http_info")
    match = re.match(
        r"(delete_collection|connect_get|connect_post|list|read|get|create|patch|replace|delete)_"
        r"(.+)",
        name,
    )
    if match is None:
        return Unknown(method)
    verb, rest = match[1], match[2]
    is_namespaced = rest.startswith("namespaced_")
    rest = rest.removeprefix("namespaced_").removesuffix("_for_all_namespaces")
    if rest in {"custom_object", "cluster_custom_object"} or rest.startswith(
        ("custom_object_", "cluster_custom_object_")
    ):
        return _custom(m, verb, is_namespaced, args, kwargs)
    order = _parameters(verb, is_namespaced)
    given = dict(zip(order, args, strict=False)) | kwargs
    namespace, who = external_text(given.get("namespace")), external_text(given.get("name"))
    part = ""
    for suffix in (
        "_status",
        "_scale",
        "_log",
        "_exec",
        "_eviction",
        "_approval",
        "_ephemeralcontainers",
    ):
        if rest.endswith(suffix) and rest != "component_status":
            rest, part = rest.removesuffix(suffix), suffix[1:]
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
    """What a call of the Kubernetes client is about."""

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


def _dynamic(m: Machine, path: str, tail: str, args: Args, kwargs: Kwargs) -> Value:
    kind = path.removeprefix("dynamic:").partition(".")[0]
    namespace, name = external_text(kwargs.get("namespace")), external_text(kwargs.get("name"))
    if tail in {"get", "create", "patch", "replace", "delete", "apply"}:
        body = kwargs.get("body", args[0] if args else Unknown())
        target = Target(kind=kind, namespace=namespace, name=name)
        return _act(m, target, body, tail)
    return Unknown(tail)


def _stream(m: Machine, args: Args, kwargs: Kwargs) -> Value:
    """Exec in a pod through the client."""
    given = dict(zip(("name", "namespace"), args[1:], strict=False))
    given |= kwargs
    command = given.get("command", Unknown("command"))
    from pytest_sremut.census.models.signals import in_pod

    return in_pod(
        m,
        command,
        namespace=external_text(given.get("namespace")),
        pod=external_text(given.get("name")),
    )


# -- processes, sockets, HTTP ------------------------------------------------------------------


def _process(m: Machine, args: Args, kwargs: Kwargs) -> Value:
    command = args[0] if args else kwargs.get("args", Unknown("command"))
    stdout = run_command(m, command, stdin=kwargs.get("input", Const(None)))
    return Rec(
        {
            "stdout": stdout,
            "stderr": Unknown("stderr"),
            "returncode": Unknown("returncode"),
            "communicate": Native(
                lambda _args, _kwargs: ListV([stdout, Unknown("stderr")]), "communicate"
            ),
            "pid": Unknown("pid"),
        },
        text="process",
    )


def _output(m: Machine, args: Args, kwargs: Kwargs) -> Value:
    command = args[0] if args else Unknown("command")
    return run_command(m, command, stdin=kwargs.get("input", Const(None)))


def _http(m: Machine, path: str, args: Args, kwargs: Kwargs) -> Value:
    method = path.rpartition(".")[2]
    if method in {"get", "post", "put", "patch", "delete", "head", "request", "urlopen"}:
        url = args[-1] if method == "request" and args else (args[0] if args else Unknown())
        if isinstance(url, Ext) and url.about is not None:
            url = url.about  # urllib.request.Request(url)
        endpoint(
            m, external_text(kwargs.get("url", url)), program=path.partition(".")[0], method=method
        )
        return Ext(f"{path}()")
    return Ext(f"{path}()", args[0] if args else None)


def _ssh(m: Machine, path: str, tail: str, args: Args) -> Value:
    if tail == "exec_command":
        from pytest_sremut.census.models.signals import on_node

        on_node(m, args[0] if args else Unknown("command"), program="ssh")
        return ListV([Unknown("stdin"), Unknown("stdout"), Unknown("stderr")])
    return Ext(f"{path}()")


def _socket(m: Machine, path: str, args: Args, kwargs: Kwargs) -> Value:
    tail = path.rpartition(".")[2]
    if tail in {"gethostbyname", "getaddrinfo", "gethostbyname_ex"}:
        m.effect(
            "exec",
            "DNS",
            name="",
            fields=("socket",),
            detail=external_text(args[0] if args else None),
        )
    elif tail in {"create_connection", "connect", "connect_ex"}:
        m.effect("exec", "TCP", name="", fields=("socket",), detail="socket.connect")
    return Ext(f"{path}()")


def _threads(m: Machine, path: str, args: Args, kwargs: Kwargs) -> Value:
    from pytest_sremut.census.interpreter.calls import call

    tail = path.rpartition(".")[2]
    if tail in {"Thread", "Process", "Timer"}:
        target = kwargs.get("target", args[1] if tail == "Timer" and len(args) > 1 else Unknown())
        given = kwargs.get("args", ListV([]))
        items = given.items if isinstance(given, ListV) else []

        def start(_args: Args, _kwargs: Kwargs) -> Value:
            with m.maybe():
                call(m, target, items, {})
            return Const(None)

        nothing = Native(lambda _args, _kwargs: Const(None), "join")
        attrs: dict[str, Value] = {"start": Native(start, "start"), "join": nothing}
        attrs["is_alive"] = Native(lambda _args, _kwargs: Unknown("alive"), "is_alive")
        return Rec(attrs, text="thread")
    if tail == "submit" and args:
        result = call(m, args[0], args[1:], kwargs)
        return Rec({"result": Native(lambda _args, _kwargs: result, "result")}, text="future")
    if tail == "map" and len(args) > 1:
        from pytest_sremut.census.interpreter.expressions import iterate

        items, _ = iterate(m, args[1])
        return ListV([call(m, args[0], [item], {}) for item in items], is_open=True)
    if tail == "as_completed" and args:
        return args[0]
    return Ext(f"{path}()")


def _sleep(m: Machine, args: Args, kwargs: Kwargs) -> Value:
    m.sleeps += 1
    detail = external_text(args[0]) if args else ""
    m.effect("sleep", "time", detail=detail)
    return Const(None)


# -- the rest of the standard library that carries values ----------------------------------------


_EXACT: Final[dict[str, Callable[[Machine, Args, Kwargs], Value]]] = {
    "subprocess.run": _process,
    "subprocess.Popen": _process,
    "subprocess.CompletedProcess": lambda m, args, kwargs: Rec(dict(kwargs), text="process"),
    "subprocess.call": _process,
    "subprocess.check_call": _process,
    "subprocess.check_output": _output,
    "subprocess.getoutput": _output,
    "os.system": _output,
    "os.popen": _process,
    "time.sleep": _sleep,
    "asyncio.sleep": _sleep,
}
