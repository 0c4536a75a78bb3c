"""Methods of texts, lists, mappings, paths, and of Kubernetes objects used as any of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pytest_sremut.census.interpreter.attributes import field_of, write_field
from pytest_sremut.census.interpreter.machine import Machine
from pytest_sremut.census.interpreter.values import (
    HOLE,
    Const,
    Dict,
    KObj,
    ListV,
    Native,
    PathV,
    Unknown,
    Value,
    hole,
    join,
)
from pytest_sremut.census.models.files import open_file, read_file, write_file

__all__ = ["TEXT_METHODS", "method_of", "object_method"]

Args = list[Value]
Kwargs = dict[str, Value]
TEXT_METHODS: Final = frozenset(
    {"strip", "lstrip", "rstrip", "decode", "encode", "lower", "upper", "split", "splitlines"}
    | {"replace", "startswith", "endswith", "partition", "rpartition", "isdigit", "join", "count"}
    | {"removeprefix", "removesuffix", "find"}
)
_SAFE_TEXT: Final = frozenset(
    {"strip", "lstrip", "rstrip", "lower", "upper", "title", "replace", "split", "rsplit"}
    | {"splitlines", "partition", "rpartition", "removeprefix", "removesuffix", "capitalize"}
    | {"startswith", "endswith", "isdigit", "find", "count", "isalnum", "zfill", "ljust", "rjust"}
    | {"swapcase", "isidentifier", "isalpha", "index"}
)
_DECIDING: Final = frozenset({"startswith", "endswith", "find", "count", "isdigit", "index"})


def method_of(m: Machine, value: Value, name: str) -> Value:
    """A bound method of a known value, or an attribute of a path."""
    if isinstance(value, PathV):
        return _path(m, value, name)
    handler: Callable[[Args, Kwargs], Value]
    match value:
        case Const(value=str()):
            handler = lambda args, kwargs: _text(value, name, args)  # noqa: E731
        case ListV() | Dict() if name in {"encode", "decode", "strip"}:
            return Native(lambda args, kwargs: value, name)  # a structure stands for its text
        case ListV():
            handler = lambda args, kwargs: _list(m, value, name, args, kwargs)  # noqa: E731
        case Dict():
            handler = lambda args, kwargs: _dict(m, value, name, args, kwargs)  # noqa: E731
        case Native() if name == "__name__":
            return Const(value.name)
        case Native() if value.name in {"str", "dict"}:
            handler = lambda args, kwargs: Unknown(name)  # noqa: E731
        case _:
            return Unknown(name)
    return Native(handler, name)


def _text(value: Const, name: str, args: Args) -> Value:
    from pytest_sremut.census.interpreter.texts import as_text, constant

    text: str = value.value
    if name in {"encode", "decode", "expandtabs", "casefold"}:
        return value
    if name == "join":
        return _join(text, args)
    if name == "format":
        texts = [as_text(arg) or hole(f"arg{index}") for index, arg in enumerate(args)]
        for one in texts:
            text = text.replace("{}", one, 1)
        return Const(text)
    if name in _SAFE_TEXT:
        if HOLE.search(text) and name in _DECIDING:
            return Unknown(name)
        raw: list[object] = [arg.value for arg in args if isinstance(arg, Const)]
        if len(raw) != len(args):
            known = [as_text(arg) for arg in args]
            if name != "replace" or None in known:
                return Const(hole(text)) if name == "replace" else Unknown(name)
            raw = list(known)
        try:
            return constant(getattr(text, name)(*raw))
        except (TypeError, ValueError):
            return Unknown(name)
    return Unknown(name)


def _join(separator: str, args: Args) -> Value:
    from pytest_sremut.census.interpreter.texts import as_text

    if args and isinstance(args[0], ListV):
        parts = [as_text(item) or hole("item") for item in args[0].items]
        if args[0].is_open:
            parts.append(hole("more"))
        return Const(separator.join(parts))
    return Const(hole("joined"))


def _list(m: Machine, value: ListV, name: str, args: Args, kwargs: Kwargs) -> Value:
    match name:
        case "append" | "add" | "appendleft" if args:
            value.items.append(args[0])
            value.is_open = value.is_open or m.may > 0
        case "extend" | "update" | "union" | "difference" | "intersection":
            from pytest_sremut.census.interpreter.expressions import iterate

            target = value if name in {"extend", "update"} else ListV(list(value.items), True)
            for arg in args:
                items, is_all = iterate(m, arg)
                if name != "difference":
                    target.items += items
                target.is_open = target.is_open or not is_all or m.may > 0
            return Const(None) if target is value else target
        case "insert" if len(args) == 2:
            value.items.insert(0, args[1])
        case "pop" | "popleft":
            return join(value.items) if value.items else Unknown("item")
        case "copy":
            return ListV(list(value.items), value.is_open)
        case "sort" if "key" in kwargs:
            from pytest_sremut.census.interpreter.calls import call

            for item in value.items:
                call(m, kwargs["key"], [item], {})
        case "remove" | "discard" | "clear":
            value.is_open = True
        case "index" | "count":
            return Unknown(name)
        case _:
            return Const(None) if name in {"reverse", "sort"} else Unknown(name)
    return Const(None)


def _dict(m: Machine, value: Dict, name: str, args: Args, kwargs: Kwargs) -> Value:
    from pytest_sremut.census.interpreter.expressions import put, subscript
    from pytest_sremut.census.interpreter.texts import as_text

    match name:
        case "get" if args:
            key = args[0].value if isinstance(args[0], Const) else as_text(args[0])
            default = args[1] if len(args) > 1 else Const(None)
            if key in value.entries:
                return value.entries[key]
            known = isinstance(args[0], Const) and not (isinstance(key, str) and HOLE.search(key))
            if known and not value.is_open:
                return default
            found = subscript(m, value, args[0])
            return default if isinstance(found, Unknown) else join([found, default])
        case "items":
            pairs: Args = [ListV([Const(key), item]) for key, item in value.entries.items()]
            return ListV(pairs, value.is_open)
        case "keys":
            return ListV([Const(key) for key in value.entries], value.is_open)
        case "values":
            return ListV(list(value.entries.values()), value.is_open)
        case "update":
            for arg in args:
                if isinstance(arg, Dict):
                    value.entries.update(arg.entries)
                    value.is_open = value.is_open or arg.is_open
                else:
                    value.is_open = True
            value.entries.update(kwargs)
            return Const(None)
        case "setdefault" if args:
            key = args[0].value if isinstance(args[0], Const) else as_text(args[0])
            if key is not None and key in value.entries:
                return value.entries[key]
            default = args[1] if len(args) > 1 else Const(None)
            put(value, args[0], default)
            return default
        case "pop" if args:
            found = subscript(m, value, args[0])
            if m.may == 0 and isinstance(args[0], Const):
                value.entries.pop(args[0].value, None)
            return args[1] if isinstance(found, Unknown) and len(args) > 1 else found
        case "copy":
            return Dict(dict(value.entries), value.is_open, value.kind, value.element)
        case "clear":
            value.entries.clear()
            return Const(None)
        case "to_dict":
            return value
        case _:
            return Unknown(name)


def object_method(m: Machine, value: KObj, name: str, args: Args, kwargs: Kwargs) -> Value:
    """A Kubernetes object used as text, mapping or list."""
    match name:
        case "get" | "setdefault" if args and isinstance(args[0], Const):
            from pytest_sremut.census.interpreter.expressions import subscript

            return subscript(m, value, args[0])
        case "get":
            return field_of(m, value, "[]")
        case "items":
            return ListV([ListV([Unknown("key"), field_of(m, value, "[]")])], is_open=True)
        case "keys":
            field_of(m, value, "[]")
            return ListV([Unknown("key")], is_open=True)
        case "values":
            return ListV([field_of(m, value, "[]")], is_open=True)
        case "pop" if args and isinstance(args[0], Const) and isinstance(args[0].value, str):
            write_field(m, value, args[0].value)
            return field_of(m, value, args[0].value)
        case "update" if args and isinstance(args[0], Dict):
            for key in args[0].entries:
                write_field(m, value, str(key))
            return Const(None)
        case "append" | "extend" | "insert" | "remove" | "clear" | "sort" | "pop" | "update":
            write_field(m, value, "")
            return Const(None)
        case "splitlines" | "split":
            return ListV([value], is_open=True)
        case "startswith" | "endswith" | "isdigit" | "count" | "find" | "index":
            return Unknown(name)
        case _:
            return value  # strip, decode, lower, to_dict, copy: the same object


def _path(m: Machine, value: PathV, name: str) -> Value:
    text = value.text
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

    def act(args: Args, kwargs: Kwargs) -> Value:
        from pytest_sremut.census.interpreter.texts import as_text

        match name:
            case "read_text" | "read_bytes":
                return read_file(m, text)
            case "write_text" | "write_bytes":
                if args:
                    write_file(m, text, args[0])
                return Const(None)
            case "open":
                return open_file(m, value)
            case "joinpath":
                return PathV("/".join([text, *(as_text(arg) or hole("part") for arg in args)]))
            case "as_posix" | "__str__":
                return Const(text)
            case "exists" | "is_file":
                known = text in m.files or (not HOLE.search(text) and m.tree.text(text) is not None)
                return Const(True) if known else Unknown(name)
            case "with_suffix" | "with_name" | "relative_to":
                return PathV(hole(text))
            case "resolve" | "expanduser" | "absolute":
                return value
            case "glob" | "iterdir" | "rglob":
                return ListV([PathV(f"{text}/{hole('file')}")], is_open=True)
            case _:
                return Unknown(name)

    return Native(act, name)
