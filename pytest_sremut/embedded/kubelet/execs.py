"""Commands run in containers: exec streams for the API, and captured runs for the self-test.

Rules:
- an exec runs in its container's own namespaces, with its environment;
- output is read until the command has ended, plus what is then still in the pipes: a background
  process that keeps a pipe open does not keep the exec;
- whoever stops reading, or is cut off, ends the command (`kill`).
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import struct
import termios
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Literal, Protocol

from pytest_sremut.embedded.kubelet.zygote_client import Process, StartError, ZygoteClient
from pytest_sremut.embedded.linux.processes import Observed

StreamName = Literal["stdout", "stderr"]
_CHUNK = 65536
# Unread output is bounded: past this the command is held back by its own full pipe.
_HIGH_WATER = 32


class ExecStream(Protocol):
    """A running command as the API sees it."""

    async def read(self) -> tuple[StreamName, bytes] | None: ...
    async def write(self, data: bytes) -> None: ...
    async def close_stdin(self) -> None: ...
    async def wait(self) -> int: ...
    def resize(self, width: int, height: int) -> None: ...
    def kill(self) -> None: ...


class ExecSession:
    """One command with its pipes or its terminal; see `start`."""

    def __init__(self, zygote: ZygoteClient, process: Process, *, terminal: int | None) -> None:
        self._zygote = zygote
        self._process = process
        self._terminal = terminal
        self._loop = asyncio.get_running_loop()
        self._output: asyncio.Queue[tuple[StreamName, bytes] | None] = asyncio.Queue()
        self._readers: dict[int, StreamName] = {}
        self._paused: set[int] = set()
        self._stdin: int | None = None
        process.exited.add_done_callback(lambda _: self._drain())

    @classmethod
    async def start(
        cls, zygote: ZygoteClient, request: Mapping[str, Any], *, stdin: bool, tty: bool
    ) -> ExecSession:
        """Start a command; raises StartError."""
        if tty:
            return await cls._start_terminal(zygote, request, stdin=stdin)
        ours: list[int] = []
        theirs: list[int] = []
        try:
            if stdin:
                reader, writer = os.pipe2(os.O_CLOEXEC)
                theirs.append(reader)
                ours.append(writer)
            else:
                theirs.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
            for _ in range(2):
                reader, writer = os.pipe2(os.O_CLOEXEC)
                theirs.append(writer)
                ours.append(reader)
            process = await zygote.start(request, theirs)
        except BaseException:
            for descriptor in ours:
                os.close(descriptor)
            raise
        finally:
            for descriptor in theirs:
                os.close(descriptor)
        session = cls(zygote, process, terminal=None)
        if stdin:
            session._stdin = ours.pop(0)
            os.set_blocking(session._stdin, False)
        session._listen(ours[0], "stdout")
        session._listen(ours[1], "stderr")
        return session

    @classmethod
    async def _start_terminal(
        cls, zygote: ZygoteClient, request: Mapping[str, Any], *, stdin: bool
    ) -> ExecSession:
        master, slave = os.openpty()
        try:
            process = await zygote.start(dict(request) | {"tty": True}, (slave, slave, slave))
        except BaseException:
            os.close(master)
            raise
        finally:
            os.close(slave)
        session = cls(zygote, process, terminal=master)
        if stdin:
            session._stdin = master
        session._listen(master, "stdout")
        return session

    async def read(self) -> tuple[StreamName, bytes] | None:
        """The next piece of output; None at the end."""
        item = await self._output.get()
        if item is None:
            self._output.put_nowait(None)  # the end stays the end
        elif self._paused and self._output.qsize() < _HIGH_WATER:
            for descriptor in list(self._paused):
                self._paused.discard(descriptor)
                self._loop.add_reader(descriptor, self._readable, descriptor)
        return item

    async def write(self, data: bytes) -> None:
        """Give the command input; what it does not take any more is dropped."""
        view = memoryview(data)
        while view and self._stdin is not None:
            try:
                view = view[os.write(self._stdin, view) :]
            except BlockingIOError:
                await self._writable(self._stdin)
            except OSError:
                await self.close_stdin()

    async def close_stdin(self) -> None:
        """End the command's input."""
        descriptor, self._stdin = self._stdin, None
        if descriptor is None:
            return
        if descriptor == self._terminal:
            with suppress(OSError):
                os.write(descriptor, b"\x04")
        else:
            self._loop.remove_writer(descriptor)
            os.close(descriptor)

    async def wait(self) -> int:
        """The exit code; 128 and the signal's number for a killed command."""
        code = await asyncio.shield(self._process.exited)
        return 128 - code if code < 0 else code

    def resize(self, width: int, height: int) -> None:
        """Tell the terminal its size."""
        if self._terminal is not None and self._terminal in self._readers:
            size = struct.pack("HHHH", height & 0xFFFF, width & 0xFFFF, 0, 0)
            with suppress(OSError):
                fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, size)

    def kill(self) -> None:
        """End the command and its process group; nothing happens if it has ended."""
        self._zygote.signal(self._process, signal.SIGKILL, group=True)
        for descriptor in self._paused:
            self._loop.add_reader(descriptor, self._readable, descriptor)
        self._paused.clear()

    def _listen(self, descriptor: int, name: StreamName) -> None:
        os.set_blocking(descriptor, False)
        self._readers[descriptor] = name
        self._loop.add_reader(descriptor, self._readable, descriptor)
        if self._process.exited.done():
            self._loop.call_soon(self._drain)

    def _readable(self, descriptor: int) -> None:
        self._read_once(descriptor)
        if descriptor in self._readers and self._output.qsize() >= _HIGH_WATER:
            self._loop.remove_reader(descriptor)
            self._paused.add(descriptor)

    def _read_once(self, descriptor: int) -> bool:
        try:
            data = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            return False
        except OSError:  # EIO: the last process of the terminal is gone
            data = b""
        if data:
            self._output.put_nowait((self._readers[descriptor], data))
            return True
        self._close(descriptor)
        return False

    def _close(self, descriptor: int) -> None:
        if self._stdin == descriptor:
            self._stdin = None
        self._paused.discard(descriptor)
        del self._readers[descriptor]
        self._loop.remove_reader(descriptor)
        os.close(descriptor)
        self._finish_if_over()

    def _drain(self) -> None:
        """The command has ended: take what is in the pipes, then close them."""
        for descriptor in list(self._readers):
            while self._read_once(descriptor):
                pass
            if descriptor in self._readers:
                self._close(descriptor)
        if self._stdin is not None:
            self._loop.remove_writer(self._stdin)
            os.close(self._stdin)
            self._stdin = None
        self._finish_if_over()

    def _finish_if_over(self) -> None:
        if not self._readers and self._process.exited.done():
            self._output.put_nowait(None)

    async def _writable(self, descriptor: int) -> None:
        ready: asyncio.Future[None] = self._loop.create_future()

        def writable() -> None:
            if not ready.done():
                ready.set_result(None)

        self._loop.add_writer(descriptor, writable)
        exited = self._process.exited
        try:
            await asyncio.wait((ready, exited), return_when=asyncio.FIRST_COMPLETED)
        finally:
            if self._stdin == descriptor:
                self._loop.remove_writer(descriptor)


async def capture(zygote: ZygoteClient, request: Mapping[str, Any]) -> Observed:
    """Run a command to its end; raises OSError where it cannot be started."""
    began = time.monotonic()
    try:
        session = await ExecSession.start(zygote, request, stdin=False, tty=False)
    except StartError as error:
        raise OSError(str(error)) from error
    texts: dict[StreamName, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
    try:
        while (item := await session.read()) is not None:
            texts[item[0]] += item[1]
        code = await session.wait()
    except BaseException:
        session.kill()
        raise
    return Observed(
        exit_code=code,
        stdout=texts["stdout"].decode(errors="replace"),
        stderr=texts["stderr"].decode(errors="replace"),
        elapsed=time.monotonic() - began,
    )
