"""From evidence directories to everything that an adjudication makes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from records import ROOT

from pytest_sremut.evidence.identity import file_digests
from pytest_sremut.ledger.adjudicate import ledger
from pytest_sremut.ledger.judge import Judged, StudyInput, judge, pods_needed
from pytest_sremut.ledger.load import read_evidence
from pytest_sremut.ledger.renderings.document import checked, ledger_bytes
from pytest_sremut.ledger.renderings.markdown import render
from pytest_sremut.study.model import Study

__all__ = ["Adjudicated", "adjudicate", "adjudicated", "inputs"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Adjudicated:
    """Everything that one adjudication gave."""

    judged: Judged
    ledger: Mapping[str, Any]
    data: bytes
    markdown: str

    @property
    def study(self) -> Mapping[str, Any]:
        """The only study's part."""
        (found,) = self.ledger["studies"]
        assert isinstance(found, Mapping)
        return found

    @property
    def problems(self) -> list[str]:
        """What does not hold together."""
        return [item["problem"] for item in self.ledger["problems"]]

    def percent(self, grader: str) -> float | None:
        """A mutation score."""
        (row,) = [row for row in self.study["scores"] if row["grader"] == grader]
        value: float | None = row["percent"]
        return value

    def fates(self, grader: str) -> dict[str, str]:
        """Mutant -> fate."""
        (row,) = [row for row in self.study["scores"] if row["grader"] == grader]
        return {item["mutant"]: item["fate"] for item in row["mutants"]}

    def attempt(self, run: str, number: int = 1) -> Mapping[str, Any]:
        """One attempt of the ledger."""
        (found,) = [
            item
            for item in self.study["attempts"]
            if item["run"] == run and item["attempt"] == number
        ]
        assert isinstance(found, Mapping)
        return found


def inputs(studies: Sequence[Study], root: Path = ROOT) -> list[StudyInput]:
    """Studies with the digests of their files."""
    return [StudyInput(study=one, digests=file_digests(root, one.frozen)) for one in studies]


def adjudicate(given: Sequence[StudyInput], *directories: Path) -> Adjudicated:
    """Adjudicate; the ledger is checked against its schema on the way."""
    needs = pods_needed(given)
    judged = judge(given, [read_evidence(one, needs_pods=needs) for one in directories])
    document = ledger(judged)
    checked("ledger", document, what="ledger")
    return Adjudicated(
        judged=judged,
        ledger=document,
        data=ledger_bytes(document),
        markdown=render(document).decode(),
    )


def adjudicated(study: Study, *directories: Path) -> Adjudicated:
    """Adjudicate evidence of one study of this repository."""
    return adjudicate(inputs([study]), *directories)
