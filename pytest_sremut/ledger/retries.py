"""Which attempts at a run may be counted.

Some outcomes allow one retry. A run that stopped at the healthy gate may be tried again after its
cause was fixed. A completed run is never retried. In an exploration nothing is frozen, so every
attempt that ended well counts and a retry that was not allowed is only reported. Under a
registration such a retry is excluded. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_sremut.ledger.model import AttemptFact
from pytest_sremut.study.verdict import Outcome, Registration

__all__ = ["apply_retry_rule", "unearned"]


def unearned(earlier: Sequence[AttemptFact]) -> str:
    """Why a further attempt at a run was not allowed after these; empty if it was allowed."""
    used: dict[Outcome, int] = {}
    for attempt in earlier:
        outcome = attempt.outcome or attempt.recorded or Outcome.DRIVER_ABORTED
        named = f"attempt {attempt.attempt} ended {outcome.value}"
        if outcome is Outcome.COMPLETE:
            return f"{named}: a completed verdict is never retried"
        if outcome is Outcome.STOPPED_AT_HEALTHY_GATE:
            continue
        used[outcome] = used.get(outcome, 0) + 1
        if used[outcome] > outcome.retries:
            return f"{named}: {_allowed(outcome)}"
    return ""


def _allowed(outcome: Outcome) -> str:
    return "it allows one retry, which was used" if outcome.retries else "it allows no retry"


def apply_retry_rule(attempts: Sequence[AttemptFact]) -> list[AttemptFact]:
    """The attempts at one run, in the order in which they began, with `excluded` filled in."""
    result: list[AttemptFact] = []
    for place, attempt in enumerate(attempts):
        why = unearned(attempts[:place])
        exploratory = attempt.registration == Registration.EXPLORATORY.value
        excluded = why if why and not exploratory and not attempt.excluded else attempt.excluded
        result.append(replace(attempt, excluded=excluded))
    return result
