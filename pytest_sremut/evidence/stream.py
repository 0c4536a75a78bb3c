"""Files of an attempt that grow line by line while it runs."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

from pytest_sremut.errors import EvidenceError
from pytest_sremut.evidence.rawref import RawRef
from pytest_sremut.ground.durable.atomic import fsync_directory, reason_of, write_all
from pytest_sremut.ground.formats.canonical import CanonicalError, canonical_json

__all__ = ["AppendStream"]


class AppendStream:
    """A file that grows by whole lines. Safe to use from several threads.

    Each `write` is one write call; the bytes are forced to the disk when it is closed. What a
    crash leaves is a prefix, possibly with an incomplete last line.
    """

    def __init__(self, path: Path, name: str, *, on_close: Callable[[RawRef], None]) -> None:
        self._path = path
        self._name = name
        self._on_close = on_close
        self._lock = threading.Lock()
        self._digest = hashlib.sha256()
        self._size = 0
        self._reference: RawRef | None = None
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            self._descriptor = os.open(path, flags, 0o644)
            fsync_directory(path.parent)
        except FileExistsError:
            raise EvidenceError(f"{path}: exists already; evidence is never overwritten") from None
        except OSError as error:
            raise EvidenceError(f"{path}: cannot be created: {reason_of(error)}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write(self, value: Mapping[str, Any]) -> None:
        """Append a JSON object as one canonical line. Raises EvidenceError."""
        try:
            line = canonical_json(value)
        except CanonicalError as error:
            raise EvidenceError(f"{self._path}: {error}") from error
        self.write_bytes(line + b"\n")

    def write_bytes(self, data: bytes) -> None:
        """Append bytes as they are. Raises EvidenceError."""
        with self._lock:
            if self._reference is not None:
                raise EvidenceError(f"{self._path}: is closed")
            try:
                write_all(self._descriptor, data)
            except OSError as error:
                # What of it was written must not stay: the digest does not cover it.
                self._take_back(error)
            self._digest.update(data)
            self._size += len(data)

    def close(self) -> RawRef:
        """Make the file durable and say what it holds; idempotent. Raises EvidenceError."""
        with self._lock:
            if self._reference is not None:
                return self._reference
            try:
                os.fsync(self._descriptor)
            except OSError as error:
                raise EvidenceError(
                    f"{self._path}: cannot be made durable: {reason_of(error)}"
                ) from error
            finally:
                os.close(self._descriptor)
                self._reference = RawRef(
                    path=self._name, sha256=self._digest.hexdigest(), size=self._size
                )
        self._on_close(self._reference)
        return self._reference

    def _take_back(self, error: OSError) -> None:
        try:
            os.ftruncate(self._descriptor, self._size)
        except OSError as second:
            raise EvidenceError(
                f"{self._path}: half a line is written and stays: {reason_of(second)}"
            ) from error
        raise EvidenceError(f"{self._path}: cannot be written: {reason_of(error)}") from error
