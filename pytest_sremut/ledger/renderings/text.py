"""The summary as plain lines: findings first, counts before percentages, denominators stated.

The live session and later readers of the same evidence all use this module, so they cannot
disagree. It does not depend on a terminal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pytest_sremut.ledger.figures import retained
from pytest_sremut.ledger.model import PUBLISHED, AttemptFact, WindowFact
from pytest_sremut.ledger.scores import (
    Fate,
    MutantFate,
    Said,
    disagreements,
    fates,
    said,
    score,
    violated_sets,
)
from pytest_sremut.ledger.sides import Share, sides
from pytest_sremut.study.model import Study
from pytest_sremut.study.verdict import CONTRACT, ContractVerdict, Expectation, State, Verdict

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
    everything = fates(attempts, graders=graders, mutants=study.mutants)
    lines = [_attempts_line(study, attempts)]
    runnable = all(attempt.registration != PUBLISHED for attempt in attempts)
    lines += _false_rejects(study, attempts, everything, runnable=runnable)
    lines += _survivors(study, everything, runnable=runnable)
    lines += _equivalents(study, everything)
    lines += _controls(study, everything)
    lines += [
        "",
        "verdicts over valid attempts (A accept, R reject, E error; P pass for the contract)",
    ]
    lines += _Table(rows=list(_matrix(study, attempts))).lines()
    lines += ["", "workload over valid attempts"]
    lines += _Table(rows=list(_workload(study, attempts))).lines()
    lines += ["", "two sides of each grader (in runs; informedness = both shares - 1)"]
    lines += _Table(rows=list(_two_sides(study, attempts))).lines()
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


def _reproduce(study: Study, run: str | None, state: State, grader: str) -> str:
    """The command that reads one cell again.

    It names an item's own id: an expression would also choose studies and runs whose ids only
    begin like these. The run passes its earlier states by itself.
    """
    return f'            reproduce: pytest "{study.file}::test_cell[{run}-{state.value}-{grader}]"'


def _false_rejects(
    study: Study,
    attempts: Sequence[AttemptFact],
    everything: Sequence[MutantFate],
    *,
    runnable: bool,
) -> Iterator[str]:
    """Right systems that a grader rejected: controls first, then healthy and restored states."""
    found: list[str] = []
    for item in everything:
        if item.is_false_reject:
            models = study.mutant(item.mutant).models
            found.append(f"  {item.grader:<9} {item.mutant}  {_rested(item)}  ({models})")
            if runnable and item.first_rejecting_run:
                run = item.first_rejecting_run
                found.append(_reproduce(study, run, State.FAULTED, item.grader))
    for spec in study.oracles:
        for state in (State.HEALTHY, State.RESTORED):
            passed = [
                (one.run, said(fact, spec.id))
                for one in attempts
                if one.valid
                and (fact := one.states.get(state)) is not None
                and fact.contract is not None
                and fact.contract.verdict is ContractVerdict.PASS
            ]
            rejecting = [run for run, seen in passed if seen in {Said.REJECT, Said.DIFFERS}]
            if rejecting:
                runs = _runs(len(passed))
                found.append(
                    f"  {spec.id:<9} {state.value}  rejected in {len(rejecting)} of {runs}"
                )
                if runnable:
                    found.append(_reproduce(study, rejecting[0], state, spec.id))
    if found:
        yield ""
        yield "false rejects (the grader rejected a system that was right)"
        yield from found


def _survivors(study: Study, everything: Sequence[MutantFate], *, runnable: bool) -> Iterator[str]:
    survived = [item for item in everything if item.is_survivor]
    if not survived:
        return
    yield ""
    yield "survivors (the grader accepted a system that was never repaired)"
    for item in survived:
        models = study.mutant(item.mutant).models
        yield (
            f"  {item.grader:<9} {item.mutant}  {_rested(item)}  ({models})"
            + ("  UNSTABLE" if item.fate is Fate.UNSTABLE else "")
        )
        if runnable:
            yield _reproduce(study, item.first_accepting_run, State.FAULTED, item.grader)


def _equivalents(study: Study, everything: Sequence[MutantFate]) -> Iterator[str]:
    """Mutants that the contract passed: nobody has shown them to be wrong."""
    passed = {item.mutant: item for item in everything if item.runs.get(Fate.EQUIVALENT)}
    if passed:
        yield ""
        yield "equivalent (the contract passes it, or is blind to it; in no score)"
        for mutant, item in passed.items():
            count = _runs(item.runs[Fate.EQUIVALENT])
            yield f"  {mutant}  passed in {count}  ({study.mutant(mutant).models})"


def _controls(study: Study, everything: Sequence[MutantFate]) -> Iterator[str]:
    """Right repairs: how many of them each grader accepts."""
    controls = [item for item in everything if item.expect is Expectation.ACCEPT]
    if controls:
        yield ""
        yield "controls (right repairs, which a grader must accept; in no mutation score)"
        for item in controls:
            models = study.mutant(item.mutant).models
            told = f"{item.fate.value}: {_rested(item)}"
            yield f"  {item.grader:<9} {item.mutant}  {told}  ({models})"


def _rested(item: MutantFate) -> str:
    """What a fate rests on: runs are what counts, readings are how often we looked."""
    told = f"accepted {item.accepted} of {item.readings} faulted readings"
    instruments = f"{item.instruments} instrument{'s' if item.instruments != 1 else ''}"
    return f"{told} ({_runs(sum(item.runs.values()))}, {instruments})"


def _runs(count: int) -> str:
    return f"{count} run{'s' if count != 1 else ''}"


def _two_sides(study: Study, attempts: Sequence[AttemptFact]) -> Iterator[tuple[str, ...]]:
    expected = {mutant.id: mutant.expect for mutant in study.mutants}
    yield ("grader", "wrong repairs rejected", "right systems accepted", "informedness")
    for grader in [*(spec.id for spec in study.oracles), CONTRACT]:
        both = sides(attempts, grader, expected)
        number = both.informedness
        shown = "-" if number is None else f"{number:+.2f}"
        yield (grader, _share(both.rejected), _share(both.accepted), shown)


def _share(given: Share) -> str:
    told = f"{given.part} of {given.of}"
    if given.rate is not None:
        told += f" ({100 * given.rate:.1f} %)"
    notes = [f"{given.errors} errors"] if given.errors else []
    notes += [f"{given.differing} where instruments differ"] if given.differing else []
    return told + (f", {', '.join(notes)}" if notes else "")


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
            facts = [fact for item in own if (fact := item.states.get(state)) is not None]
            windows = [
                fact.post_mutation or fact.window for fact in facts if fact.window is not None
            ]
            if not windows:
                continue
            counted = [window for window in windows if window is not None]
            yield (mutant.id, state.value, *_window_cells(counted), _retained(own, state))


def _window_cells(windows: Sequence[WindowFact]) -> tuple[str, str, str]:
    requests = sum(window.requests for window in windows)
    failures = sum(window.failures for window in windows)
    rounds = sum(window.rounds for window in windows)
    rate = f"{100.0 * failures / requests:.2f} %" if requests else "no completed request"
    return f"{requests} in {rounds} rounds", f"{failures} of {requests}", rate


def _retained(own: Sequence[AttemptFact], state: State) -> str:
    """Of the rounds begun after the mutant was applied where they are known, else of all."""
    if state is not State.FAULTED:
        return ""
    known = [item.states[state].post_mutation is not None for item in own if state in item.states]
    is_post = bool(known) and all(known)
    values = [value for item in own if (value := _retained_of(item, is_post=is_post)) is not None]
    if not values:
        return "-"
    listed = ", ".join(f"{value:.2f}" for value in values)
    window = "post-mutation window" if is_post else "full window"
    return f"{sum(values) / len(values):.2f} % {window}, mean of {_runs(len(values))} ({listed})"


def _retained_of(attempt: AttemptFact, *, is_post: bool) -> float | None:
    healthy, faulted = attempt.states.get(State.HEALTHY), attempt.states.get(State.FAULTED)
    if healthy is None or faulted is None:
        return None
    return retained(healthy.window, faulted.post_mutation if is_post else faulted.window)


def _scores(study: Study, everything: Sequence[MutantFate]) -> Iterator[tuple[str, ...]]:
    uses = {spec.id: spec.use for spec in study.oracles} | {CONTRACT: study.contract.id}
    for grader, use in uses.items():
        result = score(grader, everything)
        percent = "no score" if result.percent is None else f"{result.percent:.1f} %"
        notes = [f"{result.unscored} unscored"] if result.unscored else []
        if result.brittle_runs:
            notes.append(f"brittle in {_runs(result.brittle_runs)}: it rejects its own controls")
        notes += [f"{result.equivalent} equivalent"] if result.equivalent else []
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
