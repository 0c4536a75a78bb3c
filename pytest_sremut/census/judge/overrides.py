"""Verdicts by hand, from a reviewed file: each with its reason and citation, and shown as such.

An override never hides the verdict of the rules: the row keeps both. An override is stale, and an
error, if its problem does not exist or if the rules say the same anyway.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from pytest_sremut.census.model import Row, Verdict
from pytest_sremut.census.rules import check
from pytest_sremut.errors import InputError
from pytest_sremut.ground.formats.yamlfile import YamlFile, read_yaml

__all__ = ["Override", "Overrides", "apply_overrides", "read_overrides"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """One verdict by hand."""

    problem: str
    verdict: Verdict
    reason: str
    citation: str
    reviewer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """A file of overrides. `digest` is of its bytes; empty if there is no file."""

    entries: Mapping[str, Override]
    digest: str = ""
    source: YamlFile | None = None


def read_overrides(file: Path | None) -> Overrides:
    """Read the file. Raises InputError."""
    if file is None:
        return Overrides(entries={})
    source = read_yaml(file.parent, PurePosixPath(file.name))
    check(source, "overrides")
    entries: dict[str, Override] = {}
    for index, item in enumerate(source.value["overrides"]):
        one = Override(
            problem=item["problem"],
            verdict=Verdict(item["verdict"]),
            reason=item["reason"],
            citation=item["citation"],
            reviewer=item["reviewer"],
        )
        if one.problem in entries:
            raise source.error(
                ("overrides", index, "problem"),
                found=f"{one.problem} a second time",
                allowed="every problem once",
            )
        entries[one.problem] = one
    return Overrides(entries=entries, digest=source.sha256, source=source)


def apply_overrides(rows: Sequence[Row], overrides: Overrides) -> list[Row]:
    """The rows with the verdicts by hand. Raises InputError for a stale override."""
    known = {row.problem: row for row in rows}
    for index, problem in enumerate(overrides.entries):
        one = overrides.entries[problem]
        row = known.get(problem)
        stale = "no problem of the registry" if row is None else ""
        if row is not None and row.verdict is one.verdict:
            stale = f"{one.verdict.value}, which is what the rules say"
        if stale:
            raise InputError(
                file=str(overrides.source.file) if overrides.source else "overrides",
                place=f"overrides.{index}",
                found=f"{problem}: {stale}",
                allowed="a verdict that differs from the rules', for a problem that exists",
            )
    return [
        row if row.problem not in overrides.entries else _put(row, overrides.entries[row.problem])
        for row in rows
    ]


def _put(row: Row, one: Override) -> Row:
    return replace(
        row,
        verdict=one.verdict,
        overridden=row.verdict.value,
        rule="override",
        sentence=f"{one.reason} (by {one.reviewer}; the rules said {row.verdict.value})",
        citation=one.citation,
        reason=None if one.verdict is not Verdict.UNCERTAIN else row.reason,
    )
