"""Attributes and methods of file paths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pytest_sremut.census.interpreter.machine import Machine
from pytest_sremut.census.interpreter.texts import as_text
from pytest_sremut.census.interpreter.values import (
    HOLE,
    Const,
    ListV,
    Native,
    PathV,
    Unknown,
    Value,
    hole,
)
from pytest_sremut.census.models.files import open_file, read_file, write_file

__all__ = ["path_attribute"]

Args = list[Value]


def path_attribute(m: Machine, value: PathV, name: str, quiet: bool) -> Value:
    """A part of a path, or a method that is called later."""
    part = _part(value.text, name)
    if part is not None:
        return part
    method = _METHODS.get(name)
    if method is None:
        return Native(lambda _args, _kwargs: Unknown(name), name)
    return Native(lambda args, _kwargs: method(m, value, args), name)


def _part(text: str, name: str) -> Value | None:
    if name == "parent":
        return PathV(text.rstrip("/").rpartition("/")[0])
    if name in {"name", "stem", "suffix"}:
        last = text.rpartition("/")[2]
        parts = {"name": last, "stem": last.rpartition(".")[0], "suffix": last.rpartition(".")[2]}
        return Const(parts[name])
    if name == "parents":
        steps = text.split("/")
        ups: Args = [PathV("/".join(steps[:-index])) for index in range(1, len(steps) + 1)]
        return ListV(ups)
    return None


def _read(m: Machine, path: PathV, args: Args) -> Value:
    return read_file(m, path.text)


def _write(m: Machine, path: PathV, args: Args) -> Value:
    if args:
        write_file(m, path.text, args[0])
    return Const(None)


def _open(m: Machine, path: PathV, args: Args) -> Value:
    return open_file(m, path)


def _below(m: Machine, path: PathV, args: Args) -> Value:
    return PathV("/".join([path.text, *(as_text(arg) or hole("part") for arg in args)]))


def _text(m: Machine, path: PathV, args: Args) -> Value:
    return Const(path.text)


def _exists(m: Machine, path: PathV, args: Args) -> Value:
    text = path.text
    known = text in m.files or (not HOLE.search(text) and m.tree.text(text) is not None)
    return Const(True) if known else Unknown("exists")


def _other(m: Machine, path: PathV, args: Args) -> Value:
    return PathV(hole(path.text))


def _same(m: Machine, path: PathV, args: Args) -> Value:
    return path


def _files(m: Machine, path: PathV, args: Args) -> Value:
    return ListV([PathV(f"{path.text}/{hole('file')}")], is_open=True)


_METHODS: Final[dict[str, Callable[[Machine, PathV, Args], Value]]] = {
    "read_text": _read,
    "read_bytes": _read,
    "write_text": _write,
    "write_bytes": _write,
    "open": _open,
    "joinpath": _below,
    "as_posix": _text,
    "__str__": _text,
    "exists": _exists,
    "is_file": _exists,
    "with_suffix": _other,
    "with_name": _other,
    "relative_to": _other,
    "resolve": _same,
    "expanduser": _same,
    "absolute": _same,
    "glob": _files,
    "iterdir": _files,
    "rglob": _files,
}
