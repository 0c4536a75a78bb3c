"""A readable difference between two ledgers: the first places, and how many there are."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

__all__ = ["json_difference", "text_difference"]

_SHOWN: Final = 20
_LONG: Final = 80
_ABSENT: Final = object()


def json_difference(standing: bytes, wanted: bytes) -> list[str]:
    """Place by place: what the file says and what the records give.

    Args:
        standing: The bytes of the file, whatever they are.
        wanted: The ledger as regenerated.
    """
    try:
        before = json.loads(standing)
    except (ValueError, RecursionError) as error:
        return [f"not JSON: {error}"]
    found = list(_places(before, json.loads(wanted), ""))
    if not found:
        at = next((i for i, (a, b) in enumerate(zip(standing, wanted, strict=False)) if a != b), -1)
        at = min(len(standing), len(wanted)) if at < 0 else at
        return [f"the values agree, the bytes differ from byte {at} on: it was reformatted"]
    return _shortened(found)


def _places(before: Any, after: Any, where: str) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted({*before, *after}):
            place = f"{where}.{key}" if where else str(key)
            yield from _places(before.get(key, _ABSENT), after.get(key, _ABSENT), place)
    elif isinstance(before, list) and isinstance(after, list):
        for number in range(max(len(before), len(after))):
            here = before[number] if number < len(before) else _ABSENT
            there = after[number] if number < len(after) else _ABSENT
            yield from _places(here, there, f"{where}[{number}]")
    elif type(before) is not type(after) or before != after:
        yield f"{where or 'all of it'}: stands {_shown(before)}, the records give {_shown(after)}"


def _shown(value: Any) -> str:
    if value is _ABSENT:
        return "nothing"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONG else f"{text[:_LONG]}… ({len(text)} characters)"


def text_difference(standing: bytes, wanted: bytes) -> list[str]:
    """The lines that differ, as a unified difference without its headings."""
    before = standing.decode("utf-8", "backslashreplace").splitlines()
    after = wanted.decode("utf-8").splitlines()
    lines = islice(difflib.unified_diff(before, after, n=0, lineterm=""), 2, None)
    found = [line for line in lines if not line.startswith("@@")]
    return _shortened(found) if found else ["the lines agree, their ends differ"]


def _shortened(lines: list[str]) -> list[str]:
    rest = len(lines) - _SHOWN
    return lines if rest <= 0 else [*lines[:_SHOWN], f"and {rest} more differences"]
