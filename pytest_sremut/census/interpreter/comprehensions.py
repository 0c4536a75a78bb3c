"""List, set, dict and generator comprehensions."""

from __future__ import annotations

import ast

from pytest_sremut.census.interpreter.binding import assign
from pytest_sremut.census.interpreter.core import evaluate
from pytest_sremut.census.interpreter.items import iterate, put, truth
from pytest_sremut.census.interpreter.machine import Frame, Machine, Scope
from pytest_sremut.census.interpreter.values import Dict, ListV, Value

__all__ = ["comprehension"]

Comprehension = ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp


def comprehension(m: Machine, node: Comprehension, frame: Frame) -> Value:
    """The result of a comprehension; open if there may be more items."""
    inner = Frame(
        module=frame.module,
        scope=Scope(frame.scope),
        func=frame.func,
        self=frame.self,
        line=frame.line,
        outer_names=frame.outer_names,
    )
    result: ListV | Dict = Dict({}) if isinstance(node, ast.DictComp) else ListV([])
    m.stack.append(inner)
    try:
        _turns(m, node, 0, inner, result)
    finally:
        m.stack.pop()
    return result


def _turns(m: Machine, node: Comprehension, index: int, frame: Frame, result: ListV | Dict) -> None:
    """Every turn of the generators from `index` on."""
    if index == len(node.generators):
        _emit(m, node, frame, result)
        return
    generator = node.generators[index]
    items, is_all = iterate(m, evaluate(m, generator.iter, frame))
    if not is_all:
        result.is_open = True
    for item in items:
        m.step()
        assign(m, generator.target, item, frame)
        holds = _holds(m, generator.ifs, frame)
        if holds is False:
            continue
        if holds is None:
            result.is_open = True
        _turns(m, node, index + 1, frame, result)


def _holds(m: Machine, tests: list[ast.expr], frame: Frame) -> bool | None:
    """Whether all tests hold; None if that is not known. Every test is followed."""
    found = [truth(evaluate(m, test, frame)) for test in tests]
    if False in found:
        return False
    return None if None in found else True


def _emit(m: Machine, node: Comprehension, frame: Frame, result: ListV | Dict) -> None:
    if isinstance(node, ast.DictComp):
        key, value = evaluate(m, node.key, frame), evaluate(m, node.value, frame)
        assert isinstance(result, Dict)
        put(result, key, value, ast.unparse(node.key)[:40])
    else:
        assert isinstance(result, ListV)
        result.items.append(evaluate(m, node.elt, frame))
