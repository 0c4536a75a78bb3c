"""A read cell beside its prediction and the contract, and what makes it fail."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from pytest_sremut.study.model import Cell, Study
from pytest_sremut.study.verdict import ContractVerdict, State, Verdict

__all__ = ["CellReport", "Observed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What one instrument (or the contract) said in a cell."""

    instrument: str  # "contract" for the contract
    verdict: str  # Verdict or ContractVerdict value
    detail: str  # exception of an ERROR, violated invariants of a contract


@dataclass(frozen=True, slots=True, kw_only=True)
class CellReport:
    """A read cell beside its frozen prediction and the contract of the same state."""

    study: Study
    cell: Cell
    attempt: int
    registration: str
    evidence: str  # directory of the attempt
    requirement: str  # "predictions" or "soundness"
    observed: tuple[Observed, ...]
    contract: ContractVerdict
    violated: frozenset[str]

    def predicted(self) -> tuple[str, frozenset[str]] | None:
        """The frozen verdict and, for the contract, the frozen violated set."""
        table = self.study.predictions
        if table is None:
            return None
        mutant, state = self.cell.run.mutant, self.cell.state
        if self.cell.is_contract:
            verdict, violated = table.contract[(mutant, state)]
            return verdict.value, violated
        return table.oracles[(mutant, state, self.cell.oracle)].value, frozenset()

    def problems(self) -> list[str]:
        """Why this cell fails under the session's requirement; empty when it does not."""
        found = [
            f"{seen.instrument}: ERROR: {seen.detail} (an error is no verdict)"
            for seen in self.observed
            if seen.verdict == Verdict.ERROR.value
        ]
        if self.cell.is_contract or self.requirement == "predictions":
            found += self._against_prediction()
        else:
            found += self._against_contract()
        return found

    def _against_prediction(self) -> Iterator[str]:
        expected = self.predicted()
        if expected is None:
            return
        verdict, violated = expected
        for seen in self.observed:
            if seen.verdict not in {verdict, Verdict.ERROR.value}:
                yield f"{seen.instrument}: predicted {verdict}, observed {seen.verdict}"
        if self.cell.is_contract and violated != self.violated:
            yield f"contract: predicted violated {_set(violated)}, observed {_set(self.violated)}"

    def _against_contract(self) -> Iterator[str]:
        passed = self.contract is ContractVerdict.PASS
        for seen in self.observed:
            if seen.verdict == Verdict.ACCEPT.value and not passed:
                yield (
                    f"{seen.instrument}: false accept: {seen.verdict}, while the contract says "
                    f"REJECT {_set(self.violated)}"
                )
            elif seen.verdict == Verdict.REJECT.value and passed:
                yield f"{seen.instrument}: false reject: {seen.verdict}, the contract says PASS"

    def require(self) -> None:
        """Fail the cell, without a traceback, when there is a problem."""
        __tracebackhide__ = True
        found = self.problems()
        if found:
            head = f"{self.study.id} {self.cell.id} (attempt {self.attempt})"
            pytest.fail("\n  ".join([head, *found, f"evidence: {self.evidence}"]), pytrace=False)

    def properties(self) -> list[tuple[str, str]]:
        """Plain strings for JUnit and for the controller."""
        expected = self.predicted()
        return [
            ("sremut.study", self.study.id),
            ("sremut.run", self.cell.run.id),
            ("sremut.mutant", self.cell.run.mutant),
            ("sremut.state", self.cell.state.value),
            ("sremut.oracle", self.cell.oracle),
            ("sremut.attempt", str(self.attempt)),
            ("sremut.registration", self.registration),
            ("sremut.predicted", expected[0] if expected else "none"),
            ("sremut.observed", " ".join(f"{o.instrument}={o.verdict}" for o in self.observed)),
            ("sremut.contract", self.contract.value),
            ("sremut.violated", " ".join(sorted(self.violated))),
            ("sremut.evidence", self.evidence),
            ("sremut.fate", self.fate()),
        ]

    def fate(self) -> str:
        """KILLED or SURVIVED for a faulted state, ACCEPTED or REJECTED for a control."""
        verdicts = {seen.verdict for seen in self.observed}
        if Verdict.ERROR.value in verdicts:
            return "ERROR"
        accepted = bool(verdicts & {Verdict.ACCEPT.value, ContractVerdict.PASS.value})
        if self.cell.state is State.FAULTED:
            return "SURVIVED" if accepted else "KILLED"
        return "ACCEPTED" if accepted else "REJECTED"


def _set(ids: frozenset[str]) -> str:
    return "{" + ", ".join(sorted(ids)) + "}"
