"""Answers to requests, and the calls that continue after the answer has begun.

Rule kept here: a handler returns a `Response`, or a call (`WatchCall`, `LogCall`, `ExecCall`,
`ForwardCall`) that the HTTP layer carries out. Nothing here knows an HTTP server.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_sremut.embedded.apiserver.watch import Watch
from pytest_sremut.embedded.meta.jsonvalue import JsonObject

__all__ = ["Answer", "ExecCall", "ForwardCall", "LogCall", "Response", "WatchCall", "success"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A complete answer: `body` is an object to encode, or text.

    Attributes:
        media: media type; of objects, the one that was negotiated.
    """

    status: int = 200
    body: Any = None
    media: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchCall:
    """Stream `watch` for `timeout` seconds."""

    watch: Watch
    timeout: float
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCall:
    """Stream a container's log."""

    namespace: str
    pod: str
    container: str
    follow: bool
    previous: bool
    tail_lines: int | None
    since_time: str | None
    since_seconds: int | None
    timestamps: bool
    limit_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecCall:
    """Run a command in a container and speak with it over a WebSocket.

    Attributes:
        argv: the command; empty to follow the container's own output.
    """

    namespace: str
    pod: str
    container: str
    argv: tuple[str, ...]
    stdin: bool
    stdout: bool
    stderr: bool
    tty: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardCall:
    """Forward ports of a pod over a WebSocket."""

    namespace: str
    pod: str
    ports: tuple[int, ...]


Answer = Response | WatchCall | LogCall | ExecCall | ForwardCall


def success(details: JsonObject | None = None, *, code: int | None = None) -> JsonObject:
    """A ``Status`` that says all went well."""
    body: JsonObject = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details is not None:
        body["details"] = details
    if code is not None:
        body["code"] = code
    return body
