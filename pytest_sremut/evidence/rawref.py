"""References to evidence files by content, and the names such files may have."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pytest_sremut.errors import EvidenceError

__all__ = ["RawRef", "is_safe_name"]

_SEGMENT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_MAX_SEGMENTS: Final = 4


def is_safe_name(name: str) -> bool:
    """Whether `name` is a relative path of plain segments: nothing hidden, nothing upwards."""
    segments = name.split("/")
    return len(segments) <= _MAX_SEGMENTS and all(map(_SEGMENT.fullmatch, segments))


@dataclass(frozen=True, slots=True, kw_only=True)
class RawRef:
    """One file of an attempt: `path` relative to its directory, SHA-256, size in bytes."""

    path: str
    sha256: str
    size: int

    @classmethod
    def of(cls, path: str, data: bytes) -> RawRef:
        """The reference of these bytes under that path."""
        return cls(path=path, sha256=hashlib.sha256(data).hexdigest(), size=len(data))

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> RawRef:
        """From a schema-checked record."""
        return cls(path=value["path"], sha256=value["sha256"], size=value["size"])

    def as_json(self) -> dict[str, Any]:
        """`{"path", "sha256", "size"}`."""
        return {"path": self.path, "sha256": self.sha256, "size": self.size}

    def problem(self, directory: Path) -> str | None:
        """Why the file under `directory` is not what this says; None where it is."""
        if not is_safe_name(self.path):
            return f"{self.path!r}: no name of an evidence file"
        place = os.fspath(directory)
        try:
            # The name has no `..`, so only a link on the way could lead out of the directory.
            for segment in self.path.split("/"):
                place = f"{place}/{segment}"
                if os.path.islink(place):  # noqa: PTH114 - a Path each would double the time
                    return f"{self.path}: a symbolic link"
            with open(place, "rb") as stream:  # noqa: PTH123
                digest = hashlib.file_digest(stream, "sha256").hexdigest()
                size = stream.tell()
        except FileNotFoundError:
            return f"{self.path}: missing"
        except OSError as error:
            return f"{self.path}: cannot be read: {error.strerror}"
        if size != self.size:
            return f"{self.path}: {size} bytes, recorded {self.size}"
        if digest != self.sha256:
            return f"{self.path}: SHA-256 {digest}, recorded {self.sha256}"
        return None

    def read(self, directory: Path) -> bytes:
        """The bytes, checked. Raises EvidenceError where they are not what this says."""
        problem = self.problem(directory)
        if problem is not None:
            raise EvidenceError(f"{directory}: {problem}")
        return (directory / self.path).read_bytes()
