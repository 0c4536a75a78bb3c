"""Predictions beside observations: by reading, by cell, in the compact table; violated sets.

A *cell* is one run in one state under one grader; it matches when every reading in it does. The
*table* pools cells in the form in which studies are published: a grader in a control state over all
mutants, or in the faulted state of one mutant. A reading without a prediction is not compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_sremut.ledger.judge import JudgedStudy
from pytest_sremut.ledger.model import AttemptFact, StateFact
from pytest_sremut.ledger.scores import violated_sets
from pytest_sremut.ledger.sources import Sources
from pytest_sremut.study.model import Predictions, Study
from pytest_sremut.study.verdict import CONTRACT, ContractVerdict, State

__all__ = ["Observation", "matrix", "observations", "table", "totals", "violated"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One verdict of one grader beside its prediction. `matches` is None without a prediction."""

    attempt: AttemptFact
    state: StateFact
    grader: str
    verdict: str
    predicted: str | None
    matches: bool | None


def observations(study: Study, attempts: Iterable[AttemptFact]) -> list[Observation]:
    """Every verdict of these attempts, oracles and contract, state by state."""
    return [
        seen
        for attempt in attempts
        for state in study.states
        if (fact := attempt.states.get(state)) is not None
        for seen in _of_state(study.predictions, attempt, fact)
    ]


def _of_state(
    table: Predictions | None, attempt: AttemptFact, fact: StateFact
) -> Iterator[Observation]:
    for reading in fact.readings:
        expected = None
        if table is not None:
            expected = table.oracles.get((attempt.mutant, fact.state, reading.oracle))
        yield Observation(
            attempt=attempt,
            state=fact,
            grader=reading.oracle,
            verdict=reading.verdict.value,
            predicted=None if expected is None else expected.value,
            matches=None if expected is None else reading.verdict is expected,
        )
    if fact.contract is None:
        return
    wanted = None if table is None else table.contract.get((attempt.mutant, fact.state))
    matches = None
    if wanted is not None:
        matches = (fact.contract.verdict, fact.contract.violated) == wanted
    yield Observation(
        attempt=attempt,
        state=fact,
        grader=CONTRACT,
        verdict=fact.contract.verdict.value,
        predicted=None if wanted is None else wanted[0].value,
        matches=matches,
    )


def matrix(judged: JudgedStudy, sources: Sources) -> list[dict[str, Any]]:
    """One row for every mutant, grader and state of the study, with or without readings."""
    study = judged.study
    seen: dict[tuple[str, str, State], list[Observation]] = {}
    for item in observations(study, judged.counted):
        seen.setdefault((item.attempt.mutant, item.grader, item.state.state), []).append(item)
    rows = []
    for mutant in study.mutants:
        for grader in graders_of(study):
            for state in study.states:
                items = seen.get((mutant.id, grader, state), [])
                rows.append(
                    {
                        "mutant": mutant.id,
                        "grader": grader,
                        "state": state.value,
                        **_prediction(study.predictions, mutant.id, grader, state),
                        "observed": dict(sorted(Counter(i.verdict for i in items).items())),
                        "readings": len(items),
                        "matched": sum(item.matches is True for item in items),
                        "mismatched": sum(item.matches is False for item in items),
                        "from": sources.ranges(item.state.source for item in items),
                    }
                )
    return rows


def _prediction(
    table: Predictions | None, mutant: str, grader: str, state: State
) -> dict[str, Any]:
    if table is None:
        return {"predicted": None}
    if grader == CONTRACT:
        verdict, violated_ids = table.contract[mutant, state]
        return {"predicted": verdict.value, "predicted_violated": sorted(violated_ids)}
    return {"predicted": table.oracles[mutant, state, grader].value}


def graders_of(study: Study) -> list[str]:
    """The oracles in their order, then the contract."""
    return [*(spec.id for spec in study.oracles), CONTRACT]


