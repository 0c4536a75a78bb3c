"""Expressions on partly known values.

`evaluate` never raises for what a benchmark may write: an operation on unknown values is unknown.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, Final

from pytest_sremut.census.interpreter.attributes import field_of, get_attr
from pytest_sremut.census.interpreter.calls import call_node, define
from pytest_sremut.census.interpreter.comparing import compared, plain_constant
from pytest_sremut.census.interpreter.machine import Frame, Machine, Scope
from pytest_sremut.census.interpreter.operators import LONG_TEXT, combine
from pytest_sremut.census.interpreter.texts import as_text, is_none
from pytest_sremut.census.interpreter.values import (
    HOLE,
    ClassV,
    Const,
    Dict,
    Ext,
    Func,
    Inst,
    KObj,
    Lazy,
    ListV,
    ModuleV,
    Native,
    OneOf,
    PathV,
    Unknown,
    Value,
    hole,
    join,
)

__all__ = ["evaluate", "iterate", "lookup", "put", "subscript", "truth"]

MAX_ITEMS: Final = 48


def evaluate(m: Machine, node: ast.expr | None, frame: Frame) -> Value:
    """The value of an expression."""
    if node is None:
        return Const(None)
    handler = _HANDLERS.get(type(node))
    return handler(m, node, frame) if handler else Unknown(type(node).__name__)


def lookup(m: Machine, name: str, frame: Frame) -> Value | None:
    """The value of a name: local scopes outwards, the module, the builtins."""
    scope: Any = frame.scope
    while scope is not None:
        if name in scope:
            value: Value = scope[name]
            if isinstance(value, Lazy):
                value = m.resolve(value)
            return value
        scope = getattr(scope, "parent", None)
    names = frame.module.names
    if name in names:
        value = names[name]
        return m.resolve(value) if isinstance(value, Lazy) else value
    from pytest_sremut.census.models.builtins import builtin

    return builtin(m, name)


def _name(m: Machine, node: ast.Name, frame: Frame) -> Value:
    found = lookup(m, node.id, frame)
    return Unknown(node.id) if found is None else found


def _attribute(m: Machine, node: ast.Attribute, frame: Frame) -> Value:
    frame.line = node.lineno
    return get_attr(m, evaluate(m, node.value, frame), node.attr)


def _joined(m: Machine, node: ast.JoinedStr, frame: Frame) -> Value:
    parts: list[str] = []
    for part in node.values:
        if isinstance(part, ast.FormattedValue):
            value = evaluate(m, part.value, frame)
            parts.append(_formatted(m, value, part))
        elif isinstance(part, ast.Constant):
            parts.append(str(part.value))
    return Const("".join(parts)[:LONG_TEXT])


def _formatted(m: Machine, value: Value, node: ast.FormattedValue) -> str:
    text = as_text(value)
    if text is None or (node.format_spec is not None and HOLE.search(text)):
        return hole(ast.unparse(node.value))
    if node.format_spec is not None:
        return text if isinstance(value, Const) and isinstance(value.value, str) else hole(text)
    if node.conversion == ord("r"):
        return repr(text)
    return text


def truth(value: Value) -> bool | None:
    """Whether a test holds; None when that is not determined."""
    match value:
        case Const(value=raw):
            if isinstance(raw, str) and HOLE.search(raw):
                return True if HOLE.sub("", raw) else None
            return bool(raw)
        case ListV(items=items, is_open=is_open):
            return None if is_open else bool(items)
        case Dict(entries=entries, is_open=is_open, kind=kind):
            return True if kind else (None if is_open else bool(entries))
        case Inst() | ClassV() | Func() | ModuleV() | Native() | PathV():
            return True
        case OneOf(options=options):
            found = {truth(option) for option in options}
            return found.pop() if len(found) == 1 else None
        case _:
            return None


def _binary(m: Machine, node: ast.BinOp, frame: Frame) -> Value:
    # A long chain `a + b + c + …` nests to the left: follow it without recursion.
    chain: list[ast.BinOp] = []
    left: ast.expr = node
    while isinstance(left, ast.BinOp):
        chain.append(left)
        left = left.left
    value = evaluate(m, left, frame)
    for link in reversed(chain):
        value = combine(link, value, evaluate(m, link.right, frame))
    return value


def _bool(m: Machine, node: ast.BoolOp, frame: Frame) -> Value:
    is_or = isinstance(node.op, ast.Or)
    possible: list[Value] = []
    for item in node.values:
        value = evaluate(m, item, frame)
        holds = truth(value)
        if holds is None:
            possible.append(value)
            continue
        if holds is is_or:
            possible.append(value)
            break
        if item is node.values[-1]:
            possible.append(value)
    objects = [value for value in possible if isinstance(value, KObj)]
    if is_or and objects and isinstance(possible[0], KObj):
        return possible[0]  # `status.conditions or []`
    return join(possible)


def _compare(m: Machine, node: ast.Compare, frame: Frame) -> Value:
    left = evaluate(m, node.left, frame)
    results: list[bool | None] = []
    for op, right_node in zip(node.ops, node.comparators, strict=True):
        right = evaluate(m, right_node, frame)
        m.compared(left, right, is_equal=isinstance(op, ast.Eq | ast.In))
        results.append(compared(op, left, right))
        left = right
    if any(result is False for result in results):
        return Const(False)
    if all(result is True for result in results):
        return Const(True)
    return Unknown("comparison")


def _ifexp(m: Machine, node: ast.IfExp, frame: Frame) -> Value:
    holds = truth(evaluate(m, node.test, frame))
    if holds is not None:
        return evaluate(m, node.body if holds else node.orelse, frame)
    with m.maybe():
        return join([evaluate(m, node.body, frame), evaluate(m, node.orelse, frame)])


def _list(m: Machine, node: ast.List | ast.Tuple | ast.Set, frame: Frame) -> Value:
    items: list[Value] = []
    is_open = False
    for item in node.elts:
        if isinstance(item, ast.Starred):
            inner = evaluate(m, item.value, frame)
            if isinstance(inner, ListV | Dict):
                found, is_all = iterate(m, inner)
                items += found
                is_open = is_open or not is_all
            else:
                is_open = True
        else:
            items.append(evaluate(m, item, frame))
    return ListV(items, is_open)


def _dict(m: Machine, node: ast.Dict, frame: Frame) -> Value:
    result = Dict({})
    for key, item in zip(node.keys, node.values, strict=True):
        value = evaluate(m, item, frame)
        if key is None:
            if isinstance(value, Dict):
                result.entries.update(value.entries)
                result.is_open = result.is_open or value.is_open
            else:
                result.is_open = True
            continue
        put(result, evaluate(m, key, frame), value, ast.unparse(key)[:40])
    return result


def put(target: Dict, key: Value, value: Value, text: str = "key") -> None:
    """`target[key] = value` where the key may be unknown."""
    plain = key.value if isinstance(key, Const) else as_text(key)
    try:
        hash(plain)
    except TypeError:
        plain = None
    if plain is None and not is_none(key):
        target.is_open = True
        target.element = value if target.element is None else join([target.element, value])
        target.entries.setdefault(hole(text), value)
        return
    target.entries[plain] = value


def _lambda(m: Machine, node: ast.Lambda, frame: Frame) -> Value:
    owner = frame.func.owner if frame.func else None
    return define(m, Func(frame.module, node, frame.scope, owner=owner), frame)


def _subscript(m: Machine, node: ast.Subscript, frame: Frame) -> Value:
    value = evaluate(m, node.value, frame)
    if isinstance(node.slice, ast.Slice):
        return _sliced(m, value, node.slice, frame)
    return subscript(m, value, evaluate(m, node.slice, frame))


def _sliced(m: Machine, value: Value, node: ast.Slice, frame: Frame) -> Value:
    bounds = [
        None if part is None else plain_constant(evaluate(m, part, frame))
        for part in (node.lower, node.upper, node.step)
    ]
    if isinstance(value, KObj):
        return value
    if all(bound is None or isinstance(bound, int) for bound in bounds):
        part = slice(*bounds)
        if isinstance(value, ListV) and not value.is_open:
            return ListV(value.items[part])
        if isinstance(value, Const) and isinstance(value.value, str):
            return value if HOLE.search(value.value) else Const(value.value[part])
    if isinstance(value, ListV):
        return ListV(list(value.items), is_open=True)
    return Unknown("slice")


def subscript(m: Machine, value: Value, key: Value) -> Value:
    """`value[key]`."""
    match value:
        case KObj(is_list=True):
            if value.path == "" and isinstance(key, Const) and key.value == "items":
                return KObj(value.root, "[]", is_list=True)
            return KObj(value.root, "")
        case KObj():
            if isinstance(key, Const) and isinstance(key.value, str):
                return field_of(m, value, key.value if not HOLE.search(key.value) else "[]")
            return KObj(value.root, value.path if value.path.endswith("[]") else f"{value.path}[]")
        case Dict(entries=entries):
            plain = key.value if isinstance(key, Const) else as_text(key)
            try:
                if plain in entries:
                    return entries[plain]
            except TypeError:
                pass
            partly = [item for key_, item in entries.items() if _has_hole(key_)]
            if value.element is not None:
                return join([value.element, *partly])
            if partly:
                return join(partly)
            if isinstance(key, OneOf | Unknown | KObj) and entries:
                return join(list(entries.values()))
            return Unknown("item")
        case ListV(items=items):
            if isinstance(key, Const) and isinstance(key.value, int):
                try:
                    return items[key.value]
                except IndexError:
                    return Unknown("item")
            return join(items) if items else Unknown("item")
        case OneOf(options=options):
            return join([subscript(m, one, key) for one in options if not is_none(one)])
        case Ext() if value.path == "os.environ":
            return Unknown(f"environ_{as_text(key) or ''}")
        case ClassV():
            found = get_attr(m, value, as_text(key) or "")
            return value if isinstance(found, Unknown) else found  # Generic[T], Enum["x"]
        case _:
            return Unknown("item")


def _has_hole(key: Any) -> bool:
    return isinstance(key, str) and bool(HOLE.search(key))


def iterate(m: Machine, value: Value) -> tuple[list[Value], bool]:
    """The items of a value, and whether they are known to be all."""
    match value:
        case ListV(items=items, is_open=is_open):
            known = items[:MAX_ITEMS]
            if is_open and not known:
                return [Unknown("item")], False
            return known, not is_open and len(known) == len(items)
        case Dict(entries=entries, is_open=is_open):
            keys: list[Value] = [Const(key) for key in list(entries)[:MAX_ITEMS]]
            if is_open and not keys:
                return [Unknown("key")], False
            return keys, not is_open and len(keys) == len(entries)
        case KObj(is_list=True):
            return [KObj(value.root, "")], False
        case KObj():
            path = value.path if value.path.endswith("[]") else f"{value.path}[]"
            return [KObj(value.root, path)], False
        case Const(value=str() as text) if not HOLE.search(text) and len(text) <= MAX_ITEMS:
            return [Const(letter) for letter in text], True
        case OneOf(options=options):
            items = []
            for option in options:
                items += iterate(m, option)[0] if not is_none(option) else []
            return items[:MAX_ITEMS] or [Unknown("item")], False
        case ClassV():
            from pytest_sremut.census.interpreter.attributes import class_attrs, is_enum

            if is_enum(m, value):
                names = [name for name in class_attrs(m, value) if not name.startswith("_")]
                return [get_attr(m, value, name) for name in names][:MAX_ITEMS], True
            return [Unknown("item")], False
        case _:
            return [Unknown("item")], False


def _comprehension(
    m: Machine, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, frame: Frame
) -> Value:
    inner = Frame(
        module=frame.module,
        scope=Scope(frame.scope),
        func=frame.func,
        self=frame.self,
        line=frame.line,
        outer_names=frame.outer_names,
    )
    result_list = ListV([])
    result_dict = Dict({})
    is_dict = isinstance(node, ast.DictComp)

    def emit() -> None:
        if isinstance(node, ast.DictComp):
            key, value = evaluate(m, node.key, inner), evaluate(m, node.value, inner)
            put(result_dict, key, value, ast.unparse(node.key)[:40])
        else:
            result_list.items.append(evaluate(m, node.elt, inner))

    def run(index: int) -> None:
        if index == len(node.generators):
            emit()
            return
        from pytest_sremut.census.interpreter.binding import assign

        generator = node.generators[index]
        items, is_all = iterate(m, evaluate(m, generator.iter, inner))
        if not is_all:
            result_list.is_open = result_dict.is_open = True
        for item in items:
            m.step()
            assign(m, generator.target, item, inner)
            holds: bool | None = True
            for test in generator.ifs:
                one = truth(evaluate(m, test, inner))
                holds = (
                    False if one is False or holds is False else (None if one is None else holds)
                )
            if holds is False:
                continue
            if holds is None:
                result_list.is_open = result_dict.is_open = True
            run(index + 1)

    m.stack.append(inner)
    try:
        run(0)
    finally:
        m.stack.pop()
    return result_dict if is_dict else result_list


def _unary(m: Machine, node: ast.UnaryOp, frame: Frame) -> Value:
    value = evaluate(m, node.operand, frame)
    if isinstance(node.op, ast.Not):
        holds = truth(value)
        return Unknown("not") if holds is None else Const(not holds)
    if isinstance(value, Const) and isinstance(value.value, int | float):
        return Const(-value.value if isinstance(node.op, ast.USub) else value.value)
    return Unknown("number")


def _walrus(m: Machine, node: ast.NamedExpr, frame: Frame) -> Value:
    from pytest_sremut.census.interpreter.binding import assign

    value = evaluate(m, node.value, frame)
    assign(m, node.target, value, frame)
    return value


def _yield(m: Machine, node: ast.Yield | ast.YieldFrom, frame: Frame) -> Value:
    value = evaluate(m, node.value, frame)
    target = next((one for one in reversed(m.stack) if one.func is frame.func), frame)
    if isinstance(node, ast.YieldFrom):
        target.yields += iterate(m, value)[0]
    else:
        target.yields.append(value)
    return Unknown("sent")


_HANDLERS: Final[dict[type[ast.expr], Callable[[Machine, Any, Frame], Value]]] = {
    ast.Constant: lambda _m, node, _frame: Const(node.value),
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.JoinedStr: _joined,
    ast.BinOp: _binary,
    ast.BoolOp: _bool,
    ast.Compare: _compare,
    ast.IfExp: _ifexp,
    ast.List: _list,
    ast.Tuple: _list,
    ast.Set: _list,
    ast.Dict: _dict,
    ast.Lambda: _lambda,
    ast.Subscript: _subscript,
    ast.ListComp: _comprehension,
    ast.SetComp: _comprehension,
    ast.GeneratorExp: _comprehension,
    ast.DictComp: _comprehension,
    ast.UnaryOp: _unary,
    ast.NamedExpr: _walrus,
    ast.Yield: _yield,
    ast.YieldFrom: _yield,
    ast.Await: lambda m, node, frame: evaluate(m, node.value, frame),
    ast.Starred: lambda m, node, frame: evaluate(m, node.value, frame),
    ast.Call: call_node,
}
