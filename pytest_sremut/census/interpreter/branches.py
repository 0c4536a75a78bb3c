"""Branches: `if`, `try`, `match`. An undecided test leaves every name with the values of all."""

from __future__ import annotations

import ast

from pytest_sremut.census.interpreter.core import evaluate, run_block
from pytest_sremut.census.interpreter.items import truth
from pytest_sremut.census.interpreter.machine import End, Frame, Machine
from pytest_sremut.census.interpreter.values import Const, Unknown, Value, join

__all__ = ["follow_if", "follow_match", "follow_try", "joined", "restore"]


def restore(frame: Frame, names: dict[str, Value]) -> None:
    """Let the frame's scope hold these names and no others."""
    frame.scope.clear()
    frame.scope.update(names)


def joined(scopes: list[dict[str, Value]]) -> dict[str, Value]:
    """The names of several scopes, each with all its possible values."""
    if len(scopes) == 1:
        return scopes[0]
    result: dict[str, Value] = {}
    for scope in scopes:
        for name in scope:
            if name not in result:
                values = [one[name] for one in scopes if name in one]
                same = all(value is values[0] for value in values)
                result[name] = values[0] if same else join(values)
    return result


def follow_if(m: Machine, node: ast.If, frame: Frame) -> End:
    """An `if`: one branch if the test is decided, otherwise both."""
    holds = truth(evaluate(m, node.test, frame))
    if holds is not None:
        return run_block(m, node.body if holds else node.orelse, frame)
    return _either(m, [node.body, node.orelse], frame)


def _either(m: Machine, bodies: list[list[ast.stmt]], frame: Frame) -> End:
    """Follow each of several blocks from the same start, and join what they leave."""
    before = dict(frame.scope)
    left: list[dict[str, Value]] = []
    ends: list[End] = []
    with m.maybe():
        for body in bodies:
            restore(frame, before)
            end = run_block(m, body, frame)
            ends.append(end)
            if end is None:
                left.append(dict(frame.scope))
            elif end in {"break", "continue"} and frame.exits:
                frame.exits[-1].append(dict(frame.scope))
    restore(frame, joined(left) if left else before)
    if all(end is not None for end in ends):
        return ends[0] if len(set(ends)) == 1 else "return"
    return None


def follow_try(m: Machine, node: ast.Try, frame: Frame) -> End:
    """A `try`: the body, then every handler as something that may happen, then `finally`."""
    before = dict(frame.scope)
    m.tries += 1
    try:
        end = run_block(m, node.body, frame)
    finally:
        m.tries -= 1
    if end is None and node.orelse:
        end = run_block(m, node.orelse, frame)
    after = dict(frame.scope)
    left = [after] if end is None else []
    handled: list[End] = [end]
    m.handlers += 1
    try:
        with m.maybe():
            for handler in node.handlers:
                restore(frame, joined([after, before]))
                if handler.name:
                    frame.scope[handler.name] = Unknown(handler.name)
                one = run_block(m, handler.body, frame)
                handled.append(one)
                if one is None:
                    left.append(dict(frame.scope))
    finally:
        m.handlers -= 1
    restore(frame, joined(left) if left else after)
    final = run_block(m, node.finalbody, frame)
    if final is not None:
        return final
    if left:
        return None
    return end if end == "return" or len(handled) == 1 else "return"


def follow_match(m: Machine, node: ast.Match, frame: Frame) -> End:
    """A `match`: the first case that surely fits, and every earlier one that may."""
    subject = evaluate(m, node.subject, frame)
    bodies: list[list[ast.stmt]] = []
    for case in node.cases:
        holds = _pattern(m, case.pattern, subject, frame)
        if holds is False:
            continue
        if holds is True and case.guard is None:
            if not bodies:
                return run_block(m, case.body, frame)
            bodies.append(case.body)
            return _either(m, bodies, frame)
        bodies.append(case.body)
    return _either(m, [*bodies, []], frame)


def _pattern(m: Machine, pattern: ast.pattern, subject: Value, frame: Frame) -> bool | None:
    match pattern:
        case ast.MatchValue(value=value):
            other = evaluate(m, value, frame)
            if isinstance(subject, Const) and isinstance(other, Const):
                return bool(subject.value == other.value)
            return None
        case ast.MatchAs(pattern=None, name=name):
            if name:
                frame.scope[name] = subject
            return True
        case ast.MatchOr(patterns=patterns):
            found = [_pattern(m, one, subject, frame) for one in patterns]
            return True if True in found else (None if None in found else False)
        case _:
            return None
