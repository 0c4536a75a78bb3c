"""HTTP/1.1 messages as the demo's services speak them: whole messages in bytes, nothing else.

Bodies are delimited by Content-Length only; a chunked message is refused by name. A message that
has not arrived completely is `None`, a message that can never become one raises `WireError`.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import unquote_plus

__all__ = [
    "MAX_BODY",
    "MAX_HEAD",
    "Reply",
    "Request",
    "WireError",
    "format_reply",
    "format_request",
    "parameters",
    "take_reply",
    "take_request",
]

MAX_HEAD = 16 * 1024
MAX_BODY = 256 * 1024

_REASONS = {
    200: b"OK",
    201: b"Created",
    400: b"Bad Request",
    404: b"Not Found",
    413: b"Content Too Large",
    431: b"Request Header Fields Too Large",
    500: b"Internal Server Error",
    501: b"Not Implemented",
    502: b"Bad Gateway",
    504: b"Gateway Timeout",
}


class WireError(Exception):
    """The peer does not speak our HTTP. `status` is what a server answers with."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(message)


class Request(NamedTuple):
    """One request. `query` and `body` are as sent, undecoded."""

    method: str
    path: str
    query: str
    body: bytes
    keep_alive: bool


class Reply(NamedTuple):
    """One answer: an HTTP status and a body."""

    status: int
    body: bytes


def _split(data: bytes) -> tuple[bytes, int, int] | None:
    """Head, start of the body, length of the body; None while the head is incomplete."""
    end = data.find(b"\r\n\r\n")
    if end < 0:
        if len(data) > MAX_HEAD:
            raise WireError(431, "the head of the message is too long")
        return None
    if end > MAX_HEAD:
        raise WireError(431, "the head of the message is too long")
    head = data[:end]
    lower = head.lower()
    if b"\r\ntransfer-encoding:" in lower:
        raise WireError(501, "Transfer-Encoding is not supported")
    length = 0
    at = lower.find(b"\r\ncontent-length:")
    if at >= 0:
        value = lower[at + 17 :].partition(b"\r\n")[0].strip()
        if not value.isdigit():
            raise WireError(400, "Content-Length is not a number")
        if len(value) > 9 or int(value) > MAX_BODY:
            raise WireError(413, "the body is too long")
        length = int(value)
    return head, end + 4, length


def take_request(data: bytes) -> tuple[Request, bytes] | None:
    """The first request in `data` and what follows it; None while it is incomplete.

    Raises:
        WireError: The bytes are no request.
    """
    parts = _split(data)
    if parts is None:
        return None
    head, start, length = parts
    first, _, fields = head.partition(b"\r\n")
    words = first.split(b" ")
    if len(words) != 3 or not words[2].startswith(b"HTTP/1.") or not words[1].startswith(b"/"):
        raise WireError(400, "the request line is malformed")
    if len(data) < start + length:
        return None
    try:
        method, target = words[0].decode("ascii"), words[1].decode("ascii")
    except UnicodeDecodeError:
        raise WireError(400, "the request line is not ASCII") from None
    path, _, query = target.partition("?")
    keep_alive = words[2] != b"HTTP/1.0"
    if fields:
        lower = b"\r\n" + fields.lower()
        if b"\r\nconnection: close" in lower:
            keep_alive = False
        elif b"\r\nconnection: keep-alive" in lower:
            keep_alive = True
    request = Request(method, path, query, data[start : start + length], keep_alive)
    return request, data[start + length :]


def take_reply(data: bytes) -> tuple[Reply, bool, bytes] | None:
    """The reply in `data`, whether the connection stays open, and what follows it.

    Returns None while it is incomplete.

    Raises:
        WireError: The bytes are no reply.
    """
    parts = _split(data)
    if parts is None:
        return None
    head, start, length = parts
    status = head[9:12]
    if not head.startswith(b"HTTP/1.") or not status.isdigit():
        raise WireError(502, "the status line is malformed")
    if len(data) < start + length:
        return None
    keep_alive = b"\r\nconnection: close" not in head.lower()
    return Reply(int(status), data[start : start + length]), keep_alive, data[start + length :]


def format_request(host: str, method: str, target: str, body: bytes = b"") -> bytes:
    """A request that keeps the connection open."""
    head = f"{method} {target} HTTP/1.1\r\nHost: {host}\r\n"
    if body:
        head += f"Content-Length: {len(body)}\r\n"
    return head.encode("ascii") + b"\r\n" + body


def format_reply(reply: Reply, *, keep_alive: bool, body: bool = True) -> bytes:
    """A JSON reply; without `body` only its head, as HEAD wants it."""
    return b"HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n%s" % (
        reply.status,
        _REASONS.get(reply.status, b"Status"),
        len(reply.body),
        b"" if keep_alive else b"Connection: close\r\n",
        reply.body if body else b"",
    )


def parameters(text: str) -> dict[str, str]:
    """A query or a form body as a dict; of a repeated name the last value counts."""
    found: dict[str, str] = {}
    for pair in text.split("&"):
        name, _, value = pair.partition("=")
        if name:
            found[unquote_plus(name)] = unquote_plus(value)
    return found
