"""Which runs and cells a study has, in the order in which they are executed.

Runs go round-robin: every mutant's first repetition, then every mutant's second. Within a run,
state by state; within a state the oracles in the order of the file, the contract last.
"""

from __future__ import annotations

from collections.abc import Iterator

from pytest_sremut.study.model import Cell, Run, Study
from pytest_sremut.study.verdict import CONTRACT

__all__ = ["cells", "cells_of", "runs"]


def runs(study: Study) -> Iterator[Run]:
    """All runs in schedule order."""
    for repetition in range(1, study.repetitions + 1):
        for mutant in study.mutants:
            yield Run(study=study.id, mutant=mutant.id, slug=mutant.slug, repetition=repetition)


def cells_of(study: Study, run: Run) -> Iterator[Cell]:
    """The cells of one run, in the order in which they are read."""
    readers = (*(oracle.id for oracle in study.oracles), CONTRACT)
    for state in study.states:
        for reader in readers:
            yield Cell(run=run, state=state, oracle=reader)


def cells(study: Study) -> Iterator[Cell]:
    """All cells in schedule order."""
    for run in runs(study):
        yield from cells_of(study, run)
