"""Following expressions, blocks, calls and attributes: each looks its handler up in the machine.

`evaluate`, `run_block`, `call` and `get_attr` need each other without end. They meet here, below
all handlers. None of them raises for what a benchmark may write: what is not known is `Unknown`.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from pytest_sremut.census.interpreter.machine import End, Frame, Machine
from pytest_sremut.census.interpreter.values import Const, Unknown, Value

__all__ = ["call", "evaluate", "get_attr", "run_block"]


def evaluate(m: Machine, node: ast.expr | None, frame: Frame) -> Value:
    """The value of an expression. A missing one is None, as in `return`."""
    if node is None:
        return Const(None)
    handler = m.language.expressions.get(type(node))
    return handler(m, node, frame) if handler else Unknown(type(node).__name__)


def run_block(m: Machine, body: list[ast.stmt], frame: Frame) -> End:
    """Follow the statements in order until one ends the block."""
    statements = m.language.statements
    for node in body:
        m.step()
        frame.line = node.lineno
        handler = statements.get(type(node))
        end: End = handler(m, node, frame) if handler else None
        if end is not None:
            return end
    return None


def call(m: Machine, func: Value, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    """Call a value. Returns Unknown if the callee is not known."""
    handler = m.language.calls.get(type(func))
    return handler(m, func, list(args), kwargs) if handler else Unknown("call")


def get_attr(m: Machine, value: Value, name: str, *, quiet: bool = False) -> Value:
    """`value.name`. `quiet`: the program asks if it exists (`getattr` with a default)."""
    handler = m.language.attributes.get(type(value))
    return handler(m, value, name, quiet) if handler else Unknown(name)
