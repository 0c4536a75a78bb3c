"""A process that runs one thing and leaves nothing behind. Linux only.

Used by the worker only, which is single-threaded: forking is safe there.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

__all__ = ["Ended", "adopt_orphans", "run_forked"]

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_BLOCK: Final = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a forked process ended.

    `status` is that of `waitpid`; None when the time limit ended it. `outputs` are its standard
    output, standard error and result, each with the bytes kept and the number that were not.
    """

    status: int | None
    outputs: tuple[tuple[bytes, int], ...]

    @property
    def exit_code(self) -> int | None:
        """Exit code, None for a process that a signal or the limit ended."""
        if self.status is None or not os.WIFEXITED(self.status):
            return None
        return os.WEXITSTATUS(self.status)

    @property
    def signal(self) -> int | None:
        """The signal that ended it, None for a process that exited."""
        if self.status is None or not os.WIFSIGNALED(self.status):
            return None
        return os.WTERMSIG(self.status)


def adopt_orphans() -> None:
    """Become the parent of what our children leave behind, so that it can be found and ended."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def run_forked(
    body: Callable[[int], None],
    *,
    timeout: float,
    kept: tuple[int, int, int],
    watched: int,
    on_watched: Callable[[], None],
) -> Ended:
    """Fork, run `body(result descriptor)` in the child, collect what it writes.

    Args:
        body: Runs in the child, in a session of its own, with standard output and error captured
            and standard input empty. The child exits with 0 after it, with 1 when it raises.
        timeout: Seconds after which the child and all its descendants are killed.
        kept: How many bytes of standard output, error and result are kept.
        watched: A descriptor of ours to look at meanwhile.
        on_watched: Called when it is readable; may raise, which ends the child too.
    """
    pipes = [os.pipe() for _ in range(3)]
    child = os.fork()
    if child == 0:
        _become(body, [write for _, write in pipes], close=[watched, *(r for r, _ in pipes)])
    sinks = []
    for (read, write), limit in zip(pipes, kept, strict=True):
        os.close(write)
        sinks.append(_Sink(read, limit))
    by_itself = False
    try:
        by_itself = _follow(child, sinks, time.monotonic() + timeout, watched, on_watched)
    finally:
        status = _end(child)
        for sink in sinks:
            sink.drain()
            os.close(sink.descriptor)
    return Ended(
        status=status if by_itself else None,
        outputs=tuple((bytes(sink.kept), sink.lost) for sink in sinks),
    )


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
        """Take what is there; whoever still holds the other end is not waited for."""
        while self.pump():
            pass


def _follow(
    child: int,
    sinks: list[_Sink],
    deadline: float,
    watched: int,
    on_watched: Callable[[], None],
) -> bool:
    """Collect output until the child ends (True) or the deadline passes (False)."""
    ended = os.pidfd_open(child)
    try:
        while True:
            reading = [sink for sink in sinks if sink.open]
            poll = select.poll()
            for descriptor in (ended, watched, *(sink.descriptor for sink in reading)):
                poll.register(descriptor, select.POLLIN)
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return False
            ready = {descriptor for descriptor, _ in poll.poll(remaining * 1000)}
            for sink in reading:
                if sink.descriptor in ready:
                    sink.pump()
            if watched in ready:
                on_watched()
            if ended in ready:
                return True
    finally:
        os.close(ended)


def _end(child: int) -> int:
    """Kill the child's process group and whatever escaped from it, and reap them all.

    The child is reaped only after its group was killed: until then nobody else can get its number.
    Returns the child's wait status.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)  # it may have left the group, or not made one yet
    _, status = os.waitpid(child, 0)
    while orphans := list(_children()):
        for pid in orphans:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
    return status


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


def _become(body: Callable[[int], None], writes: list[int], *, close: list[int]) -> NoReturn:
    status = 1
    try:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        os.setsid()
        for descriptor in close:
            os.close(descriptor)
        null = os.open(os.devnull, os.O_RDONLY)
        for target, source in ((0, null), (1, writes[0]), (2, writes[1])):
            os.dup2(source, target)
        for descriptor in (null, writes[0], writes[1]):
            os.close(descriptor)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        body(writes[2])
        status = 0
    finally:
        os._exit(status)


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)
