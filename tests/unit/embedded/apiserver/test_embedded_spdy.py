"""SPDY frames: what a client sends is read, and nothing that it sends does harm."""

from __future__ import annotations

import asyncio
import struct
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sremut.embedded.apiserver import spdy
from pytest_sremut.embedded.apiserver.answers import ForwardCall
from pytest_sremut.embedded.apiserver.spdy import FrameReader, FrameWriter, SpdyError
from pytest_sremut.embedded.apiserver.tunnel import _Tunnel
from pytest_sremut.embedded.meta import errors


class Client:
    """The other side: frames as a client writes them."""

    def __init__(self) -> None:
        self._deflate = zlib.compressobj(zdict=spdy.DICTIONARY)

    def open(self, stream: int, **headers: str) -> bytes:
        block = struct.pack(">I", len(headers))
        for name, value in headers.items():
            for text in (name, value):
                block += struct.pack(">I", len(text)) + text.encode()
        block = self._deflate.compress(block) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        payload = struct.pack(">IIH", stream, 0, 0) + block
        return struct.pack(">HHI", 0x8003, spdy.SYN_STREAM, len(payload)) + payload


def test_the_dictionary_is_the_protocols() -> None:
    assert len(spdy.DICTIONARY) == 1423
    assert zlib.adler32(spdy.DICTIONARY) == 0xE3C6A7C2


def test_frames_are_read_however_they_arrive() -> None:
    client, reader = Client(), FrameReader()
    sent = client.open(1, streamtype="error", port="80") + client.open(3, streamtype="data")
    sent += struct.pack(">II", 3, (spdy.FIN << 24) | 5) + b"hello"
    found = [frame for byte in sent for frame in reader.feed(bytes([byte]))]
    assert [(frame.kind, frame.stream) for frame in found] == [(1, 1), (1, 3), (0, 3)]
    assert found[0].headers == {"streamtype": "error", "port": "80"}
    assert (found[2].data, found[2].fin) == (b"hello", True)


def test_what_is_written_can_be_read() -> None:
    writer, reader = FrameWriter(), FrameReader()
    sent = writer.reply(1) + writer.reply(3) + writer.data(3, b"x", fin=True) + writer.reset(5, 3)
    found = list(reader.feed(sent + writer.pong(b"\0\0\0\1")))
    assert [(f.kind, f.stream) for f in found] == [(2, 1), (2, 3), (0, 3), (3, 5), (6, 0)]


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack(">HHI", 0x8002, 1, 0),  # another version
        struct.pack(">HHI", 0x8003, 1, 4) + b"\0\0\0\1",  # no head
        struct.pack(">HHI", 0x8003, 1, 14) + b"\0" * 14,  # no header block
        struct.pack(">II", 1, 0xFFFFFF),  # too large
    ],
)
def test_other_things_are_refused(sent: bytes) -> None:
    with pytest.raises(SpdyError):
        list(FrameReader().feed(sent))


@given(st.lists(st.binary(max_size=64), max_size=8), st.booleans())
def test_no_input_does_harm(pieces: list[bytes], begun: bool) -> None:
    reader = FrameReader()
    if begun:
        pieces = [Client().open(1, streamtype="data")[:-3], *pieces]
    try:
        for piece in pieces:
            list(reader.feed(piece))
    except SpdyError:
        pass


class Socket:
    def __init__(self) -> None:
        self.reader = FrameReader()
        self.frames: list[spdy.Frame] = []

    async def send_bytes(self, data: bytes) -> None:
        self.frames += self.reader.feed(data)


class Runtime:
    def __init__(self, port: int) -> None:
        self.port = port

    async def forward(self, namespace: str, pod: str, port: int) -> Any:
        if port != 80:
            raise errors.internal("connection refused")
        return await asyncio.open_connection("127.0.0.1", self.port)


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"echo " + await reader.read())
    writer.close()


def test_a_tunnel_carries_connections_and_tells_refusals() -> None:
    async def body() -> None:
        server = await asyncio.start_server(_echo, "127.0.0.1", 0)
        socket = Socket()
        call = ForwardCall(namespace="n", pod="p", ports=())
        runtime = Runtime(server.sockets[0].getsockname()[1])
        tunnel = _Tunnel(socket, call, runtime)  # type: ignore[arg-type]
        client, reader = Client(), FrameReader()

        async def send(data: bytes) -> None:
            for frame in reader.feed(data):
                assert await tunnel.take(frame)

        for stream, kind in ((1, "error"), (3, "data")):
            await send(client.open(stream, streamtype=kind, port="80", requestid="0"))
        await send(struct.pack(">II", 3, (spdy.FIN << 24) | 2) + b"hi")
        for stream, kind in ((5, "error"), (7, "data")):
            await send(client.open(stream, streamtype=kind, port="81", requestid="1"))
        await send(client.open(9, streamtype="nonsense", port="80"))
        async with asyncio.timeout(20):
            while tunnel._tasks:
                await asyncio.wait(tunnel._tasks)
        told = {f.stream: b"" for f in socket.frames}
        for frame in socket.frames:
            if frame.kind == spdy.DATA:
                told[frame.stream] += frame.data
        assert told[3] == b"echo hi"
        assert b"connection refused" in told[5]
        assert spdy.RST_STREAM in {f.kind for f in socket.frames if f.stream == 9}
        assert not tunnel._by_stream
        assert not tunnel._pairs
        tunnel.close()
        server.close()
        await server.wait_closed()

    asyncio.run(body())
