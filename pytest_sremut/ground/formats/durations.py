"""Durations as people write them: `500ms`, `2s`, `1.5s`, `1m30s`."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["DURATION", "seconds"]

DURATION: Final = re.compile(
    r"(?P<ms>[0-9]{1,7})ms|(?=[0-9])(?:(?P<m>[0-9]{1,4})m)?(?:(?P<s>[0-9]{1,5}(?:\.[0-9]{1,6})?)s)?"
)


def seconds(text: str) -> float:
    """The duration in seconds. Raises ValueError where it is not one."""
    match = DURATION.fullmatch(text)
    if match is None:
        raise ValueError(f"not a duration: {text!r}")
    if match["ms"] is not None:
        return int(match["ms"]) / 1000
    return int(match["m"] or 0) * 60 + float(match["s"] or 0)
