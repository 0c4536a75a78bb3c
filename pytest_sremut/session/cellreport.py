"""A read cell beside its prediction and the contract, and what makes it fail."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from pytest_sremut.ledger.baseline.document import Known
from pytest_sremut.study.model import Cell, Study
from pytest_sremut.study.verdict import (
    ContractVerdict,
    Expectation,
    State,
    Verdict,
    disagreement,
)

__all__ = ["CellReport", "Observed", "requirement_of"]


def requirement_of(study: Study, asked: str) -> str:
    """What a cell of this study must hold: `predictions` or `soundness`.

    Without predictions nothing could fail but an error, so such a study is judged for soundness.

    Args:
        study: Whose cells are judged.
        asked: As `--sremut-require` says.
    """
    return "soundness" if study.predictions is None else asked


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
    known: frozenset[Known] = frozenset()  # disagreements of the study that the baseline lists

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
            found += [line for line, is_known in self._against_contract() if not is_known]
        return found

    def known_problems(self) -> list[str]:
        """Disagreements with the contract that do not fail this cell, since they are known."""
        if self.cell.is_contract or self.requirement == "predictions":
            return []
        return [f"known: {line}" for line, is_known in self._against_contract() if is_known]

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

    def _against_contract(self) -> Iterator[tuple[str, bool]]:
        """Every reading that contradicts the contract, and whether the baseline lists it."""
        said = "PASS" if self.contract is ContractVerdict.PASS else f"REJECT {_set(self.violated)}"
        for seen in self.observed:
            kind = disagreement(Verdict(seen.verdict), self.contract)
            if kind:
                what = Known(
                    oracle=self.cell.oracle,
                    mutant=self.cell.run.mutant,
                    state=self.cell.state,
                    kind=kind,
                )
                yield (
                    f"{seen.instrument}: {kind}: {seen.verdict}, while the contract says {said}",
                    what in self.known,
                )

    def require(self) -> None:
        """Fail the cell, without a traceback, when there is a problem.

        One whose problems are all known ends as an expected failure.
        """
        __tracebackhide__ = True
        found, known = self.problems(), self.known_problems()
        if found:
            head = f"{self.study.id} {self.cell.id} (attempt {self.attempt})"
            lines = [head, *found, *known, f"evidence: {self.evidence}"]
            pytest.fail("\n  ".join(lines), pytrace=False)
        if known:
            pytest.xfail("; ".join(known))

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
        """KILLED or SURVIVED for a wrong repair, ACCEPTED or REJECTED for a right system.

        A wrong repair that the contract passes is EQUIVALENT to a right one, as far as is known.
        """
        verdicts = {seen.verdict for seen in self.observed}
        if Verdict.ERROR.value in verdicts:
            return "ERROR"
        accepted = bool(verdicts & {Verdict.ACCEPT.value, ContractVerdict.PASS.value})
        is_wrong = self.study.mutant(self.cell.run.mutant).expect is Expectation.REJECT
        if self.cell.state is State.FAULTED and is_wrong:
            if self.contract is ContractVerdict.PASS and not self.cell.is_contract:
                return "EQUIVALENT"
            return "SURVIVED" if accepted else "KILLED"
        return "ACCEPTED" if accepted else "REJECTED"


def _set(ids: frozenset[str]) -> str:
    return "{" + ", ".join(sorted(ids)) + "}"
