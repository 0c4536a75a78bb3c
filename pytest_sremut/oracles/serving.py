"""What every warm worker does: answer frames, and run each task in a fresh process of its own.

    {"type": "hello", ...}                               -> {"type": "ready", "pid": N, ...}
    {"type": TASK, "id": N, "request": {...}, ...}       -> {"type": "result", "id": N, ...}

A result holds what the task returned, or exactly one of `usage` (the study's mistake), `refused`
(a write that the guard forbade) and `harness` (ours: killed, hung, no answer), each a message. A
worker ends when its standard input ends, a task in progress included.

Standard library only, together with everything it imports: a worker may run under an interpreter
that has none of our dependencies.
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from pytest_sremut.errors import GuardRefusedError, HarnessError, UsageError
from pytest_sremut.oracles import framing
from pytest_sremut.oracles.oracle_port import Raised, Reading
from pytest_sremut.oracles.process import Ended, adopt_orphans, run_forked
from pytest_sremut.oracles.request import ReadingRequest
from pytest_sremut.study.verdict import Verdict

__all__ = ["READ", "Task", "now", "serve"]

Task = Callable[[ReadingRequest, Mapping[str, Any]], dict[str, Any]]
"""Runs in the fresh process, with the request and the whole message; what it returns is sent."""

READ: Final = "read"
"""The task whose result is `{"reading": ...}`, and whose process may end early: an ERROR."""

_OF_AN_ORACLE: Final = frozenset({READ, "capture", "diagnose"})
_KEPT: Final = 1 << 20  # bytes of each of the oracle's streams
_LARGEST_RETURNED: Final = 8 << 20


class _ParentGoneError(Exception):
    pass


def now() -> str:
    """RFC 3339, UTC, microseconds."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def serve(
    warm_up: Callable[[Mapping[str, Any]], Mapping[str, Any]],
    tasks: Mapping[str, Task],
    *,
    instrument: Callable[[], str],
) -> int:
    """Serve until standard input ends; the process's exit code.

    Args:
        warm_up: Given the `hello`, imports what every task needs; told with `ready`.
        tasks: By type of message.
        instrument: The name that a reading carries whose process ended early.
    """
    frames_in, frames_out = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(2, 1)  # a stray print goes to the log, not between the frames
    os.close(null)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    adopt_orphans()
    try:
        for message in _messages(frames_in):
            kind = str(message.get("type"))
            if kind == "hello":
                answer = {"type": "ready", "pid": os.getpid(), **warm_up(message)}
            elif kind in tasks:
                result = _run(message, tasks[kind], frames_in, frames_out, instrument())
                answer = {"type": "result", "id": message.get("id"), **result}
            else:
                raise HarnessError(f"unknown message {kind!r}")
            framing.send(frames_out, answer)
    except (_ParentGoneError, BrokenPipeError):
        pass
    return 0


def _messages(descriptor: int) -> Iterator[dict[str, Any]]:
    reader = framing.FrameReader()
    while data := os.read(descriptor, 1 << 16):
        yield from reader.feed(data)


def _run(
    message: dict[str, Any], task: Task, frames_in: int, frames_out: int, instrument: str
) -> dict[str, Any]:
    try:
        request = ReadingRequest.from_json(message["request"])
    except (KeyError, HarnessError) as error:
        return {"harness": str(error)}

    def body(result: int) -> None:
        os.close(frames_out)
        framing.send(result, _perform(task, request, message))

    def parent_spoke() -> None:
        # While a task is in progress nothing is sent: readable means that the parent is gone.
        raise _ParentGoneError

    started, begun = now(), time.monotonic()
    ended = run_forked(
        body,
        timeout=request.timeout,
        kept=(_KEPT, _KEPT, framing.LARGEST + 4),
        watched=frames_in,
        on_watched=parent_spoke,
    )
    try:
        answer = _conclude(request, ended, _named(request, message))
    except HarnessError as error:
        return {"harness": f"{_named(request, message)}: {error}"}
    if "exited" in answer:
        if message["type"] != READ:
            return {"harness": f"{_named(request, message)}: {answer['exited']}"}
        elapsed = time.monotonic() - begun
        reading = _exited(
            request,
            ended,
            answer["exited"],
            instrument=instrument,
            started=started,
            elapsed=elapsed,
        )
        return {"reading": reading.to_json()}
    return answer


