"""What each grader did to each mutant, over valid attempts only.

The unit is the run. All readings that a grader gave of one state of one run, by whatever
instruments, are one observation: instruments that agree are no second sample.

A mutant that its author wants rejected is, in one run,
- *survived* where the grader accepts the faulted state;
- *killed* where it rejects it and accepted that run's own healthy and restored states;
- *brittle* where it rejects it, and those as well: a grader that rejects everything sees nothing;
- *unstable* where its instruments differ;
- *equivalent* where the contract passes the faulted state: then nobody has shown it to be wrong;
- *unscored* where a reading is an error, or there is none.

A mutant that its author wants accepted is a *control*: *control accepted* or *control rejected*,
and unscored where the contract does not pass it. The contract itself is held against what the
author expects, never against itself.

Over the runs of a mutant: equivalent and brittle runs are no evidence, and the others decide.
Runs that differ make it unstable: reported, never averaged, and not killed. It is *unproven* when
evidence of it is damaged and what is left does not show that it survived: it stays in the
denominator and is not killed, so that damage never makes a score better.

No mutant with a scored run means no score: never 100 %, never 0 %. Counts come before
percentages, and the denominator is always stated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from pytest_sremut.ledger.model import AttemptFact, StateFact
from pytest_sremut.study.model import Mutant
from pytest_sremut.study.verdict import (
    CONTRACT,
    ContractVerdict,
    Expectation,
    State,
    Verdict,
    disagreement,
)

__all__ = [
    "Disagreement",
    "Fate",
    "MutantFate",
    "Said",
    "Score",
    "disagreements",
    "fates",
    "said",
    "score",
    "violated_sets",
]


class Fate(StrEnum):
    """What a grader did to a mutant, in one run or over all of them."""

    KILLED = "killed"
    SURVIVED = "survived"
    UNSTABLE = "unstable"
    BRITTLE = "brittle"
    EQUIVALENT = "equivalent"
    CONTROL_ACCEPTED = "control accepted"
    CONTROL_REJECTED = "control rejected"
    UNSCORED = "unscored"
    UNPROVEN = "unproven"


SCORED: Final = frozenset({Fate.KILLED, Fate.SURVIVED, Fate.UNSTABLE, Fate.UNPROVEN})
"""The fates of the mutants that are in a score's denominator."""

_CONTROLS: Final = (State.HEALTHY, State.RESTORED)


class Said(StrEnum):
    """What a grader said of one state of one run, over all of its readings there."""

    ACCEPT = "accept"
    REJECT = "reject"
    ERROR = "error"  # one of its readings at least
    DIFFERS = "differs"  # between instruments
    NOTHING = "nothing"  # no reading


