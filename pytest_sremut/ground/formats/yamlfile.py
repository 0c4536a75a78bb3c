"""A YAML file as plain JSON values, every one with the place where it stands.

Rules kept here: one document (where a file may hold several, each as if it stood alone), UTF-8,
mappings with text keys and no key twice, no tags, scalars with one meaning (`scalars`), and bounds
on size, depth and on what aliases expand to. The value is built from the parser's events, so a
bound is enforced before anything grows. Whatever the bytes, the only error that leaves is
`InputError`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Final

import yaml

from pytest_sremut.errors import InputError
from pytest_sremut.ground.formats.yamlevents import (
    MAX_DEPTH,
    MAX_NODES,
    Builder,
    Document,
    Place,
    Step,
    input_error,
)

__all__ = [
    "MAX_BYTES",
    "MAX_DEPTH",
    "MAX_NODES",
    "Place",
    "YamlFile",
    "parse_documents",
    "parse_yaml",
    "read_documents",
    "read_yaml",
]

MAX_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class YamlFile:
    """A parsed file, or one document of it.

    `places` maps the path of every value (keys and indices from the root) to its place; what an
    alias stands for has the alias's place.
    """

    file: PurePosixPath
    value: Any
    sha256: str
    places: Mapping[tuple[Step, ...], Place] = field(repr=False)

    def place(self, *path: Step) -> Place:
        """The place of that value, or of the nearest value around it."""
        while path not in self.places and path:
            path = path[:-1]
        return self.places.get(path, Place(1, 1))

    def error(self, path: tuple[Step, ...], *, found: str, allowed: str) -> InputError:
        """An error that names this file and the value at `path`."""
        return input_error(self.file, path, self.place(*path), found=found, allowed=allowed)


def read_yaml(root: Path, file: PurePosixPath) -> YamlFile:
    """Read `file`, which is relative to `root` and must stay inside it, symlinks followed.

    Raises:
        InputError: It is outside, missing, no regular file, unreadable, or not allowed inside.
    """
    return parse_yaml(_read(root, file), file)


def read_documents(root: Path, file: PurePosixPath) -> tuple[YamlFile, ...]:
    """Read every document of `file`; see `read_yaml` and `parse_documents`."""
    return parse_documents(_read(root, file), file)


def parse_yaml(data: bytes, file: PurePosixPath) -> YamlFile:
    """Parse the bytes of a file; `file` only names it in errors. Raises InputError."""
    (source,) = _parsed(data, file, several=False)
    return source


def parse_documents(data: bytes, file: PurePosixPath) -> tuple[YamlFile, ...]:
    """Parse a file that may hold several documents; empty ones are left out. Raises InputError."""
    return tuple(one for one in _parsed(data, file, several=True) if one.value is not None)


def _parsed(data: bytes, file: PurePosixPath, *, several: bool) -> list[YamlFile]:
    digest = hashlib.sha256(data).hexdigest()
    return [
        YamlFile(file=file, value=one.value, sha256=digest, places=one.places)
        for one in _documents(data, file, several=several)
    ]


def _documents(data: bytes, file: PurePosixPath, *, several: bool) -> list[Document]:
    if len(data) > MAX_BYTES:
        raise InputError(
            file=str(file), found=f"{len(data)} bytes", allowed=f"at most {MAX_BYTES} bytes"
        )
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            file=str(file),
            place=f"line {data[: error.start].count(10) + 1}",
            found=f"byte 0x{data[error.start]:02x} that is not UTF-8",
            allowed="UTF-8 text",
        ) from None
    builder = Builder(file, several=several)
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            builder.take(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        found = ", ".join(part for part in (error.context, error.problem) if part)
        raise InputError(
            file=str(file), place=place, found=found or "a syntax error", allowed="valid YAML"
        ) from None
    except yaml.reader.ReaderError as error:
        raise InputError(
            file=str(file),
            place=f"line {text[: error.position].count(chr(10)) + 1}",
            found=f"character U+{int(error.character):04X}",
            allowed="printable text",
        ) from None
    except (ValueError, OverflowError):
        # PyYAML lets chr() fail on escapes beyond Unicode such as "\U00110000".
        raise InputError(
            file=str(file), found="an escape outside Unicode", allowed="valid YAML"
        ) from None
    if builder.documents == 0:
        raise InputError(file=str(file), found="an empty file", allowed="one document")
    return builder.finished


def _read(root: Path, file: PurePosixPath) -> bytes:
    named = str(file)
    if file.is_absolute() or ".." in file.parts or "\0" in named:
        raise InputError(
            file=repr(named) if "\0" in named else named,
            found="a path out of the project",
            allowed="a path inside the project, relative to its root",
        )
    try:
        path = (root / file).resolve(strict=True)
        if not path.is_relative_to(root.resolve(strict=True)):
            raise InputError(
                file=named,
                found="a symbolic link out of the project",
                allowed="a file inside the project",
            )
        if not path.is_file():
            raise InputError(file=named, found="no regular file", allowed="a readable file")
        with path.open("rb") as stream:
            return stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise InputError(file=named, found="no such file", allowed="a readable file") from None
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop of symbolic links, Python 3.11
        reason = error.strerror if isinstance(error, OSError) else "a loop of symbolic links"
        raise InputError(file=named, found=str(reason), allowed="a readable file") from None
