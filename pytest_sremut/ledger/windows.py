"""Workload: every window with its rounds, its error rate and its retained volume.

Retained volume is successful responses per round, in percent of the healthy window's. It is given
for the whole faulted window and for its rounds that began after the mutant was applied, with the
counts that it divides. A mean is over attempts, each once. A missing window gives no number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pytest_sremut.ledger.figures import figure, mean, percent, retained, wilson
from pytest_sremut.ledger.judge import JudgedStudy
from pytest_sremut.ledger.model import AttemptFact, StateFact, WindowFact
from pytest_sremut.ledger.sources import Sources, files_of
from pytest_sremut.study.model import Quantity
from pytest_sremut.study.names import Measure
from pytest_sremut.study.verdict import State

__all__ = ["quantities", "retained_means", "windows"]


def windows(judged: JudgedStudy, sources: Sources) -> list[dict[str, Any]]:
    """One row for every window of a valid attempt, state by state."""
    rows = []
    for state in judged.study.states:
        for attempt in judged.counted:
            fact = attempt.states.get(state)
            if fact is None or fact.window is None:
                continue
            row: dict[str, Any] = {
                "run": attempt.run,
                "attempt": attempt.attempt,
                "mutant": attempt.mutant,
                "state": state.value,
                **_counted(fact.window),
                "generator": fact.window.generator or None,
                "seed": fact.window.seed,
                "per_round": [[asked, failed] for asked, failed in fact.per_round],
                "raw": (
                    None
                    if fact.window_raw is None
                    else {"path": fact.window_raw.path, "sha256": fact.window_raw.sha256}
                ),
                "from": sources.ranges([fact.source]),
            }
            if state is State.FAULTED:
                row["post_mutation"] = (
                    None if fact.post_mutation is None else _counted(fact.post_mutation)
                )
                row["retained_full_window"] = _retained(attempt, fact.window, sources)
                row["retained_post_mutation"] = _retained(attempt, fact.post_mutation, sources)
            rows.append(row)
    return rows


def _counted(window: WindowFact) -> dict[str, Any]:
    return {
        "rounds": window.rounds,
        "requests": window.requests,
        "failures": window.failures,
        "successes": window.successes,
        "error_rate_percent": figure(percent(window.failures, window.requests)),
    }


def _healthy(attempt: AttemptFact) -> StateFact | None:
    return attempt.states.get(State.HEALTHY)


def _retained(
    attempt: AttemptFact, observed: WindowFact | None, sources: Sources
) -> dict[str, Any] | None:
    before = _healthy(attempt)
    if before is None or before.window is None or observed is None:
        return None
    faulted = attempt.states[State.FAULTED]
    return {
        "percent": figure(retained(before.window, observed)),
        "successes": observed.successes,
        "rounds": observed.rounds,
        "healthy_successes": before.window.successes,
        "healthy_rounds": before.window.rounds,
        "from": sources.ranges([before.source, faulted.source]),
    }


def retained_means(judged: JudgedStudy, sources: Sources) -> list[dict[str, Any]]:
    """Per mutant: retained volume of each attempt and the mean, over both windows."""
    rows = []
    for mutant in judged.study.mutants:
        own = [
            (attempt, attempt.states[State.FAULTED])
            for attempt in judged.counted
            if attempt.mutant == mutant.id and State.FAULTED in attempt.states
        ]
        row: dict[str, Any] = {"mutant": mutant.id}
        for name, post in (("full_window", False), ("post_mutation", True)):
            values = [
                value
                for attempt, fact in own
                if (
                    value := retained(
                        None if (before := _healthy(attempt)) is None else before.window,
                        fact.post_mutation if post else fact.window,
                    )
                )
                is not None
            ]
            rates = [
                rate
                for _, fact in own
                if (window := fact.post_mutation if post else fact.window) is not None
                and (rate := percent(window.failures, window.requests)) is not None
            ]
            row[name] = {
                "retained_percent": [figure(value) for value in values],
                "retained_percent_mean": figure(mean(values)),
                "error_rate_percent": [figure(rate) for rate in rates],
                "error_rate_percent_mean": figure(mean(rates)),
            }
        touched = [fact.source for _, fact in own]
        touched += [before.source for a, _ in own if (before := _healthy(a)) is not None]
        rows.append({**row, "attempts": len(own), "from": sources.ranges(touched)})
    return rows


# -- predicted numbers --------------------------------------------------------------------------


def quantities(judged: JudgedStudy, sources: Sources) -> list[dict[str, Any]]:
    """Every predicted number beside every attempt that it concerns: matched or missed."""
    table = judged.study.predictions
    if table is None:
        return []
    prediction = files_of(judged.study.frozen, judged.digests, "predictions")
    rows = []
    for quantity in table.quantities:
        own = [
            (attempt, fact)
            for attempt in judged.counted
            if _concerns(quantity, attempt)
            and (fact := attempt.states.get(quantity.state)) is not None
        ]
        compared = [_compared(quantity, attempt, fact) for attempt, fact in own]
        told = [item for item in compared if item["value"] is not None]
        matched = sum(item["matched"] for item in told)
        touched = [
            fact.source
            for attempt in judged.counted
            if _concerns(quantity, attempt)
            for state in _states_of(quantity)
            if (fact := attempt.states.get(state)) is not None
        ]
        rows.append(
            {
                "id": quantity.id,
                "mutant": quantity.mutant or None,
                "state": quantity.state.value,
                "measure": quantity.measure,
                "expected": figure(quantity.expected),
                "tolerance": figure(quantity.tolerance),
                "matched": matched,
                "missed": len(told) - matched,
                "no_number": len(compared) - len(told),
                "matched_interval_percent": (
                    _interval(matched, len(told)) if _independent(own) else None
                ),
                "compared": compared,
                "from": sources.ranges([prediction, *touched]),
            }
        )
    return rows


def _concerns(quantity: Quantity, attempt: AttemptFact) -> bool:
    """Whether it was predicted of this attempt: of its mutant, under its profile."""
    return quantity.mutant in {"", attempt.mutant} and quantity.profile in {"", attempt.profile}


def _independent(own: Sequence[tuple[AttemptFact, StateFact]]) -> bool:
    """Whether each of these windows was drawn, and none with the seed of another."""
    seeds = [None if fact.window is None else fact.window.seed for _, fact in own]
    return None not in seeds and len(set(seeds)) == len(seeds)


def _states_of(quantity: Quantity) -> Sequence[State]:
    if quantity.measure == Measure.RETAINED_PERCENT:
        return (State.HEALTHY, quantity.state)
    return (quantity.state,)


def _compared(quantity: Quantity, attempt: AttemptFact, fact: StateFact) -> dict[str, Any]:
    """One comparison, with an interval if the measure is a proportion of trials."""
    window, interval = fact.window, None
    if quantity.measure == Measure.RETAINED_PERCENT:
        before = _healthy(attempt)
        # In the faulted state over the rounds begun after the mutant, as far as they are known.
        observed = fact.post_mutation if fact.post_mutation is not None else window
        value = retained(None if before is None else before.window, observed)
    else:
        if fact.post_mutation is not None:
            window = fact.post_mutation
        value = None if window is None else percent(window.failures, window.requests)
        if window is not None and window.seed is not None:
            interval = _interval(window.failures, window.requests)
    matched = value is not None and abs(value - quantity.expected) <= quantity.tolerance
    return {
        "run": attempt.run,
        "attempt": attempt.attempt,
        "value": figure(value),
        "interval_percent": interval,
        "matched": matched,
    }


def _interval(part: int, whole: int) -> list[float | int | None] | None:
    found = wilson(part, whole)
    return None if found is None else [figure(end) for end in found]
