"""The verdict: whether an observation sees a perturbation, by the rules that are data.

A row is ADEQUATE if any observation sees any counted perturbation. Otherwise it is UNCERTAIN if a
trail ended, or if no rule decides about a functional signal that is read. Otherwise it is BLIND.
The order of observations and perturbations does not matter: the strongest rule decides.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pytest_sremut.census.judge.surfaces import Recycle, Side, same_name, same_scope
from pytest_sremut.census.model import (
    Channel,
    Observation,
    Perturbation,
    Place,
    Reason,
    Trail,
    Verdict,
)
from pytest_sremut.census.rules import Rules

__all__ = ["Judgement", "judge"]

# An oracle reads some field of these kinds in passing, so the changed field itself must be read.
_BY_FIELD: Final = frozenset(
    {"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Pod", "Node"}
)

_STRENGTH: Final = (
    "direct",
    "derived-kind",
    "own-status",
    "recycled-status",
    "same-program",
    "signal",
    "watched-pods",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A verdict and its justification."""

    verdict: Verdict
    rule: str
    sentence: str
    would_have_to_observe: str
    symptoms: tuple[str, ...]
    reason: Reason | None = None
    trail_end: Place | None = None


def judge(
    seen: Sequence[Observation],
    side: Side,
    inject_trails: Sequence[Trail],
    oracle_trails: Sequence[Trail],
    *,
    rules: Rules,
    aspects: frozenset[str],
    has_window: bool,
) -> Judgement:
    """Judge one problem.

    Args:
        seen: What the oracle observes.
        side: What the injector leaves behind.
        inject_trails, oracle_trails: Where following either of them ended early.
        rules: The rule data.
        aspects: What the checkout's alert rules are about.
        has_window: Whether the oracle polls or waits, rather than reading at one instant.
    """
    counted = [one for one in side.perturbations if not one.dropped]
    if not counted:
        return _nothing(side, inject_trails)
    around = _Around(
        recycles=side.recycles,
        aspects=aspects,
        workloads=frozenset(rules.verdicts["workloads"]),
        has_window=has_window,
    )
    found: list[tuple[int, str, Perturbation, Observation]] = []
    for change in counted:
        entry = _entry(rules, change)
        for look in seen:
            rule = _sees(look, change, entry, around)
            if rule:
                found.append((_STRENGTH.index(rule), rule, change, look))
    observe = _observe(rules, counted)
    symptoms = _symptoms(seen, counted, rules)
    if found:
        _, rule, change, look = min(found, key=lambda one: (one[0], one[3], one[2]))
        return Judgement(
            verdict=Verdict.ADEQUATE,
            rule=rule,
            sentence=_adequate(rule, change, look),
            would_have_to_observe="",
            symptoms=(),
        )
    undecided = _undecided(seen, counted, rules)
    for trail in sorted([*inject_trails, *oracle_trails], key=lambda one: (one.place, one.what)):
        return Judgement(
            verdict=Verdict.UNCERTAIN,
            rule="trail",
            sentence=f"Following the source ended at {trail.place} ({trail.what}); "
            "what was followed shows no observation of the perturbation.",
            would_have_to_observe=observe,
            symptoms=symptoms,
            reason=trail.reason,
            trail_end=trail.place,
        )
    if undecided is not None:
        reason, change, look_or_none, sentence = undecided
        return Judgement(
            verdict=Verdict.UNCERTAIN,
            rule="undecided",
            sentence=sentence,
            would_have_to_observe=observe,
            symptoms=symptoms,
            reason=reason,
            trail_end=look_or_none.place if look_or_none else change.place,
        )
    return Judgement(
        verdict=Verdict.BLIND,
        rule="nothing-sees-it",
        sentence=_blind(seen, counted),
        would_have_to_observe=observe,
        symptoms=symptoms,
    )


