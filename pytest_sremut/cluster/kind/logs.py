"""The logs of a cluster whose run went wrong, kept with the session's evidence.

kind exports into a directory of its own; what is kept passes through here. Left out: what holds
an environment (the containers' description), links, and what is no file. Credentials are redacted.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Final

from pytest_sremut.cluster.kind.tools import KindError, Tools
from pytest_sremut.errors import EvidenceError
from pytest_sremut.ground.durable.atomic import make_directory, reason_of, write_new
from pytest_sremut.ground.durable.text_redaction import redact_bytes

__all__ = ["export"]

_EXPORT: Final = 180.0
_LEFT_OUT: Final = frozenset({"inspect.json", "docker-info.txt", "podman-info.txt"})
_MOST: Final = 8 << 20  # of one file; its end says what went wrong


def export(tools: Tools, name: str, into: Path) -> Path:
    """Export the logs of a cluster into a new directory below `into`; which one.

    Whatever part kind can still get is kept, also when it then fails.

    Raises:
        KindError: kind exported nothing.
        EvidenceError: They cannot be written.
    """
    with tempfile.TemporaryDirectory(prefix="sremut-logs-") as made:
        trouble = ""
        try:
            answer = tools.kind("export", "logs", made, f"--name={name}", timeout=_EXPORT)
            if answer.code != 0:
                answer.checked(f"the logs of cluster {name} were not exported")
        except KindError as error:
            trouble = str(error)
        found = sorted(_files(Path(made)))
        if not found:
            raise KindError(trouble or f"the logs of cluster {name}: kind exported none")
        target = _new_directory(into / name)
        for file in found:
            place = target / file.relative_to(made)
            make_directory(place.parent)
            write_new(place, redact_bytes(_end_of(file)))
        if trouble:
            write_new(target / "incomplete.txt", redact_bytes(trouble.encode() + b"\n"))
    return target


def _files(directory: Path) -> list[Path]:
    found = []
    for place, _, names in os.walk(directory, followlinks=False):
        for name in names:
            file = Path(place, name)
            if file.is_file() and not file.is_symlink() and name not in _LEFT_OUT:
                found.append(file)
    return found


def _end_of(file: Path) -> bytes:
    with file.open("rb") as opened:
        size = opened.seek(0, os.SEEK_END)
        opened.seek(max(0, size - _MOST))
        data = opened.read(_MOST)
    return data if size <= _MOST else f"[{size - _MOST} bytes left out]\n".encode() + data


def _new_directory(wanted: Path) -> Path:
    """That directory, or with a number where something stands already."""
    for number in range(1, 1000):
        path = wanted if number == 1 else wanted.with_name(f"{wanted.name}-{number}")
        make_directory(path.parent)
        try:
            path.mkdir()
        except FileExistsError:
            continue
        except OSError as error:
            raise EvidenceError(f"{path}: cannot be created: {reason_of(error)}") from error
        return path
    raise KindError(f"{wanted}: too many exports")
