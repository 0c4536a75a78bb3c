"""Exec sessions over real pipes and terminals; the zygote is played by subprocesses."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_sremut.embedded.kubelet.execs import ExecSession, capture
from pytest_sremut.embedded.kubelet.zygote_client import Process, StartError


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


class Zygote:
    """Starts the argv of a request as a child of the test."""

    def __init__(self) -> None:
        self.waiting: list[asyncio.Task[None]] = []

    async def start(self, request: Mapping[str, Any], descriptors: Sequence[int]) -> Process:
        try:
            child = subprocess.Popen(
                request["argv"],
                stdin=descriptors[0],
                stdout=descriptors[1],
                stderr=descriptors[2],
                start_new_session=True,
            )
        except OSError as error:
            raise StartError(str(error)) from error
        loop = asyncio.get_running_loop()
        process = Process(pid=child.pid, exited=loop.create_future())

        async def wait() -> None:
            process.exited.set_result(await loop.run_in_executor(None, child.wait))

        self.waiting.append(asyncio.create_task(wait()))
        return process

    def signal(self, process: Process, number: int, *, group: bool = False) -> None:
        if not process.exited.done():
            (os.killpg if group else os.kill)(process.pid, number)


def play(scenario: Callable[[Zygote], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        zygote = Zygote()
        async with asyncio.timeout(20):
            try:
                return await scenario(zygote)
            finally:
                await asyncio.gather(*zygote.waiting)

    return asyncio.run(main())


async def start(zygote: Zygote, *argv: str, stdin: bool = False, tty: bool = False) -> ExecSession:
    return await ExecSession.start(
        zygote,  # type: ignore[arg-type]
        {"argv": list(argv)},
        stdin=stdin,
        tty=tty,
    )


async def everything(session: ExecSession) -> dict[str, bytes]:
    found = {"stdout": b"", "stderr": b""}
    while (piece := await session.read()) is not None:
        found[piece[0]] += piece[1]
    assert await session.read() is None
    return found


def test_streams_and_exit_code() -> None:
    async def scenario(zygote: Zygote) -> None:
        session = await start(zygote, "sh", "-c", "echo out; echo err >&2; exit 7")
        assert await everything(session) == {"stdout": b"out\n", "stderr": b"err\n"}
        assert await session.wait() == 7

    play(scenario)


def test_input_reaches_the_command() -> None:
    async def scenario(zygote: Zygote) -> None:
        session = await start(zygote, "cat", stdin=True)
        data = bytes(range(256)) * 2000  # more than a pipe holds
        writing = asyncio.create_task(session.write(data))
        received = bytearray()
        while len(received) < len(data):
            piece = await session.read()
            assert piece is not None
            received += piece[1]
        await writing
        await session.close_stdin()
        await session.close_stdin()
        assert await session.read() is None
        assert bytes(received) == data
        assert await session.wait() == 0

    play(scenario)


def test_input_that_nobody_reads_does_no_harm() -> None:
    async def scenario(zygote: Zygote) -> None:
        session = await start(zygote, "true", stdin=True)
        assert await session.wait() == 0
        await session.write(b"x" * 1_000_000)
        assert await everything(session) == {"stdout": b"", "stderr": b""}

    play(scenario)


def test_without_input_the_command_reads_the_end() -> None:
    async def scenario(zygote: Zygote) -> None:
        session = await start(zygote, "cat")
        assert await everything(session) == {"stdout": b"", "stderr": b""}

    play(scenario)


def test_a_background_process_does_not_keep_the_exec() -> None:
    async def scenario(zygote: Zygote) -> None:
        session = await start(zygote, "sh", "-c", "sleep 1000 & echo $!")
        output = await everything(session)
        assert await session.wait() == 0
        os.kill(int(output["stdout"]), signal.SIGKILL)

    play(scenario)


def test_killing_ends_the_whole_group() -> None:
    async def scenario(zygote: Zygote) -> None:
        session = await start(zygote, "sh", "-c", "echo on; sleep 1000; echo never")
        assert await session.read() == ("stdout", b"on\n")
        session.kill()
        assert await session.read() is None
        assert await session.wait() == 137
        session.kill()

    play(scenario)


def test_output_that_nobody_reads_is_held_back_and_then_complete() -> None:
    async def scenario(zygote: Zygote) -> None:
        size = 10_000_000
        session = await start(zygote, "head", "-c", str(size), "/dev/zero")
        for _ in range(50):
            await asyncio.sleep(0)
        assert session._output.qsize() <= 33
        assert len((await everything(session))["stdout"]) == size

    play(scenario)


def test_killing_what_is_held_back_ends_it() -> None:
    async def scenario(zygote: Zygote) -> None:
        session = await start(zygote, "cat", "/dev/zero")
        while session._output.qsize() < 32:
            await asyncio.sleep(0)
        session.kill()
        assert await session.wait() == 137
        await everything(session)

    play(scenario)


def test_a_terminal() -> None:
    async def scenario(zygote: Zygote) -> None:
        session = await start(zygote, "cat", stdin=True, tty=True)
        session.resize(80, 24)
        await session.write(b"hello\n")
        text = b""
        while text.count(b"hello") < 2:  # the echo, and cat's
            piece = await session.read()
            assert piece is not None
            text += piece[1]
        await session.close_stdin()
        await everything(session)
        assert await session.wait() == 0
        session.resize(80, 24)

    play(scenario)


def test_what_cannot_be_started_leaves_nothing_open() -> None:
    async def scenario(zygote: Zygote) -> None:
        before = open_files()
        for tty in (False, True):
            with pytest.raises(StartError):
                await start(zygote, "/no/such/program", stdin=True, tty=tty)
        with pytest.raises(OSError, match="no/such"):
            await capture(zygote, {"argv": ["/no/such/program"]})  # type: ignore[arg-type]
        assert open_files() == before

    play(scenario)


def test_sessions_leave_nothing_open() -> None:
    async def scenario(zygote: Zygote) -> None:
        await (await start(zygote, "true")).wait()
        before = open_files()
        for tty in (False, True):
            session = await start(zygote, "true", stdin=True, tty=tty)
            await everything(session)
            await session.wait()
        assert open_files() == before

    play(scenario)


def test_capture() -> None:
    async def scenario(zygote: Zygote) -> None:
        argv = ["sh", "-c", "echo out; echo err >&2; kill -9 $$"]
        seen = await capture(zygote, {"argv": argv})  # type: ignore[arg-type]
        assert (seen.stdout, seen.stderr, seen.exit_code) == ("out\n", "err\n", 137)

    play(scenario)