def _nothing(side: Side, trails: Sequence[Trail]) -> Judgement:
    trail = min(trails, key=lambda one: (one.place, one.what), default=None)
    return Judgement(
        verdict=Verdict.UNCERTAIN,
        rule="nothing-perturbed",
        sentence="No lasting perturbation was found on any path of the injector.",
        would_have_to_observe="",
        symptoms=(),
        reason=trail.reason if trail else Reason.NOTHING_PERTURBED,
        trail_end=trail.place
        if trail
        else min((one.place for one in side.perturbations), default=None),
    )


@functools.lru_cache(maxsize=512)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _entry(rules: Rules, change: Perturbation) -> Mapping[str, Any]:
    for entry in rules.verdicts["effects"]:
        if entry.get("kinds") and change.kind not in entry["kinds"]:
            continue
        if entry.get("verbs") and change.verb not in entry["verbs"]:
            continue
        pattern = entry.get("fields", "")
        if pattern and not any(_compiled(pattern).search(field) for field in change.fields):
            continue
        found: Mapping[str, Any] = entry
        return found
    raise AssertionError("the last entry matches everything")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Around:
    """What all pairs of one row share."""

    recycles: Sequence[Recycle]
    aspects: frozenset[str]
    workloads: frozenset[str]
    has_window: bool


def _sees(
    look: Observation, change: Perturbation, entry: Mapping[str, Any], around: _Around
) -> str:
    """The rule by which this observation sees this perturbation; empty if none does."""
    if look.channel is not Channel.API:
        return _signal(look, change, entry, around.aspects)
    if not same_scope(look.namespace, change.namespace):
        return ""
    if look.kind == change.kind and same_name(look.name, change.name):
        if _direct(look, change):
            return "direct"
        if entry.get("status") and _reads_status(look) and _lasts(change, entry):
            return "own-status"
    if look.kind in entry.get("derived", ()):
        return "derived-kind"
    if entry.get("stops") and _reads_status(look) and _is_recycled(look, around.recycles):
        return "recycled-status"
    is_down = change.kind in around.workloads and look.kind == "Pod"
    if is_down and around.has_window and entry.get("status") and _reads_status(look):
        return "watched-pods" if _lasts(change, entry) else ""
    return ""


def _is_recycled(look: Observation, recycles: Sequence[Recycle]) -> bool:
    """Whether the injector restarted what is observed, and did not wait for it afterwards."""
    return any(
        one.kind == look.kind and not one.settled and same_scope(one.namespace, look.namespace)
        for one in recycles
    )


def _lasts(change: Perturbation, entry: Mapping[str, Any]) -> bool:
    """Whether a symptom is still there when the oracle looks.

    If the injector waits for stability, the status that it waited for no longer counts as a
    symptom, unless the symptom comes back by itself.
    """
    return not change.settled or bool(entry.get("recurs"))


def _direct(look: Observation, change: Perturbation) -> bool:
    if change.verb == "delete":
        return True  # any read of the kind shows the absence
    if change.kind not in _BY_FIELD:
        return True
    if change.verb == "create" and not look.name:
        return False  # a list of all workloads does not single out this new one
    return any(_overlap(one, two) for one in look.fields for two in change.fields)


def _overlap(one: str, two: str) -> bool:
    if one == two or "*" in {one, two}:
        return "*" not in {one, two} or one == two
    longer, shorter = (one, two) if len(one) > len(two) else (two, one)
    return longer.startswith((f"{shorter}.", f"{shorter}["))


def _reads_status(look: Observation) -> bool:
    return any(field.partition(".")[0].partition("[")[0] == "status" for field in look.fields)


def _signal(
    look: Observation, change: Perturbation, entry: Mapping[str, Any], aspects: frozenset[str]
) -> str:
    breaks = set(entry.get("breaks", ()))
    if look.channel is Channel.METRICS:
        if entry.get("status") and _lasts(change, entry):
            breaks.add("not-ready")
        return "signal" if breaks & _aspects_of(look, aspects) else ""
    if look.channel.name in breaks:
        return "signal"
    same = look.channel is Channel.EXEC and change.kind == "EXEC"
    if same and set(look.fields) & set(change.fields):
        return "same-program"
    return ""