def _perform(task: Task, request: ReadingRequest, message: Mapping[str, Any]) -> dict[str, Any]:
    """In the fresh process: what the task returns, or whose fault it is that there is nothing."""
    sys.stdout, sys.stderr = streams = _stream(1), _stream(2)
    os.environ["KUBECONFIG"] = request.kubeconfig
    random.seed()  # the fork copied the worker's state
    try:
        answer = task(request, message)
    except UsageError as error:
        return {"usage": str(error)}
    except GuardRefusedError as error:
        return {"refused": str(error)}
    except HarnessError as error:
        return {"harness": f"{_named(request, message)}: {error}"}
    except (Exception, KeyboardInterrupt) as error:  # the oracle's own are in the reading
        return {"harness": f"the oracle's process: {type(error).__name__}: {error}"}
    finally:
        _flush(streams)
    if reading := answer.get("reading"):
        reading["facts"] = {**reading["facts"], "pid": os.getpid()}
        if len(framing.encode({"returned": reading["returned"]})) > _LARGEST_RETURNED:
            reading["returned"] = {"$repr": "<too large to keep>"}
    return answer


def _stream(descriptor: int) -> io.TextIOWrapper:
    raw = io.FileIO(descriptor, "w", closefd=False)
    return io.TextIOWrapper(io.BufferedWriter(raw), "utf-8", "backslashreplace")


def _flush(streams: Iterable[io.TextIOWrapper]) -> None:
    for stream in streams:
        with contextlib.suppress(OSError, ValueError):  # the oracle closed it
            stream.flush()


def _named(request: ReadingRequest, message: Mapping[str, Any]) -> str:
    """What a failure is about: an oracle, or what else a benchmark's code was asked to do."""
    task = message["type"]
    return f"{'oracle' if task in _OF_AN_ORACLE else task} {request.oracle.id}"


def _conclude(request: ReadingRequest, ended: Ended, name: str) -> dict[str, Any]:
    """The task's answer, a `harness` message, or `exited` where it ended by itself without one."""
    out, err, result = ended.outputs
    messages = list(framing.FrameReader().feed(result[0]))
    if messages:
        answer = messages[0]
        answer.get("reading", answer).update({"stdout": _text(out), "stderr": _text(err)})
        return answer
    said = f"; it said: {tail}" if (tail := _text(err)[-2000:].strip()) else ""
    if ended.status is None:
        return {"harness": f"{name} did not end within {request.timeout:g} s{said}"}
    if ended.signal is not None:
        return {"harness": f"the process of {name} was ended by signal {ended.signal}{said}"}
    return {"exited": f"the oracle's process exited with {ended.exit_code} before it returned"}


def _exited(
    request: ReadingRequest,
    ended: Ended,
    message: str,
    *,
    instrument: str,
    started: str,
    elapsed: float,
) -> Reading:
    """The oracle ended its own process: that is its answer, and no verdict."""
    out, err, _ = ended.outputs
    return Reading(
        oracle=request.oracle.id,
        use=request.oracle.use,
        instrument=instrument,
        verdict=Verdict.ERROR,
        reason=message,
        returned=None,
        exception=Raised(type="ProcessExit", message=message, traceback=""),
        started=started,
        elapsed=elapsed,
        stdout=_text(out),
        stderr=_text(err),
        facts={},
    )


def _text(output: tuple[bytes, int]) -> str:
    kept, lost = output
    text = kept.decode("utf-8", "backslashreplace")
    return text + (f"\n[{lost} more bytes were not kept]" if lost else "")
