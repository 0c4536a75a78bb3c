"""System calls that the standard library of Python 3.11 does not have, through ctypes.

Rules: every call is one function, keeps the kernel's argument order, and raises OSError with the
errno; nothing here decides anything.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Collection

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 1 << 18
MNT_DETACH = 0x2

PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15
PR_CAPBSET_DROP = 24

# What a container runtime leaves to the root of an ordinary container: chown, dac_override, fowner,
# fsetid, kill, setgid, setuid, setpcap, net_bind_service, net_raw, sys_chroot, mknod, audit_write,
# setfcap.
CONTAINER_CAPABILITIES = (0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31)
_CAPABILITY_VERSION = 0x20080522

_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000
_MOUNT_ATTR_RDONLY = 0x1
# The numbers of calls younger than 2019 are the same on every architecture but alpha.
_SYS_MOUNT_SETATTR = 442

_libc = ctypes.CDLL(None, use_errno=True)


class _MountAttr(ctypes.Structure):
    _fields_ = (
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def unshare(flags: int) -> None:
    _checked(_libc.unshare(flags), "unshare")


def setns(fd: int, flags: int) -> None:
    """Enter namespaces of the process behind a pidfd, or the one behind a namespace fd."""
    _checked(_libc.setns(fd, flags), "setns")


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    result = _libc.mount(
        os.fsencode(source) or b"none",
        os.fsencode(target),
        kind.encode() or None,
        ctypes.c_ulong(flags),
        data.encode() or None,
    )
    _checked(result, f"mount {target}")


def umount(target: str, flags: int = 0) -> None:
    _checked(_libc.umount2(os.fsencode(target), flags), f"umount {target}")


def set_read_only(target: str, read_only: bool) -> None:
    """Make a mount and all below it read-only, or writable again (Linux 5.12 and later)."""
    attr = _MountAttr(attr_set=_MOUNT_ATTR_RDONLY) if read_only else _MountAttr()
    if not read_only:
        attr.attr_clr = _MOUNT_ATTR_RDONLY
    result = _libc.syscall(
        _SYS_MOUNT_SETATTR,
        _AT_FDCWD,
        os.fsencode(target),
        _AT_RECURSIVE,
        ctypes.byref(attr),
        ctypes.sizeof(attr),
    )
    _checked(result, f"mount_setattr {target}")


def pivot_root(new_root: str, put_old: str) -> None:
    _checked(_libc.pivot_root(os.fsencode(new_root), os.fsencode(put_old)), "pivot_root")


def sethostname(name: str) -> None:
    encoded = name.encode()
    _checked(_libc.sethostname(encoded, ctypes.c_size_t(len(encoded))), "sethostname")


def die_with_parent(signal_number: int) -> None:
    """Ask for a signal when the thread that started this process ends."""
    _checked(_libc.prctl(PR_SET_PDEATHSIG, signal_number, 0, 0, 0), "prctl(PR_SET_PDEATHSIG)")


def keep_capabilities(kept: Collection[int]) -> None:
    """Give up every other capability, for this process and for all that it becomes."""
    for number in range(64):
        if number not in kept and _libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0) < 0:
            if ctypes.get_errno() == errno.EINVAL:  # past the last one of this kernel
                break
            _checked(-1, "prctl(PR_CAPBSET_DROP)")
    mask = sum(1 << number for number in kept)
    low, high = mask & 0xFFFFFFFF, mask >> 32
    header = struct.pack("Ii", _CAPABILITY_VERSION, 0)
    data = struct.pack("6I", low, low, 0, high, high, 0)  # effective, permitted, inheritable
    _checked(_libc.capset(header, data), "capset")


def set_process_name(name: str) -> None:
    _checked(_libc.prctl(PR_SET_NAME, name.encode()[:15], 0, 0, 0), "prctl(PR_SET_NAME)")
