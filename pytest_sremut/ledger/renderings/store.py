"""The files of the ledger: `.sremut/ledger.json` and `.sremut/ledger.md`.

A ledger is derived, so a new one may replace an older one. Any other file under its name is left
alone. Each file is replaced as a whole or not at all.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pytest_sremut.errors import EvidenceError
from pytest_sremut.ground.durable.atomic import (
    TEMPORARY,
    fsync_directory,
    make_directory,
    reason_of,
    write_new,
)
from pytest_sremut.ledger.renderings.difference import json_difference, text_difference
from pytest_sremut.ledger.renderings.document import SCHEMA

__all__ = ["MARK", "LedgerFiles", "append_text", "replace_file"]

MARK: Final = f"<!-- {SCHEMA} -->"
"""The first line of a rendered ledger. Only a file that has it may be replaced."""

_JSON_MARK: Final = f'"schema":"{SCHEMA}"'.encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerFiles:
    """The two files of a ledger. `directory` is `.sremut` of the project."""

    directory: Path

    @property
    def json(self) -> Path:
        """The record."""
        return self.directory / "ledger.json"

    @property
    def markdown(self) -> Path:
        """The rendering."""
        return self.directory / "ledger.md"

    def write(self, document: bytes, rendering: bytes) -> str:
        """Write both files. Returns what that did: `written`, `unchanged` or `regenerated`.

        Raises:
            EvidenceError: A file there is no ledger, or it cannot be written.
        """
        before = self._standing()
        after = [document, rendering]
        if before == after:
            return "unchanged"
        make_directory(self.directory)
        replace_file(self.json, document)
        replace_file(self.markdown, rendering)
        return "regenerated" if any(before) else "written"

    def differences(self, document: bytes, rendering: bytes) -> list[str]:
        """How the files differ from what the records give; empty if they are equal in every byte.

        Raises:
            EvidenceError: A file cannot be read.
        """
        found: list[str] = []
        pairs = (
            (self.json, document, json_difference),
            (self.markdown, rendering, text_difference),
        )
        for path, wanted, difference in pairs:
            standing = _read(path)
            if standing is None:
                found.append(f"{path.name}: there is none")
            elif standing != wanted:
                found += [f"{path.name}: {line}" for line in difference(standing, wanted)]
        return found

    def _standing(self) -> list[bytes | None]:
        document, rendering = _read(self.json), _read(self.markdown)
        if document is not None and _JSON_MARK not in document:
            raise EvidenceError(f"{self.json}: is no ledger; it is not overwritten")
        if rendering is not None and not rendering.startswith(MARK.encode()):
            raise EvidenceError(f"{self.markdown}: is no ledger; it is not overwritten")
        return [document, rendering]


def replace_file(path: Path, data: bytes) -> None:
    """Replace a file, or create it, atomically and durably. Raises EvidenceError."""
    temporary = path.with_name(f"{TEMPORARY}{os.getpid()}-{secrets.token_hex(8)}")
    write_new(temporary, data)
    try:
        temporary.replace(path)
        fsync_directory(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise EvidenceError(f"{path}: cannot be written: {reason_of(error)}") from error


def append_text(path: Path, text: str) -> None:
    """Append to a file that other programs write to as well. Raises EvidenceError."""
    try:
        with path.open("a", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        raise EvidenceError(f"{path}: cannot be written: {reason_of(error)}") from error


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise EvidenceError(f"{path}: cannot be read: {reason_of(error)}") from error
