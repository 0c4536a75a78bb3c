"""SHA256SUMS: every file of a directory by content, in the format that `sha256sum -c` checks.

One line a file, `SHA256  PATH`, sorted by path, so that one directory has one listing. Only regular
files and directories may stand there; a directory that holds nothing is noted by name, since no
line can speak of it. Owner, mode, times and extended attributes are not covered.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pytest_sremut.errors import EvidenceError
from pytest_sremut.ground.durable.atomic import reason_of

__all__ = ["Listing", "dump_sums", "list_directory", "parse_sums"]

_LINE: Final = re.compile(r"(?P<sha256>[0-9a-f]{64})  (?P<path>.+)")
_ODD: Final = "\\"
"""`sha256sum` escapes names with it or with a line break; we never write such."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What stands in a directory. Paths are relative to it, with `/`."""

    files: Mapping[str, str]  # path -> SHA-256
    empty: tuple[str, ...]  # directories that hold nothing, sorted
    strange: tuple[str, ...]  # what is neither file nor directory, or cannot be read: sentences


def list_directory(directory: Path, *, without: Iterable[str] = ()) -> Listing:
    """Everything under `directory`, hidden or not; names in `without` are left out at its top.

    Never raises for what stands there.
    """
    files: dict[str, str] = {}
    empty: list[str] = []
    strange: list[str] = []
    for path, kind, detail in _walk(directory, "", frozenset(without)):
        match kind:
            case "file":
                files[path] = detail
            case "empty":
                empty.append(path)
            case _:
                strange.append(f"{path}: {detail}")
    return Listing(files=files, empty=tuple(sorted(empty)), strange=tuple(sorted(strange)))


def dump_sums(files: Mapping[str, str]) -> bytes:
    """The listing as bytes. Raises EvidenceError for a name that cannot stand in a line."""
    for path in files:
        if path.splitlines() != [path] or _ODD in path:
            raise EvidenceError(f"{path!r}: a name that SHA256SUMS cannot hold as it is")
    lines = [f"{digest}  {path}\n" for path, digest in sorted(files.items())]
    try:
        return "".join(lines).encode("utf-8")
    except UnicodeEncodeError:
        raise EvidenceError("a file name is not UTF-8") from None


def parse_sums(data: bytes) -> dict[str, str]:
    """Path -> SHA-256. Raises EvidenceError, naming the line, for any other listing than ours."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise EvidenceError("SHA256SUMS: not UTF-8") from None
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        match = _LINE.fullmatch(line)
        if match is None:
            raise EvidenceError(f"SHA256SUMS: line {number}: no `SHA256  PATH`")
        found[match["path"]] = match["sha256"]
    if dump_sums(found) != data:
        raise EvidenceError("SHA256SUMS: not sorted, a path twice, or written by something else")
    return found


def _walk(directory: Path, prefix: str, without: frozenset[str]) -> Iterator[tuple[str, str, str]]:
    try:
        entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
    except OSError as error:
        yield prefix.rstrip("/") or ".", "strange", f"cannot be listed: {reason_of(error)}"
        return
    if not entries and prefix:
        yield prefix.rstrip("/"), "empty", ""
    for entry in entries:
        if entry.name in without:
            continue
        path = f"{prefix}{entry.name}"
        if entry.is_symlink():
            yield path, "strange", "a symbolic link"
        elif entry.is_dir(follow_symlinks=False):
            yield from _walk(Path(entry.path), f"{path}/", frozenset())
        elif entry.is_file(follow_symlinks=False):
            yield _file(entry.path, path)
        else:
            yield path, "strange", "neither a file nor a directory"


def _file(place: str, path: str) -> tuple[str, str, str]:
    try:
        with open(place, "rb") as stream:  # noqa: PTH123 - a Path each would double the time
            return path, "file", hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        return path, "strange", f"cannot be read: {reason_of(error)}"
