"""Requests, answers and the calls that go on after the answer began.

Rules kept here:

* nothing of HTTP servers here: a request is method, path, query, headers and body;
* whoever handles a request answers a `Response`, or a call (`WatchCall`, `LogCall`, `ExecCall`,
  `ForwardCall`) that the HTTP layer carries out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from pytest_sremut.embedded.meta.errors import bad_request
from pytest_sremut.embedded.meta.jsonvalue import JsonObject

if TYPE_CHECKING:
    from pytest_sremut.embedded.apiserver.watch import Watch

__all__ = [
    "Answer",
    "ExecCall",
    "ForwardCall",
    "LogCall",
    "Request",
    "Response",
    "WatchCall",
]

TRUE = frozenset(("true", "1", "t", "T", "TRUE", "True"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request.

    Attributes:
        query: decoded pairs, in order.
        headers: by lower-case name.
    """

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    def first(self, name: str, default: str = "") -> str:
        """The first value of a query parameter."""
        return next((value for key, value in self.query if key == name), default)

    def every(self, name: str) -> list[str]:
        """All values of a query parameter."""
        return [value for key, value in self.query if key == name]

    def flag(self, name: str) -> bool:
        """Whether a query parameter is true; present without a value counts."""
        value = next((value for key, value in self.query if key == name), None)
        return value is not None and (value == "" or value in TRUE)

    def integer(self, name: str) -> int | None:
        """A whole number in the query; ``None`` when it is not there.

        Raises:
            ApiStatus: 400, it is no number.
        """
        text = self.first(name)
        if not text:
            return None
        digits = text[1:] if text[0] in "+-" else text
        if not (digits.isascii() and digits.isdigit()):
            raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
        if len(digits) > 18:
            raise bad_request(f'strconv.ParseInt: parsing "{text}": value out of range')
        return int(text)


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
Verb = Literal["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"]


def success(details: JsonObject | None = None, *, code: int | None = None) -> JsonObject:
    """A ``Status`` that says all went well."""
    body: JsonObject = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details is not None:
        body["details"] = details
    if code is not None:
        body["code"] = code
    return body
