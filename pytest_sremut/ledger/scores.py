"""Scores and disagreements, over valid attempts only.

Rules kept here:
- a mutant is *killed* by a grader when every valid faulted reading rejects it, *survived* when
  every one accepts it, *unstable* when they differ (reported, never averaged, and not killed),
  and *unscored* when any of them is an ERROR or there is none;
- *unproven* when evidence of it is damaged and the rest does not show that it survived: it stays
  in the denominator and is not killed, so that damage never makes a score better;
- without a mutant that has a valid reading there is no score: neither 100 % nor 0 %;
- counts come before percentages, and the denominator is always stated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pytest_sremut.ledger.model import AttemptFact, StateFact
from pytest_sremut.study.verdict import (
    CONTRACT,
    ContractVerdict,
    State,
    Verdict,
    disagreement,
)

__all__ = [
    "Disagreement",
    "Fate",
    "MutantFate",
    "Score",
    "disagreements",
    "fates",
    "retained_percent",
    "score",
    "violated_sets",
]


class Fate(StrEnum):
    """What a grader did to a mutant."""

    KILLED = "killed"
    SURVIVED = "survived"
    UNSTABLE = "unstable"
    UNSCORED = "unscored"
    UNPROVEN = "unproven"


@dataclass(frozen=True, slots=True, kw_only=True)
class MutantFate:
    """One grader against one mutant, with the counts of its readings."""

    grader: str
    mutant: str
    fate: Fate
    accepted: int
    rejected: int
    errors: int
    first_accepting_run: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Killed of scored mutants, for one grader. The unproven ones are among the scored."""

    grader: str
    killed: int
    scored: int
    unscored: int
    unproven: int = 0

    @property
    def percent(self) -> float | None:
        """The score in percent; None if nothing was read, for an absence of data is no score."""
        return 100.0 * self.killed / self.scored if self.scored > self.unproven else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """One oracle reading that contradicts the contract in the same state of the same attempt."""

    kind: str  # "false accept" or "false reject"
    oracle: str
    instrument: str
    run: str
    attempt: int
    state: State


def _verdicts(state: StateFact, grader: str) -> list[Verdict]:
    if grader == CONTRACT:
        if state.contract is None:
            return []
        passed = state.contract.verdict is ContractVerdict.PASS
        return [Verdict.ACCEPT if passed else Verdict.REJECT]
    return [reading.verdict for reading in state.readings if reading.oracle == grader]


def fates(
    attempts: Iterable[AttemptFact], *, graders: Sequence[str], mutants: Sequence[str]
) -> list[MutantFate]:
    """The fate of every mutant under every grader, in the order given."""
    given = list(attempts)
    valid = [attempt for attempt in given if attempt.valid]
    damaged = {attempt.mutant for attempt in given if attempt.damaged}
    result: list[MutantFate] = []
    for grader in graders:
        for mutant in mutants:
            counts = dict.fromkeys(Verdict, 0)
            accepting: str | None = None
            for attempt in valid:
                faulted = attempt.states.get(State.FAULTED)
                if attempt.mutant != mutant or faulted is None:
                    continue
                for verdict in _verdicts(faulted, grader):
                    counts[verdict] += 1
                    if verdict is Verdict.ACCEPT and accepting is None:
                        accepting = attempt.run
            result.append(
                MutantFate(
                    grader=grader,
                    mutant=mutant,
                    fate=_fate(counts, damaged=mutant in damaged),
                    accepted=counts[Verdict.ACCEPT],
                    rejected=counts[Verdict.REJECT],
                    errors=counts[Verdict.ERROR],
                    first_accepting_run=accepting,
                )
            )
    return result


def _fate(counts: dict[Verdict, int], *, damaged: bool) -> Fate:
    if counts[Verdict.ERROR] or not sum(counts.values()):
        return Fate.UNPROVEN if damaged else Fate.UNSCORED
    if counts[Verdict.ACCEPT]:
        return Fate.UNSTABLE if counts[Verdict.REJECT] else Fate.SURVIVED
    return Fate.UNPROVEN if damaged else Fate.KILLED


def score(grader: str, all_fates: Iterable[MutantFate]) -> Score:
    """The mutation score of one grader. An unstable mutant is scored and not killed."""
    own = [item for item in all_fates if item.grader == grader]
    unscored = sum(item.fate is Fate.UNSCORED for item in own)
    return Score(
        grader=grader,
        killed=sum(item.fate is Fate.KILLED for item in own),
        scored=len(own) - unscored,
        unscored=unscored,
        unproven=sum(item.fate is Fate.UNPROVEN for item in own),
    )


def disagreements(attempts: Iterable[AttemptFact]) -> list[Disagreement]:
    """Every reading of a valid attempt that the contract contradicts."""
    found: list[Disagreement] = []
    for attempt in attempts:
        if not attempt.valid:
            continue
        for state in attempt.states.values():
            if state.contract is None:
                continue
            for reading in state.readings:
                kind = disagreement(reading.verdict, state.contract.verdict)
                if kind:
                    found.append(
                        Disagreement(
                            kind=kind,
                            oracle=reading.oracle,
                            instrument=reading.instrument,
                            run=attempt.run,
                            attempt=attempt.attempt,
                            state=state.state,
                        )
                    )
    return found


def violated_sets(attempts: Iterable[AttemptFact], *, mutant: str) -> list[frozenset[str]]:
    """The distinct sets of violated invariants over a mutant's valid repetitions, in run order.

    More than one means that the repetitions disagree.
    """
    distinct: list[frozenset[str]] = []
    for attempt in attempts:
        faulted = attempt.states.get(State.FAULTED)
        if not attempt.valid or attempt.mutant != mutant or faulted is None:
            continue
        if faulted.contract is not None and faulted.contract.violated not in distinct:
            distinct.append(faulted.contract.violated)
    return distinct


def retained_percent(attempt: AttemptFact) -> float | None:
    """Successful responses per faulted round, in percent of those per healthy round.

    None when either window is missing or the healthy one has no successes.
    """
    healthy = attempt.states.get(State.HEALTHY)
    faulted = attempt.states.get(State.FAULTED)
    if healthy is None or faulted is None or healthy.window is None or faulted.window is None:
        return None
    before, after = healthy.window, faulted.window
    if not before.rounds or not after.rounds or not before.successes:
        return None
    return 100.0 * (after.successes / after.rounds) / (before.successes / before.rounds)
