"""The server: keep-alive, pipelining, refusals, and an end that finishes what was begun."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from pytest_sremut.demo.server import HttpServer
from pytest_sremut.demo.wire import Reply, Request

GET = b"GET /%s HTTP/1.1\r\nHost: a\r\n\r\n"


class Town:
    """A server whose /slow waits for `gate`, and a connection to it."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.server = HttpServer(self.handle, host="127.0.0.1")
        self.entered = asyncio.Event()

    def handle(self, request: Request) -> Reply | Awaitable[Reply]:  # type: ignore[override]
        if request.path == "/bug":
            raise RuntimeError("a bug")
        return self.slow() if request.path == "/slow" else Reply(200, request.path.encode())

    async def slow(self) -> Reply:
        self.entered.set()
        await self.gate.wait()
        return Reply(200, b"slow")


def play(
    scene: Callable[[Town, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> None:
    async def main() -> None:
        town = Town()
        reader, writer = await asyncio.open_connection(*await town.server.start())
        await scene(town, reader, writer)
        writer.close()
        town.gate.set()
        await town.server.drain(10)

    asyncio.run(main())


async def answer(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    return head, await reader.readexactly(length)


def test_pipelined_requests_are_answered_in_order() -> None:
    async def scene(town: Town, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(GET % b"slow" + GET % b"a" + GET % b"b")
        await town.entered.wait()
        town.gate.set()
        assert [(await answer(reader))[1] for _ in range(3)] == [b"slow", b"/a", b"/b"]

    play(scene)


def test_a_bad_request_is_answered_and_the_connection_closed() -> None:
    async def scene(town: Town, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"NONSENSE\r\n\r\n")
        head, _ = await answer(reader)
        assert head.startswith(b"HTTP/1.1 400 ")
        assert await reader.read() == b""

    play(scene)


def test_a_bug_is_a_500_with_a_traceback_in_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    async def scene(town: Town, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(GET % b"bug" + GET % b"a")
        head, _ = await answer(reader)
        assert head.startswith(b"HTTP/1.1 500 ")
        assert (await answer(reader))[1] == b"/a"

    play(scene)
    assert "RuntimeError: a bug" in capsys.readouterr().err


def test_draining_finishes_what_was_begun_and_accepts_nothing_more() -> None:
    async def scene(town: Town, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        address = writer.get_extra_info("peername")
        idle_reader, idle_writer = await asyncio.open_connection(*address)
        idle_writer.write(GET % b"a")
        await answer(idle_reader)
        writer.write(GET % b"slow")
        await town.entered.wait()
        drained = asyncio.create_task(town.server.drain(60))
        assert await idle_reader.read() == b"", "an idle connection is closed at once"
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(*address)
        town.gate.set()
        head, body = await answer(reader)
        assert body == b"slow"
        assert b"Connection: close" in head
        assert await drained is True
        idle_writer.close()

    play(scene)


def test_draining_is_bounded() -> None:
    async def scene(town: Town, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(GET % b"slow")
        await town.entered.wait()
        assert await town.server.drain(0.01) is False

    play(scene)
