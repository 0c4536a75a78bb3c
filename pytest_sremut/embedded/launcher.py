"""Start a cluster, find one again, stop it: the outside of the embedded cluster.

Rules:
- the API's socket is bound here, so a taken port is an error before anything is started, and the
  address is known before the daemon runs;
- whoever starts a cluster holds the other end of its control socket: its end, by ``close`` or by
  the death of this process in any way, is the end of every process of the cluster. A detached
  cluster has no such tie, only a state file;
- a process is known by pid *and* start time, so a reused pid is never taken for a cluster;
- ``close`` returns when no process of the cluster is left.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from . import kubeconfig
from .config import DaemonConfig, Options
from .failure import EmbeddedError
from .images import Image, ImageRegistry, InvalidImageName

STATE_FILE = "state.json"
LOG_FILE = "daemon.log"
LOCK_FILE = "lock"
KUBECONFIG_FILE = "kubeconfig"
CLOSE_GRACE = 3.0  # seconds from the polite request to the kill
_NAME = re.compile(r"\A[a-z0-9]([a-z0-9-]{0,40}[a-z0-9])?\Z")


class EmbeddedCluster:
    """A running cluster.

    Attributes:
        directory: its directory: kubeconfig, daemon log, state.
        name, context: its name, and the kubeconfig's context, ``sremut-NAME``.
        kubeconfig: path of the kubeconfig, mode 0600.
        server: ``http://127.0.0.1:PORT``.
        pid: the outermost process of the cluster.
    """

    def __init__(
        self,
        *,
        directory: Path,
        name: str,
        server: str,
        pid: int,
        started: str,
        init: int,
        init_started: str,
        process: subprocess.Popen[bytes] | None = None,
        control: socket.socket | None = None,
    ) -> None:
        self.directory = directory
        self.name = name
        self.context = f"sremut-{name}"
        self.kubeconfig = directory / KUBECONFIG_FILE
        self.server = server
        self.pid = pid
        self._started = started
        self._init = init
        self._init_started = init_started
        self._process = process
        self._control = control
        self._closed = False

    def __enter__(self) -> EmbeddedCluster:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def status(self) -> dict[str, Any]:
        """What the daemon says of itself; raises EmbeddedError when it does not answer."""
        return self._get("/sremut/v1/status", timeout=10)

    def selftest(self, timeout: float = 60) -> Any:
        """Wait until the daemon's self-test has finished; answers its SelfTestReport.

        Raises EmbeddedError when it does not finish in `timeout` seconds.
        """
        from .selftest import ProbeResult, SelfTestReport

        document = self._get(f"/sremut/v1/selftest?timeout={timeout:g}", timeout=timeout + 5)
        probes = tuple(
            ProbeResult(**{key: value for key, value in probe.items() if key != "ok"})
            for probe in document["probes"]
        )
        return SelfTestReport(
            probes=probes, elapsed=document["elapsed"], routing=document["routing"]
        )

    def facts(self) -> dict[str, Any]:
        """What the cluster is made of on this machine: JSON-ready, without any secret."""
        facts: dict[str, Any] = self.status()["facts"]
        return facts

    def alive(self) -> bool:
        """Whether the cluster's outermost process is there."""
        if self._process is not None:
            return self._process.poll() is None
        return _start_time(self.pid) == self._started

    def close(self) -> None:
        """Stop the cluster; returns when no process of it is left. May be called again."""
        if self._closed:
            return
        self._closed = True
        if self._control is not None:
            self._control.close()
        if self.alive():
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)
        if not self._gone_within(CLOSE_GRACE):
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            self._gone_within(CLOSE_GRACE)
        # The end of init is the end of every process in its pid namespace.
        if not _wait_gone(self._init, self._init_started, CLOSE_GRACE):
            raise EmbeddedError(
                f"processes of the cluster {self.name} are still there (init is {self._init})"
            )
        (self.directory / STATE_FILE).unlink(missing_ok=True)

    def _gone_within(self, seconds: float) -> bool:
        if self._process is not None:
            try:
                self._process.wait(seconds)
            except subprocess.TimeoutExpired:
                return False
            return True
        return _wait_gone(self.pid, self._started, seconds)

    def _get(self, path: str, *, timeout: float) -> dict[str, Any]:
        # No proxy: the address is our own loopback, whatever the environment says.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(self.server + path, timeout=timeout) as answer:
                document: dict[str, Any] = json.load(answer)
        except (urllib.error.URLError, OSError, ValueError) as error:
            advice = "See " + str(self.directory / LOG_FILE)
            if not self.alive():
                advice = "Its process is gone. " + advice
            raise EmbeddedError(
                f"the cluster {self.name} does not answer {path} ({error})", advice=advice
            ) from error
        return document


