"""The warm process behind `Isolated`: imports everything once, forks a fresh process per reading.

Started as `python -m pytest_sremut.oracles.worker` with frames (`framing`) on standard input and
output. It answers `hello` with `ready`, and each `read` with one `result`:

    {"type": "hello", "path": [...], "modules": [...]}   -> {"type": "ready", "pid": N}
    {"type": "read", "id": N, "request": {...}}          -> {"type": "result", "id": N, ...}

where a result holds exactly one of `reading`, `usage`, `refused` and `harness` (a message). It ends
when its standard input ends, a reading in progress included.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import random
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Final

from pytest_sremut.errors import GuardRefusedError, HarnessError, UsageError
from pytest_sremut.oracles import framing
from pytest_sremut.oracles.port import Raised, Reading
from pytest_sremut.oracles.process import Ended, adopt_orphans, run_forked
from pytest_sremut.oracles.request import ReadingRequest
from pytest_sremut.study.verdict import Verdict

__all__ = ["main"]

_KEPT: Final = 1 << 20  # bytes of each of the oracle's streams
_LARGEST_RETURNED: Final = 8 << 20


class _ParentGoneError(Exception):
    pass


def main() -> int:
    """Serve until standard input ends."""
    frames_in, frames_out = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(2, 1)  # a stray print goes to the log, not between the frames
    os.close(null)
    os.environ.pop("PYTHONPATH", None)  # it was for this interpreter's start only
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    adopt_orphans()
    try:
        for message in _messages(frames_in):
            framing.send(frames_out, _answer(message, frames_in, frames_out))
    except (_ParentGoneError, BrokenPipeError):
        pass
    return 0


def _messages(descriptor: int) -> Iterator[dict[str, Any]]:
    reader = framing.FrameReader()
    while data := os.read(descriptor, 1 << 16):
        yield from reader.feed(data)


def _answer(message: dict[str, Any], frames_in: int, frames_out: int) -> dict[str, Any]:
    match message.get("type"):
        case "hello":
            _warm_up(message)
            return {"type": "ready", "pid": os.getpid()}
        case "read":
            result = _read(message, frames_in, frames_out)
            return {"type": "result", "id": message.get("id"), **result}
        case other:
            raise HarnessError(f"unknown message {other!r}")


def _warm_up(message: dict[str, Any]) -> None:
    for entry in message["path"]:
        if entry not in sys.path:
            sys.path.append(entry)
    for module in ("kubernetes.client", "kubernetes.config", "pytest_sremut.cluster.client"):
        importlib.import_module(module)
    importlib.import_module("pytest_sremut.oracles.perform")
    for module in message["modules"]:
        try:
            importlib.import_module(module)
        except Exception as error:  # the reading itself will say so, as the study's mistake
            print(f"cannot import {module}: {error!r}", file=sys.stderr)


def _read(message: dict[str, Any], frames_in: int, frames_out: int) -> dict[str, Any]:
    try:
        request = ReadingRequest.from_json(message["request"])
    except (KeyError, HarnessError) as error:
        return {"harness": str(error)}

    def body(result: int) -> None:
        os.close(frames_out)
        framing.send(result, _perform(request))

    def parent_spoke() -> None:
        # While a reading is in progress nothing is sent: readable means that the parent is gone.
        raise _ParentGoneError

    started, begun = _now(), time.monotonic()
    ended = run_forked(
        body,
        timeout=request.timeout,
        kept=(_KEPT, _KEPT, framing.LARGEST + 4),
        watched=frames_in,
        on_watched=parent_spoke,
    )
    try:
        return _conclude(request, ended, started=started, elapsed=time.monotonic() - begun)
    except HarnessError as error:
        return {"harness": f"oracle {request.oracle.id}: {error}"}


def _perform(request: ReadingRequest) -> dict[str, Any]:
    """In the fresh process: the reading, or whose fault it is that there is none."""
    from pathlib import Path

    from pytest_sremut.cluster.client import load
    from pytest_sremut.oracles.perform import perform

    sys.stdout, sys.stderr = streams = _stream(1), _stream(2)
    os.environ["KUBECONFIG"] = request.kubeconfig
    random.seed()  # the fork copied the worker's state
    try:
        api = load(Path(request.kubeconfig), request.context)
        reading = perform(request, api, instrument="isolated").to_json()
    except UsageError as error:
        return {"usage": str(error)}
    except GuardRefusedError as error:
        return {"refused": str(error)}
    except (Exception, KeyboardInterrupt) as error:  # the oracle's own are in the reading
        return {"harness": f"the oracle's process: {type(error).__name__}: {error}"}
    finally:
        _flush(streams)
    reading["facts"] = {**reading["facts"], "pid": os.getpid()}
    if len(framing.encode({"returned": reading["returned"]})) > _LARGEST_RETURNED:
        reading["returned"] = {"$repr": "<too large to keep>"}
    return {"reading": reading}


def _stream(descriptor: int) -> io.TextIOWrapper:
    raw = io.FileIO(descriptor, "w", closefd=False)
    return io.TextIOWrapper(io.BufferedWriter(raw), "utf-8", "backslashreplace")


def _flush(streams: Iterable[io.TextIOWrapper]) -> None:
    for stream in streams:
        with contextlib.suppress(OSError, ValueError):  # the oracle closed it
            stream.flush()


def _conclude(
    request: ReadingRequest, ended: Ended, *, started: str, elapsed: float
) -> dict[str, Any]:
    out, err, result = ended.outputs
    name = f"oracle {request.oracle.id}"
    messages = list(framing.FrameReader().feed(result[0]))
    if messages:
        answer = messages[0]
        if "reading" in answer:
            answer["reading"] |= {"stdout": _text(out), "stderr": _text(err)}
        return answer
    said = f"; it said: {tail}" if (tail := _text(err)[-2000:].strip()) else ""
    if ended.status is None:
        return {"harness": f"{name} did not end within {request.timeout:g} s{said}"}
    if ended.signal is not None:
        return {"harness": f"the process of {name} was ended by signal {ended.signal}{said}"}
    message = f"the oracle's process exited with {ended.exit_code} before the oracle returned"
    reading = Reading(
        oracle=request.oracle.id,
        use=request.oracle.use,
        instrument="isolated",
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
    return {"reading": reading.to_json()}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _text(output: tuple[bytes, int]) -> str:
    kept, lost = output
    text = kept.decode("utf-8", "backslashreplace")
    return text + (f"\n[{lost} more bytes were not kept]" if lost else "")


if __name__ == "__main__":
    sys.exit(main())
