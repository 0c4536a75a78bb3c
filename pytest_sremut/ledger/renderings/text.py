"""The summary as plain lines: survivors first, counts before percentages, denominators stated.

The live session and later readers of the same evidence all use this module, so they cannot
disagree. It does not depend on a terminal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pytest_sremut.ledger.model import PUBLISHED, AttemptFact, WindowFact
from pytest_sremut.ledger.scores import (
    Fate,
    MutantFate,
    disagreements,
    fates,
    retained_percent,
    score,
    violated_sets,
)
from pytest_sremut.study.model import Study
from pytest_sremut.study.verdict import CONTRACT, ContractVerdict, State, Verdict

__all__ = ["summary_lines"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    """Rows of strings, rendered with columns as wide as their widest cell."""

    rows: list[tuple[str, ...]]

    def lines(self) -> Iterator[str]:
        columns = max((len(row) for row in self.rows), default=0)
        padded = [row + ("",) * (columns - len(row)) for row in self.rows]
        widths = [max(len(row[column]) for row in padded) for column in range(columns)]
        for row in padded:
            cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            yield ("  " + "  ".join(cells)).rstrip()


def summary_lines(study: Study, attempts: Sequence[AttemptFact]) -> list[str]:
    """The summary of one study over these attempts (all of them, valid or not)."""
    graders = [spec.id for spec in study.oracles] + [CONTRACT]
    mutants = [mutant.id for mutant in study.mutants]
    everything = fates(attempts, graders=graders, mutants=mutants)
    lines = [_attempts_line(study, attempts)]
    runnable = all(attempt.registration != PUBLISHED for attempt in attempts)
    lines += _survivors(study, everything, runnable=runnable)
    lines += [
        "",
        "verdicts over valid attempts (A accept, R reject, E error; P pass for the contract)",
    ]
    lines += _Table(rows=list(_matrix(study, attempts))).lines()
    lines += ["", "workload over valid attempts"]
    lines += _Table(rows=list(_workload(study, attempts))).lines()
    lines += ["", "mutation score (mutants killed of mutants scored)"]
    lines += _Table(rows=list(_scores(study, everything))).lines()
    lines += _disagreement_lines(attempts)
    lines += _meddlers(attempts)
    lines += _around(attempts)
    lines += _invalid(attempts)
    return lines


def _attempts_line(study: Study, attempts: Sequence[AttemptFact]) -> str:
    planned = len(study.mutants) * study.repetitions
    outcomes = Counter(item.outcome.value if item.outcome else "DIED" for item in attempts)
    told = ", ".join(f"{name} {count}" for name, count in sorted(outcomes.items())) or "none"
    valid = len({item.run for item in attempts if item.valid})
    return f"{study.id}: {valid} of {planned} runs have a valid attempt; attempts: {told}"


def _survivors(study: Study, everything: Sequence[MutantFate], *, runnable: bool) -> Iterator[str]:
    survived = [f for f in everything if f.fate in {Fate.SURVIVED, Fate.UNSTABLE}]
    if not survived:
        return
    yield ""
    yield "survivors (the grader accepted a system that was never repaired)"
    for item in survived:
        mutant = study.mutant(item.mutant)
        readings = item.accepted + item.rejected
        yield (
            f"  {item.grader:<9} {item.mutant}  accepted {item.accepted} of {readings} "
            f"faulted readings  ({mutant.models})"
            + ("  UNSTABLE" if item.fate is Fate.UNSTABLE else "")
        )
        if runnable:
            cell = f"{item.first_accepting_run}-{State.FAULTED.value}-{item.grader}"
            # The item's own id, not an expression: that would also select studies and runs whose
            # ids begin like these. The run passes through its earlier states by itself.
            yield f'            reproduce: pytest "{study.file}::test_cell[{cell}]"'


def _matrix(study: Study, attempts: Sequence[AttemptFact]) -> Iterator[tuple[str, ...]]:
    yield ("mutant", "grader", *(state.value for state in study.states), "violated when faulted")
    for mutant in study.mutants:
        own = [item for item in attempts if item.valid and item.mutant == mutant.id]
        for spec in study.oracles:
            row = [mutant.id, spec.id]
            for state in study.states:
                verdicts = Counter(
                    reading.verdict
                    for item in own
                    if (fact := item.states.get(state)) is not None
                    for reading in fact.readings
                    if reading.oracle == spec.id
                )
                row.append(_counts({v.value[0]: verdicts[v] for v in Verdict}))
            yield tuple(row)
        row = [mutant.id, CONTRACT]
        for state in study.states:
            contract = Counter(
                fact.contract.verdict
                for item in own
                if (fact := item.states.get(state)) is not None and fact.contract is not None
            )
            row.append(_counts({v.value[0]: contract[v] for v in ContractVerdict}))
        sets = violated_sets(attempts, mutant=mutant.id)
        row.append(" / ".join("{" + ", ".join(sorted(found)) + "}" for found in sets))
        yield tuple(row)


def _counts(letters: dict[str, int]) -> str:
    """`A 6/6`, or every verdict that occurred when they differ; `-` without data."""
    total = sum(letters.values())
    if not total:
        return "-"
    return " ".join(f"{letter} {count}/{total}" for letter, count in letters.items() if count)


def _workload(study: Study, attempts: Sequence[AttemptFact]) -> Iterator[tuple[str, ...]]:
    yield ("mutant", "state", "requests", "non-2xx or lost", "error rate", "retained volume")
    for mutant in study.mutants:
        own = [item for item in attempts if item.valid and item.mutant == mutant.id]
        for state in study.states:
            windows = [
                fact.window
                for item in own
                if (fact := item.states.get(state)) is not None and fact.window is not None
            ]
            if not windows:
                continue
            yield (mutant.id, state.value, *_window_cells(windows), _retained(own, state))


def _window_cells(windows: Sequence[WindowFact]) -> tuple[str, str, str]:
    requests = sum(window.requests for window in windows)
    failures = sum(window.failures for window in windows)
    rounds = sum(window.rounds for window in windows)
    rate = f"{100.0 * failures / requests:.2f} %" if requests else "no completed request"
    return f"{requests} in {rounds} rounds", f"{failures} of {requests}", rate


def _retained(own: Sequence[AttemptFact], state: State) -> str:
    if state is not State.FAULTED:
        return ""
    values = [value for item in own if (value := retained_percent(item)) is not None]
    if not values:
        return "-"
    listed = ", ".join(f"{value:.2f}" for value in values)
    return f"{sum(values) / len(values):.2f} % mean of {len(values)} ({listed})"


def _scores(study: Study, everything: Sequence[MutantFate]) -> Iterator[tuple[str, ...]]:
    uses = {spec.id: spec.use for spec in study.oracles} | {CONTRACT: study.contract.id}
    for grader, use in uses.items():
        result = score(grader, everything)
        percent = "no score" if result.percent is None else f"{result.percent:.1f} %"
        notes = [f"{result.unscored} unscored"] if result.unscored else []
        notes += [f"{result.unproven} unproven (evidence is damaged)"] if result.unproven else []
        yield (grader, f"{result.killed} of {result.scored}", percent, use, ", ".join(notes))


def _disagreement_lines(attempts: Sequence[AttemptFact]) -> Iterator[str]:
    found = disagreements(attempts)
    yield ""
    if not found:
        yield "disagreements with the contract: none"
        return
    total = sum(
        len(state.readings)
        for item in attempts
        if item.valid
        for state in item.states.values()
        if state.contract is not None
    )
    counts = Counter((item.kind, item.oracle) for item in found)
    yield f"disagreements with the contract: {len(found)} of {total} readings"
    for (kind, oracle), count in sorted(counts.items()):
        yield f"  {oracle:<9} {count} {kind}{'s' if count != 1 else ''}"


def _meddlers(attempts: Sequence[AttemptFact]) -> Iterator[str]:
    """Graders during whose readings the cluster changed: a reading should change nothing."""
    found: dict[tuple[str, str], list[tuple[str, tuple[str, ...]]]] = {}
    for item in attempts:
        for state, fact in item.states.items():
            for reading in fact.readings:
                if reading.changes:
                    where = f"{item.run} {state.value}"
                    own = found.setdefault((reading.oracle, reading.instrument), [])
                    own.append((where, reading.changes))
    if found:
        yield ""
    for (oracle, instrument), told in sorted(found.items()):
        where, changes = told[0]
        yield (
            f"{oracle} {instrument} changed the cluster while it graded, or something else did: "
            f"{len(told)} reading{'s' if len(told) != 1 else ''}, first {where}: "
            f"{'; '.join(changes[:2])}"
        )


def _around(attempts: Sequence[AttemptFact]) -> Iterator[str]:
    """What others did to the cluster meanwhile. It is reported and decides nothing."""
    found = [item for item in attempts if item.around]
    if not found:
        return
    yield ""
    yield "the cluster around the namespace changed during an attempt (noted; it decides nothing)"
    for item in found:
        more = f"; and {len(item.around) - 3} more" if len(item.around) > 3 else ""
        yield f"  {item.run} attempt {item.attempt}: {'; '.join(item.around[:3])}{more}"


def _invalid(attempts: Sequence[AttemptFact]) -> Iterator[str]:
    rejected = [item for item in attempts if not item.valid]
    if not rejected:
        return
    yield ""
    yield f"invalid attempts ({len(rejected)} of {len(attempts)}; none of them enters a score)"
    for item in rejected:
        outcome = item.outcome.value if item.outcome else "DIED"
        yield f"  {item.run} attempt {item.attempt}: {outcome}: {item.reason}"
