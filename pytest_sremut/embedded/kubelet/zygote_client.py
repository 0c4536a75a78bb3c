"""The daemon's side of the zygote: start processes, signal them, learn how they ended.

Rules: never blocks the loop (requests queue while the zygote is busy); every started process is
heard of exactly once more, when it ended; a zygote that dies fails everything that waits for it.
"""

from __future__ import annotations

import array
import asyncio
import json
import os
import signal
import socket
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pytest_sremut.embedded.kubelet import zygote


class StartError(Exception):
    """A process could not be started; the text is the runtime's reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A started process: its pid in the cluster's pid namespace, and its exit code to come.

    The exit code is negative for a signal, as in subprocess.
    """

    pid: int
    exited: asyncio.Future[int]


class ZygoteClient:
    """Owns the control socket; `on_death` is called once, if the zygote ends by itself."""

    def __init__(
        self,
        control: socket.socket,
        *,
        loop: asyncio.AbstractEventLoop,
        on_death: Callable[[], None],
    ) -> None:
        control.setblocking(False)
        self._control = control
        self._loop = loop
        self._on_death = on_death
        self._waiting: dict[int, asyncio.Future[Process]] = {}
        self._exits: dict[int, asyncio.Future[int]] = {}
        self._queue: deque[tuple[bytes, list[int]]] = deque()
        self._next = 0
        self._closed = False
        self.imported: asyncio.Future[dict[str, str]] = loop.create_future()
        loop.add_reader(control, self._readable)

    async def start(self, request: Mapping[str, Any], descriptors: Sequence[int]) -> Process:
        """Start one process with stdin, stdout and stderr; raises StartError.

        request: ``kind`` (python, commands), ``argv``, ``env``, ``cwd`` and either ``hostname``
        and ``root`` (a container of its own) or ``target`` (the pid of a container to enter).
        The descriptors are the caller's to close. Returns when the program runs.
        """
        reader, writer = os.pipe2(os.O_CLOEXEC)
        body = os.memfd_create("request", os.MFD_CLOEXEC)
        with os.fdopen(body, "wb", closefd=False) as file:
            file.write(json.dumps(dict(request)).encode())
        os.lseek(body, 0, os.SEEK_SET)
        number = self._next
        self._next += 1
        answer: asyncio.Future[Process] = self._loop.create_future()
        self._waiting[number] = answer
        # Requests may wait in the queue, so they own their descriptors.
        owned = [body, *(os.dup(d) for d in descriptors), writer]
        self._send({"op": "start", "id": number}, owned)
        try:
            process = await answer
        except BaseException:
            os.close(reader)
            raise
        try:
            reason = await self._report(reader)
        except BaseException:
            self.signal(process, signal.SIGKILL)
            raise
        if reason:
            await process.exited
            raise StartError(reason)
        return process

    def signal(self, process: Process, number: int, *, group: bool = False) -> None:
        """Signal a process (or all of its group); nothing happens if it has ended."""
        if not process.exited.done():
            message = {"op": "signal", "pid": process.pid, "signal": int(number), "group": group}
            self._send(message, [])

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._loop.remove_reader(self._control)
            self._loop.remove_writer(self._control)
            self._control.close()

    async def _report(self, reader: int) -> str:
        """All that comes through a report pipe: nothing when the program runs."""
        os.set_blocking(reader, False)
        done: asyncio.Future[bytes] = self._loop.create_future()
        text = bytearray()

        def readable() -> None:
            try:
                data = os.read(reader, 4096)
            except BlockingIOError:
                return
            text.extend(data)
            if not data and not done.done():
                done.set_result(bytes(text))

        self._loop.add_reader(reader, readable)
        try:
            return (await done).decode(errors="replace")
        finally:
            self._loop.remove_reader(reader)
            os.close(reader)

    def _send(self, message: Mapping[str, Any], owned: list[int]) -> None:
        self._queue.append((json.dumps(message).encode(), owned))
        if len(self._queue) == 1:
            self._writable()

    def _writable(self) -> None:
        while self._queue:
            data, descriptors = self._queue[0]
            ancillary = []
            if descriptors:
                rights = array.array("i", descriptors)
                ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)]
            try:
                self._control.sendmsg([data], ancillary)
            except BlockingIOError:
                self._loop.add_writer(self._control, self._writable)
                return
            except OSError:
                self._died()
                return
            self._queue.popleft()
            for descriptor in descriptors:
                os.close(descriptor)
        self._loop.remove_writer(self._control)

    def _readable(self) -> None:
        while True:
            try:
                message, _ = zygote.receive(self._control)
            except BlockingIOError:
                return
            except OSError:
                message = None
            if message is None:
                self._died()
                return
            self._handle(message)

    def _handle(self, message: Mapping[str, Any]) -> None:
        if "exit" in message:
            exited = self._exits.pop(message["exit"], None)
            if exited is not None and not exited.done():
                exited.set_result(message["status"])
        elif "pid" in message:
            process = Process(pid=message["pid"], exited=self._loop.create_future())
            self._exits[process.pid] = process.exited
            answer = self._waiting.pop(message["id"])
            if answer.done():  # whoever asked has been cancelled meanwhile
                self.signal(process, signal.SIGKILL)
            else:
                answer.set_result(process)
        elif "error" in message:
            answer = self._waiting.pop(message["id"])
            if not answer.done():
                answer.set_exception(StartError(message["error"]))
        elif not self.imported.done():
            self.imported.set_result(message["failed"])

    def _died(self) -> None:
        if self._closed:
            return
        self.close()
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(StartError("the zygote of the cluster is gone"))
        for _, descriptors in self._queue:
            for descriptor in descriptors:
                with suppress(OSError):
                    os.close(descriptor)
        self._queue.clear()
        self._on_death()