def up(
    *,
    directory: Path,
    name: str,
    images: Mapping[str, Image],
    options: Options | None = None,
    detach: bool = False,
    timeout: float = 20,
) -> EmbeddedCluster:
    """Start a cluster in `directory`; returns when its API answers and its nodes are Ready.

    It ends with this process unless `detach`. Raises EmbeddedError with the step that failed.
    """
    options = options or Options()
    directory = directory.absolute()
    _check(name, images, options)
    lock = _prepare(directory)
    listener: socket.socket | None = None
    try:
        listener = _listen(options.port)
        return _start(directory, name, images, options, detach, timeout, listener, lock)
    finally:
        if listener is not None:
            listener.close()
        os.close(lock)


def attach(directory: Path) -> EmbeddedCluster:
    """The detached cluster that runs in `directory`; raises EmbeddedError where there is none."""
    directory = directory.absolute()
    path = directory / STATE_FILE
    try:
        state = json.loads(path.read_text())
        cluster = EmbeddedCluster(
            directory=directory,
            name=str(state["name"]),
            server=str(state["server"]),
            pid=int(state["pid"]),
            started=str(state["started"]),
            init=int(state["init"]),
            init_started=str(state["init_started"]),
        )
    except FileNotFoundError:
        raise EmbeddedError(
            f"no cluster runs in {directory}", advice="Start one with `sremut cluster up`."
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EmbeddedError(
            f"{path} is not the state file of a cluster ({error})",
            advice="Remove it if no cluster runs there.",
        ) from error
    if not cluster.alive():
        raise EmbeddedError(
            f"the cluster in {directory} is gone: its process {cluster.pid} has ended",
            advice=f"See {directory / LOG_FILE}; start another one with `sremut cluster up`.",
        )
    return cluster


def _check(name: str, images: Mapping[str, Image], options: Options) -> None:
    if not _NAME.match(name):
        raise EmbeddedError(
            f"a cluster cannot be named {name!r}",
            advice="Allowed: up to 42 lower-case letters, digits and '-', not at an end.",
        )
    if not 1 <= options.nodes <= 100:
        raise EmbeddedError(f"a cluster cannot have {options.nodes} nodes", advice="1 to 100.")
    try:
        ImageRegistry(images)
    except InvalidImageName as error:
        raise EmbeddedError(f"an image has a name that cannot be parsed: {error}") from error


def _prepare(directory: Path) -> int:
    """Make and lock the directory; answers the lock, which every process of the cluster holds."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = os.open(directory / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise EmbeddedError(
            f"make the cluster's directory {directory}",
            errno=error.errno,
            advice="It has to be a directory that can be written to.",
        ) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise EmbeddedError(
            f"a cluster already runs in {directory}",
            advice="Stop it with `sremut cluster down`, or use another directory.",
        ) from error
    return lock


def _listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(1024)
    except (OSError, OverflowError) as error:
        listener.close()
        number = error.errno if isinstance(error, OSError) else None
        step = f"listen on 127.0.0.1:{port}"
        if number == errno.EADDRINUSE:
            step = f"port in use: 127.0.0.1:{port}"
        raise EmbeddedError(
            step, errno=number, advice="Take another port, or 0 for a free one."
        ) from error
    return listener


def _start(
    directory: Path,
    name: str,
    images: Mapping[str, Image],
    options: Options,
    detach: bool,
    timeout: float,
    listener: socket.socket,
    lock: int,
) -> EmbeddedCluster:
    deadline = time.monotonic() + timeout
    ours, theirs = socket.socketpair()
    ready_reader, ready_writer = os.pipe2(os.O_CLOEXEC)
    config_reader, config_writer = os.pipe2(os.O_CLOEXEC)
    config = DaemonConfig(
        directory=str(directory),
        name=name,
        detach=detach,
        parent=os.getpid(),
        listener=listener.fileno(),
        control=theirs.fileno(),
        ready=ready_writer,
        lock=lock,
        options=options,
        images=images,
    )
    server = f"http://127.0.0.1:{listener.getsockname()[1]}"
    kubeconfig.write(directory / KUBECONFIG_FILE, name=name, server=server)
    try:
        with (directory / LOG_FILE).open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "pytest_sremut.embedded.daemon", str(config_reader)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(
                    listener.fileno(),
                    theirs.fileno(),
                    ready_writer,
                    config_reader,
                    lock,
                ),
                env=_environment(),
                cwd="/",
                start_new_session=True,
            )
    finally:
        theirs.close()
        os.close(ready_writer)
        os.close(config_reader)
    with os.fdopen(config_writer, "w") as file, suppress(BrokenPipeError):
        file.write(config.to_json())
    ready = _Ready(ready_reader, deadline, timeout, directory)
    try:
        return _follow_start(ready, directory, name, server, process, None if detach else ours)
    except BaseException:
        ours.close()  # the supervisor sees it and ends what it has started
        _end(process)
        raise
    finally:
        ready.close()
        if detach:
            ours.close()


def _follow_start(
    ready: _Ready,
    directory: Path,
    name: str,
    server: str,
    process: subprocess.Popen[bytes],
    control: socket.socket | None,
) -> EmbeddedCluster:
    """Read what the starting processes say until they are ready."""
    said = ready.line()
    pid, init = int(said["pid"]), int(said["init"])
    cluster = EmbeddedCluster(
        directory=directory,
        name=name,
        server=server,
        pid=pid,
        started=_start_time(pid) or "",
        init=init,
        init_started=_start_time(init) or "",
        process=process if control is not None else None,
        control=control,
    )
    try:
        ready.line()
        if control is None:
            process.wait()
            _write_state(cluster)
    except BaseException:
        cluster.close()
        raise
    return cluster


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(CLOSE_GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class _Ready:
    """The pipe through which the starting processes report, one JSON document a line."""

    def __init__(self, reader: int, deadline: float, timeout: float, directory: Path) -> None:
        self._reader = reader
        self._deadline = deadline
        self._timeout = timeout
        self._directory = directory
        self._text = bytearray()

    def line(self) -> dict[str, Any]:
        """The next document; raises EmbeddedError for a reported failure, silence and an end."""
        while b"\n" not in self._text:
            left = self._deadline - time.monotonic()
            if left <= 0 or not select.select([self._reader], [], [], left)[0]:
                raise EmbeddedError(
                    f"the cluster was not ready within {self._timeout:g} s",
                    advice=f"See {self._directory / LOG_FILE}.",
                )
            data = os.read(self._reader, 65536)
            if not data:
                raise EmbeddedError(
                    "the cluster's daemon ended while it started",
                    advice=_last_words(self._directory),
                )
            self._text += data
        line, _, rest = self._text.partition(b"\n")
        self._text = bytearray(rest)
        document: dict[str, Any] = json.loads(line)
        if "step" in document:
            raise EmbeddedError.from_json(document)
        return document

    def close(self) -> None:
        os.close(self._reader)


def _last_words(directory: Path) -> str:
    log = directory / LOG_FILE
    try:
        lines = log.read_text(errors="replace").strip().splitlines()[-6:]
    except OSError:
        lines = []
    return f"See {log}" + ("; it ends with:\n  " + "\n  ".join(lines) if lines else ".")


def _environment() -> dict[str, str]:
    """The daemon's environment: what an interpreter needs to find the same modules, no more."""
    keep = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH", "COVERAGE_PROCESS_START")
    environment = {key: os.environ[key] for key in keep if key in os.environ}
    paths = [str(Path(path).absolute()) for path in sys.path if path or path == ""]
    environment["PYTHONPATH"] = os.pathsep.join(p for p in paths if not p.endswith(".zip"))
    environment["PYTHONUTF8"] = "1"
    return environment


def _write_state(cluster: EmbeddedCluster) -> None:
    state = {
        "schema": "sremut/embedded/v1",
        "name": cluster.name,
        "server": cluster.server,
        "pid": cluster.pid,
        "started": cluster._started,
        "init": cluster._init,
        "init_started": cluster._init_started,
    }
    path = cluster.directory / STATE_FILE
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(state, indent=1) + "\n")
    fresh.replace(path)


def _start_time(pid: int) -> str | None:
    """When a process began, in the kernel's ticks; None where there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] == "Z" else fields[19]


def _wait_gone(pid: int, started: str, seconds: float) -> bool:
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        if _start_time(pid) != started:
            return True
        return bool(select.select([handle], [], [], seconds)[0])
    finally:
        os.close(handle)
