"""The closed vocabularies of a study: states, verdicts, outcomes.

Two axes that are never mixed: was the attempt *valid* (`Outcome`), and what did a grader
*conclude* (`Verdict`, `ContractVerdict`). An error is not a verdict, and neither is silence.
"""

from __future__ import annotations

from enum import StrEnum

__all__ = [
    "CONTRACT",
    "ContractVerdict",
    "Evaluation",
    "Expectation",
    "Outcome",
    "Registration",
    "State",
    "Verdict",
    "disagreement",
]

CONTRACT = "contract"
"""The oracle id under which the contract is collected, as the last oracle of each state."""


class State(StrEnum):
    """The three states of a run, in the only order in which they are passed."""

    HEALTHY = "healthy"
    FAULTED = "faulted"
    RESTORED = "restored"


class Verdict(StrEnum):
    """What one instrument got from one oracle. `ERROR` keeps the exception and is no verdict."""

    ACCEPT = "ACCEPT"
    REJECT = "REJECT"
    ERROR = "ERROR"


class ContractVerdict(StrEnum):
    """What the contract concludes over all the invariants that were evaluated."""

    PASS = "PASS"  # noqa: S105 - a verdict, not a password
    REJECT = "REJECT"


def disagreement(verdict: Verdict, contract: ContractVerdict) -> str:
    """`false accept`, `false reject`, or nothing; an error is no verdict and contradicts none."""
    if verdict is Verdict.ACCEPT and contract is ContractVerdict.REJECT:
        return "false accept"
    if verdict is Verdict.REJECT and contract is ContractVerdict.PASS:
        return "false reject"
    return ""


class Expectation(StrEnum):
    """What a mutant's author expects of a grader that is right."""

    REJECT = "reject"  # a repair that was never made, or made wrong
    ACCEPT = "accept"  # a right repair: a control


class Evaluation(StrEnum):
    """What became of one invariant."""

    HOLDS = "HOLDS"
    VIOLATED = "VIOLATED"
    NOT_EVALUATED = "NOT_EVALUATED"


class Outcome(StrEnum):
    """How an attempt ended (the validity axis)."""

    COMPLETE = "COMPLETE"
    STOPPED_AT_HEALTHY_GATE = "STOPPED_AT_HEALTHY_GATE"
    MUTANT_ACTIVATION_FAILURE = "MUTANT_ACTIVATION_FAILURE"
    HARNESS_TIMING_FAILURE = "HARNESS_TIMING_FAILURE"
    INFRASTRUCTURE_FAILURE = "INFRASTRUCTURE_FAILURE"
    DRIVER_ABORTED = "DRIVER_ABORTED"
    RESTORATION_FAILURE = "RESTORATION_FAILURE"
    PROTOCOL_VIOLATION = "PROTOCOL_VIOLATION"

    @property
    def retries(self) -> int:
        """How often a run that ended so may be tried again without changing anything."""
        return 1 if self in _ONE_RETRY else 0


_ONE_RETRY = frozenset(
    {Outcome.HARNESS_TIMING_FAILURE, Outcome.INFRASTRUCTURE_FAILURE, Outcome.DRIVER_ABORTED}
)


class Registration(StrEnum):
    """Under which of three regimes a run stands. No output mixes them."""

    EXPLORATORY = "EXPLORATORY"
    PREREGISTERED = "PREREGISTERED"
    SEALED = "SEALED"
