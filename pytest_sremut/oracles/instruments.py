"""The two instruments: in this process, and in a fresh process of its own.

Both take the same request and return the same reading, so a difference between them is a finding
about the oracle and not about us. What goes wrong with the instrument itself is a HarnessError,
never a verdict.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Protocol

from pytest_sremut.cluster.port import KubeApi
from pytest_sremut.errors import HarnessError
from pytest_sremut.oracles.isolated import Isolated
from pytest_sremut.oracles.oracle_port import Reading
from pytest_sremut.oracles.perform import TimeLimitError, perform
from pytest_sremut.oracles.request import ReadingRequest

__all__ = ["InProcess", "Instrument", "Isolated"]

_KEPT: Final = 1 << 20  # characters of each stream
_RESTORED_SIGNALS: Final = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGALRM,
    signal.SIGCHLD,
    signal.SIGPIPE,
)


class Instrument(Protocol):
    """A way to read an oracle."""

    @property
    def name(self) -> str: ...

    def start(self) -> None:
        """Get ready; returns at once. Optional: `read` does it where it was not done."""
        ...

    def read(self, request: ReadingRequest) -> Reading:
        """Evaluate the oracle once.

        Raises:
            HarnessError: The instrument failed or the time limit passed.
            UsageError: The study names something that does not exist.
            GuardRefusedError: A grader of ours was about to write to another cluster.
        """
        ...

    def close(self) -> None: ...


def _load(kubeconfig: Path, context: str) -> KubeApi:
    from pytest_sremut.cluster.client import load

    return load(kubeconfig, context)


class InProcess:
    """Evaluates in this process and puts back what an oracle may have changed in it.

    The time limit rests on SIGALRM: it holds in the main thread, where nobody else uses the timer;
    `facts["time_limit"]` says whether it was in force. What an oracle writes to file descriptor 1
    directly is not captured here.
    """

    name = "in-process"

    def __init__(self, *, connect: Callable[[Path, str], KubeApi] = _load) -> None:
        self._connect = connect

    def start(self) -> None:
        """Nothing to start."""

    def read(self, request: ReadingRequest) -> Reading:
        """See `Instrument`."""
        api = self._connect(Path(request.kubeconfig), request.context)
        out, err = _Kept(), _Kept()
        try:
            with (
                _process_state_restored(request.kubeconfig),
                contextlib.redirect_stdout(out),
                contextlib.redirect_stderr(err),
                _time_limit(request.timeout) as limited,
            ):
                reading = perform(request, api, instrument=self.name)
        except TimeLimitError:
            raise HarnessError(
                f"oracle {request.oracle.id} did not end within {request.timeout:g} s"
            ) from None
        facts = {**reading.facts, "pid": os.getpid(), "time_limit": limited}
        return replace(reading, stdout=out.text(), stderr=err.text(), facts=facts)

    def close(self) -> None:
        """Nothing to close."""


class _Kept(io.TextIOBase):
    """A text stream that keeps its beginning and counts the rest."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._room = _KEPT
        self._lost = 0

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        kept = text[: self._room]
        self._parts.append(kept)
        self._room -= len(kept)
        self._lost += len(text) - len(kept)
        return len(text)

    def text(self) -> str:
        whole = "".join(self._parts).encode("utf-8", "backslashreplace").decode()
        return whole + (f"\n[{self._lost} more were not kept]" if self._lost else "")


@contextlib.contextmanager
def _process_state_restored(kubeconfig: str) -> Iterator[None]:
    """Give the oracle its kubeconfig; put directory, environment and signals back after it."""
    directory = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
    environment = dict(os.environ)
    main = threading.current_thread() is threading.main_thread()
    handlers = {number: signal.getsignal(number) for number in _RESTORED_SIGNALS} if main else {}
    os.environ["KUBECONFIG"] = kubeconfig
    try:
        yield
    finally:
        os.fchdir(directory)
        os.close(directory)
        _restore_environment(environment)
        for number, handler in handlers.items():
            if handler is not None and signal.getsignal(number) is not handler:
                signal.signal(number, handler)


def _restore_environment(environment: dict[str, str]) -> None:
    for name in set(os.environ) - set(environment):
        del os.environ[name]
    for name, value in environment.items():
        if os.environ.get(name) != value:
            os.environ[name] = value


@contextlib.contextmanager
def _time_limit(seconds: float) -> Iterator[bool]:
    """Raise TimeLimitError in the block after `seconds`; yields whether that is possible here."""
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getitimer(signal.ITIMER_REAL)[0] > 0
        or seconds <= 0
    ):
        yield False
        return

    struck = False

    def strike(_number: int, _frame: Any) -> None:
        nonlocal struck
        struck = True
        raise TimeLimitError

    previous = signal.signal(signal.SIGALRM, strike)
    # Again every second: a bare `except:` of an oracle swallows the first one.
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield True
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    if struck:  # and swallowed: what came of it came too late
        raise TimeLimitError
