"""The warm interpreter: every process of a pod is forked from it.

Rules:
- single-threaded, no asyncio: it waits for requests, forks, reaps, reports;
- a request is a JSON document in an anonymous file, sent with the descriptors that the process
  gets; nothing else of the cluster is open in that process;
- a container is PID 1 of a pid namespace of its own (so its end is the end of all it started,
  and a signal it does not handle is not delivered, as in any container), with its own mount, UTS
  and IPC namespace; an exec enters the namespaces of a container's process;
- a process of a pod has the capabilities of an ordinary container's root, no more: it can neither
  undo the read-only mounts nor change the cluster's network;
- a failure before the program runs is reported through the request's own pipe, never as an exit
  code of the program.
"""

from __future__ import annotations

import array
import errno
import fcntl
import gc
import importlib
import json
import os
import select
import shutil
import signal
import socket
import sys
import termios
import threading
import traceback
from collections.abc import Iterable, Mapping
from contextlib import suppress
from types import CodeType
from typing import Any, NoReturn

from pytest_sremut.embedded.kubelet import rootfs
from pytest_sremut.embedded.kubelet.warm import (
    applet_at,
    compile_applets,
    exit_code,
    leave,
    line_buffered,
    run_applet,
)
from pytest_sremut.embedded.linux import syscalls

_POD_NAMESPACES = syscalls.CLONE_NEWNS | syscalls.CLONE_NEWUTS | syscalls.CLONE_NEWIPC
_MAX_MESSAGE = 65536
_MAX_DESCRIPTORS = 4
# Descriptors come in this order; the last one is the report pipe.
_STDIN, _STDOUT, _STDERR, _REPORT = range(_MAX_DESCRIPTORS)


class Zygote:
    """The serving side; `serve` returns when the other side is gone."""

    def __init__(self, control: socket.socket, needed: Iterable[str]) -> None:
        self._control = control
        self._needed = list(needed)
        self._applets = compile_applets()
        self._children: set[int] = set()
        self._own_pid_namespace = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        self._wake_reader, self._wake_writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def serve(self) -> None:
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake_writer, warn_on_full_buffer=False)
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(self._wake_reader, select.POLLIN)
        while True:
            for descriptor, _ in poll.poll():
                if descriptor == self._wake_reader:
                    with suppress(BlockingIOError):
                        os.read(self._wake_reader, 4096)
                    self._reap()
                elif not self._receive():
                    return

    def _receive(self) -> bool:
        message, descriptors = receive(self._control)
        if message is None:
            return False
        try:
            if message["op"] == "signal":
                self._signal(message)
            else:
                self._start(message, descriptors)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        return True

    def _signal(self, message: Mapping[str, Any]) -> None:
        pid = message["pid"]
        if pid not in self._children:
            return
        with suppress(ProcessLookupError):
            if message["group"]:
                os.killpg(pid, message["signal"])
            else:
                os.kill(pid, message["signal"])

    def _start(self, message: Mapping[str, Any], descriptors: list[int]) -> None:
        body = descriptors.pop(0)
        with os.fdopen(body, "rb") as file:
            request = json.load(file)
        try:
            pid = self._fork(request, descriptors)
        except OSError as error:
            send(self._control, {"id": message["id"], "error": f"fork: {error}"})
            return
        self._children.add(pid)
        send(self._control, {"id": message["id"], "pid": pid})

    def _fork(self, request: Mapping[str, Any], descriptors: list[int]) -> int:
        """Fork into the pid namespace that the request is about; answers the child's pid here."""
        target = request.get("target")
        handles = _Handles(target) if target is not None else None
        try:
            if handles is None:
                syscalls.unshare(syscalls.CLONE_NEWPID)
            else:
                handles.enter_pid()
            try:
                pid = os.fork()
                if pid == 0:
                    self._become(request, descriptors, handles)
            finally:
                syscalls.setns(self._own_pid_namespace, syscalls.CLONE_NEWPID)
        finally:
            if handles is not None:
                handles.close()
        return pid

    def _become(
        self, request: Mapping[str, Any], descriptors: list[int], handles: _Handles | None
    ) -> NoReturn:
        """Be the process that was asked for; in the forked child, never returns."""
        report = descriptors[_REPORT]
        try:
            signal.set_wakeup_fd(-1)
            for caught in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGTERM, signal.SIGINT):
                signal.signal(caught, signal.SIG_DFL)
            os.setsid()
            self._control.close()
            for descriptor in (self._wake_reader, self._wake_writer, self._own_pid_namespace):
                os.close(descriptor)
            if handles is None:
                self._enter_container(request)
            else:
                handles.enter_rest()
                handles.close()
            for number in (_STDIN, _STDOUT, _STDERR):
                os.dup2(descriptors[number], number)
            for number in descriptors[:_REPORT]:
                os.close(number)
            if request.get("tty"):
                fcntl.ioctl(_STDIN, termios.TIOCSCTTY, 0)
            rootfs.change_directory(request["cwd"])
            syscalls.keep_capabilities(syscalls.CONTAINER_CAPABILITIES)
        except OSError as error:
            _fail(report, str(error))
        if request["kind"] == "python":
            _call(request, report)
        _execute(request, report, self._applets)

    def _enter_container(self, request: Mapping[str, Any]) -> None:
        syscalls.unshare(_POD_NAMESPACES)
        syscalls.sethostname(request["hostname"])
        rootfs.enter_root(rootfs.RootSpec.from_json(request["root"]), self._needed)
        os.umask(0o022)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._children.discard(pid)
            send(self._control, {"exit": pid, "status": os.waitstatus_to_exitcode(status)})


