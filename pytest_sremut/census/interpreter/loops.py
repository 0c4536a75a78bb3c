"""Loops: every known item is followed, any other loop runs its body once."""

from __future__ import annotations

import ast

from pytest_sremut.census.interpreter.binding import assign
from pytest_sremut.census.interpreter.branches import joined, restore
from pytest_sremut.census.interpreter.core import evaluate, run_block
from pytest_sremut.census.interpreter.items import iterate, truth
from pytest_sremut.census.interpreter.machine import End, Frame, Machine
from pytest_sremut.census.interpreter.values import Value

__all__ = ["follow_for", "follow_while"]


def follow_for(m: Machine, node: ast.For | ast.AsyncFor, frame: Frame) -> End:
    """A `for` loop."""
    items, is_all = iterate(m, evaluate(m, node.iter, frame))
    with _Watch(m):
        if is_all:
            end = _loop_known(m, node, items, frame)
            if end in {"return", "raise"}:
                return end
            if end == "break":
                return None
        else:
            _loop_unknown(m, node, items, frame)
    if node.orelse:
        return run_block(m, node.orelse, frame)
    return None


def _loop_known(m: Machine, node: ast.For | ast.AsyncFor, items: list[Value], frame: Frame) -> End:
    for item in items:
        m.step()
        assign(m, node.target, item, frame)
        end = _turn(m, node.body, frame)
        if end in {"return", "raise", "break"}:
            return end
    return None


def _turn(m: Machine, body: list[ast.stmt], frame: Frame) -> End:
    """One turn of a loop. What undecided `continue` and `break` left is joined in."""
    frame.exits.append([])
    end = run_block(m, body, frame)
    exits = frame.exits.pop()
    if exits:
        restore(frame, joined([dict(frame.scope), *exits]))
    return end


def _loop_unknown(
    m: Machine, node: ast.For | ast.AsyncFor, items: list[Value], frame: Frame
) -> None:
    before = dict(frame.scope)
    with m.maybe():
        for item in items:
            m.step()
            assign(m, node.target, item, frame)
            _turn(m, node.body, frame)
    restore(frame, joined([dict(frame.scope), before]))


def follow_while(m: Machine, node: ast.While, frame: Frame) -> End:
    """A `while` loop: its body at most once."""
    holds = truth(evaluate(m, node.test, frame))
    if holds is False:
        return run_block(m, node.orelse, frame)
    with _Watch(m):
        before = dict(frame.scope)
        with m.maybe():
            _turn(m, node.body, frame)
        if holds is None:
            restore(frame, joined([dict(frame.scope), before]))
    return None


class _Watch:
    """Records a loop that sleeps and reads as a wait for what it reads."""

    def __init__(self, m: Machine) -> None:
        self._m = m

    def __enter__(self) -> None:
        self._sleeps = self._m.sleeps
        self._effects = len(self._m.effects)

    def __exit__(self, *_: object) -> None:
        if self._m.sleeps == self._sleeps:
            return
        seen: dict[tuple[str, str], str] = {}
        for effect in self._m.effects[self._effects :]:
            if effect.verb == "read":
                seen.setdefault((effect.kind, effect.namespace), effect.name)
        for (kind, namespace), name in sorted(seen.items()):
            self._m.effect(
                "wait",
                kind,
                namespace=namespace,
                name=name,
                via="loop",
                detail=self._m.function(),
            )
