"""Calls from one service to another: HTTP/1.1 over pooled keep-alive connections.

It connects the way blocking RPC stacks do, because the audited faults show through exactly that:

* A new connection is one *blocking* `connect` in a thread, `SO_SNDTIMEO` bounding it. A Service
  without endpoints therefore costs 1.0 s before ECONNREFUSED, a closed port fails at once.
* Names are resolved (IPv4) for every new connection and never remembered, so a deleted Service is
  noticed as soon as a connection is needed; open connections stay in use, as in real pools.
* At most one connect for each call. A pooled connection that turns out to be closed before any
  byte of the answer came is replaced once: every call of this application is idempotent.
* A call never raises. What went wrong is a `Reply` of 502 or 504 that says so.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence

from pytest_sremut.demo.wire import Reply, WireError, format_request, take_reply

__all__ = ["Client", "Resolver", "blocking_connect", "resolve"]

Resolver = Callable[[str, int], Sequence[tuple[str, int]]]
"""(name, port) -> addresses; raises OSError (`socket.gaierror`) for a name that is not known."""

_IP_BIND_ADDRESS_NO_PORT = 24  # linux/in.h; the socket module does not name it
_MAX_IDLE = 64  # connections kept for one name


def resolve(name: str, port: int) -> list[tuple[str, int]]:
    """The IPv4 addresses of a name, asked of the system now. Raises OSError."""
    found = socket.getaddrinfo(name, port, socket.AF_INET, socket.SOCK_STREAM)
    return [(str(address[4][0]), int(address[4][1])) for address in found]


def blocking_connect(
    address: tuple[str, int], *, timeout: float, source: str = ""
) -> socket.socket:
    """One blocking connect, bounded by the kernel. Raises OSError (TimeoutError after `timeout` s).

    A socket with a *Python* timeout would connect without blocking and be refused at once where a
    blocking one waits for its second SYN; hence SO_SNDTIMEO.
    """
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        seconds = int(timeout)
        bound = struct.pack("ll", seconds, int((timeout - seconds) * 1e6))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, bound)
        if source:
            sock.setsockopt(socket.IPPROTO_IP, _IP_BIND_ADDRESS_NO_PORT, 1)
            sock.bind((source, 0))
        try:
            sock.connect(address)
        except BlockingIOError:  # EINPROGRESS: SO_SNDTIMEO ran out
            raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)) from None
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 0, 0))
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock


class Client:
    """The pools of one process.

    Args:
        ports: Port of each name that may be called.
        connect_timeout: Of one connect, in seconds.
        call_timeout: Of a whole call, connect included, in seconds.
        source: Local address to call from, empty for any.
        resolver: How names become addresses.
        log: Told when a name stops or starts answering.
    """

    def __init__(
        self,
        ports: dict[str, int],
        *,
        connect_timeout: float,
        call_timeout: float,
        source: str = "",
        resolver: Resolver = resolve,
        log: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._ports = ports
        self._connect_timeout = connect_timeout
        self._call_timeout = call_timeout
        self._source = source
        self._resolver = resolver
        self._log = log
        self._idle: dict[str, list[_Connection]] = {name: [] for name in ports}
        self._trouble: dict[str, str] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    def call(
        self, name: str, target: str, body: bytes = b"", *, method: str = ""
    ) -> asyncio.Future[Reply]:
        """Begins a call now; the future never raises. KeyError: `name` is none of `ports`."""
        port = self._ports[name]
        payload = format_request(name, method or ("POST" if body else "GET"), target, body)
        call = _Call(self, name, port, payload, self._loop.create_future())
        call.timer = self._loop.call_later(self._call_timeout, call.expire)
        idle = self._idle[name]
        if idle:
            idle.pop().send(call)
        else:
            self.dial(call)
        return call.future

    def close(self) -> None:
        """Closes what is idle. Calls that are under way end by themselves."""
        self._closed = True
        for pool in self._idle.values():
            while pool:
                pool.pop().close()

    def dial(self, call: _Call) -> None:
        """Connects for `call` in a thread of its own: they are rare, and some last for seconds."""
        call.fresh = True
        thread = threading.Thread(
            target=self._dial, args=(call,), name=f"connect {call.name}", daemon=True
        )
        thread.start()

    def _dial(self, call: _Call) -> None:
        result: socket.socket | OSError
        try:
            address = self._resolver(call.name, call.port)[0]
            result = blocking_connect(address, timeout=self._connect_timeout, source=self._source)
        except OSError as error:
            result = error
        try:
            self._loop.call_soon_threadsafe(self._dialled, call, result)
        except RuntimeError:  # the loop has ended, and with it the call
            if isinstance(result, socket.socket):
                result.close()

    def _dialled(self, call: _Call, result: socket.socket | OSError) -> None:
        if isinstance(result, OSError):
            status = 504 if isinstance(result, TimeoutError) else 502
            call.fail(status, f"connect: {result.strerror or result}")
            return
        if call.future.done():
            result.close()
            return
        task = self._loop.create_task(self._adopt(call, result))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _adopt(self, call: _Call, sock: socket.socket) -> None:
        try:
            _, connection = await self._loop.create_connection(
                lambda: _Connection(self, call.name), sock=sock
            )
        except OSError as error:
            sock.close()
            call.fail(502, f"connect: {error.strerror or error}")
            return
        if call.future.done():
            self.keep(connection)
        else:
            connection.send(call)

    def keep(self, connection: _Connection) -> None:
        """Takes back a connection that has answered."""
        pool = self._idle[connection.name]
        if self._closed or len(pool) >= _MAX_IDLE:
            connection.close()
        else:
            pool.append(connection)

    def drop(self, connection: _Connection) -> None:
        """Forgets an idle connection that the other side closed."""
        pool = self._idle[connection.name]
        if connection in pool:
            pool.remove(connection)

    def note(self, name: str, trouble: str) -> None:
        """Logs what changed only: a failing dependency fails many times a second."""
        if self._trouble.get(name, "") == trouble:
            return
        if trouble:
            self._trouble[name] = trouble
            self._log(f"{name}: {trouble}")
        else:
            del self._trouble[name]
            self._log(f"{name}: answers again")


class _Call:
    """One call under way."""

    __slots__ = (
        "_client",
        "connection",
        "fresh",
        "future",
        "name",
        "payload",
        "port",
        "started",
        "timer",
    )

    def __init__(
        self, client: Client, name: str, port: int, payload: bytes, future: asyncio.Future[Reply]
    ) -> None:
        self._client = client
        self.name = name
        self.port = port
        self.payload = payload
        self.future = future
        self.fresh = False  # whether a connection was made for it
        self.connection: _Connection | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.started = time.monotonic()

    def finish(self, reply: Reply) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        if not self.future.done():
            self.future.set_result(reply)
            self._client.note(self.name, "")

    def fail(self, status: int, why: str) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        if not self.future.done():
            self._client.note(self.name, why)
            text = f"{self.name}: {why}".replace("\\", "/").replace('"', "'")
            self.future.set_result(Reply(status, f'{{"error":"{text}"}}'.encode()))

    def expire(self) -> None:
        self.timer = None
        connection = self.connection
        if connection is not None:
            connection.abandon()
        waited = time.monotonic() - self.started
        self.fail(504, f"no answer in {waited:.1f} s")


class _Connection(asyncio.Protocol):
    """One keep-alive connection: idle, or with one call outstanding."""

    __slots__ = ("_call", "_client", "_rest", "_transport", "name")

    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        self.name = name
        self._transport: asyncio.Transport | None = None
        self._call: _Call | None = None
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def send(self, call: _Call) -> None:
        self._call = call
        call.connection = self
        if self._transport is None or self._transport.is_closing():
            self._lost()
            return
        self._transport.write(call.payload)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def abandon(self) -> None:
        """The call has run out of time: whatever comes now belongs to nobody."""
        self._call = None
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        call = self._call
        if call is None:  # nobody asked
            self._client.drop(self)
            self.close()
            return
        self._rest = self._rest + data if self._rest else data
        try:
            taken = take_reply(self._rest)
        except WireError as error:
            self._call = None
            self.close()
            call.fail(502, str(error))
            return
        if taken is None:
            return
        reply, keep_alive, surplus = taken
        self._rest = b""
        self._call = None
        call.connection = None
        if keep_alive and not surplus:
            self._client.keep(self)
        else:
            self.close()
        call.finish(reply)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's name
        self._transport = None
        self._lost()

    def _lost(self) -> None:
        call, self._call = self._call, None
        if call is None:
            self._client.drop(self)
            return
        call.connection = None
        if call.future.done():
            return
        if call.fresh or self._rest:
            call.fail(502, "closed before the answer was complete")
        else:
            self._client.dial(call)
