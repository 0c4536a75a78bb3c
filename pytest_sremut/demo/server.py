"""A small HTTP/1.1 server on asyncio protocols: keep-alive, one request at a time per connection.

A handler answers at once (a `Reply`) or later (a coroutine of one). Draining is graceful: no new
connection, idle ones are closed, what was begun is finished, and its answer says `close`.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import traceback
from collections.abc import Callable, Coroutine
from typing import Any

from pytest_sremut.demo.wire import Reply, Request, WireError, format_reply, take_request

__all__ = ["Handler", "HttpServer"]

Handler = Callable[[Request], Reply | Coroutine[Any, Any, Reply]]

BACKLOG = 256


class HttpServer:
    """Serves one handler on one listening socket.

    Args:
        handler: What answers each request.
        host: Address to bind.
        port: Port to bind, 0 for any.
        sock: A socket that is bound already, instead of `host` and `port`.
    """

    def __init__(
        self,
        handler: Handler,
        *,
        host: str = "0.0.0.0",  # noqa: S104 - a pod's own network
        port: int = 0,
        sock: socket.socket | None = None,
    ) -> None:
        self.handler = handler
        self.draining = False
        self.connections: set[_Connection] = set()
        self._where = (host, port, sock)
        self._server: asyncio.Server | None = None
        self._idle: asyncio.Event | None = None

    async def start(self) -> tuple[str, int]:
        """Listens from now on. Returns the address. Raises OSError if it cannot be bound."""
        loop = asyncio.get_running_loop()
        host, port, sock = self._where
        if sock is not None:
            self._server = await loop.create_server(self._connection, sock=sock, backlog=BACKLOG)
        else:
            self._server = await loop.create_server(
                self._connection, host, port, backlog=BACKLOG, reuse_address=True
            )
        address = self._server.sockets[0].getsockname()
        return str(address[0]), int(address[1])

    async def drain(self, timeout: float) -> bool:
        """Stops accepting and finishes what was begun; False if that took more than `timeout` s."""
        self.draining = True
        if self._server is not None:
            self._server.close()
        self._idle = asyncio.Event()
        for connection in tuple(self.connections):
            connection.close_if_idle()
        if not self.connections:
            return True
        try:
            await asyncio.wait_for(self._idle.wait(), timeout)
        except TimeoutError:
            for connection in tuple(self.connections):
                connection.abort()
            return False
        return True

    def _connection(self) -> asyncio.Protocol:
        return _Connection(self)

    def forget(self, connection: _Connection) -> None:
        """A connection of ours is gone."""
        self.connections.discard(connection)
        if self._idle is not None and not self.connections:
            self._idle.set()


class _Connection(asyncio.Protocol):
    __slots__ = ("_busy", "_rest", "_server", "_task", "_transport")

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._rest = b""
        self._busy = False
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._server.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's name
        self._transport = None
        self._rest = b""
        if self._task is not None:
            self._task.cancel()
        self._server.forget(self)

    def data_received(self, data: bytes) -> None:
        self._rest = self._rest + data if self._rest else data
        if not self._busy:
            self._pump()

    def close_if_idle(self) -> None:
        if not self._busy and self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _pump(self) -> None:
        """Answers the requests that have arrived, one after the other."""
        while self._rest and not self._busy and self._transport is not None:
            try:
                taken = take_request(self._rest)
            except WireError as error:
                self._rest = b""
                self._send(Reply(error.status, b'{"error":"%s"}' % str(error).encode()), close=True)
                return
            if taken is None:
                return
            request, self._rest = taken
            try:
                answer = self._server.handler(request)
            except Exception:  # a bug of ours: said in the log, answered as one
                answer = _bug()
            if isinstance(answer, Reply):
                self._answer(request, answer)
            else:
                self._busy = True
                self._task = asyncio.get_running_loop().create_task(self._later(request, answer))

    async def _later(self, request: Request, answer: Coroutine[Any, Any, Reply]) -> None:
        try:
            reply = await answer
        except Exception:  # as above
            reply = _bug()
        self._busy = False
        self._task = None
        self._answer(request, reply)
        self._pump()

    def _answer(self, request: Request, reply: Reply) -> None:
        close = not request.keep_alive or self._server.draining
        self._send(reply, close=close, body=request.method != "HEAD")

    def _send(self, reply: Reply, *, close: bool, body: bool = True) -> None:
        if self._transport is None:
            return
        self._transport.write(format_reply(reply, keep_alive=not close, body=body))
        if close:
            self._rest = b""
            self._transport.close()


def _bug() -> Reply:
    traceback.print_exc(file=sys.stderr)
    return Reply(500, b'{"error":"internal error"}')