@dataclass(frozen=True, slots=True, kw_only=True)
class MutantFate:
    """One grader against one mutant, with the runs and readings it rests on.

    `accepted`, `rejected` and `errors` count readings of the faulted state; `runs` counts runs
    by what the grader did in each, in which a reading was looked for.
    """

    grader: str
    mutant: str
    expect: Expectation
    fate: Fate
    accepted: int
    rejected: int
    errors: int
    instruments: int
    runs: Mapping[Fate, int] = field(default_factory=dict)
    first_accepting_run: str | None = None
    first_rejecting_run: str | None = None

    @property
    def readings(self) -> int:
        """Of the faulted state, errors included."""
        return self.accepted + self.rejected + self.errors

    @property
    def is_false_reject(self) -> bool:
        """A control that was rejected in some run at least."""
        return bool(self.runs.get(Fate.CONTROL_REJECTED)) or (
            self.expect is Expectation.ACCEPT and bool(self.runs.get(Fate.UNSTABLE))
        )

    @property
    def is_survivor(self) -> bool:
        """The grader accepted a system that the contract rejects, in some run at least."""
        return self.expect is Expectation.REJECT and bool(
            self.runs.get(Fate.SURVIVED) or self.runs.get(Fate.UNSTABLE)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Killed of scored mutants, for one grader. The unproven ones are among the scored.

    `brittle` counts mutants that were killed in no run because the grader rejected its own
    controls; `brittle_runs` all runs in which it did.
    """

    grader: str
    killed: int
    scored: int
    unscored: int
    unproven: int = 0
    brittle: int = 0
    brittle_runs: int = 0
    equivalent: int = 0
    controls: int = 0
    controls_accepted: int = 0

    @property
    def percent(self) -> float | None:
        """None when nothing was read: an absence of data is not a score."""
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


def said(state: StateFact | None, grader: str) -> Said:
    """All readings that a grader gave of a state, as one observation."""
    found = set() if state is None else set(_verdicts(state, grader))
    if not found:
        return Said.NOTHING
    if Verdict.ERROR in found:
        return Said.ERROR
    if len(found) > 1:
        return Said.DIFFERS
    return Said.ACCEPT if Verdict.ACCEPT in found else Said.REJECT


def fates(
    attempts: Iterable[AttemptFact], *, graders: Sequence[str], mutants: Sequence[Mutant]
) -> list[MutantFate]:
    """The fate of every mutant under every grader, in the order given."""
    given = list(attempts)
    valid = [attempt for attempt in given if attempt.valid]
    damaged = {attempt.mutant for attempt in given if attempt.damaged}
    return [
        _fate_of(
            [one for one in valid if one.mutant == mutant.id and State.FAULTED in one.states],
            grader,
            mutant,
            damaged=mutant.id in damaged,
        )
        for grader in graders
        for mutant in mutants
    ]


def _fate_of(
    own: Sequence[AttemptFact], grader: str, mutant: Mutant, *, damaged: bool
) -> MutantFate:
    counts = dict.fromkeys(Verdict, 0)
    first: dict[Verdict, str] = {}
    instruments: set[str] = set()
    for attempt in own:
        faulted = attempt.states[State.FAULTED]
        instruments |= {item.instrument for item in faulted.readings if item.oracle == grader}
        for verdict in _verdicts(faulted, grader):
            counts[verdict] += 1
            first.setdefault(verdict, attempt.run)
    runs = Counter(_fate_in(attempt, grader, mutant.expect) for attempt in own)
    return MutantFate(
        grader=grader,
        mutant=mutant.id,
        expect=mutant.expect,
        fate=_over_runs(runs, damaged=damaged),
        accepted=counts[Verdict.ACCEPT],
        rejected=counts[Verdict.REJECT],
        errors=counts[Verdict.ERROR],
        instruments=1 if grader == CONTRACT and own else len(instruments),
        runs=dict(sorted(runs.items())),
        first_accepting_run=first.get(Verdict.ACCEPT),
        first_rejecting_run=first.get(Verdict.REJECT),
    )


def _fate_in(attempt: AttemptFact, grader: str, expect: Expectation) -> Fate:
    """What a grader did to the mutant of one run."""
    faulted = attempt.states[State.FAULTED]
    seen = said(faulted, grader)
    if seen in {Said.ERROR, Said.NOTHING}:
        return Fate.UNSCORED
    contract = None if grader == CONTRACT or faulted.contract is None else faulted.contract.verdict
    if expect is Expectation.ACCEPT:
        if contract is ContractVerdict.REJECT:
            return Fate.UNSCORED
        return _CONTROL_FATES[seen]
    if contract is ContractVerdict.PASS:
        return Fate.EQUIVALENT
    if seen is Said.REJECT:
        controls = {said(attempt.states.get(state), grader) for state in _CONTROLS}
        return Fate.KILLED if controls == {Said.ACCEPT} else Fate.BRITTLE
    return Fate.SURVIVED if seen is Said.ACCEPT else Fate.UNSTABLE


_CONTROL_FATES: Final = {
    Said.ACCEPT: Fate.CONTROL_ACCEPTED,
    Said.REJECT: Fate.CONTROL_REJECTED,
    Said.DIFFERS: Fate.UNSTABLE,
}


def _over_runs(runs: Mapping[Fate, int], *, damaged: bool) -> Fate:
    """The fate over all runs of a mutant."""
    if not runs or Fate.UNSCORED in runs:
        return Fate.UNPROVEN if damaged else Fate.UNSCORED
    deciding = set(runs) - {Fate.EQUIVALENT, Fate.BRITTLE}
    if not deciding:
        return Fate.BRITTLE if Fate.BRITTLE in runs else Fate.EQUIVALENT
    if len(deciding) > 1 or Fate.UNSTABLE in deciding:
        return Fate.CONTROL_REJECTED if Fate.CONTROL_REJECTED in deciding else Fate.UNSTABLE
    (fate,) = deciding
    return Fate.UNPROVEN if damaged and fate is not Fate.SURVIVED else fate


def score(grader: str, all_fates: Iterable[MutantFate]) -> Score:
    """The mutation score of one grader. An unstable mutant is scored and not killed."""
    own = [item for item in all_fates if item.grader == grader]
    wrong = [item for item in own if item.expect is Expectation.REJECT]
    controls = [item for item in own if item.expect is Expectation.ACCEPT]
    counts = Counter(item.fate for item in wrong)
    return Score(
        grader=grader,
        killed=counts[Fate.KILLED],
        scored=sum(counts[fate] for fate in SCORED),
        unscored=counts[Fate.UNSCORED],
        unproven=counts[Fate.UNPROVEN],
        brittle=counts[Fate.BRITTLE],
        brittle_runs=sum(item.runs.get(Fate.BRITTLE, 0) for item in wrong),
        equivalent=counts[Fate.EQUIVALENT],
        controls=len(controls),
        controls_accepted=sum(item.fate is Fate.CONTROL_ACCEPTED for item in controls),
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
