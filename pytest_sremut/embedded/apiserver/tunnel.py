"""Forwarded ports as kubectl asks for them: SPDY streams inside a WebSocket.

Rules kept here:

* a connection is a pair of streams with the same request id: ``error`` and ``data``; it begins
  when both are there;
* what cannot be connected is said on the error stream, and the connection ends;
* the end of one direction is handed on; a client that goes takes its connections with it.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from pytest_sremut.embedded.apiserver.answers import ForwardCall
from pytest_sremut.embedded.apiserver.podport import PodRuntime
from pytest_sremut.embedded.apiserver.spdy import (
    DATA,
    GOAWAY,
    PING,
    PROTOCOL_ERROR,
    REFUSED_STREAM,
    RST_STREAM,
    SYN_STREAM,
    Frame,
    FrameReader,
    FrameWriter,
    SpdyError,
)
from pytest_sremut.embedded.meta.errors import ApiStatus

if TYPE_CHECKING:
    from aiohttp import web

__all__ = ["PROTOCOL", "serve_tunnel"]

PROTOCOL = "SPDY/3.1+portforward.k8s.io"
CHUNK = 32 * 1024
MAX_STREAMS = 1000
# What a client sends before its connection is there is kept up to this.
MAX_EARLY = 1 << 20


async def serve_tunnel(
    socket: web.WebSocketResponse, call: ForwardCall, runtime: PodRuntime
) -> None:
    """Carry connections until the client goes."""
    from aiohttp import WSMsgType

    tunnel = _Tunnel(socket, call, runtime)
    reader = FrameReader()
    try:
        async for message in socket:
            if message.type is not WSMsgType.BINARY:
                continue
            for frame in reader.feed(message.data):
                if not await tunnel.take(frame):
                    return
    except SpdyError:
        return  # nothing sensible can be said to it any more
    finally:
        tunnel.close()


class _Pair:
    """The two streams of a connection, and the connection."""

    def __init__(self) -> None:
        self.error = 0
        self.data = 0
        self.port = 0
        self.early = bytearray()
        self.ended_early = False
        self.writer: asyncio.StreamWriter | None = None


class _Tunnel:
    def __init__(
        self, socket: web.WebSocketResponse, call: ForwardCall, runtime: PodRuntime
    ) -> None:
        self._socket = socket
        self._call = call
        self._runtime = runtime
        self._frames = FrameWriter()
        self._pairs: dict[str, _Pair] = {}
        self._by_stream: dict[int, _Pair] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def take(self, frame: Frame) -> bool:
        """Act on a frame; False when the client says goodbye."""
        if frame.kind == SYN_STREAM:
            await self._begin(frame)
        elif frame.kind == DATA:
            await self._data(frame)
        elif frame.kind == PING:
            await self._socket.send_bytes(self._frames.pong(frame.data))
        elif frame.kind == RST_STREAM:
            self._drop(self._by_stream.get(frame.stream))
        return frame.kind != GOAWAY

    def close(self) -> None:
        """End every connection."""
        for task in self._tasks:
            task.cancel()
        for pair in self._pairs.values():
            if pair.writer is not None:
                pair.writer.close()

    async def _begin(self, frame: Frame) -> None:
        headers = {name.lower(): value for name, value in frame.headers.items()}
        kind, port = headers.get("streamtype"), headers.get("port", "")
        known = kind in ("error", "data") and port.isascii() and port.isdigit()
        if not known or not 0 < int(port[:6]) < 65536 or frame.stream in self._by_stream:
            await self._socket.send_bytes(self._frames.reset(frame.stream, PROTOCOL_ERROR))
            return
        if len(self._by_stream) >= MAX_STREAMS:
            await self._socket.send_bytes(self._frames.reset(frame.stream, REFUSED_STREAM))
            return
        pair = self._pairs.setdefault(headers.get("requestid", str(frame.stream)), _Pair())
        pair.port = int(port)
        self._by_stream[frame.stream] = pair
        if kind == "error":
            pair.error = frame.stream
        else:
            pair.data = frame.stream
        await self._socket.send_bytes(self._frames.reply(frame.stream))
        if pair.error and pair.data:
            task = asyncio.create_task(self._carry(pair))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _data(self, frame: Frame) -> None:
        pair = self._by_stream.get(frame.stream)
        if pair is None or frame.stream != pair.data:
            return  # the client ends its side of the error stream at once
        if pair.writer is None:
            pair.early += frame.data[: MAX_EARLY - len(pair.early)]
            pair.ended_early = pair.ended_early or frame.fin
            return
        with suppress(ConnectionError):
            pair.writer.write(frame.data)
            if frame.fin and pair.writer.can_write_eof():
                pair.writer.write_eof()
            await pair.writer.drain()

    async def _carry(self, pair: _Pair) -> None:
        call = self._call
        try:
            reader, writer = await self._runtime.forward(call.namespace, call.pod, pair.port)
        except ApiStatus as status:
            text = status.message.encode()
            await self._socket.send_bytes(self._frames.data(pair.error, text, fin=True))
            await self._socket.send_bytes(self._frames.data(pair.data, b"", fin=True))
            self._forget(pair)
            return
        pair.writer = writer
        try:
            with suppress(ConnectionError):
                writer.write(bytes(pair.early))
                if pair.ended_early:
                    writer.write_eof()
                while data := await reader.read(CHUNK):
                    await self._socket.send_bytes(self._frames.data(pair.data, data))
            for stream in (pair.data, pair.error):
                await self._socket.send_bytes(self._frames.data(stream, b"", fin=True))
        except ConnectionError:
            pass  # the client has gone
        finally:
            writer.close()
            self._forget(pair)

    def _drop(self, pair: _Pair | None) -> None:
        if pair is not None:
            if pair.writer is not None:
                pair.writer.close()
            self._forget(pair)

    def _forget(self, pair: _Pair) -> None:
        for stream in (pair.error, pair.data):
            self._by_stream.pop(stream, None)
        for key in [key for key, value in self._pairs.items() if value is pair]:
            del self._pairs[key]
