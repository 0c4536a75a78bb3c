"""Random tampering with a sealed evidence directory, each change taken back afterwards."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["KINDS", "tampered"]

Undo = Callable[[], None]


def _files(root: Path) -> list[Path]:
    """Every file that a seal covers; the ledger's lock is nobody's evidence."""
    return sorted(p for p in root.rglob("*") if p.is_file() and not p.name.startswith(".tmp-"))


def _put_back(file: Path, data: bytes) -> Undo:
    return lambda: _write(file, data)


def _write(file: Path, data: bytes) -> None:
    file.write_bytes(data)


def _changed(root: Path, rng: random.Random) -> Undo:
    """One byte is another one."""
    file = rng.choice([one for one in _files(root) if one.stat().st_size])
    data = file.read_bytes()
    place = rng.randrange(len(data))
    file.write_bytes(
        data[:place] + bytes([data[place] ^ rng.randrange(1, 256)]) + data[place + 1 :]
    )
    return _put_back(file, data)


def _byte_added(root: Path, rng: random.Random) -> Undo:
    file = rng.choice(_files(root))
    data = file.read_bytes()
    place = rng.randrange(len(data) + 1)
    file.write_bytes(data[:place] + bytes([rng.randrange(256)]) + data[place:])
    return _put_back(file, data)


def _byte_removed(root: Path, rng: random.Random) -> Undo:
    file = rng.choice([one for one in _files(root) if one.stat().st_size])
    data = file.read_bytes()
    place = rng.randrange(len(data))
    file.write_bytes(data[:place] + data[place + 1 :])
    return _put_back(file, data)


def _truncated(root: Path, rng: random.Random) -> Undo:
    file = rng.choice([one for one in _files(root) if one.stat().st_size])
    data = file.read_bytes()
    file.write_bytes(data[: rng.randrange(len(data))])
    return _put_back(file, data)


def _file_removed(root: Path, rng: random.Random) -> Undo:
    file = rng.choice(_files(root))
    data = file.read_bytes()
    file.unlink()
    return _put_back(file, data)


def _file_added(root: Path, rng: random.Random) -> Undo:
    file = rng.choice(_files(root)).parent / f"{rng.choice(('', '.'))}x{rng.randrange(10**6)}"
    file.write_bytes(rng.randbytes(rng.randrange(3)))
    return file.unlink


def _lines_exchanged(root: Path, rng: random.Random) -> Undo:
    lined = [one for one in _files(root) if len(set(one.read_bytes().splitlines(True))) > 1]
    file = rng.choice(lined)
    data = file.read_bytes()
    lines = data.splitlines(keepends=True)
    first, second = rng.sample(range(len(lines)), 2)
    while lines[first] == lines[second]:
        first, second = rng.sample(range(len(lines)), 2)
    lines[first], lines[second] = lines[second], lines[first]
    file.write_bytes(b"".join(lines))
    return _put_back(file, data)


def _line_removed(root: Path, rng: random.Random) -> Undo:
    file = rng.choice([one for one in _files(root) if len(one.read_bytes().splitlines()) > 1])
    data = file.read_bytes()
    lines = data.splitlines(keepends=True)
    del lines[rng.randrange(len(lines))]
    file.write_bytes(b"".join(lines))
    return _put_back(file, data)


def _contents_exchanged(root: Path, rng: random.Random) -> Undo:
    files = _files(root)
    first, second = rng.sample(files, 2)
    while first.read_bytes() == second.read_bytes():
        first, second = rng.sample(files, 2)
    one, other = first.read_bytes(), second.read_bytes()
    first.write_bytes(other)
    second.write_bytes(one)

    def undo() -> None:
        first.write_bytes(one)
        second.write_bytes(other)

    return undo


def _renamed(root: Path, rng: random.Random) -> Undo:
    file = rng.choice(_files(root))
    away = file.with_name(f"{file.name}x")
    file.rename(away)
    return lambda: _moved(away, file)


def _moved(source: Path, target: Path) -> None:
    source.rename(target)


def _directory_added(root: Path, rng: random.Random) -> Undo:
    directory = rng.choice(_files(root)).parent / f"x{rng.randrange(10**6)}"
    directory.mkdir()
    return directory.rmdir


def _directory_removed(root: Path, rng: random.Random) -> Undo:
    directory = rng.choice(sorted({one.parent for one in _files(root)}))
    away = root.parent / "taken-away"
    shutil.move(directory, away)

    def undo() -> None:
        shutil.move(away, directory)

    return undo


def _file_as_link(root: Path, rng: random.Random) -> Undo:
    """The same bytes, by a link that leads out of the evidence."""
    file = rng.choice(_files(root))
    away = root.parent / "elsewhere"
    file.rename(away)
    file.symlink_to(away)

    def undo() -> None:
        file.unlink()
        away.rename(file)

    return undo


def _directory_as_link(root: Path, rng: random.Random) -> Undo:
    directory = rng.choice(sorted({one.parent for one in _files(root)} - {root}))
    away = root.parent / "elsewhere"
    directory.rename(away)
    directory.symlink_to(away)

    def undo() -> None:
        directory.unlink()
        away.rename(directory)

    return undo


KINDS: dict[str, Callable[[Path, random.Random], Undo]] = {
    "byte changed": _changed,
    "byte added": _byte_added,
    "byte removed": _byte_removed,
    "file truncated": _truncated,
    "file removed": _file_removed,
    "file added": _file_added,
    "file renamed": _renamed,
    "file as a link": _file_as_link,
    "lines exchanged": _lines_exchanged,
    "line removed": _line_removed,
    "contents exchanged": _contents_exchanged,
    "directory added": _directory_added,
    "directory removed": _directory_removed,
    "directory as a link": _directory_as_link,
}


@contextmanager
def tampered(root: Path, kind: str, rng: random.Random) -> Iterator[None]:
    """The directory with one change of that kind, and as it was afterwards."""
    undo = KINDS[kind](root, rng)
    try:
        yield
    finally:
        undo()
