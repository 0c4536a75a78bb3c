"""`--sremut-fail-under`: which oracles' scores are too low. Zero is a threshold too.

An oracle without a score is below every threshold, for an absence of data is no pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_sremut.ledger.model import AttemptFact
from pytest_sremut.ledger.scores import fates, score
from pytest_sremut.study.model import Study

__all__ = ["scores_below"]


def scores_below(study: Study, attempts: Sequence[AttemptFact], threshold: float) -> Iterator[str]:
    """One line per oracle whose mutation score is below the threshold, or that has none.

    Args:
        study: The study.
        attempts: All of its attempts.
        threshold: In percent.
    """
    mutants = [mutant.id for mutant in study.mutants]
    for spec in study.oracles:
        result = score(spec.id, fates(attempts, graders=[spec.id], mutants=mutants))
        if result.percent is None or result.percent < threshold:
            told = "no score" if result.percent is None else f"{result.percent:.1f} %"
            yield (
                f"sremut: {study.id}: {spec.id} killed {result.killed} of {result.scored} mutants "
                f"({told}), required {threshold:g} %"
            )
