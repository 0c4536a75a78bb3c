"""A shared directory, seen by one process as its own.

Benchmarks keep what they need for their recovery under fixed names (`/tmp/SERVICE_modified.yaml`).
Two runs at the same time would overwrite each other's files. `enter` gives a process a mount
namespace of its own. There, the subdirectories of the shared directory look as before, but of the
files directly in it the process sees only its own. What it creates is kept in a place, and the next
process that names the same place sees it again. Nothing changes for other processes.

Standard library only, except for the system calls.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from pytest_sremut.embedded.linux import syscalls
from pytest_sremut.oracles import walls

__all__ = ["enter", "possible"]


def possible() -> bool:
    """Whether `enter` works here; a child process tries it."""
    return _in_child(_namespace)


def enter(directory: Path, place: Path) -> None:
    """Give this process and its children their own view; see the module's docstring.

    Args:
        directory: The shared directory.
        place: Where this process's files are kept; created if it is missing.

    Raises:
        OSError: This machine forbids it. The process must not be used then.
    """
    here = Path.cwd()
    _namespace()
    place.mkdir(mode=0o700, exist_ok=True)
    # Links are not followed: what is behind a link is reached by the same link.
    with os.scandir(directory) as found:
        entries = list(found)
    for entry in entries:
        own = place / entry.name
        if entry.is_symlink():
            if not own.is_symlink():
                with contextlib.suppress(FileExistsError):  # a file of ours of that name
                    own.symlink_to(Path(entry.path).readlink())
        elif entry.is_dir():
            with contextlib.suppress(OSError):  # one that is gone, or that we may not enter
                own.mkdir(exist_ok=True)
                syscalls.mount(entry.path, str(own), flags=syscalls.MS_BIND | syscalls.MS_REC)
    syscalls.mount(str(place), str(directory), flags=syscalls.MS_BIND | syscalls.MS_REC)
    os.chdir(here)  # the path leads to the same directory, now through what was mounted


def _namespace() -> None:
    """A mount namespace of this process's own; mounts do not spread from it. Raises OSError."""
    try:
        syscalls.unshare(syscalls.CLONE_NEWNS)
    except PermissionError:  # in a user namespace everybody may
        walls.enter(syscalls.CLONE_NEWUSER | syscalls.CLONE_NEWNS)
    syscalls.mount("none", "/", flags=syscalls.MS_REC | syscalls.MS_PRIVATE)


def _in_child(attempt: Callable[[], None]) -> bool:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            attempt()
            code = 0
        except OSError:
            pass
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
