"""The file systems: the machine's, read-only to everything in the cluster; a root per container.

Rules:
- nothing in the cluster can write to the machine's files, except into the cluster's directory;
- a container sees the machine's programs and libraries (read-only), but has its own writable
  ``/``, ``/tmp``, ``/run``, ``/etc``, ``/var``, ``/dev/shm`` and, in its pid namespace, ``/proc``;
  what it writes is gone with it;
- sockets of the machine's daemons (``/run``: resolver, name service cache, Docker) are out of
  reach, and names resolve by DNS only, whatever the machine's nsswitch.conf says;
- a directory that has to become writable (``thaw``) is replaced by links to what it had, so any
  place can hold a mount point.
"""

# ruff: noqa: PTH102, PTH103, PTH114, PTH116, PTH112, PTH115, PTH120, PTH208, PTH211
# os.path in the hot loops: each container makes some hundred links before it starts.

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_sremut.embedded.linux import syscalls

# Where a container finds what is ours; the name cannot meet one of the machine's.
OWN = "/.sremut"
TOOLS = f"{OWN}/bin"
_OLD = f"{OWN}/old"
_HIDDEN = f"{OWN}/host"

NSSWITCH = (
    "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n"
    "networks: files\nprotocols: files\nservices: files\nethers: files\nrpc: files\n"
)

_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_EMPTIED = ("tmp", "run")  # shown empty, but for what the cluster itself needs of them
_THAWED = ("etc", "var", "root")
_SAFE = syscalls.MS_NOSUID | syscalls.MS_NODEV
_SIZE = "mode=0755,size=256m"


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """A file or directory of the cluster's run directory, shown in a container at `target`."""

    source: str
    target: str
    read_only: bool = False

    def to_json(self) -> dict[str, Any]:
        return {"source": self.source, "target": self.target, "read_only": self.read_only}


@dataclass(frozen=True, slots=True, kw_only=True)
class RootSpec:
    """What a container's root holds besides the machine's files.

    run: the cluster's run directory (a private tmpfs).
    files: text files by path, e.g. ``/etc/resolv.conf``.
    """

    run: str
    files: dict[str, str] = field(default_factory=dict)
    bindings: tuple[Binding, ...] = ()
    hidden: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "run": self.run,
            "files": self.files,
            "bindings": [b.to_json() for b in self.bindings],
            "hidden": list(self.hidden),
        }

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> RootSpec:
        return cls(
            run=document["run"],
            files=document["files"],
            bindings=tuple(Binding(**b) for b in document["bindings"]),
            hidden=tuple(document["hidden"]),
        )


def protect(directory: Path) -> list[str]:
    """In the cluster's mount namespace: the machine read-only, `directory`/run a private tmpfs.

    Answers what could not be had on this kernel, in words; the cluster then works without.
    """
    missing = []
    place = str(directory)
    syscalls.mount(place, place, flags=syscalls.MS_BIND)
    try:
        syscalls.set_read_only("/", read_only=True)
        syscalls.set_read_only(place, read_only=False)
    except OSError as error:
        missing.append(
            "the machine's file system cannot be made read-only for pods "
            f"({errno.errorcode.get(error.errno or 0, error.errno)})"
        )
    run = directory / "run"
    run.mkdir(exist_ok=True)
    syscalls.mount("tmpfs", str(run), "tmpfs", _SAFE, "mode=0755")
    for name in ("root", "pods", "bin"):
        (run / name).mkdir()
    try:
        mount_proc("/proc")
    except OSError as error:
        missing.append(
            "a /proc of its own cannot be mounted "
            f"({errno.errorcode.get(error.errno or 0, error.errno)}); ps shows the machine's"
        )
    return missing


def mount_proc(target: str) -> None:
    syscalls.mount("proc", target, "proc", _SAFE | syscalls.MS_NOEXEC)


def needed_paths() -> list[str]:
    """Directories that the running interpreter and its modules live in."""
    places = {sys.prefix, sys.base_prefix, sys.exec_prefix, os.path.realpath(sys.executable)}
    places.update(path for path in sys.path if path)
    return sorted(str(Path(place).absolute()) for place in places)


def enter_root(spec: RootSpec, needed: Sequence[str]) -> None:
    """Make a container's root and move into it.

    The caller is a single-threaded process in a mount namespace of its own. Raises OSError.
    """
    root = f"{spec.run}/root"
    syscalls.mount("tmpfs", root, "tmpfs", _SAFE, _SIZE)
    for path in (f"{root}{OWN}", f"{root}{_OLD}", f"{root}{_HIDDEN}"):
        Path(path).mkdir()
    _show_machine(root, needed)
    Path(f"{root}{TOOLS}").mkdir(exist_ok=True)
    _bind(f"{spec.run}/bin", f"{root}{TOOLS}", read_only=True)
    syscalls.pivot_root(root, f"{root}{_OLD}")
    os.chdir("/")
    for name in _THAWED:
        if os.path.isdir(f"/{name}") and not os.path.islink(f"/{name}"):
            written = {path.split("/")[2] for path in spec.files if path.startswith(f"/{name}/")}
            _thaw(f"/{name}", leave_out=written, needed=needed)
    for path, text in spec.files.items():
        _write(path, text)
    for path in spec.hidden:
        if Path(path).is_dir():
            syscalls.mount("tmpfs", path, "tmpfs", _SAFE | syscalls.MS_RDONLY, "mode=0755,size=4k")
    for binding in spec.bindings:
        _mount_binding(binding)
    syscalls.umount(_OLD, syscalls.MNT_DETACH)
    Path(_OLD).rmdir()


