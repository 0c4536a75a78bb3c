"""Numbers the files that figures come from, so that each figure can name its sources.

The states that count come first, ordered by state, mutant, repetition. So the sources of a row of a
table are a range of numbers. Project files have evidence 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from pytest_sremut.ledger.judge import Judged
from pytest_sremut.ledger.model import AttemptFact, Source

__all__ = ["PROJECT", "Sources"]

PROJECT: Final = "project"
"""Takes the place of an evidence digest for a file of the study itself."""


class Sources:
    """Source -> number, from 1, in a fixed order."""

    def __init__(self, judged: Judged) -> None:
        self._directories = {item.digest: n for n, item in enumerate(judged.evidence, start=1)}
        self._directories[PROJECT] = 0
        self._numbers: dict[Source, int] = {}
        for study in judged.studies:
            for role, digest in sorted(study.digests.items()):
                self._add(project_file(str(study.study.frozen[role]), digest))
            self._add_states(study.study.states, [m.id for m in study.study.mutants], study.counted)
        for study in judged.studies:
            for attempt in study.attempts:
                self._add(attempt.source)
                for fact in attempt.states.values():
                    self._add(fact.source)

    def _add_states(
        self, states: Iterable[Any], mutants: Iterable[str], attempts: Iterable[AttemptFact]
    ) -> None:
        counted = list(attempts)
        order = list(mutants)
        for state in states:
            for mutant in order:
                for attempt in counted:
                    if attempt.mutant == mutant and state in attempt.states:
                        self._add(attempt.states[state].source)

    def _add(self, source: Source | None) -> None:
        if source is not None:
            self._numbers.setdefault(source, len(self._numbers) + 1)

    def directory(self, digest: str) -> int:
        """The number of an evidence directory."""
        return self._directories[digest]

    def ranges(self, sources: Iterable[Source | None]) -> list[list[int]]:
        """The numbers of sources as `[first, last]` pairs, ascending. None is left out."""
        numbers = sorted({self._numbers[source] for source in sources if source is not None})
        ranges: list[list[int]] = []
        for number in numbers:
            if ranges and ranges[-1][1] == number - 1:
                ranges[-1][1] = number
            else:
                ranges.append([number, number])
        return ranges

    def listed(self) -> list[dict[str, Any]]:
        """Every source in the order of its number."""
        return [
            {
                "evidence": self._directories[source.evidence],
                "path": source.path,
                "sha256": source.sha256,
            }
            for source in self._numbers
        ]


def project_file(path: str, digest: str) -> Source:
    """A file of the study itself."""
    return Source(evidence=PROJECT, path=path, sha256=digest)


def files_of(study: Mapping[str, Any], digests: Mapping[str, str], role: str) -> Source | None:
    """The study's file of a role; None if it has none."""
    return project_file(str(study[role]), digests[role]) if role in digests else None
