"""Command lines run by the benchmark: kubectl, helm, and everything else a rule names.

The text is split as a shell splits it, and the effect of each program is recorded. The output of
`kubectl get` is a Kubernetes object, whose fields are then watched.
"""

from __future__ import annotations

from pytest_sremut.census.interpreter.machine import Machine
from pytest_sremut.census.interpreter.values import Const, Unknown, Value
from pytest_sremut.census.model import Reason
from pytest_sremut.census.models.helm import helm
from pytest_sremut.census.models.kubectl import kubectl
from pytest_sremut.census.models.shell import Line, parse
from pytest_sremut.census.models.signals import program_line, tokens_of

__all__ = ["run_command"]


def run_command(m: Machine, command: Value, *, stdin: Value) -> Value:
    """Record what a command does. Returns its standard output as a value."""
    words = tokens_of(command)
    if words is None:
        m.trail(Reason.OPAQUE_COMMAND, "a command that is not determined")
        return Unknown("output", is_trail=True)
    result: Value = Unknown("output")
    for line in parse(words):
        given = stdin if isinstance(stdin, Value) else Const(None)
        if line.stdin is not None:
            given = Const(line.stdin)
        elif line.pipe is not None:
            given = _piped(line.pipe, result)
        output = _run(m, line, given)
        if line.pipe is None or not isinstance(output, Unknown):
            result = output
    return result


def _piped(line: Line, result: Value) -> Value:
    if line.program in {"echo", "printf"}:
        return Const(" ".join(line.words[1:]))
    if line.program == "cat" and line.stdin is not None:
        return Const(line.stdin)
    return result


def _run(m: Machine, line: Line, stdin: Value) -> Value:
    program = line.program
    if program == "kubectl":
        return kubectl(m, line.words[1:], stdin)
    if program == "helm":
        return helm(m, line.words[1:])
    if program == "sleep":
        m.sleeps += 1
        m.effect("sleep", "time", detail=" ".join(line.words[1:]))
        return Unknown("output")
    if program in m.rules.local_programs or program in m.rules.shell_words:
        return Unknown("output")
    if program in m.rules.node_programs:
        inner = _after_target(line.words[1:])
        m.effect("exec", "NODE", fields=(program,), detail=" ".join(line.words)[:160], via="node")
        for one in parse(inner) if inner else []:
            program_line(m, one, namespace="", where=f"node by {program}")
        return Unknown("output")
    if m.rules.channel_of(program):
        program_line(m, line, namespace="", where="the host")
        return Unknown("output")
    m.trail(Reason.OPAQUE_COMMAND, " ".join(line.words))
    return Unknown("output")


def _after_target(words: list[str]) -> list[str]:
    """What `docker exec [-it] NODE …` or `ssh [-o x] HOST …` runs there."""
    index = 0
    if words[:1] == ["exec"]:
        index = 1
    while index < len(words) and words[index].startswith("-"):
        index += 2 if words[index] in {"-o", "-i", "-p", "-u", "-l", "-e", "-w"} else 1
    return words[index + 1 :]
