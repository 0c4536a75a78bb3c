"""The daemon's side of the zygote, against a zygote that the test plays."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from pytest_sremut.embedded.kubelet import zygote
from pytest_sremut.embedded.kubelet.zygote_client import StartError, ZygoteClient

Json = dict[str, Any]


class Other:
    """The zygote's end of the socket; blocking calls, each with its answer already under way."""

    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self.held: list[int] = []

    async def receive(self) -> tuple[Json, Json, list[int]]:
        """A message, the request in its file if it has one, and the other descriptors."""
        loop = asyncio.get_running_loop()
        message, descriptors = await loop.run_in_executor(None, zygote.receive, self.control)
        assert message is not None
        request: Json = {}
        if descriptors:
            with os.fdopen(descriptors[0], "rb") as file:
                request = json.load(file)
        self.held += descriptors[1:]
        return message, request, descriptors[1:]

    def say(self, **message: Any) -> None:
        zygote.send(self.control, message)

    def close(self) -> None:
        for descriptor in self.held:
            with suppress(OSError):
                os.close(descriptor)
        self.control.close()


def play(scenario: Callable[[ZygoteClient, Other, list[str]], Awaitable[None]]) -> list[str]:
    died: list[str] = []

    async def main() -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        loop = asyncio.get_running_loop()
        client = ZygoteClient(ours, loop=loop, on_death=lambda: died.append("dead"))
        other = Other(theirs)
        try:
            async with asyncio.timeout(20):
                await scenario(client, other, died)
        finally:
            client.close()
            other.close()

    asyncio.run(main())
    return died


def null() -> tuple[int, int, int]:
    return tuple(os.open(os.devnull, os.O_RDWR) for _ in range(3))  # type: ignore[return-value]


def starting(client: ZygoteClient, **request: Any) -> asyncio.Task[Any]:
    async def run() -> Any:
        descriptors = null()
        try:
            return await client.start(request, descriptors)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    return asyncio.create_task(run())


def test_a_process_is_started_and_its_end_reported() -> None:
    async def scenario(client: ZygoteClient, other: Other, _died: list[str]) -> None:
        task = starting(client, argv=["x"])
        message, request, descriptors = await other.receive()
        assert request == {"argv": ["x"]}
        assert len(descriptors) == 4
        other.say(id=message["id"], pid=7)
        os.close(other.held.pop())  # exec closes the report
        process = await task
        assert process.pid == 7
        client.signal(process, signal.SIGTERM, group=True)
        message, _, _ = await other.receive()
        assert message == {"op": "signal", "pid": 7, "signal": 15, "group": True}
        other.say(exit=7, status=-15)
        assert await process.exited == -15
        client.signal(process, signal.SIGTERM)  # is not sent any more

    assert play(scenario) == []


def test_a_process_that_ended_before_it_was_waited_for() -> None:
    async def scenario(client: ZygoteClient, other: Other, _died: list[str]) -> None:
        task = starting(client)
        message, _, _ = await other.receive()
        other.say(id=message["id"], pid=7)
        other.say(exit=7, status=3)
        os.close(other.held.pop())
        process = await task
        assert await process.exited == 3

    play(scenario)


def test_a_report_is_why_it_could_not_be_started() -> None:
    async def scenario(client: ZygoteClient, other: Other, _died: list[str]) -> None:
        task = starting(client)
        message, _, _ = await other.receive()
        other.say(id=message["id"], pid=7)
        report = other.held.pop()
        os.write(report, 'exec: "ä": no such file'.encode())
        os.close(report)
        other.say(exit=7, status=128)
        with pytest.raises(StartError, match='exec: "ä": no such file'):
            await task

    play(scenario)


def test_a_zygote_that_cannot_fork_says_so() -> None:
    async def scenario(client: ZygoteClient, other: Other, _died: list[str]) -> None:
        task = starting(client)
        message, _, _ = await other.receive()
        other.say(id=message["id"], error="fork: no memory")
        with pytest.raises(StartError, match="no memory"):
            await task

    play(scenario)


def test_whoever_gives_up_gets_the_process_killed() -> None:
    async def scenario(client: ZygoteClient, other: Other, _died: list[str]) -> None:
        task = starting(client)
        message, _, _ = await other.receive()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        other.say(id=message["id"], pid=7)
        message, _, _ = await other.receive()
        assert message == {"op": "signal", "pid": 7, "signal": 9, "group": False}

    play(scenario)


def test_requests_wait_while_the_zygote_is_busy() -> None:
    async def scenario(client: ZygoteClient, other: Other, _died: list[str]) -> None:
        count = 400  # more than a socket buffer holds
        tasks = [starting(client, number=number) for number in range(count)]
        for number in range(count):
            message, request, descriptors = await other.receive()
            assert request == {"number": number}
            for descriptor in descriptors:
                os.close(descriptor)
            other.held.clear()
            other.say(id=message["id"], pid=number + 1)
        processes = await asyncio.gather(*tasks)
        assert [process.pid for process in processes] == list(range(1, count + 1))

    play(scenario)


def test_the_death_of_the_zygote_fails_what_waits() -> None:
    async def scenario(client: ZygoteClient, other: Other, died: list[str]) -> None:
        task = starting(client)
        await other.receive()
        other.control.close()
        with pytest.raises(StartError, match="is gone"):
            await task
        assert died == ["dead"]

    assert play(scenario) == ["dead"]


def test_what_could_not_be_imported_is_told() -> None:
    async def scenario(client: ZygoteClient, other: Other, _died: list[str]) -> None:
        other.say(imported=["a"], failed={"a": "ImportError: no"})
        assert await client.imported == {"a": "ImportError: no"}

    play(scenario)
