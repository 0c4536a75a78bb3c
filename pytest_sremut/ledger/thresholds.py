"""`--sremut-fail-under`: which oracles' scores are too low. Zero is a threshold like another.

An oracle without a score is below every threshold: an absence of data is not a pass. So is a
brittle one, whatever it scored in other runs: it rejected systems that were never broken.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_sremut.ledger.model import AttemptFact
from pytest_sremut.ledger.scores import Score, fates, score
from pytest_sremut.study.model import Study

__all__ = ["scores_below"]


def scores_below(study: Study, attempts: Sequence[AttemptFact], threshold: float) -> Iterator[str]:
    """One line per oracle whose score is below the threshold, that has none, or that is brittle.

    Args:
        study: The study.
        attempts: All of its attempts.
        threshold: In percent.
    """
    for spec in study.oracles:
        result = score(spec.id, fates(attempts, graders=[spec.id], mutants=study.mutants))
        below = result.percent is None or result.percent < threshold
        if below or result.brittle_runs:
            shown = "no score" if result.percent is None else f"{result.percent:.1f} %"
            yield (
                f"sremut: {study.id}: {spec.id} killed {result.killed} of {result.scored} mutants "
                f"({shown}), required {threshold:g} %{_reason(result)}"
            )


def _reason(result: Score) -> str:
    if not result.brittle_runs:
        return ""
    runs = f"{result.brittle_runs} run{'s' if result.brittle_runs != 1 else ''}"
    return (
        f"; brittle: in {runs} it rejected the faulted state and a healthy or restored one as well"
    )
