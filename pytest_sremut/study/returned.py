"""What a kept object says: the one rule by which a live session, adjudication and `verify` judge.

A grader's process is not believed. What it returned is kept as exact built-ins first, and only
what was kept is judged: `success` must be exactly True or exactly False in a mapping.
"""

from __future__ import annotations

from typing import Any, Final

from pytest_sremut.study.verdict import Verdict

__all__ = ["UNSAID", "judge", "why_no_verdict"]

UNSAID: Final = "$repr"
"""The only key of the mapping that stands where JSON cannot say what was returned."""

_SHOWN: Final = 80  # characters of what stands in the place of a value


def judge(kept: Any, key: str = "success") -> Verdict:
    """The verdict that a kept object states under `key`, ERROR when it states none."""
    if why_no_verdict(kept, key):
        return Verdict.ERROR
    return Verdict.ACCEPT if kept[key] is True else Verdict.REJECT


def why_no_verdict(kept: Any, key: str = "success") -> str:
    """Why a kept object is no verdict; empty when it is one. Runs no code of the object's."""
    if type(kept) is not dict or _is_unsaid(kept):
        return f"the oracle returned {_told(kept)}, not a mapping"
    if key not in kept:
        return f"the oracle returned a mapping without {key!r}"
    success = kept[key]
    if success is True or success is False:
        return ""
    return f"the oracle's {key!r} is {_told(success)}, not True or False"


def _is_unsaid(kept: Any) -> bool:
    return type(kept) is dict and list(kept) == [UNSAID] and type(kept[UNSAID]) is str


def _told(kept: Any) -> str:
    if _is_unsaid(kept):
        text: str = kept[UNSAID]
        return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
    noun = type(kept).__name__
    return f"an {noun}" if noun[:1].lower() in "aeiou" else f"a {noun}"
