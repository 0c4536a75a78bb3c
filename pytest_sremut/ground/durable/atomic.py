"""Files that are written once: whole and durable, or not at all.

Write order: unique temporary file beside the target, fsync, link under the final name (which
fails where something stands already), removal of the temporary name, fsync of the directory. A
crash at any step leaves no half file under a final name; what it may leave is a temporary file,
which every reader skips by its name.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import secrets
from pathlib import Path
from typing import Final

from pytest_sremut.errors import EvidenceError

__all__ = ["TEMPORARY", "fsync_directory", "make_directory", "reason_of", "write_all", "write_new"]

TEMPORARY: Final = ".tmp-"
"""Prefix of temporary files. A file with it is nobody's evidence."""

_NO_HARD_LINKS: Final = frozenset(
    {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EINVAL}
)
_AT_FDCWD: Final = -100
_RENAME_NOREPLACE: Final = 1


def write_new(path: Path, data: bytes) -> None:
    """Write a file that must not exist yet; its directory must.

    Raises:
        EvidenceError: Something stands under that name already, or the file cannot be written;
            names the path and the reason. Nothing is left behind then.
    """
    temporary = path.with_name(f"{TEMPORARY}{os.getpid()}-{secrets.token_hex(8)}")
    linked = False
    try:
        try:
            _write_temporary(temporary, data)
            _claim(temporary, path)
            linked = True
            fsync_directory(path.parent)
        except FileExistsError:
            raise EvidenceError(f"{path}: exists already; evidence is never overwritten") from None
        except OSError as error:
            if linked:
                # The caller is told that it is not written, so it must not be there.
                _remove(path)
            raise EvidenceError(f"{path}: cannot be written: {reason_of(error)}") from error
    finally:
        _remove(temporary)


def make_directory(path: Path) -> None:
    """Create a directory and its missing parents, durably. Raises EvidenceError."""
    missing = [one for one in (path, *path.parents) if not one.exists()]
    try:
        for directory in reversed(missing):
            with contextlib.suppress(FileExistsError):  # another process was quicker
                directory.mkdir()
            fsync_directory(directory.parent)
        if not path.is_dir():
            raise EvidenceError(f"{path}: is no directory")
    except OSError as error:
        raise EvidenceError(f"{path}: cannot be created: {reason_of(error)}") from error


def fsync_directory(directory: Path) -> None:
    """Make the names in a directory durable. Raises OSError."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of `data`, however little each write takes. Raises OSError."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def reason_of(error: OSError) -> str:
    """`No space left on device (ENOSPC)`."""
    name = errno.errorcode.get(error.errno or 0, "no errno")
    return f"{error.strerror or error} ({name})"


def _write_temporary(temporary: Path, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o644)
    try:
        write_all(descriptor, data)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _claim(temporary: Path, path: Path) -> None:
    """Give the file its final name, atomically and never over another. Raises OSError."""
    try:
        os.link(temporary, path, follow_symlinks=False)
    except FileExistsError:
        raise
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        _rename_noreplace(temporary, path)


def _rename_noreplace(source: Path, target: Path) -> None:
    """renameat2 with RENAME_NOREPLACE, for file systems without hard links. Raises OSError."""
    library = ctypes.CDLL(None, use_errno=True)
    rename = getattr(library, "renameat2", None)
    if rename is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    arguments = (_AT_FDCWD, os.fsencode(source), _AT_FDCWD, os.fsencode(target), _RENAME_NOREPLACE)
    if rename(*arguments) != 0:
        code = ctypes.get_errno()
        if code == errno.EEXIST:
            raise FileExistsError(code, os.strerror(code))
        raise OSError(code, os.strerror(code))


def _remove(path: Path) -> None:
    # Best effort: the error that is being reported matters more than this one.
    with contextlib.suppress(OSError):
        path.unlink()