def _aspects_of(look: Observation, aspects: frozenset[str]) -> frozenset[str]:
    return frozenset({"usage"}) if "resource-usage" in look.fields else aspects


def _undecided(
    seen: Sequence[Observation],
    counted: Sequence[Perturbation],
    rules: Rules,
) -> tuple[Reason, Perturbation, Observation | None, str] | None:
    for change in sorted(counted):
        entry = _entry(rules, change)
        for look in sorted(seen):
            if look.channel is Channel.API or look.channel.name not in entry.get("may", ()):
                continue
            if look.channel is Channel.METRICS and "resource-usage" in look.fields:
                continue
            sentence = (
                f"The oracle reads a functional signal ({look.channel.value}, {look.place}); no "
                f"rule says whether {_told(change)} at {change.place} would break it."
            )
            return Reason.SIGNAL_UNDECIDED, change, look, sentence
    for change in sorted(counted):
        if _entry(rules, change).get("opaque"):
            sentence = (
                f"{_told(change)} at {change.place} changes the state inside a container or a "
                "node; whether that shows in the objects the oracle reads is not in the source."
            )
            return Reason.OPAQUE_SCRIPT, change, None, sentence
    return None


def _observe(rules: Rules, counted: Sequence[Perturbation]) -> str:
    texts = dict.fromkeys(str(_entry(rules, change)["observe"]) for change in sorted(counted))
    return "; or ".join(texts)


def _symptoms(
    seen: Sequence[Observation], counted: Sequence[Perturbation], rules: Rules
) -> tuple[str, ...]:
    """What the oracle may notice later, although the rules do not count it."""
    found: set[str] = set()
    for change in counted:
        entry = _entry(rules, change)
        if not entry.get("status") and not entry.get("stops"):
            continue
        for look in seen:
            near = same_scope(look.namespace, change.namespace) and _reads_status(look)
            if near and look.kind in {"Pod", change.kind}:
                why = f"settled at {change.settled}" if change.settled else "one instant"
                found.add(f"{look.kind}.status at {look.place} ({why})")
    return tuple(sorted(found))


def _told(change: Perturbation) -> str:
    where = "/".join(part for part in (change.namespace, change.name) if part)
    fields = ", ".join(change.fields[:3])
    return f"{change.verb} {change.kind} {where}".strip() + (f" ({fields})" if fields else "")


def _adequate(rule: str, change: Perturbation, look: Observation) -> str:
    if look.channel is Channel.API:
        reads = f"reads {look.kind}" + (f" ({', '.join(look.fields[:3])})" if look.fields else "")
    else:
        reads = f"uses {look.channel.value} ({look.detail or ', '.join(look.fields)})"
    how = {
        "direct": "which is what the injector changes",
        "derived-kind": "which a controller derives from what the injector changes",
        "own-status": "whose status shows the change",
        "recycled-status": "which the injector recycles after taking away what it needs",
        "same-program": "the program by which the injector changes it",
        "signal": "which the change breaks",
        "watched-pods": "over a window, where pods of the changed workload do not stay up",
    }[rule]
    return f"The oracle {reads} at {look.place}, {how}: {_told(change)} at {change.place}."


def _kind(look: Observation) -> str:
    what = look.kind if look.channel is Channel.API else look.channel.value
    return f"{what} in {look.namespace}" if look.namespace else what


def _blind(seen: Sequence[Observation], counted: Sequence[Perturbation]) -> str:
    kinds = sorted({_kind(look) for look in seen}) or ["nothing"]
    places = sorted({str(look.place) for look in seen})[:3]
    changes = "; ".join(f"{_told(one)} at {one.place}" for one in sorted(counted)[:3])
    return (
        f"The injector leaves {changes}. The oracle reads {', '.join(kinds)} "
        f"({', '.join(places)}): none of it shows that."
    )
