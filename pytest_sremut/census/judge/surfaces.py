"""The two sides of a verdict: observations of the oracle, perturbations of the injector.

The rules:

- What an exception handler does is a rollback and perturbs nothing.
- A program that only reads changes nothing.
- An object that is deleted and created again is changed in its fields, not in its existence.
- Pods that are deleted, and a workload that is scaled down and up again, are *recycled*. That is no
  perturbation, but it decides where a symptom may show.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from pytest_sremut.census.interpreter.values import HOLE, Root
from pytest_sremut.census.model import Channel, Effect, Observation, Perturbation, Place
from pytest_sremut.census.rules import Rules

__all__ = ["Recycle", "Side", "leaves", "observations", "perturbations", "same_name", "same_scope"]

_WRITES = frozenset({"create", "apply", "update", "delete"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Recycle:
    """Pods or a workload that the injector restarts."""

    kind: str
    namespace: str
    name: str
    place: Place
    order: int
    settled: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """What an injector leaves behind."""

    perturbations: Sequence[Perturbation]
    recycles: Sequence[Recycle] = field(default_factory=tuple)


def same_scope(one: str, two: str) -> bool:
    """Whether two namespaces may be the same; an unknown one may be any."""
    if not one or not two or "*" in {one, two}:
        return True
    return one == two or bool(HOLE.search(one)) or bool(HOLE.search(two))


def same_name(one: str, two: str) -> bool:
    """Whether two names may be the same; an empty one is a list or a selector."""
    if not one or not two or one == two:
        return True
    return bool(HOLE.search(one)) or bool(HOLE.search(two))


def leaves(paths: Iterable[str]) -> tuple[str, ...]:
    """The paths without those that are only a prefix of another."""
    given = sorted(set(paths))
    return tuple(
        path
        for path in given
        if not any(one.startswith((f"{path}.", f"{path}[")) for one in given if one != path)
    )


def observations(
    effects: Sequence[Effect], roots: Sequence[Root], workload: Sequence[str]
) -> list[Observation]:
    """What an oracle observes.

    `workload` names the files of load generators. What is read there is the workload's own report.
    A probe pod that the oracle created is counted as what it does, not as a read of a pod.
    """
    own = {effect.name for effect in effects if effect.verb == "create" and effect.name}
    found: set[Observation] = set()
    for root in roots:
        if root.name and root.name in own:
            continue
        if root.place.file.startswith(tuple(workload)):
            continue
        found.add(
            Observation(
                channel=Channel.API,
                kind=root.kind,
                namespace=root.namespace,
                name=root.name,
                fields=leaves(root.reads),
                place=root.place,
                detail=f"selector {root.selector}" if root.selector else "",
            )
        )
    for effect in effects:
        one = _signal(effect, workload, own)
        if one is not None:
            found.add(one)
    return sorted(found)


def _signal(effect: Effect, workload: Sequence[str], own: set[str]) -> Observation | None:
    in_generator = effect.sink.file.startswith(tuple(workload)) if workload else False
    if in_generator and effect.verb in {"logs", "exec"}:
        return _observed(effect, Channel.WORKLOAD, "Workload", effect.verb)
    if effect.verb == "logs":
        return None if effect.name in own else _observed(effect, Channel.LOGS, "Pod", "")
    if effect.verb != "exec":
        return None
    channel = {
        "DNS": Channel.DNS,
        "TCP": Channel.TCP,
        "HTTP": Channel.HTTP,
        "METRICS": Channel.METRICS,
    }.get(effect.kind, Channel.EXEC)
    return _observed(effect, channel, effect.kind, effect.detail)


def _observed(effect: Effect, channel: Channel, kind: str, detail: str) -> Observation:
    return Observation(
        channel=channel,
        kind=kind,
        namespace=effect.namespace,
        name=effect.name,
        fields=effect.fields,
        place=effect.place,
        detail=detail,
    )


def perturbations(effects: Sequence[Effect], rules: Rules, workload: Sequence[str] = ()) -> Side:
    """What is different after the injector, and what it recycled.

    Perturbations that do not count stay in the list with the reason, so that a reader can object.
    """
    stability = re.compile(rules.verdicts["stability"])
    effects = [_load(effect, workload) for effect in effects]
    done = [effect for effect in effects if effect.verb in {*_WRITES, "restart", "exec", "load"}]
    waits = [
        effect
        for effect in effects
        if effect.verb == "wait" and stability.search(effect.detail) and not effect.is_handler
    ]
    kept: dict[tuple[str, ...], Perturbation] = {}
    recycles: list[Recycle] = []
    for effect in done:
        dropped = _dropped(effect, done, rules)
        settled = _settled(effect, waits)
        if dropped.startswith("recycled"):
            recycles.append(
                Recycle(
                    kind=effect.kind,
                    namespace=effect.namespace,
                    name=effect.name,
                    place=effect.place,
                    order=effect.order,
                    settled=settled,
                )
            )
        one = Perturbation(
            verb=effect.verb,
            kind=effect.kind,
            namespace=effect.namespace,
            name=effect.name,
            fields=effect.fields,
            place=effect.place,
            via=effect.via,
            detail=effect.detail,
            settled=settled,
            dropped=dropped,
        )
        key = (one.verb, one.kind, one.namespace, one.name, *one.fields, dropped)
        kept.setdefault(key, one)
    return Side(perturbations=tuple(kept.values()), recycles=tuple(recycles))


def _load(effect: Effect, workload: Sequence[str]) -> Effect:
    """A request that a load generator sends during injection is load, no observation."""
    is_request = effect.verb == "exec" and effect.kind in {"HTTP", "METRICS"}
    if workload and is_request and effect.sink.file.startswith(tuple(workload)):
        return replace(effect, verb="load", kind="LOAD")
    return effect


def _settled(effect: Effect, waits: Sequence[Effect]) -> str:
    for wait in waits:
        is_after = wait.order > effect.order and same_scope(wait.namespace, effect.namespace)
        if is_after and wait.kind in {"Pod", effect.kind}:
            return str(wait.place)
    return ""


def _dropped(effect: Effect, done: Sequence[Effect], rules: Rules) -> str:
    if effect.is_handler:
        return "rollback: in an exception handler"
    if effect.verb == "restart":
        return "recycled: restarted, nothing is changed"
    if effect.verb == "exec":
        return _looks(effect, rules)
    if effect.kind == "Pod" and effect.verb == "delete":
        return "recycled: deleted pods come back"
    if effect.kind == "Pod" and effect.verb in {"create", "apply"} and effect.via != "kubectl":
        return "instrument: a pod that the injector created to look or to act"
    if effect.verb == "delete" and _again(effect, done):
        return "recreated: created again later, its fields are what changed"
    if effect.fields == ("spec.replicas",) and _bounced(effect, done):
        return "recycled: scaled down and up again"
    return ""


def _looks(effect: Effect, rules: Rules) -> str:
    if effect.kind in {"DNS", "TCP", "METRICS"}:
        return "looks only"
    if effect.kind == "HTTP":
        return "looks only" if effect.detail.startswith(("GET", "HEAD")) else ""
    writing = [
        flag
        for program in effect.fields
        for flag in rules.words["writing_flags"].get(program, ())
        if f" {flag}" in effect.detail
    ]
    if not writing and all(program in rules.readers for program in effect.fields):
        return "looks only"
    if effect.kind == "NODE":
        return "carrier: what runs there is listed by itself"
    return ""


def _again(effect: Effect, done: Sequence[Effect]) -> bool:
    return any(
        other.order > effect.order
        and other.verb in {"create", "apply"}
        and not other.is_handler
        and other.kind == effect.kind
        and same_scope(other.namespace, effect.namespace)
        and same_name(other.name, effect.name)
        for other in done
    )


def _bounced(effect: Effect, done: Sequence[Effect]) -> bool:
    same = [
        other
        for other in done
        if other.fields == ("spec.replicas",)
        and other.kind == effect.kind
        and other.name == effect.name
        and same_scope(other.namespace, effect.namespace)
        and not other.is_handler
    ]
    return len(same) > 1