def change_directory(path: str) -> None:
    """Enter a container's working directory, which is made where it does not exist."""
    try:
        os.chdir(path)
    except FileNotFoundError:
        _writable_parent(path)
        Path(path).mkdir()
        os.chdir(path)


def _show_machine(root: str, needed: Sequence[str]) -> None:
    for entry in os.scandir("/"):
        target = f"{root}/{entry.name}"
        if entry.is_symlink():
            Path(target).symlink_to(Path(entry.path).readlink())
        elif entry.is_dir(follow_symlinks=False) and not Path(target).exists():
            Path(target).mkdir(mode=0o755)
            if entry.name in _EMPTIED:
                Path(target).chmod(0o1777 if entry.name == "tmp" else 0o755)
                _keep(entry.path, root, needed)
            elif entry.name == "proc":
                _own_proc(target)
            elif entry.name == "dev":
                _own_devices(target)
            else:
                _bind(entry.path, target, recursive=True)


def _keep(directory: str, root: str, needed: Sequence[str]) -> None:
    """Show those of `needed` that lie under `directory`, which is otherwise empty."""
    done: list[str] = []
    for path in sorted(needed, key=len):
        if not path.startswith(f"{directory}/") or any(
            path == other or path.startswith(f"{other}/") for other in done
        ):
            continue
        if Path(path).is_dir():
            Path(f"{root}{path}").mkdir(parents=True, exist_ok=True)
        elif Path(path).is_file():
            Path(f"{root}{path}").parent.mkdir(parents=True, exist_ok=True)
            Path(f"{root}{path}").touch()
        else:
            continue
        _bind(path, f"{root}{path}", recursive=True)
        done.append(path)


def _own_proc(target: str) -> None:
    try:
        mount_proc(target)
    except OSError:
        _bind("/proc", target, recursive=True)


def _own_devices(target: str) -> None:
    for name in _DEVICES:
        if Path(f"/dev/{name}").exists():
            Path(f"{target}/{name}").touch()
            _bind(f"/dev/{name}", f"{target}/{name}")
    Path(f"{target}/shm").mkdir(mode=0o1777)
    Path(f"{target}/shm").chmod(0o1777)
    if Path("/dev/pts").is_dir():
        Path(f"{target}/pts").mkdir()
        _bind("/dev/pts", f"{target}/pts", recursive=True)
        Path(f"{target}/ptmx").symlink_to("pts/ptmx")
    Path(f"{target}/fd").symlink_to("/proc/self/fd")
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        Path(f"{target}/{name}").symlink_to(f"/proc/self/fd/{number}")


def _thaw(path: str, leave_out: Collection[str] = (), needed: Sequence[str] = ()) -> None:
    """Put a writable directory in the place of `path`, with links to all that it had.

    Of a directory that may not be listed (`/root`, for others) only what `needed` names is linked.
    """
    hidden = f"{_HIDDEN}/{len(os.listdir(_HIDDEN))}"
    os.mkdir(hidden)
    _bind(path, hidden, recursive=True)
    mode = stat.S_IMODE(os.stat(path).st_mode) | stat.S_IRWXU
    syscalls.mount("tmpfs", path, "tmpfs", _SAFE, f"mode={mode:o},size=64m")
    try:
        names = set(os.listdir(hidden))
    except PermissionError:
        names = {p[len(path) + 1 :].split("/")[0] for p in needed if p.startswith(f"{path}/")}
    for name in names.difference(leave_out):
        original = f"{hidden}/{name}"
        goal = os.readlink(original) if os.path.islink(original) else original
        os.symlink(goal, f"{path}/{name}")


def _writable_parent(path: str) -> None:
    """Make the directory of `path`, thawing what is read-only on the way."""
    parent = os.path.dirname(path)
    while True:
        try:
            os.makedirs(parent, exist_ok=True)
        except OSError as error:
            if error.errno not in (errno.EROFS, errno.EACCES):
                raise
            frozen = parent
            while not os.path.isdir(frozen):
                frozen = os.path.dirname(frozen)
            _thaw(os.path.realpath(frozen))
            continue
        if not os.access(parent, os.W_OK):
            _thaw(os.path.realpath(parent))
        return


def _write(path: str, text: str) -> None:
    _writable_parent(path)
    Path(path).write_text(text)


def _mount_binding(binding: Binding) -> None:
    source = f"{_OLD}{binding.source}"
    is_dir = os.path.isdir(source)
    if not os.path.lexists(binding.target):
        _writable_parent(binding.target)
        if is_dir:
            Path(binding.target).mkdir()
        else:
            Path(binding.target).touch()
    _bind(source, binding.target, read_only=binding.read_only)


def _bind(source: str, target: str, *, recursive: bool = False, read_only: bool = False) -> None:
    flags = syscalls.MS_BIND | (syscalls.MS_REC if recursive else 0)
    syscalls.mount(source, target, flags=flags)
    if read_only:
        with suppress(OSError):
            syscalls.set_read_only(target, read_only=True)