def run(control: socket.socket, modules: Iterable[str], needed: Iterable[str]) -> NoReturn:
    """Be the zygote in this (just forked) process."""
    code = 1
    try:
        _close_all_but(control.fileno())
        syscalls.set_process_name("sremut-zygote")
        failed = _import_all(modules)
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        zygote = Zygote(control, needed)
        gc.collect()
        gc.freeze()
        send(control, {"imported": sorted(modules), "failed": failed})
        zygote.serve()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def send(
    control: socket.socket, message: Mapping[str, Any], descriptors: Iterable[int] = ()
) -> None:
    """Send one message; blocks while the other side is busy."""
    ancillary = []
    numbers = list(descriptors)
    if numbers:
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", numbers))]
    control.sendmsg([json.dumps(message).encode()], ancillary)


def receive(control: socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
    """Receive one message and its descriptors; None when the other side is gone."""
    size = socket.CMSG_SPACE((_MAX_DESCRIPTORS + 1) * array.array("i").itemsize)
    try:
        data, ancillary, _, _ = control.recvmsg(_MAX_MESSAGE, size, socket.MSG_CMSG_CLOEXEC)
    except ConnectionResetError:
        return None, []
    descriptors = array.array("i")
    for level, kind, payload in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            descriptors.frombytes(payload[: len(payload) - len(payload) % descriptors.itemsize])
    if not data:
        return None, list(descriptors)
    return json.loads(data), list(descriptors)


def pause(argv: list[str]) -> int:
    """What a ``pause`` image does: sleep until asked to stop."""
    del argv
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    return 0


def _import_all(modules: Iterable[str]) -> dict[str, str]:
    failed = {}
    for name in modules:
        try:
            importlib.import_module(name)
        except Exception as error:
            failed[name] = f"{type(error).__name__}: {error}"
    return failed


class _Handles:
    """The namespaces of a running container: by pidfd, or by files in /proc on older kernels."""

    def __init__(self, pid: int) -> None:
        """Raises OSError where the process is gone."""
        self._open: list[int] = []
        self._pid_namespace: tuple[int, int]
        self._rest: list[tuple[int, int]]
        if _PIDFD_NAMESPACES:
            handle = self._keep(os.pidfd_open(pid))
            self._pid_namespace = (handle, syscalls.CLONE_NEWPID)
            self._rest = [(handle, _POD_NAMESPACES)]
        else:
            self._pid_namespace = (self._file(pid, "pid"), syscalls.CLONE_NEWPID)
            self._rest = [
                (self._file(pid, "uts"), syscalls.CLONE_NEWUTS),
                (self._file(pid, "ipc"), syscalls.CLONE_NEWIPC),
                (self._file(pid, "mnt"), syscalls.CLONE_NEWNS),
            ]

    def enter_pid(self) -> None:
        syscalls.setns(*self._pid_namespace)

    def enter_rest(self) -> None:
        for handle, flags in self._rest:
            syscalls.setns(handle, flags)

    def close(self) -> None:
        while self._open:
            os.close(self._open.pop())

    def _keep(self, descriptor: int) -> int:
        self._open.append(descriptor)
        return descriptor

    def _file(self, pid: int, name: str) -> int:
        return self._keep(os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC))


# setns() takes a pidfd since Linux 5.8.
_PIDFD_NAMESPACES = hasattr(os, "pidfd_open") and tuple(
    int(part) for part in os.uname().release.split("-")[0].split(".")[:2]
) >= (5, 8)


def _close_all_but(descriptor: int) -> None:
    highest = os.sysconf("SC_OPEN_MAX")
    os.closerange(3, descriptor)
    os.closerange(descriptor + 1, highest)


def _fail(report: int, message: str) -> NoReturn:
    """Say through the report pipe why there is no program, and end."""
    with suppress(OSError):
        os.write(report, message.encode()[:4096])
    os._exit(_START_FAILED)


_START_FAILED = 128


def _execute(request: Mapping[str, Any], report: int, applets: Mapping[str, CodeType]) -> NoReturn:
    argv, env = request["argv"], request["env"]
    program = argv[0]
    path = program
    if "/" not in program:
        path = shutil.which(program, path=env.get("PATH", "")) or ""
        if not path:
            _fail(report, f'exec: "{program}": executable file not found in $PATH')
    if applet := applet_at(path, applets):
        run_applet(applet, path, argv[1:], env, lambda: os.close(report))
    try:
        os.execve(path, argv, env)  # noqa: S606 - an argv list, no shell
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        call = "stat " if error.errno == errno.ENOENT else ""
        _fail(report, f'exec: "{program}": {call}{path}: {reason}')
    except ValueError as error:  # a NUL byte in an argument or in the environment
        _fail(report, f'exec: "{program}": {error}')


def _call(request: Mapping[str, Any], report: int) -> NoReturn:
    """Run the function of a ``python`` image; its end is the container's end."""
    code = 1
    try:
        os.environ.clear()
        os.environ.update(request["env"])
        argv = list(request["argv"])
        sys.argv = [request["module"], *argv]
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stdout = line_buffered(1)
        sys.stderr = line_buffered(2)
        os.close(report)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        function = getattr(importlib.import_module(request["module"]), request["function"])
        code = exit_code(function(argv))
        for thread in threading.enumerate():
            if thread is not threading.main_thread() and not thread.daemon:
                thread.join()
    except SystemExit as end:
        code = exit_code(end.code)
    except BaseException:
        traceback.print_exc()
    finally:
        leave(code)
