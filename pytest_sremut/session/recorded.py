"""Cells judged from records: a cell passes or fails as it would have live.

One whose run has no valid attempt is an error with that reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pytest_sremut.errors import SremutError
from pytest_sremut.session.cellreport import CellReport, Observed, requirement_of
from pytest_sremut.study.verdict import ContractVerdict

if TYPE_CHECKING:
    from pytest_sremut.ledger.baseline.document import Baseline, Known
    from pytest_sremut.ledger.judge import Judged, JudgedStudy
    from pytest_sremut.ledger.model import AttemptFact, StateFact
    from pytest_sremut.study.model import Cell, Study

__all__ = ["CellNotJudgedError", "RecordedSession"]


class CellNotJudgedError(SremutError):
    """There is no valid attempt, or nothing was read, from which the cell could be judged."""


class RecordedSession:
    """Reports cells from records; satisfies `cells.CellSession` as a live session does."""

    def __init__(self, judged: Judged, requirement: str, baseline: Baseline | None = None) -> None:
        self._studies = {item.study.id: item for item in judged.studies}
        self._requirement = requirement
        self._baseline = baseline

    def report(self, study: Study, cell: Cell) -> CellReport:
        """Judge a cell from every valid attempt at its run; the first that fails is reported.

        Raises:
            CellNotJudgedError: There is none, or it holds no such reading.
        """
        judged = self._studies[study.id]
        why = judged.why_not(cell.run.id)
        if why:
            raise CellNotJudgedError(why)
        reports = [
            self._report(judged, cell, attempt)
            for attempt in judged.at(cell.run.id)
            if attempt.valid
        ]
        kinds = (CellReport.problems, CellReport.known_problems)
        return next((one for kind in kinds for one in reports if kind(one)), reports[-1])

    def finish_run(self) -> None:
        """Nothing was begun."""

    def _report(self, judged: JudgedStudy, cell: Cell, attempt: AttemptFact) -> CellReport:
        fact = attempt.states.get(cell.state)
        observed = () if fact is None else tuple(_observed(cell, fact))
        if fact is None or not observed:
            raise CellNotJudgedError(
                f"{attempt.run} attempt {attempt.attempt} holds no reading of {cell.oracle} in "
                f"the {cell.state.value} state"
            )
        contract = fact.contract
        requirement = requirement_of(judged.study, self._requirement)
        return CellReport(
            study=judged.study,
            cell=cell,
            attempt=attempt.attempt,
            registration=attempt.registration,
            evidence=attempt.directory,
            requirement=requirement,
            observed=observed,
            contract=_contract_verdict(fact, requirement, cell),
            violated=frozenset() if contract is None else contract.violated,
            known=self._known(judged),
        )

    def _known(self, judged: JudgedStudy) -> frozenset[Known]:
        if self._baseline is None:
            return frozenset()
        return self._baseline.known(judged.study, judged.digests)


def _observed(cell: Cell, fact: StateFact) -> Iterator[Observed]:
    if cell.is_contract:
        if fact.contract is not None:
            yield Observed(
                instrument="contract",
                verdict=fact.contract.verdict.value,
                detail=", ".join(sorted(fact.contract.violated)),
            )
        return
    for reading in fact.readings:
        if reading.oracle == cell.oracle:
            yield Observed(
                instrument=reading.instrument,
                verdict=reading.verdict.value,
                detail=reading.exception or "",
            )


def _contract_verdict(fact: StateFact, requirement: str, cell: Cell) -> ContractVerdict:
    """Of the same state. Without one, agreement with the contract cannot be required."""
    if fact.contract is not None:
        return fact.contract.verdict
    if requirement == "soundness":
        raise CellNotJudgedError(
            f"{cell.run.id}: the contract was not read in the {cell.state.value} state, so "
            "soundness cannot be judged"
        )
    return ContractVerdict.REJECT  # shown nowhere: predictions alone are required
