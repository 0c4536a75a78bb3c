"""Defect finders on what was followed: what an oracle reads, writes, compares and misses.

There is one finding per class and place, with the problems whose rows have it. The order in which
problems were followed does not matter.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from pytest_sremut.census.model import Channel, Direction, Effect, Finding, Place
from pytest_sremut.census.source import SourceTree
from pytest_sremut.census.survey.survey import Followed

__all__ = ["enclosing", "graph_findings", "missing_attributes"]

# Fields by which an object is picked, not judged.
_SELECTING: Final = (".name", ".kind", ".apiVersion", ".type", ".path")
_WRITES: Final = frozenset({"create", "apply", "update", "delete"})


def graph_findings(followed: Sequence[Followed], tree: SourceTree) -> list[Finding]:
    """All findings from what was followed, each once."""
    finders: list[Callable[[Followed, SourceTree], Iterable[Finding]]] = [
        _sweeps,
        _writes,
        _instants,
        _injected_only,
    ]
    merged: dict[tuple[str, str, str], Finding] = {}
    for one in followed:
        for finder in finders:
            for finding in finder(one, tree):
                _merge(merged, finding, one.row.problem)
        for finding in missing_attributes(one, tree):
            _merge(merged, finding, one.row.problem)
    return list(merged.values())


def _merge(merged: dict[tuple[str, str, str], Finding], finding: Finding, problem: str) -> None:
    key = (finding.finder, finding.subject, finding.place.file)
    old = merged.get(key)
    first = finding if old is None else min(old, finding, key=lambda item: item.place)
    problems = {problem, *(old.problems if old is not None else ())}
    merged[key] = replace(first, problems=tuple(sorted(problems)))


def enclosing(tree: SourceTree, place: Place) -> str:
    """`Class.function` around a line, or the file's name."""
    module = tree.by_file(place.file)
    best: list[str] = []
    body: Sequence[ast.stmt] = module.tree.body if module is not None else ()
    while body:
        inside: Sequence[ast.stmt] = ()
        for node in body:
            if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            if node.lineno <= place.line <= (node.end_lineno or node.lineno):
                best.append(node.name)
                inside = node.body
                break
        body = inside
    return ".".join(best[:2]) or place.file


def _sweeps(one: Followed, tree: SourceTree) -> Iterator[Finding]:
    for look in one.row.observations:
        if look.channel is not Channel.API or look.kind != "Pod" or look.name or look.detail:
            continue
        reads_status = any(field.startswith("status.containerStatuses") for field in look.fields)
        filters = any(
            field.startswith(("metadata.labels", "metadata.ownerReferences"))
            for field in look.fields
        )
        if reads_status and not filters:
            yield Finding(
                finder="namespace-sweep",
                direction=Direction.FALSE_REJECT,
                subject=enclosing(tree, look.place),
                place=look.place,
                sentence="The state of every pod of the namespace decides: a leftover pod of the "
                "load generator or of a probe rejects a correct repair.",
            )


def _writes(one: Followed, tree: SourceTree) -> Iterator[Finding]:
    created = {effect.name for effect in one.effects if effect.verb == "create"}
    grouped: dict[str, list[Effect]] = {}
    for effect in one.effects:
        is_write = effect.verb in _WRITES or effect.verb == "restart"
        if is_write and not effect.is_handler:
            grouped.setdefault(enclosing(tree, effect.place), []).append(effect)
    for subject, effects in sorted(grouped.items()):
        foreign = [effect for effect in effects if effect.name not in created or not effect.name]
        first = min(foreign or effects, key=lambda effect: effect.place)
        what = ", ".join(sorted({f"{effect.verb} {effect.kind}" for effect in foreign or effects}))
        if foreign:
            sentence = f"The oracle changes objects that are not its own ({what})."
            direction = Direction.EITHER
        else:
            sentence = f"The oracle creates objects of its own in the cluster ({what}); what is "
            sentence += "left of them is met by the next sweep."
            direction = Direction.FALSE_REJECT
        yield Finding(
            finder="oracle-writes",
            direction=direction,
            subject=subject,
            place=first.place,
            sentence=sentence,
        )


def _instants(one: Followed, tree: SourceTree) -> Iterator[Finding]:
    if one.has_window or one.oracle is None:
        return
    looks = [
        look
        for look in one.row.observations
        if look.channel is Channel.API and any(field.startswith("status") for field in look.fields)
    ]
    if looks:
        first = min(looks, key=lambda look: look.place)
        yield Finding(
            finder="single-instant",
            direction=Direction.FALSE_REJECT,
            subject=enclosing(tree, first.place),
            place=first.place,
            sentence="A state that changes is read once, with no window to settle: a repair that "
            "is still rolling out is rejected, a crash that comes later is accepted.",
        )


def _injected_only(one: Followed, tree: SourceTree) -> Iterator[Finding]:
    """A field that is only compared with what the injector wrote: any other wrong value passes."""
    fields: dict[tuple[str, str], list[tuple[bool, bool, str, Place]]] = {}
    for seen in one.comparisons:
        is_injected = seen.value in one.injected
        fields.setdefault((seen.kind, seen.field), []).append(
            (seen.is_equal, is_injected, seen.value, seen.place)
        )
    for (kind, field), seen_all in sorted(fields.items()):
        changed = any(
            change.kind == kind
            and any(field == one or one.startswith(field) for one in change.fields)
            for change in one.row.perturbations
        )
        if not changed or field.startswith(("status", "metadata")) or field.endswith(_SELECTING):
            continue
        if all(is_equal and is_injected for is_equal, is_injected, _, _ in seen_all):
            _, _, value, place = min(seen_all, key=lambda item: item[3])
            yield Finding(
                finder="injected-value-only",
                direction=Direction.FALSE_ACCEPT,
                subject=f"{enclosing(tree, place)}:{field}",
                place=place,
                sentence=f"{kind} `{field}` is only compared with the injected value ({value}): "
                "any other wrong value is accepted.",
            )


def missing_attributes(one: Followed, tree: SourceTree) -> Iterator[Finding]:
    """Attributes that the oracle reads from the problem and the problem's classes never set."""
    for missing in one.missing:
        oracle = one.row.oracle.name if one.row.oracle else ""
        outcome = (
            "the error is swallowed into a verdict"
            if missing.in_try
            else "the evaluation ends with an AttributeError"
        )
        yield Finding(
            finder="missing-attribute",
            direction=Direction.FALSE_REJECT,
            subject=f"{missing.cls}.{missing.attribute}:{oracle}",
            place=missing.place,
            sentence=f"{enclosing(tree, missing.place)} reads `{missing.attribute}`, which "
            f"{missing.cls} never sets; {outcome}.",
        )
