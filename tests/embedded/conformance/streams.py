"""Watch streams that were open during a whole scenario.

Rules kept here: how often a status is written on the way differs from run to run on a real cluster
too, so what is compared is which objects came, changed at all, and went, in that order for each of
them; of events, which were told.
"""

from __future__ import annotations

from typing import Any

from .recorded import Step
from .rules import Side, dumped

Json = Any


def compare_stream(step: Step, ours: list[Json], recorded_side: Side, our_side: Side) -> list[str]:
    """Where two streams of the same resource differ."""
    left = _lives(list(step.lines), recorded_side)
    right = _lives(ours, our_side)
    lines = []
    for name in sorted(left.keys() | right.keys()):
        before, after = left.get(name, []), right.get(name, [])
        if before != after:
            lines.append(f"{name}: recorded {before}, ours {after}")
    return lines


def _lives(events: list[Json], side: Side) -> dict[str, list[str]]:
    """By what the objects are called: the lives that objects of that name had."""
    lives: dict[str, list[str]] = {}
    called: dict[str, str] = {}
    told: dict[str, list[str]] = {}
    for event in events:
        value = event.get("object") or {}
        if event.get("type") not in ("ADDED", "MODIFIED", "DELETED"):
            continue
        if value.get("kind") == "Event":
            shown = side.canonical(value)
            subject = shown["involvedObject"]
            key = f"{subject.get('kind')} {subject.get('name')} {shown['reason']}"
            told[f"{key}: {shown['message']}"] = ["told"]
            continue
        metadata = value["metadata"]
        side.learn(value)
        name = metadata.get("name", "")
        key = f"{name} {metadata.get('uid', '')}" if metadata.get("uid") else _last(lives, name)
        called[key] = f"{value.get('kind')} {side.text(name)}"
        life = lives.setdefault(key, [])
        if not life or life[-1] != event["type"]:
            life.append(event["type"])
    grouped = told
    for key, life in lives.items():
        grouped.setdefault(called[key], []).append(" ".join(life))
    return {name: sorted(found, key=dumped) for name, found in grouped.items()}


def _last(lives: dict[str, list[str]], name: str) -> str:
    """The newest object of a name: the recording leaves out metadata that did not change."""
    return next((key for key in reversed(lives) if key.split()[0] == name), name)
