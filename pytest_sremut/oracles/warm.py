"""A warm worker process and the two pipes to it. What it runs is its command line's affair.

It is asked one thing at a time in frames (`framing`). It ends with its input, and whatever it runs
with it; that it dies, says something else or nothing at all is a HarnessError with what it said
last. Each task has a nonce, which the worker gets only once the task's process has answered: a
result without it comes from somebody else.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final

from pytest_sremut.errors import HarnessError
from pytest_sremut.oracles import framing

__all__ = ["ENVIRONMENT", "WarmWorker", "WorkerLostError", "allowed_environment", "walls_for"]

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


class WorkerLostError(HarnessError):
    """The worker died, or something else spoke in its place, while a task's process was running."""


def walls_for(closed: Iterable[Path]) -> dict[str, list[str]]:
    """What a `hello` says of directories: closed ones that are there, and what stays open in them.

    Open stays the directory for temporary files, where it lies below a closed one.
    """
    paths = sorted({str(one.resolve()) for one in closed})
    temporary = Path(tempfile.gettempdir()).resolve()
    inside = any(temporary.is_relative_to(path) and str(temporary) != path for path in paths)
    return {"closed": paths, "opened": [str(temporary)] if inside else []}


def allowed_environment() -> dict[str, str]:
    """Those of our variables that an oracle's process gets."""
    return {name: value for name in ENVIRONMENT if (value := os.environ.get(name)) is not None}


class _SilentError(HarnessError):
    pass


class WarmWorker:
    """The process and its pipes: one `hello`, then one request at a time.

    Args:
        argv: Its command line.
        environment: All of its environment.
        hello: The first message; answered with `ready` before the first request is sent.
        directory: Where it runs; ours where left out.
        start: Seconds that its imports may take.
    """

    def __init__(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        hello: Mapping[str, Any],
        *,
        directory: Path | None = None,
        start: float = _START,
    ) -> None:
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the worker
        self._reader = framing.FrameReader()
        self._start = start
        self._ready: Mapping[str, Any] | None = None
        try:
            self._process = subprocess.Popen(
                list(argv),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                env=dict(environment),
                cwd=directory,
                start_new_session=True,  # a Ctrl-C is for us: we decide what it ends
            )
        except OSError as error:
            self._log.close()
            raise HarnessError(f"cannot start the oracle worker with {argv[0]}: {error}") from error
        try:
            self._send({"type": "hello", **hello})
        except BaseException:
            self.kill()
            raise

    def ready(self) -> Mapping[str, Any]:
        """Wait until it has imported everything; what it said then. Raises HarnessError."""
        if self._ready is None:
            self._ready = self._expect("ready", self._start)
        return self._ready

    def ask(self, number: int, message: Mapping[str, Any], *, timeout: float) -> dict[str, Any]:
        """Send a message of type `read` (or another) and wait for its result.

        `timeout` is the hard limit that the worker itself enforces.

        Raises:
            WorkerLostError: It died meanwhile, or what came is not its answer.
            HarnessError: It could not be asked, or said nothing.
        """
        self.ready()
        self._send({"id": number, **message})
        nonce = secrets.token_hex(16)
        try:
            self._next("ended", number, timeout + _GRACE)
            self._send({"type": "nonce", "id": number, "nonce": nonce})
            result = self._next("result", number, _GRACE)
        except _SilentError:
            raise
        except HarnessError as error:
            raise WorkerLostError(str(error)) from error
        if result.get("nonce") != nonce:
            raise WorkerLostError("a frame came that is not the oracle worker's")
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

    def _next(self, kind: str, number: int, timeout: float) -> dict[str, Any]:
        message = self._expect(kind, timeout)
        if message.get("id") != number:
            raise HarnessError(f"the oracle worker answered {message.get('id')!r}, not {number}")
        return message

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
            messages = list(self._reader.feed(data))
            if messages and (len(messages) > 1 or messages[0].get("type") != kind):
                sent = ", ".join(repr(message.get("type")) for message in messages)
                raise HarnessError(f"the oracle worker sent {sent}")
            if messages:
                return messages[0]
        raise _SilentError(f"the oracle worker said nothing for {timeout:g} s{self._end()}")

    def _end(self) -> str:
        """How it ended and what it said last, as the rest of a sentence."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(0.5)
        status = self._process.returncode
        how = "" if status is None else f" (status {status})"
        self._log.seek(0)
        said = self._log.read()[-2000:].decode("utf-8", "replace").strip()
        return f"{how}: {said}" if said else how
