"""kubectl verbs that read: get, top, logs, wait."""

from __future__ import annotations

import re

from pytest_sremut.census.interpreter.machine import Machine
from pytest_sremut.census.interpreter.values import KObj, Unknown, Value
from pytest_sremut.census.models.kubectl_line import Given, targets

__all__ = ["get", "jsonpath_fields", "logs", "top", "wait"]


def get(m: Machine, given: Given) -> Value:
    """`kubectl get` and `describe`. Returns the object, or the part that is printed."""
    raw = given.flag("--raw")
    if raw is not None:
        kind = "METRICS" if "metrics" in raw or "stats" in raw else "HTTP"
        m.effect("exec", kind, fields=("kubectl",), detail=f"GET {raw}", via="kubectl")
        return Unknown("raw")
    output = given.flag("-o", "--output") or ""
    answers: list[Value] = []
    for kind, name in targets(m, given, given.rest):
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
        # A table: its reader looks at the status column.
        paths = ("status",) if answer.root.kind in m.rules.shows_status else ("metadata.name",)
    for path in paths or ("metadata.name",):
        answer.root.reads.setdefault(path, m.cited())
    return KObj(answer.root, paths[0] if paths else "metadata.name")


def jsonpath_fields(expression: str) -> tuple[str, ...]:
    """The fields that a kubectl JSONPath (or custom columns) reads."""
    found: set[str] = set()
    for part in re.findall(r"[.@$][\w\\.\[\]*?()@='\"/ -]+", expression):
        text = re.sub(r"\[[^\]]*\]", "[]", part).strip(" .@$'\"{}")
        text = text.removeprefix("items[].").removeprefix("items[]")
        text = re.split(r"[\s='\")]", text, maxsplit=1)[0].strip(".")
        if text and re.match(r"[a-zA-Z]", text):
            found.add(text.replace("\\", ""))
    return tuple(sorted(found))


def top(m: Machine, given: Given) -> Value:
    """`kubectl top`."""
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


def logs(m: Machine, given: Given) -> Value:
    """`kubectl logs`."""
    m.effect("logs", "Pod", namespace=given.namespace, name="/".join(given.rest), via="kubectl")
    return Unknown("log")


def wait(m: Machine, given: Given) -> Value:
    """`kubectl wait`."""
    for kind, name in targets(m, given, given.rest):
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
