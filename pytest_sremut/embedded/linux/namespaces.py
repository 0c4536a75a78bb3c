"""Namespaces of our own, with or without root: what is tried, in which order, and what failed.

Rules:
- the process that enters is single-threaded (the kernel insists for user namespaces);
- a level is tried in a throw-away child first, because a process that entered a user namespace
  in which it then may do nothing (AppArmor does that) cannot go back;
- two levels: ``userns`` (a user namespace of our own; what everyone may do on most machines) and
  ``root`` (no user namespace, needs CAP_SYS_ADMIN). Neither: EmbeddedError with the step and
  errno of the first, and where to look.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import socket
import struct
from pathlib import Path
from typing import Literal

from pytest_sremut.embedded.failure import EmbeddedError
from pytest_sremut.embedded.linux import syscalls

Level = Literal["userns", "root"]

_OTHERS = (
    syscalls.CLONE_NEWNET
    | syscalls.CLONE_NEWNS
    | syscalls.CLONE_NEWPID
    | syscalls.CLONE_NEWUTS
    | syscalls.CLONE_NEWIPC
)
_SIOCGIFFLAGS = 0x8913
_SIOCSIFFLAGS = 0x8914
_IFF_UP = 0x1
_CAP_SYS_ADMIN = 21


class StepError(Exception):
    """One step did not work; becomes an EmbeddedError where no other level helps."""

    def __init__(self, step: str, number: int) -> None:
        super().__init__(step, number)
        self.step = step
        self.errno = number


def enter(level: Level) -> None:
    """Put this process (and, for the pid namespace, its children) into new namespaces.

    Mounts are private and loopback is up afterwards. Raises StepError.
    """
    if level == "userns":
        uid, gid = os.geteuid(), os.getegid()
        _step("create a user namespace", lambda: syscalls.unshare(syscalls.CLONE_NEWUSER))
        _step("map the user id into the user namespace", lambda: _write_maps(uid, gid))
    _step("create network, mount, pid, UTS and IPC namespaces", lambda: syscalls.unshare(_OTHERS))
    _step(
        "make the mounts private",
        lambda: syscalls.mount("none", "/", flags=syscalls.MS_REC | syscalls.MS_PRIVATE),
    )
    _step("bring the loopback interface up", loopback_up)


def find_level() -> Level:
    """The first level that works here; raises EmbeddedError where none does."""
    failed = _try("userns")
    if failed is None:
        return "userns"
    if _may_administer() and _try("root") is None:
        return "root"
    raise EmbeddedError(failed.step, errno=failed.errno, advice=advice(failed.errno))


def advice(number: int) -> str:
    """What on this machine may forbid namespaces, as far as files can tell."""
    hints = []
    if _sysctl("user/max_user_namespaces") == "0" or number == errno.ENOSPC:
        hints.append(
            "The limit of user namespaces is reached: look at sysctl user.max_user_namespaces "
            f"(here {_sysctl('user/max_user_namespaces') or 'not readable'}) and at its sisters "
            "user.max_{net,mnt,pid,uts,ipc}_namespaces."
        )
    if _sysctl("kernel/unprivileged_userns_clone") == "0":
        hints.append("sysctl kernel.unprivileged_userns_clone is 0; it has to be 1.")
    if _sysctl("kernel/apparmor_restrict_unprivileged_userns") == "1":
        hints.append(
            "AppArmor forbids them (sysctl kernel.apparmor_restrict_unprivileged_userns is 1): "
            "set it to 0, or give the Python interpreter a profile with `userns,`."
        )
    if number != errno.ENOSPC and _in_container():
        hints.append(
            "This looks like a container whose seccomp filter forbids them: start it with "
            "--security-opt seccomp=unconfined (and apparmor=unconfined), or --privileged."
        )
    if not hints:
        hints.append(
            "Namespaces are forbidden to this user: run as root, or allow user namespaces."
        )
    return " ".join(hints)


def loopback_up() -> None:
    """Bring ``lo`` up; it then has 127.0.0.1. Raises OSError."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sh22x", b"lo", 0)
        answer = fcntl.ioctl(control, _SIOCGIFFLAGS, request)
        (flags,) = struct.unpack_from("h", answer, 16)
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", flags | _IFF_UP))


def _step(name: str, call: object) -> None:
    assert callable(call)
    try:
        call()
    except OSError as error:
        raise StepError(name, error.errno or 0) from error


def _write_maps(uid: int, gid: int) -> None:
    setgroups = Path("/proc/self/setgroups")
    if setgroups.exists():
        setgroups.write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {uid} 1\n")
    Path("/proc/self/gid_map").write_text(f"0 {gid} 1\n")


def _try(level: Level) -> StepError | None:
    """Enter in a child that is then gone; None where every step works."""
    reader, writer = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reader)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            enter(level)
            code = 0
        except StepError as failed:
            os.write(writer, f"{failed.errno} {failed.step}".encode())
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    if status == 0:
        return None
    number, _, step = said.partition(" ")
    if not step:
        return StepError("enter namespaces (the probe ended without a word)", 0)
    return StepError(step, int(number))


def _may_administer() -> bool:
    """Whether this process has CAP_SYS_ADMIN."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) >> _CAP_SYS_ADMIN & 1)
    return False


def _sysctl(name: str) -> str | None:
    try:
        return (Path("/proc/sys") / name).read_text().strip()
    except OSError:
        return None


def _in_container() -> bool:
    if Path("/.dockerenv").exists() or Path("/run/.containerenv").exists():
        return True
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return False
    return "\nSeccomp:\t2" in status
