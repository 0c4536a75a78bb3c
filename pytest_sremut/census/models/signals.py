"""Functional signals: what a program in a pod, or a request to an address, reads or changes.

The rules say which program uses which channel, and which programs only read.
"""

from __future__ import annotations

import re
from typing import Final

from pytest_sremut.census.interpreter.machine import Machine
from pytest_sremut.census.interpreter.texts import as_text
from pytest_sremut.census.interpreter.values import Const, Dict, ListV, OneOf, Unknown, Value, hole
from pytest_sremut.census.model import Reason
from pytest_sremut.census.models.shell import Line, parse

__all__ = ["endpoint", "in_pod", "on_node", "probe_in_body", "program_line", "tokens_of"]

_METRICS: Final = re.compile(r"/api/v1/(query|alerts|rules|targets|label|series)|/metrics\b")
_MAX_TEXT: Final = 160


def endpoint(m: Machine, url: str, *, program: str, method: str = "get", where: str = "") -> None:
    """Record an HTTP request, or a read of metrics if the address is one of metrics."""
    kind = "METRICS" if _METRICS.search(url) else "HTTP"
    detail = f"{method.upper()} {url}"[:_MAX_TEXT]
    m.effect("exec", kind, name=where, fields=(program,), detail=detail, via="http")


def tokens_of(value: Value) -> list[str] | str | None:
    """A command as words or as one shell text; None if it is not known."""

    if isinstance(value, ListV):
        words = [as_text(item) or hole("word") for item in value.items]
        return words if words else None
    if isinstance(value, OneOf):
        found = [tokens_of(option) for option in value.options]
        return next((one for one in found if one is not None), None)
    return as_text(value)


def in_pod(m: Machine, command: Value, *, namespace: str, pod: str) -> Value:
    """Record a command that runs inside a pod. Its output is unknown."""
    words = tokens_of(command)
    if words is None:
        m.trail(Reason.OPAQUE_COMMAND, "a command in a pod that is not determined")
        m.effect("exec", "EXEC", namespace=namespace, name=pod, fields=("?",), via="exec")
        return Unknown("output")
    for line in parse(words):
        program_line(m, line, namespace=namespace, where=pod)
    return Unknown("output")


def on_node(m: Machine, command: Value, *, program: str) -> None:
    """Record a command that runs on a node, outside any pod."""
    words = tokens_of(command)
    shown = (words if isinstance(words, str) else " ".join(words or []))[:_MAX_TEXT]
    m.effect("exec", "NODE", fields=(program,), detail=shown, via="node")
    if words is None:
        m.trail(Reason.OPAQUE_COMMAND, "a command on a node that is not determined")
        return
    for line in parse(words):
        program_line(m, line, namespace="", where=f"node by {program}")


def program_line(m: Machine, line: Line, *, namespace: str, where: str) -> None:
    """Record one program with its arguments that runs in a pod or on a node."""
    program = line.program
    if program in m.rules.shell_words:
        return
    if program == "sleep":
        m.sleeps += 1
        return
    channel = m.rules.channel_of(program)
    detail = " ".join(line.words)[:_MAX_TEXT]
    if channel == "HTTP":
        words = line.words[1:]
        url = next((word for word in words if "://" in word), "")
        url = url or next((word for word in words if re.match(r"[\w.⟦]", word)), "")
        method = "post" if _writes(line) else "get"
        endpoint(m, url or detail, program=program, method=method, where=where)
        return
    m.effect(
        "exec",
        channel or "EXEC",
        namespace=namespace,
        name=where,
        fields=(program,),
        detail=detail,
        via="exec",
    )


def _writes(line: Line) -> bool:
    words = line.words
    if any(word.startswith(("--data", "-d", "-F", "--post-data")) for word in words[1:]):
        return True
    for flag in ("-X", "--request"):
        if flag in words and words[-1] != flag:
            return words[words.index(flag) + 1].upper() not in {"GET", "HEAD"}
    return False


def probe_in_body(m: Machine, body: Value, namespace: str, name: str) -> None:
    """Record the programs that a created Pod or Job runs."""
    for command in _commands(body, 0):
        words = tokens_of(command)
        if words is None:
            continue
        for line in parse(words):
            program_line(m, line, namespace=namespace, where=name or "a new pod")


def _commands(value: Value, depth: int) -> list[Value]:
    if depth > 12:
        return []
    inner: list[Value] = []
    if isinstance(value, Dict):
        inner = [item for key, item in value.entries.items() if key not in {"command", "args"}]
    elif isinstance(value, ListV):
        inner = value.items
    elif isinstance(value, OneOf):
        inner = value.options
    found = _own_command(value) if isinstance(value, Dict) else []
    for item in inner:
        found += _commands(item, depth + 1)
    return found


def _own_command(value: Dict) -> list[Value]:
    """The command line of a container; empty if it has neither command nor arguments."""
    command, args = value.entries.get("command"), value.entries.get("args")
    parts = [one for one in (command, args) if isinstance(one, ListV)]
    if not parts:
        return []
    if not isinstance(command, ListV):
        parts.insert(0, ListV([Const(_entrypoint(value.entries.get("image")))]))
    return [ListV([item for part in parts for item in part.items])]


def _entrypoint(image: Value | None) -> str:
    """The program of an image without a command, named after the image."""

    text = (as_text(image) if image is not None else None) or hole("image")
    return text.rpartition("/")[2].partition(":")[0]
