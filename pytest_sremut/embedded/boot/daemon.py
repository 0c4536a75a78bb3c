"""The processes of a cluster, ``python -m pytest_sremut.embedded.boot.daemon FD``.

Rules:
- the *supervisor* lives in the machine's pid namespace and does nothing but wait: for the end of
  its parent, of its control socket, for a signal; then it ends *init*, which is the end of every
  process of the cluster, and it outlives them all;
- *init* is process 1 of the cluster's pid namespace: it reaps, and ends when the daemon ends;
- the *daemon* makes the file systems safe, forks the zygote while it is still single-threaded,
  and then serves everything from one asyncio loop (`serving`);
- whatever fails before that is one line to the launcher: the step, the errno, the advice.
"""

from __future__ import annotations

import faulthandler
import json
import os
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from pytest_sremut.embedded.boot.bytecode import folders_of, keep_bytecode
from pytest_sremut.embedded.boot.config import DaemonConfig
from pytest_sremut.embedded.failure import EmbeddedError
from pytest_sremut.embedded.kubelet import rootfs, zygote
from pytest_sremut.embedded.linux import namespaces, syscalls

GRACE = 2.0  # seconds that the daemon has to end by itself


def main(argv: list[str]) -> int:
    with os.fdopen(int(argv[1]), "r") as file:
        config = DaemonConfig.from_json(file.read())
    for descriptor in (config.listener, config.control, config.ready, config.lock):
        os.set_inheritable(descriptor, False)
    faulthandler.enable()
    try:
        parent = None if config.detach else _watch_process(config.parent)
        if config.detach:
            if os.fork() != 0:
                return 0  # the launcher does not have to wait for the supervisor
            os.close(config.control)
        level = namespaces.find_level()
        _enter(level)
        alive_reader, alive_writer = os.pipe2(os.O_CLOEXEC)
        init = os.fork()
        if init == 0:
            os.close(alive_writer)
            _end_after(lambda: _be_init(config, level, alive_reader))
        os.close(alive_reader)
        _tell(config.ready, {"pid": os.getpid(), "init": init})
        os.close(config.ready)
        os.close(config.listener)
        return _supervise(init, parent, None if config.detach else config.control)
    except EmbeddedError as error:
        _tell(config.ready, json.loads(error.to_json()))
        return 1


def _enter(level: namespaces.Level) -> None:
    try:
        namespaces.enter(level)
    except namespaces.StepError as failed:
        raise EmbeddedError(
            failed.step, errno=failed.errno, advice=namespaces.advice(failed.errno)
        ) from failed


def _tell(ready: int, document: dict[str, object]) -> None:
    with suppress(BrokenPipeError):
        os.write(ready, json.dumps(document).encode() + b"\n")


def _end_after(work: Callable[[], int]) -> NoReturn:
    """Be a forked process: run, and never return into the code of the parent."""
    code = 1
    try:
        code = work()
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(OSError, ValueError):
            sys.stderr.flush()
        os._exit(code)


# Supervisor


def _watch_process(pid: int) -> int | None:
    """A descriptor that becomes readable when a process ends; None on kernels without pidfds."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def _supervise(init: int, parent: int | None, control: int | None) -> int:
    """Wait for a reason to end the cluster, end it, and answer its exit code."""
    syscalls.set_process_name("sremut-cluster")
    reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    poll = select.poll()
    for descriptor in (reader, parent, control):
        if descriptor is not None:
            poll.register(descriptor, select.POLLIN)
    while True:
        done, status = os.waitpid(init, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) & 0xFF
        ready = {descriptor for descriptor, _ in poll.poll()}
        stop = bool(ready - {reader})
        if reader in ready:
            with suppress(BlockingIOError):
                stop = stop or any(n != signal.SIGCHLD for n in os.read(reader, 256))
        if stop:
            return _end_init(init, reader)


def _end_init(init: int, wakeup: int) -> int:
    """TERM, and KILL after the grace; returns when no process of the cluster is left."""
    os.kill(init, signal.SIGTERM)
    deadline = time.monotonic() + GRACE
    poll = select.poll()
    poll.register(wakeup, select.POLLIN)
    while not os.waitpid(init, os.WNOHANG)[0]:
        left = deadline - time.monotonic()
        if left <= 0:
            os.kill(init, signal.SIGKILL)
            os.waitpid(init, 0)
            break
        if poll.poll(left * 1000):
            with suppress(BlockingIOError):
                os.read(wakeup, 256)
    return 0


# Init


def _be_init(config: DaemonConfig, level: namespaces.Level, alive: int) -> int:
    """Process 1: start the daemon, reap, end with it.

    alive: a pipe that the supervisor holds open, to see whether it died before we asked to be told.
    """
    syscalls.die_with_parent(signal.SIGKILL)
    if select.select([alive], [], [], 0)[0]:
        return 1
    os.close(alive)
    syscalls.set_process_name("sremut-init")
    daemon = os.fork()
    if daemon == 0:
        _end_after(lambda: _be_daemon(config, level))
    for descriptor in (config.listener, config.ready):
        os.close(descriptor)
    with suppress(OSError):
        os.close(config.control)

    def forward(number: int, _frame: object) -> None:
        with suppress(ProcessLookupError):
            os.kill(daemon, number)

    signal.signal(signal.SIGTERM, forward)
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == daemon:
            return os.waitstatus_to_exitcode(status) & 0xFF


# Daemon


def _be_daemon(config: DaemonConfig, level: namespaces.Level) -> int:
    with suppress(OSError):
        os.close(config.control)
    modules = sorted({i.module for i in config.images.values() if i.kind == "python"})
    keep_bytecode(folders_of(modules))
    try:
        missing = rootfs.protect(Path(config.directory))
    except OSError as error:
        failure = EmbeddedError(
            f"prepare the cluster's file systems ({error})",
            errno=error.errno,
            advice=namespaces.advice(error.errno or 0),
        )
        _tell(config.ready, json.loads(failure.to_json()))
        return 1
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        ours.close()
        zygote.run(theirs, modules, rootfs.needed_paths())
    theirs.close()
    # From here on the heavy modules: the zygote imports its own at the same time.
    from pytest_sremut.embedded.boot import server

    return server.run(
        config, ours, level=level, missing=missing, ready=lambda doc: _tell(config.ready, doc)
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv))
