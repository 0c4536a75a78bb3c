"""kubectl command lines: which object and field each verb reads or changes."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from pytest_sremut.census.interpreter.machine import Machine
from pytest_sremut.census.interpreter.values import HOLE, Const, KObj, ListV, Unknown, Value
from pytest_sremut.census.model import Reason
from pytest_sremut.census.models.fields import body_fields, body_values, jsonpath_fields, manifests
from pytest_sremut.census.models.files import plain_path, read_file
from pytest_sremut.census.models.signals import in_pod

__all__ = ["kubectl"]

_WITH_VALUE: Final = frozenset(
    {"-n", "--namespace", "-o", "--output", "-l", "--selector", "-f", "--filename", "-c"}
    | {"--container", "--type", "-p", "--patch", "--replicas", "--timeout", "--context"}
    | {"--kubeconfig", "--for", "--sort-by", "--field-selector", "--image", "--restart"}
    | {"--overrides", "--tail", "--since", "--grace-period", "--raw", "--as", "--labels"}
    | {"--requests", "--limits", "--patch-file", "--from-literal", "--from-file", "-s", "--server"}
    | {"--request-timeout", "--port", "--target-port", "--name", "--pod-running-timeout", "-k"}
    | {"--resource-version", "--cascade", "--dry-run", "--chunk-size", "--cpu-percent", "--min"}
    | {"--max", "--env", "--subresource", "--min-ready-seconds", "--token", "--revision"}
)
_CLUSTER_READS: Final = frozenset(
    {"version", "config", "cluster-info", "api-resources", "api-versions", "auth", "explain"}
    | {"completion", "proxy", "port-forward", "diff", "plugin", "attach", "options"}
)


@dataclass(slots=True, kw_only=True)
class Given:
    """The parts of a command line."""

    verb: str
    rest: list[str]
    flags: dict[str, list[str]]
    inner: list[str]  # after `--`
    namespace: str
    stdin: Value
    raw: str
    names: list[str] = field(default_factory=list)

    def flag(self, *names: str) -> str | None:
        for name in names:
            if self.flags.get(name):
                return self.flags[name][-1]
        return None


def kubectl(m: Machine, words: list[str], stdin: Value) -> Value:
    """Record a kubectl command; its output as a value."""
    given = _split(words, stdin)
    handler = _VERBS.get(given.verb)
    if handler is not None:
        return handler(m, given)
    if given.verb not in _CLUSTER_READS and given.verb:
        m.trail(Reason.OPAQUE_COMMAND, f"kubectl {given.raw}")
    return Unknown("output")


def _split(words: list[str], stdin: Value) -> Given:
    flags: dict[str, list[str]] = {}
    rest: list[str] = []
    inner: list[str] = []
    index = 0
    while index < len(words):
        word = words[index]
        if word == "--":
            inner = words[index + 1 :]
            break
        if word.startswith("-") and len(word) > 1:
            name, has_value, value = word.partition("=")
            if not has_value and re.fullmatch(r"-[nolfcp].+", word) and not word.startswith("--"):
                name, value = word[:2], word[2:]  # -oyaml, -nkube-system
            elif not has_value and name in _WITH_VALUE:
                index += 1
                value = words[index] if index < len(words) else ""
            flags.setdefault(name, []).append(value)
        else:
            rest.append(word)
        index += 1
    namespace = next(iter(flags.get("-n", []) + flags.get("--namespace", [])), "")
    if "-A" in flags or "--all-namespaces" in flags:
        namespace = "*"
    verb = rest[0] if rest else ""
    return Given(
        verb=verb,
        rest=rest[1:],
        flags=flags,
        inner=inner,
        namespace=namespace,
        stdin=stdin,
        raw=" ".join(words)[:140],
    )


def _targets(m: Machine, given: Given, rest: list[str]) -> list[tuple[str, str]]:
    """(kind, name) of `deploy/x svc/y`, `deploy x y`, `pods,svc`."""
    found: list[tuple[str, str]] = []
    if rest and "/" in rest[0] and not HOLE.fullmatch(rest[0]):
        for word in rest:
            word_kind, slash, name = word.partition("/")
            if slash:
                found.append((_kind(m, word_kind, given), name))
        return found
    if rest:
        for word in rest[0].split(","):
            names = rest[1:] or [""]
            found += [(_kind(m, word, given), name) for name in names]
    return found


def _kind(m: Machine, word: str, given: Given) -> str:
    kind = m.rules.kind_of_word(word)
    if kind:
        return kind
    m.trail(Reason.OPAQUE_COMMAND, f"kubectl {given.raw}: kind {word!r}")
    return "?"


def _get(m: Machine, given: Given) -> Value:
    raw = given.flag("--raw")
    if raw is not None:
        kind = "METRICS" if "metrics" in raw or "stats" in raw else "HTTP"
        m.effect("exec", kind, fields=("kubectl",), detail=f"GET {raw}", via="kubectl")
        return Unknown("raw")
    targets = _targets(m, given, given.rest)
    output = given.flag("-o", "--output") or ""
    answers: list[Value] = []
    for kind, name in targets:
        if kind == "all":
            continue
        answer = m.read(
            kind,
            namespace=given.namespace,
            name=name,
            is_list=not name,
            selector=given.flag("-l", "--selector", "--field-selector") or "",
        )
        answers.append(_shown(m, answer, output))
    return answers[0] if answers else Unknown("output")


def _shown(m: Machine, answer: KObj, output: str) -> Value:
    if output in {"json", "yaml"}:
        return answer
    paths = jsonpath_fields(output) if "=" in output else ()
    if output in {"", "wide"} and not paths:
        # The table: what a person would look at is the status column.
        paths = ("status",) if answer.root.kind in m.rules.shows_status else ("metadata.name",)
    for path in paths or ("metadata.name",):
        answer.root.reads.setdefault(path, m.cited())
    return KObj(answer.root, paths[0] if paths else "metadata.name")


def _top(m: Machine, given: Given) -> Value:
    what = m.rules.kind_of_word(given.rest[0]) if given.rest else ""
    m.effect(
        "exec",
        "METRICS",
        namespace=given.namespace,
        name="/".join(given.rest),
        fields=("resource-usage",),
        detail=f"kubectl top {what or ''}".strip(),
        via="kubectl",
    )
    return Unknown("usage")


def _logs(m: Machine, given: Given) -> Value:
    m.effect("logs", "Pod", namespace=given.namespace, name="/".join(given.rest), via="kubectl")
    return Unknown("log")


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


def _apply(m: Machine, given: Given) -> Value:
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
            from pytest_sremut.census.models.signals import probe_in_body

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
    kind = _kind(m, rest[0], given)
    if kind == "Secret" and len(rest) > 2:
        rest = [rest[0], *rest[2:]]  # create secret generic NAME
    if kind == "Service" and len(rest) > 2:
        rest = [rest[0], *rest[2:]]
    name = rest[1] if len(rest) > 1 else ""
    if given.flag("--dry-run") is not None:
        from pytest_sremut.census.interpreter.values import Root

        root = Root(kind=kind, namespace=given.namespace, name=name, place=m.cited())
        root.writes["data" if kind in {"ConfigMap", "Secret"} else "*"] = m.cited()
        return KObj(root)
    m.effect("create", kind, namespace=given.namespace, name=name, fields=("*",), via="kubectl")
    return Unknown("output")


def _delete(m: Machine, given: Given) -> Value:
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
    for kind, name in _targets(m, given, given.rest):
        m.effect("delete", kind, namespace=given.namespace, name=name, via="kubectl", detail=detail)
    return Unknown("output")


def _patch(m: Machine, given: Given) -> Value:
    patch = given.flag("-p", "--patch")
    file = given.flag("--patch-file")
    source: Value = Const(patch) if patch is not None else Unknown("patch")
    if file is not None:
        source = read_file(m, file)
    fields = body_fields(source)
    m.written |= body_values(source)
    if fields == ("*",):
        fields = _loose_fields(patch or "")
    if fields == ("*",):
        m.trail(Reason.OPAQUE_MANIFEST, f"kubectl {given.raw}")
    for kind, name in _targets(m, given, given.rest):
        m.effect("update", kind, namespace=given.namespace, name=name, fields=fields, via="kubectl")
    return Unknown("output")


def _loose_fields(patch: str) -> tuple[str, ...]:
    """Fields of a patch that is not JSON because of a hole in it."""
    pointers = re.findall(r'"path"\s*:\s*"(/[^"]+)"', patch)
    if pointers:
        from pytest_sremut.census.models.fields import json_pointer

        return tuple(sorted({json_pointer(one) for one in pointers}))
    return ("*",)


def _simple(fields: tuple[str, ...], verb: str = "update") -> Callable[[Machine, Given], Value]:
    return lambda m, given: _affect(m, given, given.rest, fields, verb)


def _affect(
    m: Machine, given: Given, named: list[str], fields: tuple[str, ...], verb: str = "update"
) -> Value:
    for kind, name in _targets(m, given, named):
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
    keys = [word.partition("=")[0].rstrip("-") for word in given.rest if _is_setting(word)]
    rest = [word for word in given.rest if not _is_setting(word)]
    fields = tuple(f"{field_name}.{key}" for key in keys) or (field_name,)
    for kind, name in _targets(m, given, rest):
        m.effect("update", kind, namespace=given.namespace, name=name, fields=fields, via="kubectl")
    return Unknown("output")


def _is_setting(word: str) -> bool:
    return "=" in word or (word.endswith("-") and len(word) > 1)


def _taint(m: Machine, given: Given) -> Value:
    rest = [word for word in given.rest if not _is_setting(word) and ":" not in word]
    for kind, name in _targets(m, given, rest):
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
    return _affect(m, given, [word for word in rest if not _is_setting(word)], fields)


def _rollout(m: Machine, given: Given) -> Value:
    what, rest = (given.rest[:1] or [""])[0], given.rest[1:]
    for kind, name in _targets(m, given, rest):
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


def _wait(m: Machine, given: Given) -> Value:
    for kind, name in _targets(m, given, given.rest):
        m.read(kind, namespace=given.namespace, name=name, is_list=not name).root.reads[
            "status.conditions"
        ] = m.cited()
        m.effect(
            "wait",
            kind,
            namespace=given.namespace,
            name=name,
            via="kubectl",
            detail=f"wait {given.flag('--for') or ''}".strip(),
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
    "get": _get,
    "describe": _get,
    "top": _top,
    "logs": _logs,
    "exec": _exec,
    "debug": _exec,
    "run": _run,
    "cp": _copy,
    "apply": _apply,
    "create": _apply,
    "replace": _apply,
    "delete": _delete,
    "patch": _patch,
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
    "wait": _wait,
}
_ = plain_path
