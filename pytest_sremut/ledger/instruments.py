"""Facts beside the verdicts: agreement, identity, composition, diagnostic calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from pytest_sremut.ledger.judge import JudgedStudy
from pytest_sremut.ledger.model import AttemptFact, ReadingFact, StateFact
from pytest_sremut.ledger.sources import Sources
from pytest_sremut.study.verdict import Verdict

__all__ = ["agreement", "compositions", "diagnostics", "identities"]


def _states(judged: JudgedStudy) -> Iterator[tuple[AttemptFact, StateFact]]:
    for attempt in judged.counted:
        for state in judged.study.states:
            if state in attempt.states:
                yield attempt, attempt.states[state]


def agreement(judged: JudgedStudy, sources: Sources) -> list[dict[str, Any]]:
    """Per oracle: in how many states its instruments agreed, and where they did not."""
    rows = []
    for spec in judged.study.oracles:
        compared = agreed = 0
        touched = []
        differ = []
        for attempt, fact in _states(judged):
            own = [reading for reading in fact.readings if reading.oracle == spec.id]
            if len({reading.instrument for reading in own}) < 2:
                continue
            compared += 1
            touched.append(fact.source)
            if len({reading.verdict for reading in own}) == 1:
                agreed += 1
                continue
            differ.append(
                {
                    "run": attempt.run,
                    "attempt": attempt.attempt,
                    "state": fact.state.value,
                    "verdicts": {r.instrument: r.verdict.value for r in own},
                }
            )
        rows.append(
            {
                "oracle": spec.id,
                "agreed": agreed,
                "compared": compared,
                "differ": differ,
                "from": sources.ranges(touched),
            }
        )
    return rows


def identities(judged: JudgedStudy, sources: Sources) -> list[dict[str, Any]]:
    """Per oracle and instrument: the digests of its own facts, and if they are all the same.

    `identical` is None if no reading gives any facts.
    """
    found: dict[tuple[str, str], Counter[str]] = {}
    touched: dict[tuple[str, str], list[Any]] = {}
    for _, fact in _states(judged):
        for reading in fact.readings:
            key = (reading.oracle, reading.instrument)
            found.setdefault(key, Counter())[reading.identity] += 1
            touched.setdefault(key, []).append(fact.source)
    return [
        {
            "oracle": oracle,
            "instrument": instrument,
            "readings": counts.total(),
            "untold": counts[""],
            "digests": {digest: n for digest, n in sorted(counts.items()) if digest},
            "identical": None if counts[""] == counts.total() else len(counts) == 1,
            "from": sources.ranges(touched[oracle, instrument]),
        }
        for (oracle, instrument), counts in sorted(found.items())
    ]


def compositions(judged: JudgedStudy, sources: Sources) -> list[dict[str, Any]]:
    """Per composed oracle: how often it agreed with the conjunction of its parts."""
    rows = []
    for spec in judged.study.oracles:
        if not spec.of:
            continue
        compared = equal = 0
        touched = []
        for _, fact in _states(judged):
            by_instrument: dict[str, dict[str, ReadingFact]] = {}
            for reading in fact.readings:
                by_instrument.setdefault(reading.instrument, {})[reading.oracle] = reading
            for own in by_instrument.values():
                parts = [own[name].verdict for name in spec.of if name in own]
                if spec.id not in own or len(parts) != len(spec.of):
                    continue
                if Verdict.ERROR in {own[spec.id].verdict, *parts}:
                    continue
                compared += 1
                touched.append(fact.source)
                every = all(verdict is Verdict.ACCEPT for verdict in parts)
                equal += (own[spec.id].verdict is Verdict.ACCEPT) is every
        rows.append(
            {
                "oracle": spec.id,
                "of": list(spec.of),
                "equal": equal,
                "compared": compared,
                "from": sources.ranges(touched),
            }
        )
    return rows


def diagnostics(judged: JudgedStudy, sources: Sources) -> list[dict[str, Any]]:
    """Per oracle: direct calls made beside its readings, and what they raised. No verdict."""
    rows = []
    for spec in judged.study.oracles:
        told = [
            (fact.source, reading.diagnostic)
            for _, fact in _states(judged)
            for reading in fact.readings
            if reading.oracle == spec.id and reading.diagnostic is not None
        ]
        if told:
            raised = Counter(text for _, text in told if text)
            rows.append(
                {
                    "oracle": spec.id,
                    "calls": len(told),
                    "raised": [
                        {"exception": text, "count": count}
                        for text, count in sorted(raised.items())
                    ],
                    "from": sources.ranges(source for source, _ in told),
                }
            )
    return rows
