"""A process that runs one thing, or one after another, and leaves nothing behind. Linux only.

Used by the worker only, which is single-threaded: forking is safe there.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from pytest_sremut.oracles import framing

__all__ = ["Child", "Output", "adopt_orphans"]

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_BLOCK: Final = 1 << 16

Body = Callable[[int, int], None]
"""Runs in the child: descriptors to write frames to, and to read frames from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What came through one pipe: the bytes kept, and how many were not."""

    kept: bytes
    lost: int


def adopt_orphans() -> None:
    """Become the parent of what our children leave behind, so that it can be found and ended."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


class Child:
    """A forked process in a session of its own, and four pipes to it.

    Its standard output and error are captured, its standard input is empty. It exits with 0 after
    `body`, with 1 where that raises.

    Args:
        body: Runs in it.
        kept: How many bytes of standard output, error and frames are kept.
        close: Descriptors of ours that it must not have.
        enter: Called in it first.
    """

    def __init__(
        self,
        body: Body,
        *,
        kept: tuple[int, int, int],
        close: Collection[int],
        enter: Callable[[], None],
    ) -> None:
        pipes = [os.pipe() for _ in range(4)]
        self.pid = os.fork()
        if self.pid == 0:
            ours = [*(read for read, _ in pipes[:3]), pipes[3][1]]
            theirs = [*(write for _, write in pipes[:3]), pipes[3][0]]
            _become(body, theirs, close=[*close, *ours], enter=enter)
        for _, write in pipes[:3]:
            os.close(write)
        os.close(pipes[3][0])
        self._asking = pipes[3][1]
        self._sinks = [_Sink(read, most) for (read, _), most in zip(pipes, kept, strict=False)]
        self._ended = os.pidfd_open(self.pid)
        self.status: int | None = None  # that of `waitpid`; None while it runs

    @property
    def descriptors(self) -> tuple[int, ...]:
        """What another child must not have of this one."""
        return (self._asking, self._ended, *(sink.descriptor for sink in self._sinks))

    def is_quiet(self) -> bool:
        """Whether it runs, and has said nothing in frames since it was last asked."""
        poll = select.poll()
        poll.register(self._ended, select.POLLIN)
        sink = self._sinks[2]
        sink.drain()
        return not poll.poll(0) and sink.open and not sink.kept

    def ask(self, frame: bytes) -> None:
        """Write to it. Raises OSError where it does not listen any more."""
        rest = memoryview(frame)
        while rest:
            rest = rest[os.write(self._asking, rest) :]

    def frames(self, most: int) -> tuple[list[bytes], int]:
        """The first frames that it has sent, and how many bytes came besides."""
        sink = self._sinks[2]
        frames, rest = framing.split(sink.kept, most)
        return frames, rest + sink.lost

    def follow(
        self,
        *,
        deadline: Callable[[], float],
        watched: int,
        on_watched: Callable[[], None],
        on_frames: Callable[[], bool],
    ) -> bool:
        """Collect what it writes. True: it ended, or `on_frames` had enough; False: time is up.

        Args:
            deadline: Seconds that are left.
            watched: A descriptor of ours to look at meanwhile.
            on_watched: Called when it is readable; may raise.
            on_frames: Called when frames came; True: enough.
        """
        while True:
            reading = [sink for sink in self._sinks if sink.open]
            poll = select.poll()
            for descriptor in (self._ended, watched, *(sink.descriptor for sink in reading)):
                poll.register(descriptor, select.POLLIN)
            remaining = deadline()
            if remaining <= 0:
                return False
            ready = {descriptor for descriptor, _ in poll.poll(remaining * 1000)}
            for sink in reading:
                if sink.descriptor in ready:
                    sink.pump()
            if watched in ready:
                on_watched()
            if self._sinks[2].descriptor in ready and on_frames():
                return True
            if self._ended in ready:
                return True

    def take(self) -> list[Output]:
        """What came through its standard output, error and frames since the last time."""
        taken = []
        for sink in self._sinks:
            sink.drain()
            taken.append(Output(kept=bytes(sink.kept), lost=sink.lost))
            sink.kept.clear()
            sink.lost = 0
        return taken

    def end(self, *, spare: Collection[int] = ()) -> None:
        """Kill its process group and whatever escaped from it, and reap them all; idempotent.

        It is reaped only after its group was killed: until then nobody else can get its number.

        Args:
            spare: Other children of ours.
        """
        if self.status is not None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)  # it may have left the group, or not made one yet
        _, self.status = os.waitpid(self.pid, 0)
        while orphans := [pid for pid in _children() if pid not in spare]:
            for pid in orphans:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, 0)
        for sink in self._sinks:
            sink.drain()

    def close(self) -> None:
        """Give its pipes back; it was ended."""
        for descriptor in self.descriptors:
            os.close(descriptor)


class _Sink:
    """Keeps the beginning of what comes through a pipe."""

    def __init__(self, descriptor: int, limit: int) -> None:
        os.set_blocking(descriptor, False)
        self.descriptor = descriptor
        self.kept = bytearray()
        self.lost = 0
        self.open = True
        self._limit = limit

    def pump(self) -> bool:
        """Take one block; whether there was one."""
        try:
            block = os.read(self.descriptor, _BLOCK)
        except BlockingIOError:
            return False
        if not block:
            self.open = False
            return False
        room = max(0, self._limit - len(self.kept))
        self.kept += block[:room]
        self.lost += len(block) - len(block[:room])
        return True

    def drain(self) -> None:
        """Take what is there; whoever still holds the other end is not waited for.

        A process that goes on writing meanwhile is not followed beyond what a pipe holds.
        """
        for _ in range(64):
            if not self.pump():
                return


def _children() -> Iterator[int]:
    """Our own children, the adopted ones included."""
    listed = Path(f"/proc/self/task/{os.getpid()}/children")
    with contextlib.suppress(FileNotFoundError):
        yield from map(int, listed.read_text().split())
        return
    # A kernel without that file: reap what has ended; the process group was killed already.
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _become(
    body: Body, pipes: list[int], *, close: Collection[int], enter: Callable[[], None]
) -> NoReturn:
    status = 1
    try:
        enter()
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        os.setsid()
        for descriptor in close:
            os.close(descriptor)
        null = os.open(os.devnull, os.O_RDONLY)
        for target, source in ((0, null), (1, pipes[0]), (2, pipes[1])):
            os.dup2(source, target)
        for descriptor in (null, pipes[0], pipes[1]):
            os.close(descriptor)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        body(pipes[2], pipes[3])
        status = 0
    finally:
        os._exit(status)


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)
