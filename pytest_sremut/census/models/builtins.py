"""Python's builtins, as far as following a grader needs them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pytest_sremut.census.interpreter.attributes import set_attr
from pytest_sremut.census.interpreter.classes import find_in_class, mro_of
from pytest_sremut.census.interpreter.core import call, get_attr
from pytest_sremut.census.interpreter.items import iterate, put, truth
from pytest_sremut.census.interpreter.machine import Machine
from pytest_sremut.census.interpreter.texts import as_text
from pytest_sremut.census.interpreter.values import (
    HOLE,
    ClassV,
    Const,
    Dict,
    Ext,
    Inst,
    KObj,
    ListV,
    Native,
    Unknown,
    Value,
    hole,
    join,
)
from pytest_sremut.census.model import Reason
from pytest_sremut.census.models.files import open_file

__all__ = ["builtin", "builtin_attribute"]

Args = list[Value]
Kwargs = dict[str, Value]


def builtin(m: Machine, name: str) -> Value | None:
    """The builtin of that name; None if there is none."""
    if name in _MODELLED:
        function = _MODELLED[name]
        return Native(lambda args, kwargs: function(m, args, kwargs), name)
    if name in _FOREIGN:
        return Ext(f"builtins.{name}")
    return None


def builtin_attribute(m: Machine, value: Native, name: str, quiet: bool) -> Value:
    """The name of a builtin, or a method of a builtin class (`str.lower`)."""
    if name == "__name__":
        return Const(value.name)
    if value.name in {"str", "dict"}:
        return Native(lambda _args, _kwargs: Unknown(name), name)
    return Unknown(name)


def _print(m: Machine, args: Args, kwargs: Kwargs) -> Value:
    return Const(None)


def _str(m: Machine, args: Args, kwargs: Kwargs) -> Value:
    if not args:
        return Const("")
    if isinstance(args[0], KObj):
        return args[0]
    text = as_text(args[0])
    return Const(hole("text") if text is None else text)


def _int(m: Machine, args: Args, kwargs: Kwargs) -> Value:
    if args and isinstance(args[0], Const):
        try:
            return Const(int(args[0].value))
        except (TypeError, ValueError):
            return Unknown("int")
    return Unknown("int")


def _float(m: Machine, args: Args, kwargs: Kwargs) -> Value:
    if args and isinstance(args[0], Const):
        try:
            return Const(float(args[0].value))
        except (TypeError, ValueError):
            return Unknown("float")
    return Unknown("float")


def _bool(m: Machine, args: Args, kwargs: Kwargs) -> Value:
    holds = truth(args[0]) if args else False
    return Unknown("bool") if holds is None else Const(holds)


def _len(m: Machine, args: Args, kwargs: Kwargs) -> Value:
    value = args[0] if args else Unknown()
    if isinstance(value, ListV) and not value.is_open:
        return Const(len(value.items))
    if isinstance(value, Dict) and not value.is_open:
        return Const(len(value.entries))
    if isinstance(value, Const) and isinstance(value.value, str) and not HOLE.search(value.value):
        return Const(len(value.value))
    return Unknown("len")


def _collect(m: Machine, args: Args, kwargs: Kwargs) -> Value:
    if not args:
        return ListV([])
    if isinstance(args[0], KObj):
        return args[0]
    if isinstance(args[0], Unknown):
        return Unknown(args[0].text)
    items, is_all = iterate(m, args[0])
    return ListV(list(items), is_open=not is_all)


def _dict(m: Machine, args: Args, kwargs: Kwargs) -> Value:
    result = Dict({})
    if args and isinstance(args[0], Dict):
        result = Dict(dict(args[0].entries), args[0].is_open, args[0].kind, args[0].element)
    elif args and isinstance(args[0], KObj):
        return args[0]
    elif args:
        items, is_all = iterate(m, args[0])
        result.is_open = not is_all
        for item in items:
            if isinstance(item, ListV) and len(item.items) == 2:
                put(result, item.items[0], item.items[1])
    result.entries.update(kwargs)
    return result


def _fold(m: Machine, args: Args, kwargs: Kwargs) -> Value:
    """any, all, sum, min, max: what the argument reads is recorded; the result is unknown."""
    for arg in args:
        iterate(m, arg)
    if "key" in kwargs:
        _apply(m, kwargs["key"], args[:1])
    return Unknown("fold")


def _apply(m: Machine, func: Value, iterables: Args) -> Args:
    columns = [iterate(m, one)[0] for one in iterables]
    return [call(m, func, list(row), {}) for row in zip(*columns, strict=False)]


def _map(m: Machine, args: Args, kwargs: Kwargs) -> Value:
    return ListV(_apply(m, args[0], args[1:]), is_open=True) if args else ListV([])


def _filter(m: Machine, args: Args, kwargs: Kwargs) -> Value:
    if len(args) == 2:
        if not (isinstance(args[0], Const) and args[0].value is None):
            _apply(m, args[0], args[1:])
        return _collect(m, args[1:], {})
    return Unknown("filter")


def _sorted(m: Machine, args: Args, kwargs: Kwargs) -> Value:
    if "key" in kwargs:
        _apply(m, kwargs["key"], args[:1])
    return _collect(m, args, {})


def _enumerate(m: Machine, args: Args, kwargs: Kwargs) -> Value:
    items, is_all = iterate(m, args[0]) if args else ([], True)
    pairs: Args = [ListV([Const(index), item]) for index, item in enumerate(items)]
    return ListV(pairs, is_open=not is_all)


def _zip(m: Machine, args: Args, kwargs: Kwargs) -> Value:
    columns = [iterate(m, arg) for arg in args]
    rows = zip(*[items for items, _ in columns], strict=False)
    return ListV([ListV(list(row)) for row in rows], not all(is_all for _, is_all in columns))


def _range(m: Machine, args: Args, kwargs: Kwargs) -> Value:
    numbers = [arg.value for arg in args if isinstance(arg, Const) and isinstance(arg.value, int)]
    if len(numbers) == len(args) and args:
        try:
            values = range(*numbers)
        except (TypeError, ValueError):
            return ListV([], is_open=True)
        # Repetition adds nothing: three turns show as much as three hundred.
        return ListV([Const(number) for number in values[:3]], is_open=len(values) > 3)
    return ListV([Unknown("index")], is_open=True)


def _next(m: Machine, args: Args, kwargs: Kwargs) -> Value:
    items, is_all = iterate(m, args[0]) if args else ([], False)
    found = list(items) if not is_all else list(items[:1])
    if not is_all and len(args) > 1:
        found.append(args[1])
    return join(found) if found else (args[1] if len(args) > 1 else Unknown("next"))


def _getattr(m: Machine, args: Args, kwargs: Kwargs) -> Value:
    if len(args) < 2:
        return Unknown("getattr")
    name = as_text(args[1])
    if name is None or HOLE.search(name):
        if isinstance(args[0], Inst | ClassV):
            shown = name or "a name that is not determined"
            m.trail(Reason.UNRESOLVED_DISPATCH, f"getattr of {shown}")
        return Unknown("getattr", is_trail=True)
    if not name.isidentifier():
        found: Value = Unknown(name)
    else:
        found = get_attr(m, args[0], name, quiet=len(args) > 2)
    if isinstance(found, Unknown) and len(args) > 2:
        return args[2]
    return found


def _hasattr(m: Machine, args: Args, kwargs: Kwargs) -> Value:
    name = as_text(args[1]) if len(args) > 1 else None
    if name is not None and isinstance(args[0], Inst):
        inst = args[0]
        if name in inst.attrs or find_in_class(m, inst.cls, name) is not None:
            return Const(True)
        return Unknown("hasattr") if any(c.foreign for c in inst.cls.mro or []) else Const(False)
    return Unknown("hasattr")


def _setattr(m: Machine, args: Args, kwargs: Kwargs) -> Value:
    if len(args) == 3:
        name = as_text(args[1])
        if name is not None and not HOLE.search(name):
            set_attr(m, args[0], name, args[2])
    return Const(None)


def _isinstance(m: Machine, args: Args, kwargs: Kwargs) -> Value:
    if len(args) == 2:
        wanted = args[1].items if isinstance(args[1], ListV) else [args[1]]
        if isinstance(args[0], Inst) and all(isinstance(one, ClassV) for one in wanted):
            return Const(any(one in mro_of(m, args[0].cls) for one in wanted))
        names = [one.name for one in wanted if isinstance(one, Native)]
        names += [one.path.rpartition(".")[2] for one in wanted if isinstance(one, Ext)]
        if len(names) == len(wanted):
            return _is_builtin(args[0], names)
    return Unknown("isinstance")


_BUILT: Final[dict[str, tuple[type[Any], ...]]] = {
    "str": (str,),
    "int": (int,),
    "float": (float,),
    "bool": (bool,),
    "bytes": (bytes,),
}


def _is_builtin(value: Value, names: list[str]) -> Value:
    if isinstance(value, Const):
        for name in names:
            if name in _BUILT and isinstance(value.value, _BUILT[name]):
                return Const(True)
        return Const(False)
    if isinstance(value, ListV):
        return Const(bool({"list", "tuple", "set", "frozenset", "Sequence"} & set(names)))
    if isinstance(value, Dict) and not value.kind:
        return Const(bool({"dict", "Mapping"} & set(names)))
    return Unknown("isinstance")


def _type(m: Machine, args: Args, kwargs: Kwargs) -> Value:
    return args[0].cls if args and isinstance(args[0], Inst) else Unknown("type")


def _open(m: Machine, args: Args, kwargs: Kwargs) -> Value:
    return open_file(m, args[0] if args else kwargs.get("file", Unknown()))


def _vars(m: Machine, args: Args, kwargs: Kwargs) -> Value:
    return Dict(dict(args[0].attrs)) if args and isinstance(args[0], Inst) else Unknown("vars")


def _unknown(m: Machine, args: Args, kwargs: Kwargs) -> Value:
    return Unknown("value")


def _identity(m: Machine, args: Args, kwargs: Kwargs) -> Value:
    return args[0] if args else Unknown("value")


_MODELLED: Final[dict[str, Callable[[Machine, Args, Kwargs], Value]]] = {
    "print": _print,
    "str": _str,
    "repr": _str,
    "int": _int,
    "float": _float,
    "bool": _bool,
    "len": _len,
    "list": _collect,
    "tuple": _collect,
    "set": _collect,
    "frozenset": _collect,
    "reversed": _collect,
    "iter": _identity,
    "dict": _dict,
    "any": _fold,
    "all": _fold,
    "sum": _fold,
    "min": _fold,
    "max": _fold,
    "map": _map,
    "filter": _filter,
    "sorted": _sorted,
    "enumerate": _enumerate,
    "zip": _zip,
    "range": _range,
    "next": _next,
    "getattr": _getattr,
    "hasattr": _hasattr,
    "setattr": _setattr,
    "isinstance": _isinstance,
    "issubclass": _unknown,
    "callable": _unknown,
    "type": _type,
    "open": _open,
    "vars": _vars,
    "id": _unknown,
    "hash": _unknown,
    "abs": _unknown,
    "round": _unknown,
    "divmod": _unknown,
    "pow": _unknown,
    "chr": _unknown,
    "ord": _unknown,
    "format": _str,
    "input": _unknown,
    "exit": _unknown,
    "bytes": _identity,
    "bytearray": _identity,
    "memoryview": _identity,
    "staticmethod": _identity,
    "classmethod": _identity,
    "property": _identity,
    "super": _unknown,
}
_FOREIGN: Final = frozenset(
    {"object", "Exception", "BaseException", "eval", "exec", "compile", "__import__", "globals"}
    | {"locals", "NotImplemented", "Ellipsis", "delattr", "slice", "complex", "bin", "hex", "oct"}
    | {name for name in dir(__import__("builtins")) if name.endswith(("Error", "Warning"))}
    | {"KeyboardInterrupt", "SystemExit", "StopIteration", "GeneratorExit", "TimeoutError"}
)
