"""What a grader's process cannot touch: the evidence, the project, and whoever reads its answer.

A worker puts the walls up before it imports anything of a grader's: a mount namespace of its own,
in which the closed directories are read-only. Then it gives up what it would need to take them down
again. Each task's process gives up more (`shut`), so that it may not look into the worker either:
by root's capabilities, or by a user namespace inside the worker's.

Not every machine allows that; then nothing is closed, and `facts` says why. Nothing here stops a
process from asking another service of the machine that may write, nor from ending processes of its
own user. Standard library only, except for the system calls.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pytest_sremut.embedded.linux import syscalls

__all__ = ["Walls", "enter"]

_CHOWN, _DAC_OVERRIDE, _FOWNER, _FSETID, _KILL, _SETGID, _SETUID = 0, 1, 3, 4, 5, 6, 7
_SETPCAP, _NET_BIND_SERVICE, _NET_RAW, _SETFCAP = 8, 10, 13, 31
_TASK: Final = (
    *(_CHOWN, _DAC_OVERRIDE, _FOWNER, _FSETID, _KILL, _SETGID, _SETUID),
    *(_NET_BIND_SERVICE, _NET_RAW),
    _SETFCAP,  # without it root cannot be mapped into a user namespace (Linux 5.12)
)
_WORKER: Final = (*_TASK, _SETPCAP)  # one more than a task: so no task may look into it


@dataclass(frozen=True, slots=True, kw_only=True)
class Walls:
    """Walls as they stand in this process.

    Args:
        by: `capabilities` or `user namespace`: how tasks are kept from the worker; empty: no walls.
        why: Why there are none.
    """

    by: str = ""
    why: str = "nothing was to be closed"

    @classmethod
    def put_up(cls, closed: Sequence[str], opened: Sequence[str] = ()) -> Walls:
        """Close directories to this process and to all that it starts.

        Tried in a child first: a process that came half the way would be of no use.

        Args:
            closed: What nobody may write to.
            opened: What stays as it is though it lies below one of them, such as the directory for
                temporary files. What is closed below it is closed.
        """
        if not closed:
            return cls()
        directories = {**dict.fromkeys(opened, False), **dict.fromkeys(closed, True)}
        reasons = []
        for by in ("capabilities", "user namespace") if os.geteuid() == 0 else ("user namespace",):
            number = _tried(lambda way=by: _close(way, directories))  # type: ignore[misc]
            if number == 0:
                _close(by, directories)
                return cls(by=by, why="")
            reasons.append(f"{by}: {os.strerror(number)}")
        return cls(why="; ".join(reasons))

    def facts(self) -> dict[str, Any]:
        """For the record; JSON-ready."""
        return {"closed": bool(self.by), "by": self.by, "why": self.why}

    def shut(self) -> None:
        """In a task's process, first of all: give up what the worker has. Raises OSError."""
        if self.by == "capabilities":
            syscalls.keep_capabilities(_TASK)
        elif self.by:
            enter(syscalls.CLONE_NEWUSER)


def _close(by: str, directories: Mapping[str, bool]) -> None:
    """Directory -> whether it is closed; a deeper one decides for itself. Raises OSError."""
    here = Path.cwd()
    if by == "capabilities":
        syscalls.unshare(syscalls.CLONE_NEWNS)
    else:
        enter(syscalls.CLONE_NEWUSER | syscalls.CLONE_NEWNS)
    syscalls.mount("none", "/", flags=syscalls.MS_REC | syscalls.MS_PRIVATE)
    for directory, is_closed in sorted(directories.items()):  # what contains it comes first
        syscalls.mount(directory, directory, flags=syscalls.MS_BIND | syscalls.MS_REC)
        syscalls.set_read_only(directory, is_closed)
    os.chdir(here)  # the path leads to the same directory, now through what was mounted
    if by == "capabilities":
        syscalls.keep_capabilities(_WORKER)
    else:
        enter(syscalls.CLONE_NEWUSER)  # the mounts belong to the one above from here on


def enter(flags: int) -> None:
    """Namespaces of this process's own, a user namespace among them, with the same user and group.

    Raises OSError.
    """
    user, group = os.geteuid(), os.getegid()
    syscalls.unshare(flags)
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        Path("/proc/self", name).write_bytes(text.encode())


def _tried(attempt: Callable[[], None]) -> int:
    """What a child that tries it fails with, an errno; 0 where it does not."""
    child = os.fork()
    if child == 0:
        code = 255
        try:
            attempt()
            code = 0
        except OSError as error:
            code = error.errno or 255
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
