"""What every warm worker does: answer frames, and run each task in a process beside itself.

    {"type": "hello", ...}                         -> {"type": "ready", "pid", "walls", ...}
    {"type": TASK, "id": N, "request": {...}, ...} -> {"type": "ended", "id": N}
    {"type": "nonce", "id": N, "nonce": HEX}       -> {"type": "result", "id": N, "nonce": HEX, ...}

A worker judges nothing and believes nothing: a result holds the frames of the task's process,
unopened, with how that process ended and what it printed (`conclude` makes something of them). The
nonce comes only after that process has answered, so no copy of our memory that a grader runs in
has ever held it.

A task runs in a fresh process; one with `host` in a process that is kept under that name, from one
task to the next. A worker ends when its standard input ends, a task in progress included.

Standard library only, together with everything it imports: a worker may run under an interpreter
that has none of our dependencies.
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import secrets
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from pytest_sremut.errors import GuardRefusedError, HarnessError, UsageError
from pytest_sremut.oracles import framing
from pytest_sremut.oracles.process import Child, adopt_orphans
from pytest_sremut.oracles.request import ReadingRequest
from pytest_sremut.oracles.told import BEGUN, LARGEST
from pytest_sremut.oracles.walls import Walls

__all__ = ["OUTPUT_KEPT", "READ", "Begun", "Task", "now", "serve"]

Begun = Callable[[], None]
"""To be called once our own preparations are over, right before anything of the oracle's runs."""

Task = Callable[[ReadingRequest, Mapping[str, Any], Begun], Mapping[str, Any]]
"""Runs in the task's process, with the request and the whole message; what it returns is sent."""

READ: Final = "read"
"""The task that calls an oracle; see `told` for its frames."""

OUTPUT_KEPT: Final = 1 << 20  # bytes of each of the oracle's streams
_PING: Final = "ping"
_HEAD: Final = 4  # bytes of a frame's length
_MOST_BETWEEN: Final = 8  # frames that are looked through for an echo
_ANSWERED: Final = 2  # frames: `begun` and the answer


class _ParentGoneError(Exception):
    pass


def serve(
    warm_up: Callable[[Mapping[str, Any]], Mapping[str, Any]],
    tasks: Mapping[str, Task],
    *,
    prepare: Callable[[Mapping[str, Any]], None] | None = None,
) -> int:
    """Serve until standard input ends; the process's exit code.

    Args:
        warm_up: Given the `hello`, imports what every task needs; told with `ready`.
        tasks: By type of message.
        prepare: Called with each task's message before a process is forked for it.
    """
    frames_in, frames_out = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(2, 1)  # a stray print goes to the log, not between the frames
    os.close(null)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    adopt_orphans()
    server = _Server(frames_in, frames_out, tasks, prepare)
    try:
        server.serve(warm_up)
    except (_ParentGoneError, BrokenPipeError):
        pass
    finally:
        server.close()
    return 0