def table(judged: JudgedStudy, sources: Sources) -> list[dict[str, Any]]:
    """The compact table: cells that have a prediction and at least one reading."""
    study = judged.study
    pooled: dict[tuple[str, str], list[Observation]] = {}
    for item in observations(study, judged.counted):
        if item.grader == CONTRACT or item.matches is None:
            continue
        faulted = item.state.state is State.FAULTED
        column = item.attempt.mutant if faulted else item.state.state.value
        pooled.setdefault((item.grader, column), []).append(item)
    columns = [State.HEALTHY.value, *(m.id for m in study.mutants), State.RESTORED.value]
    return [
        {
            "grader": spec.id,
            "column": column,
            "readings": len(items),
            "observed": dict(sorted(Counter(i.verdict for i in items).items())),
            "matched": all(item.matches for item in items),
            "from": sources.ranges(item.state.source for item in items),
        }
        for spec in study.oracles
        for column in columns
        if (items := pooled.get((spec.id, column)))
    ]


def totals(judged: JudgedStudy, sources: Sources) -> dict[str, Any]:
    """Counts over every valid attempt: readings, cells, and the contract by kind of state."""
    items = observations(judged.study, judged.counted)
    oracles = [item for item in items if item.grader != CONTRACT]
    contract = [item for item in items if item.grader == CONTRACT]
    faulted = [item for item in contract if item.state.state is State.FAULTED]
    controls = [item for item in contract if item.state.state is not State.FAULTED]
    compact = table(judged, sources)
    return {
        "oracle_readings": {**_counts(oracles), "from": _from(oracles, sources)},
        "faulted_oracle_readings": _of_kind(oracles, sources, faulted=True),
        "control_oracle_readings": _of_kind(oracles, sources, faulted=False),
        "contract_readings": {**_counts(contract), "from": _from(contract, sources)},
        "contract_faulted": {
            "rejected": sum(i.verdict == ContractVerdict.REJECT for i in faulted),
            "of": len(faulted),
            "from": _from(faulted, sources),
        },
        "contract_controls": {
            "passed": sum(i.verdict == ContractVerdict.PASS for i in controls),
            "of": len(controls),
            "from": _from(controls, sources),
        },
        "oracle_cells": {**_cells(oracles), "from": _from(oracles, sources)},
        "contract_cells": {**_cells(contract), "from": _from(contract, sources)},
        "table_cells": {
            "matched": sum(cell["matched"] for cell in compact),
            "of": len(compact),
            "from": _from(oracles, sources),
        },
    }


def _of_kind(items: Iterable[Observation], sources: Sources, *, faulted: bool) -> dict[str, Any]:
    own = [item for item in items if (item.state.state is State.FAULTED) is faulted]
    return {**_counts(own), "from": _from(own, sources)}


def _counts(items: Sequence[Observation]) -> dict[str, Any]:
    return {
        "of": len(items),
        "matched": sum(item.matches is True for item in items),
        "mismatched": sum(item.matches is False for item in items),
        "observed": dict(sorted(Counter(item.verdict for item in items).items())),
    }


def _cells(items: Iterable[Observation]) -> dict[str, int]:
    cells: dict[tuple[str, int, str, State, str], bool] = {}
    for item in items:
        if item.matches is None:
            continue
        attempt = item.attempt
        key = (attempt.run, attempt.attempt, attempt.evidence, item.state.state, item.grader)
        cells[key] = cells.get(key, True) and item.matches
    return {"of": len(cells), "matched": sum(cells.values())}


def _from(items: Iterable[Observation], sources: Sources) -> list[list[int]]:
    return sources.ranges(item.state.source for item in items)


def violated(judged: JudgedStudy, sources: Sources) -> list[dict[str, Any]]:
    """The violated set of every mutant in every repetition, and whether they agree.

    Repetitions that disagree are all listed; there is no average and no majority.
    """
    study = judged.study
    rows = []
    for mutant in study.mutants:
        own = [
            (attempt, fact)
            for attempt in judged.counted
            if attempt.mutant == mutant.id
            and (fact := attempt.states.get(State.FAULTED)) is not None
            and fact.contract is not None
        ]
        predicted = None
        if study.predictions is not None:
            predicted = sorted(study.predictions.contract[mutant.id, State.FAULTED][1])
        sets = violated_sets([attempt for attempt, _ in own], mutant=mutant.id)
        rows.append(
            {
                "mutant": mutant.id,
                "predicted": predicted,
                "sets": [
                    {
                        "violated": sorted(one),
                        "runs": [
                            attempt.run
                            for attempt, fact in own
                            if fact.contract is not None and fact.contract.violated == one
                        ],
                    }
                    for one in sets
                ],
                "agree": len(sets) == 1 if own else None,
                "readings": len(own),
                "from": sources.ranges(fact.source for _, fact in own),
            }
        )
    return rows
