"""The two sides of a grader: wrong repairs rejected, and right systems accepted.

A grader that rejects everything rejects every wrong repair, and one that accepts everything
accepts every right system: neither share says anything without the other. Informedness is their
sum less one: 0 for both of these, 1 for a grader that is always right, negative for one that is
wrong more often than chance. (Youden 1950 calls it J; Powers 2011 informedness.)

One run in one state is one observation, however many instruments read it. *Wrong repairs* are the
faulted states of mutants whose author expects a rejection, of those that the contract rejects.
*Right systems* are healthy and restored states, and the faulted states of controls, of those that
the contract passes. The contract is held against what the authors expect alone. An attempt counts
only if the contract passed its healthy and restored states: these it accepts by construction.

An observation with an error is in neither count and is stated; instruments that differ are counted
in the denominator and never in favour of the grader.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pytest_sremut.ledger.model import AttemptFact, StateFact
from pytest_sremut.ledger.scores import Said, said
from pytest_sremut.study.verdict import CONTRACT, ContractVerdict, Expectation, State

__all__ = ["Share", "Sides", "sides"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """`part` of `of` observations; `errors` more gave no verdict, and `differing` are in `of`."""

    part: int = 0
    of: int = 0
    errors: int = 0
    differing: int = 0

    @property
    def rate(self) -> float | None:
        """Between 0 and 1; None of nothing."""
        return self.part / self.of if self.of else None

    def plus(self, seen: Said, wanted: Said) -> Share:
        """With one more observation. One without any reading changes nothing."""
        if seen is Said.NOTHING:
            return self
        is_error = seen is Said.ERROR
        return Share(
            part=self.part + (seen is wanted),
            of=self.of + (not is_error),
            errors=self.errors + is_error,
            differing=self.differing + (seen is Said.DIFFERS),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """Both shares of one grader, in observations: one run in one state each."""

    grader: str
    rejected: Share  # wrong repairs
    accepted: Share  # right systems

    @property
    def informedness(self) -> float | None:
        """Between -1 and 1; None where one of the two sides has no observation."""
        wrong, right = self.rejected.rate, self.accepted.rate
        return None if wrong is None or right is None else wrong + right - 1.0


def sides(
    attempts: Iterable[AttemptFact], grader: str, expected: Mapping[str, Expectation]
) -> Sides:
    """Both sides of a grader over the valid ones of these attempts.

    Args:
        attempts: Of one study.
        grader: An oracle's id, or that of the contract.
        expected: Mutant id -> what its author expects of a grader that is right.
    """
    rejected = accepted = Share()
    for attempt in attempts:
        if not attempt.valid:
            continue
        for state, fact in attempt.states.items():
            is_right = state is not State.FAULTED or (
                expected.get(attempt.mutant) is Expectation.ACCEPT
            )
            if not _counts(fact, grader, is_right=is_right):
                continue
            if is_right:
                accepted = accepted.plus(said(fact, grader), Said.ACCEPT)
            else:
                rejected = rejected.plus(said(fact, grader), Said.REJECT)
    return Sides(grader=grader, rejected=rejected, accepted=accepted)


def _counts(fact: StateFact, grader: str, *, is_right: bool) -> bool:
    """Whether the contract says of the state what the author says."""
    if grader == CONTRACT:
        return True
    wanted = ContractVerdict.PASS if is_right else ContractVerdict.REJECT
    return fact.contract is not None and fact.contract.verdict is wanted
