"""Files that the benchmark reads from its own checkout, and files it writes while it runs.

A file of the checkout is read as text and parsed as data. A file that the benchmark writes is kept
here under its path only. So `kubectl apply -f` finds what `yaml.dump(deployment, f)` wrote before.
"""

from __future__ import annotations

from pytest_sremut.census.interpreter.bodies import documents
from pytest_sremut.census.interpreter.machine import Machine
from pytest_sremut.census.interpreter.texts import constant
from pytest_sremut.census.interpreter.values import (
    HOLE,
    Const,
    Dict,
    KObj,
    ListV,
    Native,
    OneOf,
    PathV,
    Rec,
    Unknown,
    Value,
    join,
)

__all__ = ["dump", "load", "open_file", "plain_path", "read_file", "write_file"]


def plain_path(value: Value) -> str:
    """The path as text, with holes for what is not known."""
    if isinstance(value, PathV):
        return value.text
    if isinstance(value, Const) and isinstance(value.value, str):
        return value.value
    if isinstance(value, Rec) and "name" in value.attrs:
        return plain_path(value.attrs["name"])
    return "⟦path⟧"


def read_file(m: Machine, path: str) -> Value:
    """The content of a file, as written during this interpretation or from the checkout."""
    if path in m.files:
        return m.files[path]
    if HOLE.search(path):
        return Unknown(f"content of {path}")
    text = m.tree.text(path)
    return Unknown(f"content of {path}") if text is None else Const(text)


def write_file(m: Machine, path: str, content: Value) -> None:
    """Let later reads and applies of that path see this content."""
    if path in m.files and m.may:
        m.files[path] = join([m.files[path], content])
    else:
        m.files[path] = content


def open_file(m: Machine, value: Value) -> Value:
    """A file object."""
    path = plain_path(value)

    def read(_args: list[Value], _kwargs: dict[str, Value]) -> Value:
        return read_file(m, path)

    def write(args: list[Value], _kwargs: dict[str, Value]) -> Value:
        if args:
            write_file(m, path, args[0])
        return Const(None)

    nothing = Native(lambda _args, _kwargs: Const(None), "nothing")
    return Rec(
        {
            "name": Const(path),
            "read": Native(read, "read"),
            "readlines": Native(read, "readlines"),
            "write": Native(write, "write"),
            "writelines": Native(write, "writelines"),
            "flush": nothing,
            "close": nothing,
            "seek": nothing,
            "__path__": Const(path),
        },
        text="file",
    )


def load(m: Machine, value: Value) -> Value:
    """`json.loads`, `json.load`, `yaml.safe_load` of text or of a file object."""

    if isinstance(value, Rec) and "__path__" in value.attrs:
        value = read_file(m, plain_path(value.attrs["__path__"]))
    if isinstance(value, OneOf):
        found = [load(m, option) for option in value.options if not isinstance(option, Unknown)]
        return join([one for one in found if not isinstance(one, Unknown)] or [Unknown("data")])
    if isinstance(value, KObj | Dict | ListV):
        return value
    if isinstance(value, Const) and isinstance(value.value, str):
        parsed = documents(value.value)
        if len(parsed) == 1:
            return constant(parsed[0])
        if parsed:
            return ListV([constant(one) for one in parsed])
    return Unknown("data")


def dump(m: Machine, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """`json.dumps(x)` and `yaml.dump(x)`; a write if the second argument is a file object."""
    if not args:
        return Unknown("text")
    stream = args[1] if len(args) > 1 else kwargs.get("stream", kwargs.get("fp"))
    if isinstance(stream, Rec) and "__path__" in stream.attrs:
        write_file(m, plain_path(stream.attrs["__path__"]), args[0])
        return Const(None)
    return args[0]  # a structure is used as its own text
