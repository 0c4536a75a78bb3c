"""A TCP server on loopback that answers each request with bytes that the test wrote.

with HttpScript() as server:
    server.reply(ok({"kind": ...}))        # the next request
    server.reply(b"HTTP/1.1 200 OK\\r\\n")  # and hang up
    server.always(...)                     # every further one
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

__all__ = ["HANG", "RESET", "HttpScript", "Request", "chunked", "http", "ok", "status"]

HANG = b"\x00hang"
RESET = b"\x00reset"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request as it came."""

    method: str
    path: str
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Reply = bytes | Callable[[Request, socket.socket], None]


def http(
    code: int, body: bytes, *, content_type: str = "application/json", close: bool = False
) -> bytes:
    """A whole answer."""
    head = f"HTTP/1.1 {code} X\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
    if close:
        head += "Connection: close\r\n"
    return head.encode() + b"\r\n" + body


def ok(body: Any, code: int = 200) -> bytes:
    """A JSON answer."""
    return http(code, json.dumps(body).encode())


def status(code: int, reason: str, message: str = "refused", **details: Any) -> bytes:
    """A Kubernetes Status."""
    return ok(
        {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason,
            "details": details,
            "code": code,
        },
        code,
    )


def chunked(*parts: bytes, content_type: str = "application/json", end: bool = True) -> bytes:
    """A chunked answer of 200; without its end it is cut off."""
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nTransfer-Encoding: chunked\r\n\r\n"
    body = b"".join(f"{len(part):x}\r\n".encode() + part + b"\r\n" for part in parts)
    return head.encode() + body + (b"0\r\n\r\n" if end else b"")


class HttpScript:
    """See the module's docstring. Each connection is served until its script hangs up."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.connections = 0
        self._replies: list[Reply] = []
        self._always: Reply | None = None
        self._stop = threading.Event()
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads = [threading.Thread(target=self._accept, daemon=True)]

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def reply(self, *replies: Reply) -> None:
        """What the next requests get, in order."""
        self._replies += replies

    def always(self, reply: Reply) -> None:
        """What every request gets after those."""
        self._always = reply

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        for connection in self._open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        for thread in self._threads:
            thread.join(5)
        self._listener.close()

    def _accept(self) -> None:
        while not self._stop.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            connection.settimeout(10)
            self._open.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while (request := _read(connection)) is not None:
                self.requests.append(request)
                reply = self._replies.pop(0) if self._replies else self._always
                assert reply is not None, f"no answer was written for {request}"
                if callable(reply):
                    reply(request, connection)
                    return
                if reply == HANG:
                    self._stop.wait(10)
                    return
                if reply == RESET:
                    linger = b"\x01\x00\x00\x00\x00\x00\x00\x00"
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                    connection.close()
                    return
                connection.sendall(reply)
                whole = b"Content-Length" in reply or reply.endswith(b"0\r\n\r\n")
                if not whole or b"Connection: close" in reply or _cut(reply):
                    connection.shutdown(socket.SHUT_RDWR)
                    connection.close()
                    return


def _cut(reply: bytes) -> bool:
    head, _, body = reply.partition(b"\r\n\r\n")
    for line in head.split(b"\r\n"):
        if line.lower().startswith(b"content-length:"):
            return len(body) < int(line.split(b":")[1])
    return False


def _read(connection: socket.socket) -> Request | None:
    data = b""
    while b"\r\n\r\n" not in data:
        block = connection.recv(65536)
        if not block:
            return None
        data += block
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines)}
    while len(body) < int(headers.get("content-length", "0")):
        body += connection.recv(65536)
    method, path, _ = first.split(" ")
    return Request(method=method, path=path, headers=headers, body=body)
