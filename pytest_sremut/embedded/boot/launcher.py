"""Start a cluster, or find one again.

Rules:
- the API's socket is bound here, so a taken port is an error before anything is started, and the
  address is known before the daemon runs;
- whoever starts a cluster holds the other end of its control socket: its end, by ``close`` or by
  the death of this process in any way, is the end of every process of the cluster. A detached
  cluster has no such tie, only a state file;
- one cluster a directory: its processes hold a lock there;
- a failure is the step that failed, whichever process it failed in.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import secrets
import select
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pytest_sremut.embedded.boot import certificates, kubeconfig
from pytest_sremut.embedded.boot.cluster import (
    CLOSE_GRACE,
    KUBECONFIG_FILE,
    LOG_FILE,
    STATE_FILE,
    EmbeddedCluster,
    cluster_of,
    state_of,
)
from pytest_sremut.embedded.boot.config import DaemonConfig, Options
from pytest_sremut.embedded.failure import EmbeddedError
from pytest_sremut.embedded.kubelet.images import Image, ImageNameError, ImageRegistry
from pytest_sremut.embedded.linux.processes import ProcessIdentity
from pytest_sremut.embedded.meta.pace import PaceError, parse_pace
from pytest_sremut.embedded.proxy.addresses import API_ADDRESS, NODE_ADDRESS

__all__ = ["EmbeddedCluster", "attach", "up"]

LOCK_FILE = "lock"
# How pods and the machine reach the API.
API_ADDRESSES = ("127.0.0.1", API_ADDRESS, NODE_ADDRESS)
API_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
MAX_NODES = 100
_NAME = re.compile(r"\A[a-z0-9]([a-z0-9-]{0,40}[a-z0-9])?\Z")
_ENVIRONMENT = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH")


def up(
    *,
    directory: Path,
    name: str,
    images: Mapping[str, Image],
    options: Options | None = None,
    detach: bool = False,
    timeout: float = 60,
) -> EmbeddedCluster:
    """Start a cluster in `directory`; returns when its API answers and its nodes are Ready.

    It ends with this process unless `detach`. Raises EmbeddedError with the step that failed.
    """
    options = options or Options()
    directory = directory.absolute()
    _check(name, images, options)
    with _Lock(directory) as lock, _listen(options.port) as listener:
        server = f"https://127.0.0.1:{listener.getsockname()[1]}"
        token = secrets.token_urlsafe(32)
        identity = certificates.create(
            now=datetime.now(UTC), addresses=API_ADDRESSES, names=API_NAMES
        )
        kubeconfig.write(
            directory / KUBECONFIG_FILE, name=name, server=server, token=token, root=identity.root
        )
        (directory / STATE_FILE).unlink(missing_ok=True)
        start = _Start(directory, name=name, server=server, timeout=timeout)
        return start.run(
            images,
            options,
            detach=detach,
            listener=listener,
            lock=lock.handle,
            token=token,
            identity=identity,
        )


def attach(directory: Path) -> EmbeddedCluster:
    """The detached cluster that runs in `directory`; raises EmbeddedError where there is none."""
    directory = directory.absolute()
    path = directory / STATE_FILE
    try:
        cluster = cluster_of(directory, json.loads(path.read_text()))
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
    if not 1 <= options.nodes <= MAX_NODES:
        raise EmbeddedError(
            f"a cluster cannot have {options.nodes} nodes", advice=f"Allowed: 1 to {MAX_NODES}."
        )
    try:
        parse_pace(options.pace)
    except PaceError as error:
        raise EmbeddedError(f"a cluster cannot have that pace: {error}") from error
    try:
        ImageRegistry(images)
    except ImageNameError as error:
        raise EmbeddedError(f"an image has a name that cannot be parsed: {error}") from error


class _Lock:
    """The directory, made and locked; the cluster's processes keep the lock while they live."""

    def __init__(self, directory: Path) -> None:
        try:
            directory.mkdir(parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            self.handle = os.open(directory / LOCK_FILE, flags, 0o600)
        except OSError as error:
            raise EmbeddedError(
                f"make the cluster's directory {directory}",
                errno=error.errno,
                advice="It has to be a directory that can be written to.",
            ) from error
        try:
            fcntl.flock(self.handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self.handle)
            raise EmbeddedError(
                f"a cluster already runs in {directory}",
                advice="Stop it with `sremut cluster down`, or use another directory.",
            ) from error

    def __enter__(self) -> _Lock:
        return self

    def __exit__(self, *exc: object) -> None:
        os.close(self.handle)


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


class _Start:
    """One start of the cluster's processes."""

    def __init__(self, directory: Path, *, name: str, server: str, timeout: float) -> None:
        self._directory = directory
        self._name = name
        self._server = server
        self._timeout = timeout
        self._deadline = time.monotonic() + timeout
        self._said = bytearray()
        # Through this pipe the starting processes report, one JSON document a line.
        self._ready, self._ready_writer = os.pipe2(os.O_CLOEXEC)

    def run(
        self,
        images: Mapping[str, Image],
        options: Options,
        *,
        detach: bool,
        listener: socket.socket,
        lock: int,
        token: str,
        identity: certificates.ServerIdentity,
    ) -> EmbeddedCluster:
        ours, theirs = socket.socketpair()
        config = DaemonConfig(
            directory=str(self._directory),
            name=self._name,
            detach=detach,
            parent=os.getpid(),
            listener=listener.fileno(),
            control=theirs.fileno(),
            ready=self._ready_writer,
            lock=lock,
            options=options,
            token=token,
            identity=asdict(identity),
            images=images,
        )
        try:
            process = self._spawn(config, (listener.fileno(), theirs.fileno(), lock))
        except BaseException:
            ours.close()
            os.close(self._ready)
            raise
        finally:
            theirs.close()
        try:
            return self._follow(process, None if detach else ours)
        except BaseException:
            ours.close()  # the supervisor sees it, and ends what it has started
            _end(process)
            raise
        finally:
            os.close(self._ready)
            if detach:
                ours.close()

    def _spawn(self, config: DaemonConfig, inherited: tuple[int, ...]) -> subprocess.Popen[bytes]:
        reader, writer = os.pipe2(os.O_CLOEXEC)
        try:
            with (self._directory / LOG_FILE).open("wb") as log:
                process = subprocess.Popen(
                    [sys.executable, "-m", "pytest_sremut.embedded.boot.daemon", str(reader)],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=(*inherited, self._ready_writer, reader),
                    env=_environment(),
                    cwd="/",
                    start_new_session=True,  # Ctrl-C is for whoever started it
                )
        except OSError as error:
            os.close(writer)
            raise EmbeddedError("start the cluster's daemon", errno=error.errno) from error
        finally:
            os.close(reader)
            os.close(self._ready_writer)
        with suppress(BrokenPipeError), os.fdopen(writer, "w") as file:
            file.write(config.to_json())
        return process

    def _follow(
        self, process: subprocess.Popen[bytes], control: socket.socket | None
    ) -> EmbeddedCluster:
        """Read what the starting processes say until they are ready."""
        said = self._line()
        cluster = EmbeddedCluster(
            directory=self._directory,
            name=self._name,
            server=self._server,
            supervisor=ProcessIdentity.of(int(said["pid"])),
            init=ProcessIdentity.of(int(said["init"])),
            process=None if control is None else process,
            control=control,
        )
        try:
            self._line()
            if control is None:
                process.wait()  # the supervisor has left it behind
                _write_state(cluster)
        except BaseException:
            cluster.close()
            raise
        return cluster

    def _line(self) -> dict[str, Any]:
        """The next document; raises EmbeddedError for a reported failure, silence and an end."""
        while b"\n" not in self._said:
            left = self._deadline - time.monotonic()
            if left <= 0 or not select.select([self._ready], [], [], left)[0]:
                raise EmbeddedError(
                    f"the cluster was not ready within {self._timeout:g} s",
                    advice=_last_words(self._directory),
                )
            data = os.read(self._ready, 65536)
            if not data:
                raise EmbeddedError(
                    "the cluster's daemon ended while it started",
                    advice=_last_words(self._directory),
                )
            self._said += data
        line, _, rest = self._said.partition(b"\n")
        self._said = bytearray(rest)
        document: dict[str, Any] = json.loads(line)
        if "step" in document:
            raise EmbeddedError.from_json(document)
        return document


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(CLOSE_GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _last_words(directory: Path) -> str:
    log = directory / LOG_FILE
    try:
        lines = log.read_text(errors="replace").strip().splitlines()[-6:]
    except OSError:
        lines = []
    return f"See {log}" + ("; it ends with:\n  " + "\n  ".join(lines) if lines else ".")


def _environment() -> dict[str, str]:
    """The daemon's environment: what an interpreter needs to find the same modules, no more."""
    environment = {key: os.environ[key] for key in _ENVIRONMENT if key in os.environ}
    paths = (str(Path(path).absolute()) for path in sys.path if not path.endswith(".zip"))
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    environment["PYTHONUTF8"] = "1"
    return environment


def _write_state(cluster: EmbeddedCluster) -> None:
    path = cluster.directory / STATE_FILE
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(state_of(cluster), indent=1) + "\n")
    fresh.replace(path)
