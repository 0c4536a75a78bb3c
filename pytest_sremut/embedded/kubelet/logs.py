"""A container's log: lines with the time at which each arrived, kept in memory.

Rules:
- stdout and stderr are one stream, in the order in which they were written;
- a line's time is taken when its end is read; bytes without an end become a line when the stream
  closes, and a very long line is cut;
- the oldest lines go when the log outgrows its limit.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Literal

LIMIT = 10 * 1024 * 1024
LONGEST_LINE = 256 * 1024
_CHUNK = 65536
_SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Line:
    """One line: nanoseconds since the epoch, and its bytes, end of line included if it had one."""

    time: int
    data: bytes

    def stamped(self) -> bytes:
        return rfc3339_nano(self.time).encode() + b" " + self.data


def rfc3339_nano(nanoseconds: int) -> str:
    """RFC 3339 in UTC, with nanoseconds as Kubernetes writes them."""
    seconds, rest = divmod(nanoseconds, _SECOND)
    base = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{base}.{rest:09d}Z"


class LogBuffer:
    """The log of one incarnation of a container."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._lines: deque[Line] = deque()
        self._first = 0  # number of the oldest kept line
        self._limit = limit
        self._size = 0
        self._partial = bytearray()
        self._changed = asyncio.Event()
        self.closed = False

    def write(self, data: bytes, now: int | None = None) -> None:
        """Append what was read from the container."""
        self._partial += data
        if b"\n" not in data and len(self._partial) < LONGEST_LINE:
            return
        *lines, rest = self._partial.split(b"\n")
        self._partial = bytearray(rest)
        for line in lines:
            self._append(bytes(line) + b"\n", now)
        while len(self._partial) >= LONGEST_LINE:
            self._append(bytes(self._partial[:LONGEST_LINE]), now)
            del self._partial[:LONGEST_LINE]
        self._wake()

    def close(self) -> None:
        """No more will be written."""
        if self._partial:
            self._append(bytes(self._partial), None)
            self._partial.clear()
        self.closed = True
        self._wake()

    def tail(self, size: int) -> bytes:
        """The last bytes, at most `size`."""
        kept: deque[bytes] = deque()
        for line in reversed(self._lines):
            kept.appendleft(line.data)
            size -= len(line.data)
            if size <= 0:
                break
        return b"".join(kept)[-size:] if size < 0 else b"".join(kept)

    async def read(
        self,
        *,
        follow: bool = False,
        tail_lines: int | None = None,
        since: int | None = None,
        timestamps: bool = False,
        limit_bytes: int | None = None,
    ) -> AsyncIterator[bytes]:
        """The log, in pieces; with `follow` until the container has ended.

        since: nanoseconds since the epoch; lines before it are left out.
        """
        position = self._first
        if tail_lines is not None:
            position = max(position, self._first + len(self._lines) - tail_lines)
        left = limit_bytes
        while True:
            changed, closed = self._changed, self.closed  # as of the piece that is taken next
            piece, position = self._from(position, since, timestamps)
            if left is not None:
                piece = piece[:left]
                left -= len(piece)
            if piece:
                yield piece
            if left == 0 or not follow or closed:
                return
            await changed.wait()

    def _from(self, position: int, since: int | None, timestamps: bool) -> tuple[bytes, int]:
        end = self._first + len(self._lines)
        pieces = []
        for number in range(max(position, self._first), end):
            line = self._lines[number - self._first]
            if since is None or line.time >= since:
                pieces.append(line.stamped() if timestamps else line.data)
        return b"".join(pieces), end

    def _append(self, data: bytes, now: int | None) -> None:
        self._lines.append(Line(time.time_ns() if now is None else now, data))
        self._size += len(data)
        while self._size > self._limit and len(self._lines) > 1:
            self._size -= len(self._lines.popleft().data)
            self._first += 1

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


class LogStream:
    """A container's output from now on, as an attached client sees it; input is not taken."""

    def __init__(self, log: LogBuffer) -> None:
        self._pieces = log.read(follow=True, tail_lines=0)

    async def read(self) -> tuple[Literal["stdout", "stderr"], bytes] | None:
        """The next piece; None when the container has ended."""
        piece = await anext(self._pieces, None)
        return None if piece is None else ("stdout", piece)

    async def write(self, data: bytes) -> None:
        """Containers run without standard input: there is nobody to take it."""

    async def close_stdin(self) -> None:
        """There is none."""

    async def wait(self) -> int:
        """The conversation ended well; how the container ended is in the pod's status."""
        return 0

    def resize(self, width: int, height: int) -> None:
        """There is no terminal."""

    def kill(self) -> None:
        """The container goes on without the client."""


class LogPipe:
    """Feeds a log from the reading end of a pipe; owns that end."""

    def __init__(self, reader: int, buffer: LogBuffer, loop: asyncio.AbstractEventLoop) -> None:
        os.set_blocking(reader, False)
        self._reader = reader
        self._buffer = buffer
        self._loop = loop
        self._open = True
        loop.add_reader(reader, self._readable)

    def finish(self) -> None:
        """Take what is there and stop: the container has ended, whoever else holds the pipe."""
        while self._open and self._read_once():
            pass
        self._close()

    def _readable(self) -> None:
        # One piece at a time: a container that writes without end must not hold the loop.
        self._read_once()

    def _read_once(self) -> bool:
        try:
            data = os.read(self._reader, _CHUNK)
        except BlockingIOError:
            return False
        except OSError:  # EIO: the other side of a terminal is gone
            data = b""
        if not data:
            self._close()
            return False
        self._buffer.write(data)
        return True

    def _close(self) -> None:
        if self._open:
            self._open = False
            self._loop.remove_reader(self._reader)
            os.close(self._reader)
            self._buffer.close()
