"""What the tools of a probe pod say: `nslookup` and `nc`.

A tool that did not run (not found, no such option, killed) says nothing about the Service. That is
`None` here, told apart from an answer.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Any, Final

from pytest_sremut.cluster.port import ExecResult, Failed

__all__ = ["exec_facts", "lookup_answers", "tool_trouble"]

_COULD_NOT_RUN: Final = 126  # and above: not executable, not found, ended by a signal
_MISUSED: Final = re.compile(
    r"(invalid|unrecognized|unknown|illegal) option|applet not found", re.I
)
_ADDRESS: Final = re.compile(r"^Address(?: \d+)?:\s*(\S+)")


def lookup_answers(stdout: str) -> frozenset[str]:
    """IPv4 addresses that `nslookup` gives as an answer, the server's own excluded.

    Answers stand after a `Name:` line (BusyBox old and new, BIND); the server's address stands
    before the first one.
    """
    answers: set[str] = set()
    answering = False
    for line in stdout.splitlines():
        if line.startswith("Name:"):
            answering = True
        elif line.startswith("Server:"):
            answering = False
        elif answering and (match := _ADDRESS.match(line)):
            try:
                answers.add(str(ipaddress.IPv4Address(match[1])))
            except ValueError:
                continue
    return frozenset(answers)


def tool_trouble(result: ExecResult | Failed) -> str:
    """Why a probe's result is no answer; empty when it is one."""
    if isinstance(result, Failed):
        return f"{result.what}: {result.reason}: {result.message}"
    if result.timed_out:
        return ""  # an answer: nothing came in time
    tool = result.argv[0] if result.argv else "the command"
    if result.exit_code >= _COULD_NOT_RUN or result.exit_code < 0:
        return f"{tool} did not run in the probe pod (exit code {result.exit_code})"
    if result.exit_code and _MISUSED.search(result.stderr):
        said = " ".join(result.stderr.split())[:120]
        return f"{tool} of the probe pod cannot do this: {said}"
    return ""


def exec_facts(result: ExecResult | Failed) -> dict[str, Any]:
    """The result, verbatim, for the record."""
    if isinstance(result, Failed):
        return {
            "failed": {"status": result.status, "reason": result.reason, "message": result.message}
        }
    return {
        "argv": list(result.argv),
        "exit_code": result.exit_code,
        "stdout": result.stdout,
        "stderr": result.stderr,
        "elapsed": result.elapsed,
        "timed_out": result.timed_out,
    }
