"""The kinds of requests that a load mixes, and their weights.

Which kind a request is, is drawn for each request alone (`draws.choices`), as the benchmark's own
script does: 60/30/10 are probabilities, no proportions that a round must have.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

__all__ = ["Kind", "MixError", "parse_mix"]


class MixError(Exception):
    """The mix is none; the message says what was found and what is allowed."""


class Kind(NamedTuple):
    """One kind of request."""

    name: str
    path: str
    weight: int
    method: str = "GET"
    body: str = ""


def parse_mix(text: str) -> tuple[Kind, ...]:
    """A mix from JSON: `[{"name": ..., "path": ..., "weight": ..., "method"?, "body"?}, ...]`.

    Raises:
        MixError: It is not that.
    """
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MixError(f"found no JSON ({error}); allowed: a list of kinds of requests") from None
    if not isinstance(entries, list) or not entries:
        raise MixError("found no list of kinds; allowed: a list with at least one kind")
    kinds = tuple(_kind(entry, f"[{place}]") for place, entry in enumerate(entries))
    if len({kind.name for kind in kinds}) != len(kinds):
        raise MixError("found a name twice; allowed: one entry for each name")
    return kinds


def _kind(entry: Any, place: str) -> Kind:
    fields = {"name", "path", "weight", "method", "body"}
    if not isinstance(entry, dict) or not {"name", "path", "weight"} <= set(entry) <= fields:
        allowed = "name, path, weight and, if wanted, method and body"
        raise MixError(f"{place}: found {entry!r:.80}; allowed: {allowed}")
    weight = entry["weight"]
    if not isinstance(weight, int) or isinstance(weight, bool) or not 1 <= weight <= 10_000:
        raise MixError(f"{place}.weight: found {weight!r:.40}; allowed: 1 to 10000")
    path = entry["path"]
    if not isinstance(path, str) or not path.startswith("/") or not _in_a_line(path):
        raise MixError(f"{place}.path: found {path!r:.80}; allowed: a path that begins with /")
    method = entry.get("method", "GET")
    if method not in ("GET", "POST"):
        raise MixError(f"{place}.method: found {method!r:.40}; allowed: GET, POST")
    name, body = entry["name"], entry.get("body", "")
    if not isinstance(name, str) or not name or not isinstance(body, str):
        raise MixError(f"{place}: found a name or a body that is no text; allowed: text")
    return Kind(name, path, weight, method, body)


def _in_a_line(path: str) -> bool:
    return path.isascii() and path.isprintable() and " " not in path