class _Server:
    """The worker's side of the protocol, and the processes that it keeps."""

    def __init__(
        self,
        frames_in: int,
        frames_out: int,
        tasks: Mapping[str, Task],
        prepare: Callable[[Mapping[str, Any]], None] | None,
    ) -> None:
        self._prepare = prepare
        self._in, self._out = frames_in, frames_out
        self._tasks = tasks
        self._reader = framing.FrameReader()
        self._waiting: list[dict[str, Any]] = []
        self._hosts: dict[str, Child] = {}
        self._walls = Walls()

    def serve(self, warm_up: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> None:
        """Until standard input ends."""
        while True:
            message = self._next()
            kind = str(message.get("type"))
            if kind == "hello":
                # Before anything else is imported: no graded module sees the time without them.
                self._walls = Walls.put_up(message.get("closed", ()), message.get("opened", ()))
                told = {"pid": os.getpid(), "walls": self._walls.facts(), **warm_up(message)}
                framing.send(self._out, {"type": "ready", **told})
            elif kind in self._tasks:
                self._run(message)
            else:
                raise HarnessError(f"unknown message {kind!r}")

    def close(self) -> None:
        """End what is kept."""
        for name in list(self._hosts):
            self._drop(name)

    def _next(self) -> dict[str, Any]:
        while not self._waiting:
            if not (data := os.read(self._in, 1 << 16)):
                raise _ParentGoneError
            self._waiting += self._reader.feed(data)
        return self._waiting.pop(0)

    # -- one task -----------------------------------------------------------------------------

    def _run(self, message: dict[str, Any]) -> None:
        request = ReadingRequest.from_json(message["request"])
        number, host = message.get("id"), str(message.get("host", ""))
        if self._prepare is not None:
            self._prepare(message)
        watch = _Watch()
        ping = _Ping() if host else None
        kept = self._listening(host)
        child = kept or self._forked(message, request, bool(host))
        try:
            if host:
                self._hosts[host] = child
                with contextlib.suppress(OSError):  # it is gone: that is seen right below
                    child.ask(framing.encode(message))
            in_time = child.follow(
                deadline=lambda: request.timeout - watch.elapsed(),
                watched=self._in,
                on_watched=self._parent_spoke,
                on_frames=lambda: (
                    watch.note(len(child.frames(_ANSWERED)[0]))
                    and ping is not None
                    and ping.is_answered(child)
                ),
            )
        finally:
            goes_on = ping is not None and ping.is_answered(child)
            if not goes_on:
                child.end(spare={other.pid for other in self._hosts.values()} - {child.pid})
        frames, rest = child.frames(_ANSWERED)
        if ping is not None and goes_on:
            rest -= ping.size
        watch.note(len(frames))
        out, err, _ = child.take()
        result = {
            "frames": [frame.decode("utf-8", "backslashreplace") for frame in frames],
            "rest": rest,
            "status": child.status,
            "goes_on": goes_on,
            "fresh": kept is None,
            "in_time": in_time,
            "stdout": [out.kept.decode("utf-8", "backslashreplace"), out.lost],
            "stderr": [err.kept.decode("utf-8", "backslashreplace"), err.lost],
            "pid": child.pid,
            **watch.facts(),
        }
        if not goes_on:
            self._hosts.pop(host, None)
            child.close()
        elif rest:
            self._drop(host)  # it speaks without being asked
        framing.send(self._out, {"type": "ended", "id": number})
        named = self._next()
        if named.get("type") != "nonce" or named.get("id") != number:
            raise HarnessError(f"found {named.get('type')!r} where a nonce was due")
        framing.send(self._out, {"type": "result", "id": number, "nonce": named["nonce"], **result})

    def _listening(self, host: str) -> Child | None:
        """The process that is kept under a name; not one that has ended, or spoke unasked."""
        child = self._hosts.get(host)
        if child is not None and not child.is_quiet():
            self._drop(host)
            return None
        return child

    def _forked(self, message: dict[str, Any], request: ReadingRequest, kept: bool) -> Child:
        task = self._tasks[message["type"]]

        def once(result: int, _asked: int) -> None:
            _perform(task, request, message, result)

        def again(result: int, asked: int) -> None:
            reader = framing.FrameReader()
            while data := os.read(asked, 1 << 16):
                for one in reader.feed(data):
                    if one["type"] == _PING:
                        framing.send(result, one)
                        continue
                    _perform(task, ReadingRequest.from_json(one["request"]), one, result)

        others = [number for one in self._hosts.values() for number in one.descriptors]
        return Child(
            again if kept else once,
            kept=(OUTPUT_KEPT, OUTPUT_KEPT, LARGEST + 64),
            close=[self._in, self._out, *others],
            enter=self._walls.shut,
        )

    def _drop(self, host: str) -> None:
        child = self._hosts.pop(host)
        child.end(spare={other.pid for other in self._hosts.values()})
        child.close()

    def _parent_spoke(self) -> None:
        # While a task is in progress nothing is sent: readable means that the parent is gone.
        raise _ParentGoneError


class _Ping:
    """Asked of a process that is kept, after its answer: an echo says that the task is over."""

    def __init__(self) -> None:
        self._frame = framing.encode({"type": _PING, "token": secrets.token_hex(8)})
        self._is_sent = False
        self.size = len(self._frame)

    def is_answered(self, child: Child) -> bool:
        """Whether the echo is there; asks for it once the answer is."""
        frames, _ = child.frames(_ANSWERED + _MOST_BETWEEN)
        if len(frames) < _ANSWERED:
            return False
        if not self._is_sent:
            self._is_sent = True
            with contextlib.suppress(OSError):  # it is gone: its end is seen
                child.ask(self._frame)
        return self._frame[_HEAD:] in frames[_ANSWERED:]


class _Watch:
    """When a task was asked for, when the oracle's part began, and when its answer was there."""

    def __init__(self) -> None:
        self._asked = self._begun = self._told = time.monotonic()
        self._started = now()
        self._seen = 0

    def elapsed(self) -> float:
        """Seconds since it was asked for."""
        return time.monotonic() - self._asked

    def note(self, frames: int) -> bool:
        """So many frames have come; whether that is all there may be."""
        if frames >= 1 and self._seen < 1:
            self._begun, self._started = time.monotonic(), now()
        if frames > self._seen or not self.is_complete():
            self._told = time.monotonic()
        self._seen = max(self._seen, frames)
        return self.is_complete()

    def is_complete(self) -> bool:
        """Whether the answer is there."""
        return self._seen >= _ANSWERED

    def facts(self) -> dict[str, Any]:
        """By our clock, not by the oracle's."""
        return {"started": self._started, "elapsed": max(0.0, self._told - self._begun)}


def _perform(task: Task, request: ReadingRequest, message: Mapping[str, Any], result: int) -> None:
    """In the task's process: send what the task returns, or whose fault it is that there is none.

    Only what is sent before `begun` can be the study's mistake or ours.
    """
    sys.stdout, sys.stderr = streams = _stream(1), _stream(2)
    os.environ["KUBECONFIG"] = request.kubeconfig
    random.seed()  # the fork copied the worker's state
    answer: Mapping[str, Any]
    try:
        answer = task(request, message, lambda: framing.send(result, dict(BEGUN)))
    except UsageError as error:
        answer = {"usage": str(error)}
    except GuardRefusedError as error:
        answer = {"refused": str(error)}
    except HarnessError as error:
        answer = {"harness": str(error)}
    except (Exception, KeyboardInterrupt) as error:  # the oracle's own are in its answer
        answer = {"harness": f"the oracle's process: {type(error).__name__}: {error}"}
    finally:
        _flush(streams)
    framing.send(result, dict(answer))


def _stream(descriptor: int) -> io.TextIOWrapper:
    raw = io.FileIO(descriptor, "w", closefd=False)
    return io.TextIOWrapper(io.BufferedWriter(raw), "utf-8", "backslashreplace")


def _flush(streams: Iterable[io.TextIOWrapper]) -> None:
    for stream in streams:
        with contextlib.suppress(OSError, ValueError):  # the oracle closed it
            stream.flush()


def now() -> str:
    """RFC 3339, UTC, microseconds."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
