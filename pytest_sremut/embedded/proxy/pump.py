"""Bytes between a client of a Service and the backend that it was given.

Rules kept here:

* bytes go from transport to transport, with back pressure: a side that is not read stops the other;
* a half-closed side half-closes the other; a reset is passed on as a reset;
* a backend that cannot be connected to resets the client;
* the backend sees the client's own address as the source.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import struct
from contextlib import suppress
from typing import cast

from pytest_sremut.embedded.proxy.table import Backend

__all__ = ["bridge", "refuse"]

_IP_BIND_ADDRESS_NO_PORT = 24
_LINGER_NONE = struct.pack("ii", 1, 0)


class _Side(asyncio.Protocol):
    """One of the two connections.

    Some versions of asyncio deliver data although reading was paused as the connection was made,
    so what comes before `begin` is kept.
    """

    def __init__(self, done: asyncio.Future[None]) -> None:
        self.transport: asyncio.Transport | None = None
        self._peer: _Side | None = None
        self._done = done
        self._early: list[bytes] = []
        self._ended = False
        self._lost = False
        self._error: Exception | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.pause_reading()

    def begin(self, peer: _Side) -> None:
        """From now on what arrives goes to `peer`, which is connected."""
        self._peer = peer
        for data in self._early:
            self._other.write(data)
        self._early.clear()
        if self._lost:
            self.connection_lost(self._error)
            return
        if self._ended:
            self._other.write_eof()
        if self.transport is not None:
            self.transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        if self._peer is None:
            self._early.append(data)
        else:
            self._other.write(data)

    def pause_writing(self) -> None:
        if self._peer is not None:
            self._other.pause_reading()

    def resume_writing(self) -> None:
        if self._peer is not None:
            self._other.resume_reading()

    def eof_received(self) -> bool:
        self._ended = True
        if self._peer is None:
            return True
        if self._peer._ended:
            return False
        self._other.write_eof()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True
        self._error = exc
        if self._peer is None:
            return
        if self._peer._lost:
            if not self._done.done():
                self._done.set_result(None)
        elif exc is None:
            self._other.close()
        else:
            _reset(self._other)

    @property
    def _other(self) -> asyncio.Transport:
        assert self._peer is not None
        assert self._peer.transport is not None
        return self._peer.transport


def _reset(transport: asyncio.Transport) -> None:
    owner = transport.get_extra_info("socket")
    with suppress(OSError):
        owner.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NONE)
    transport.abort()


def refuse(client: socket.socket) -> None:
    """Close an accepted connection so that the client sees a reset."""
    with suppress(OSError):
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NONE)
    client.close()


async def bridge(client: socket.socket, backend: Backend) -> None:
    """Connect to `backend` on behalf of `client` and carry bytes until both ends are closed.

    Cancelled: both connections are reset.
    """
    loop = asyncio.get_running_loop()
    try:
        server = await _connect(client, backend)
    except BaseException as error:
        refuse(client)
        if isinstance(error, OSError):
            return
        raise
    done = loop.create_future()
    left, right = _Side(done), _Side(done)
    try:
        for side, owner in ((left, client), (right, server)):
            owner.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await loop.connect_accepted_socket(lambda side=side: side, owner)  # type: ignore[misc]
        left.begin(right)
        right.begin(left)
        await done
    finally:
        for side, owner in ((left, client), (right, server)):
            if side.transport is None:
                refuse(owner)
            elif not side.transport.is_closing():
                _reset(side.transport)


async def _connect(client: socket.socket, backend: Backend) -> socket.socket:
    server = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        # The port is left to connect(): it may then be shared between backends.
        server.setsockopt(socket.IPPROTO_IP, _IP_BIND_ADDRESS_NO_PORT, 1)
        try:
            server.bind((client.getpeername()[0], 0))
        except OSError as error:
            if error.errno != errno.EADDRNOTAVAIL:
                raise
        await asyncio.get_running_loop().sock_connect(server, (backend.address, backend.port))
    except BaseException:
        server.close()
        raise
    return server
