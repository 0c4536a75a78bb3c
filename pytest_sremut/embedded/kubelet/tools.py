"""The folder of programs that the pods' PATH consists of, and where each program comes from.

Rules:
- ``nslookup`` and ``wget`` are our own unless the machine's behave as recorded on a real cluster (a
  judge decides that, not this module) or the user insists on the machine's;
- ``nc`` is our own unless the user insists, and ``httpd`` always: pods share one network, so a
  server must know its own address;
- everything else is a link to the machine's program of that name, from a fixed list, so that a
  pod's PATH is the same everywhere but for what a machine lacks;
- ``sh`` is a shell that honours PATH: some BusyBox builds run their own applets instead.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

APPLETS = ("nslookup", "nc", "wget")
OWN = ("httpd",)
LISTENS = ("nc",)
_SHELLS = ("dash", "bash", "sh", "ash", "ksh")
_USUAL_PLACES = "/bin:/usr/bin"
_HONOURED = 42
# fmt: off
_MACHINE = (
    "awk", "base64", "basename", "bash", "cat", "chmod", "cksum", "clear", "cmp", "cp", "cut",
    "date", "dd", "df", "diff", "dirname", "du", "echo", "egrep", "env", "expr", "false", "fgrep",
    "find", "fold", "free", "getopt", "grep", "gunzip", "gzip", "head", "hexdump", "hostname",
    "id", "install", "kill", "killall", "ln", "logger", "ls", "md5sum", "mkdir", "mkfifo",
    "mknod", "mktemp", "more", "mv", "nice", "nl", "nohup", "nproc", "od", "paste", "pgrep",
    "pkill", "printenv", "printf", "ps", "pwd", "readlink", "realpath", "rev", "rm", "rmdir",
    "sed", "seq", "setsid", "sha1sum", "sha256sum", "shuf", "sleep", "sort", "split", "stat",
    "strings", "stty", "sync", "tac", "tail", "tar", "tee", "test", "timeout", "top", "touch",
    "tr", "true", "truncate", "tty", "uname", "uniq", "unlink", "uptime", "usleep", "vi", "wc",
    "which", "whoami", "xargs", "xxd", "yes",
)
# fmt: on


def candidates() -> dict[str, str]:
    """The machine's programs that may serve pods where they behave as recorded, by name."""
    found = {name: shutil.which(name) for name in APPLETS if name not in LISTENS}
    return {name: path for name, path in found.items() if path is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One program of the folder: whose it is and exactly which file."""

    name: str
    origin: Literal["machine", "own"]
    path: str
    sha256: str

    def to_json(self) -> dict[str, str]:
        return {"origin": self.origin, "path": self.path, "sha256": self.sha256}


def build(
    folder: Path,
    *,
    mode: Literal["auto", "machine", "own"],
    accepted: Iterable[str] = (),
) -> dict[str, Tool]:
    """Fill `folder`; answers the tools whose origin matters (shell and applets) by name.

    accepted: names of the machine's programs that behave as recorded (for mode ``auto``).
    """
    tools = {}
    for name in _MACHINE:
        found = shutil.which(name)
        if found is not None:
            (folder / name).symlink_to(found)
    shell = find_shell()
    if shell is not None:
        (folder / "sh").symlink_to(shell)
        tools["sh"] = _tool("sh", "machine", shell)
    for name in APPLETS:
        tools[name] = install(folder, name, machine=mode == "machine" or name in set(accepted))
    for name in OWN:
        tools[name] = install(folder, name, machine=False)
    return tools


def install(folder: Path, name: str, *, machine: bool) -> Tool:
    """Put one applet, or the machine's program of that name, into the folder, replacing it."""
    found = shutil.which(name) if machine else None
    place = folder / name
    fresh = folder / f".{name}.new"
    fresh.unlink(missing_ok=True)
    if found is not None:
        fresh.symlink_to(found)
        tool = _tool(name, "machine", found)
    else:
        source = Path(__file__).parents[1] / "applets" / f"{name}.py"
        fresh.write_text(_launcher(source))
        fresh.chmod(0o755)
        tool = _tool(name, "own", str(source))
    fresh.rename(place)
    return tool


@cache
def find_shell() -> str | None:
    """A shell of this machine that looks programs up in PATH; None where there is none."""
    for name in _SHELLS:
        found = shutil.which(name) or shutil.which(name, path=_USUAL_PLACES)
        if found is None:
            continue
        if Path(found).resolve().name in ("dash", "bash") or _honours_path(found):
            return found
    return None


def _honours_path(shell: str) -> bool:
    with tempfile.TemporaryDirectory(prefix="sremut-") as folder:
        probe = Path(folder) / "wget"
        probe.write_text(f"#!{shell}\nexit {_HONOURED}\n")
        probe.chmod(0o755)
        done = subprocess.run(
            [shell, "-c", "wget"], env={"PATH": folder}, check=False, capture_output=True
        )
    return done.returncode == _HONOURED


def _launcher(source: Path) -> str:
    """An executable text that runs an applet with a bare interpreter."""
    interpreter = os.path.realpath(sys.executable)
    shebang = f"#!{interpreter} -ISE\n"
    if len(shebang) < 127 and " " not in interpreter:  # what every kernel takes
        return shebang + source.read_text()
    return f'#!/bin/sh\nexec {_quoted(interpreter)} -ISE {_quoted(str(source))} "$@"\n'


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _tool(name: str, origin: Literal["machine", "own"], path: str) -> Tool:
    digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    return Tool(name=name, origin=origin, path=path, sha256=digest)
