"""Programs of ours, run in a process that was forked from the warm interpreter.

An applet is a text that an interpreter of its own runs: 20 ms of CPU before its first line, more
than what it does. A command that names one is forked from the zygote anyway; there the same text,
compiled once, runs at once.

Rules:
- only the file that the tools' folder shows under that name counts, and only where it is ours: a
  link leads to the machine's program, and a file elsewhere is somebody else's;
- the text finds what it finds in an interpreter of its own: its arguments, environment, streams and
  signals, `__main__`, and an end by `SystemExit` or a traceback. What `ps` shows of it is its name;
- a shell that starts one executes the file, as ever.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.machinery import SourceFileLoader
from pathlib import Path
from pkgutil import iter_modules
from types import CodeType
from typing import NoReturn, TextIO

from pytest_sremut.embedded import applets as package
from pytest_sremut.embedded.kubelet.rootfs import TOOLS
from pytest_sremut.embedded.linux import syscalls

__all__ = ["applet_at", "compile_applets", "exit_code", "leave", "line_buffered", "run_applet"]


def compile_applets() -> dict[str, CodeType]:
    """Every applet's code by name; its imports are made, so that a fork finds them there."""
    found: dict[str, CodeType] = {}
    for module in iter_modules(package.__path__):
        name = f"{package.__name__}.{module.name}"
        file = str(importlib.import_module(name).__file__)
        code = SourceFileLoader(name, file).get_code(name)
        assert code is not None  # as of any source
        found[module.name] = code
    return found


def applet_at(path: str, applets: Mapping[str, CodeType]) -> CodeType | None:
    """The applet that this path executes in the present root; None where it is something else."""
    folder, _, name = path.rpartition("/")
    if folder != TOOLS or name not in applets or Path(path).is_symlink():
        return None
    return applets[name]


def run_applet(
    code: CodeType,
    path: str,
    arguments: Sequence[str],
    env: Mapping[str, str],
    begun: Callable[[], None],
) -> NoReturn:
    """Be that program, with the streams that are 0, 1 and 2 here.

    Args:
        code: Of `compile_applets`.
        path: Where it was found.
        arguments: Without the program's name.
        env: All of its environment.
        begun: Called when nothing can go wrong any more but in the program.
    """
    status = 1
    try:
        syscalls.set_process_name(path.rpartition("/")[2])
        os.environ.clear()
        os.environ.update(env)
        sys.argv = [path, *arguments]
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stdout, sys.stderr = line_buffered(1), line_buffered(2)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        begun()
        exec(code, {"__name__": "__main__", "__file__": path})  # noqa: S102 - a file of this package
        status = 0
    except SystemExit as end:
        status = exit_code(end.code)
    except BaseException:
        traceback.print_exc()
    finally:
        leave(status)


def leave(status: int) -> NoReturn:
    """End this forked process, its streams flushed as far as they can be."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


def line_buffered(descriptor: int) -> TextIO:
    """A stream over a descriptor that it does not own."""
    return open(
        descriptor, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False
    )


def exit_code(value: object) -> int:
    """What an interpreter ends with for `SystemExit(value)`."""
    if value is None:
        return 0
    if isinstance(value, int):
        return value & 0xFF
    print(value, file=sys.stderr)
    return 1
