"""Pieces of Markdown: tables, escaped text, numbers, citations. The same on every machine."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

__all__ = [
    "Json",
    "amount",
    "attempt_name",
    "cited",
    "code",
    "counts",
    "escaped",
    "ids",
    "numbers",
    "section",
    "table",
    "yes_no",
]

Json = Mapping[str, Any]

_SPECIAL: Final = re.compile(r"[\\`*_{}\[\]<>#|~!&@$]")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table and an empty line after it."""
    yield f"| {' | '.join(headings)} |"
    yield f"|{'---|' * len(headings)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""


def section(title: str, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A titled table; nothing at all without rows."""
    listed = list(rows)
    if listed:
        yield f"### {title}"
        yield ""
        yield from table(headings, listed)


def attempt_name(row: Json) -> str:
    """`ms-m02-r03 a01`."""
    return f"{row['run']} a{row['attempt']:02d}"


def escaped(text: str) -> str:
    """Text on one line, shown as it is, whatever characters it has."""
    return _SPECIAL.sub(lambda found: f"\\{found[0]}", _CONTROL.sub(" ", text))


def code(text: str) -> str:
    """A name in a code span; escaped instead if a code span cannot hold it."""
    if not text:
        return "–"
    return f"`{text}`" if not set(text) & set("`|") and not _CONTROL.search(text) else escaped(text)


def amount(value: float | None, unit: str = "") -> str:
    """A number as in the ledger; – if there is none."""
    return "–" if value is None else f"{value}{unit}"


def numbers(values: Iterable[float | None]) -> str:
    """Numbers in their order; – if there are none."""
    return ", ".join(map(amount, values)) or "–"


def counts(observed: Mapping[str, int], whole: int) -> str:
    """`ACCEPT 6 of 6`, every verdict that occurred; – without any."""
    return ", ".join(f"{name} {count} of {whole}" for name, count in observed.items()) or "–"


def ids(names: Iterable[str]) -> str:
    """A set of ids."""
    return "{" + ", ".join(map(code, names)) + "}"


def yes_no(value: bool | None) -> str:
    """`yes`, `**no**`, or – if it is not known."""
    return {True: "yes", False: "**no**", None: "–"}[value]


def cited(*rows: Mapping[str, Any]) -> str:
    """The sources of a row: `s3–s5 s9`; – if nothing was read."""
    ranges = [pair for row in rows for pair in row["from"]]
    merged: list[list[int]] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1][1] = max(merged[-1][1], last)
        else:
            merged.append([first, last])
    told = (f"s{a}" if a == b else f"s{a}–s{b}" for a, b in merged)
    return " ".join(told) or "–"
