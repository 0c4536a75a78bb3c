"""Readings in a fresh process each, forked from a warm one (`worker`).

An oracle that exits, hangs, floods its output or changes its process cannot reach us or the next
reading. What goes wrong with the process itself (killed, no answer in time) is a HarnessError, and
the next reading starts a new worker.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final

import pytest_sremut
from pytest_sremut.errors import GuardRefusedError, HarnessError, UsageError
from pytest_sremut.oracles import framing, registry
from pytest_sremut.oracles.port import Reading
from pytest_sremut.oracles.request import ReadingRequest

__all__ = ["ENVIRONMENT", "Isolated"]

ENVIRONMENT: Final = (
    "HOME",
    "KUBECACHEDIR",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "NO_PROXY",
    "PATH",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TMPDIR",
    "TZ",
    "no_proxy",
)
"""Variables that an oracle's process gets; every other stays with us."""

_GRACE: Final = 10.0  # for the worker to end an oracle that overran its limit
_START: Final = 60.0  # for the imports, on a machine under load
_STOP: Final = 2.0


class Isolated:
    """See the module's docstring and `Instrument`.

    Args:
        modules: Foreign modules to import before the first fork (`registry.modules_of`).
        environment: Further variables for the oracle's process.
        python: The interpreter of the worker.
    """

    name = "isolated"

    def __init__(
        self,
        *,
        modules: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        python: str = sys.executable,
    ) -> None:
        self._modules = list(modules)
        self._environment = dict(environment or {})
        self._python = python
        self._worker: _Worker | None = None
        self._lock = threading.Lock()
        self._count = 0

    def start(self) -> None:
        """Start the worker; it imports while we go on."""
        with self._lock:
            self._running()

    def read(self, request: ReadingRequest) -> Reading:
        """See `Instrument`. One reading at a time; others wait."""
        for node in request.oracle.walk():
            registry.known(node.use)
        with self._lock:
            worker = self._running()
            self._count += 1
            try:
                answer = worker.ask(self._count, request)
            except BaseException:
                # Whatever stopped us, a Ctrl-C included: no oracle may go on by itself. The end of
                # its input makes the worker end the oracle with all its descendants.
                worker.stop()
                self._worker = None
                raise
        return _reading_of(answer)

    def close(self) -> None:
        """End the worker and whatever it runs."""
        with self._lock:
            if self._worker is not None:
                self._worker.stop()
                self._worker = None

    def _running(self) -> _Worker:
        if self._worker is None:
            environment = {k: v for k in ENVIRONMENT if (v := os.environ.get(k)) is not None}
            self._worker = _Worker(
                self._python, {**environment, **self._environment}, self._modules
            )
        return self._worker


class _Worker:
    """The process and its pipes."""

    def __init__(self, python: str, environment: dict[str, str], modules: list[str]) -> None:
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the worker
        self._reader = framing.FrameReader()
        self._ready = False
        root = str(Path(pytest_sremut.__file__).parent.parent)
        try:
            self._process = subprocess.Popen(
                [python, "-P", "-m", "pytest_sremut.oracles.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                env={**environment, "PYTHONPATH": root},
                start_new_session=True,  # a Ctrl-C is for us: we decide what it ends
            )
        except OSError as error:
            self._log.close()
            raise HarnessError(f"cannot start the oracle worker with {python}: {error}") from error
        path = [entry or str(Path.cwd()) for entry in sys.path]
        try:
            self._send({"type": "hello", "path": path, "modules": modules})
        except BaseException:
            self.kill()
            raise

    def ask(self, number: int, request: ReadingRequest) -> dict[str, Any]:
        """Send a request and wait for its result. Raises HarnessError."""
        if not self._ready:
            self._expect("ready", _START)
            self._ready = True
        self._send({"type": "read", "id": number, "request": request.to_json()})
        result = self._expect("result", request.timeout + _GRACE)
        if result.get("id") != number:
            raise HarnessError(f"the oracle worker answered {result.get('id')!r}, not {number}")
        return result

    def stop(self) -> None:
        """End it by ending its input; kill it where that does not help."""
        with contextlib.suppress(OSError):
            self._input.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_STOP)
        self.kill()

    def kill(self) -> None:
        """End it now; the oracle's own process dies with it."""
        self._process.kill()
        self._process.wait()
        for stream in (self._input, self._output, self._log):
            with contextlib.suppress(OSError):
                stream.close()

    @property
    def _input(self) -> IO[bytes]:
        assert self._process.stdin is not None
        return self._process.stdin

    @property
    def _output(self) -> IO[bytes]:
        assert self._process.stdout is not None
        return self._process.stdout

    def _send(self, message: dict[str, Any]) -> None:
        try:
            framing.send(self._input.fileno(), message)
        except OSError as error:
            raise HarnessError(f"the oracle worker is gone ({error}){self._end()}") from error

    def _expect(self, kind: str, timeout: float) -> dict[str, Any]:
        deadline = time.monotonic() + timeout
        output = self._output.fileno()
        poll = select.poll()
        poll.register(output, select.POLLIN)
        while (remaining := deadline - time.monotonic()) > 0:
            if not poll.poll(remaining * 1000):
                continue
            data = os.read(output, 1 << 16)
            if not data:
                raise HarnessError(f"the oracle worker died{self._end()}")
            for message in self._reader.feed(data):
                if message.get("type") != kind:
                    raise HarnessError(f"the oracle worker sent {message.get('type')!r}")
                return message
        raise HarnessError(f"the oracle worker said nothing for {timeout:g} s{self._end()}")

    def _end(self) -> str:
        """How it ended and what it said last, as the rest of a sentence."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(0.5)
        status = self._process.returncode
        how = "" if status is None else f" (status {status})"
        self._log.seek(0)
        said = self._log.read()[-2000:].decode("utf-8", "replace").strip()
        return f"{how}: {said}" if said else how


def _reading_of(answer: Mapping[str, Any]) -> Reading:
    if "reading" in answer:
        return Reading.from_json(answer["reading"])
    if "usage" in answer:
        raise UsageError(str(answer["usage"]))
    if "refused" in answer:
        raise GuardRefusedError(str(answer["refused"]))
    raise HarnessError(str(answer.get("harness", "the oracle worker sent an empty result")))
