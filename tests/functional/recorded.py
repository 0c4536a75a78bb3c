"""A project with recorded evidence, written by the same builder that unit tests use."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "support"))

from records import Records, Told, no_fsync

from pytest_sremut.study.load import load_study

__all__ = ["Recorded", "recorded"]

SESSION = "20260829T100000Z-000001"


class Recorded:
    """A project in which the main study was run."""

    def __init__(self, root: Path) -> None:
        from records import MAIN

        self.root = root
        self.study = load_study(root, MAIN)
        self.directory = self.session(SESSION)

    told = Told

    def session(self, name: str) -> Path:
        """Where a session's evidence stands by default."""
        return self.root / ".sremut" / "evidence" / name

    def records(self, directory: Path | None = None) -> Records:
        """A builder into an evidence directory."""
        return Records(directory or self.directory, self.study, root=self.root)

    def matrix(self, directory: Path | None = None, **told: Told) -> None:
        """One attempt at every run."""
        self.records(directory).matrix(**told)


@pytest.fixture
def recorded(project: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorded]:
    """A project that records can be put into."""
    with no_fsync(monkeypatch):
        yield Recorded(project)
