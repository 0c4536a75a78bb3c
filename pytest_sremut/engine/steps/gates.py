"""The gates of a run: what must be so for the attempt to go on, and the outcome if it is not.

Each takes what a state yielded and returns why the attempt stops, or None. The frozen predictions
say which graders are expected to accept; a study without them expects all to. `timeline` is what
the sampler has seen so far, ascending; empty where no sampler ran.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pytest_sremut.engine.steps.read import unreachable
from pytest_sremut.engine.stops import RunStoppedError
from pytest_sremut.ledger.timeline import PodCondition, pods_during
from pytest_sremut.study.verdict import (
    ContractVerdict,
    Outcome,
    Registration,
    State,
    Verdict,
)

if TYPE_CHECKING:
    from pytest_sremut.engine.clock import ClockWatch
    from pytest_sremut.engine.state import RunContext
    from pytest_sremut.engine.steps.activation import CriterionResult
    from pytest_sremut.engine.steps.read import TimedReading
    from pytest_sremut.engine.steps.recording import StateNotes
    from pytest_sremut.ledger.timeline import Sample

__all__ = ["active", "answered", "control", "stable_harness", "steady"]


def control(
    ctx: RunContext, notes: StateNotes, timeline: Sequence[Sample], outcome: Outcome
) -> RunStoppedError | None:
    """In a healthy or restored state everything that is expected to accept does, or `outcome`.

    A rejection only because a pod was coming up, as the sampler saw, is a timing failure instead;
    one while the API failed, of the infrastructure.
    """
    if stop := _left_out(ctx, notes):
        return stop
    problems = list(_control_problems(ctx, notes))
    if not problems:
        return None
    rejected = [item for item in notes.readings if item.reading.verdict is Verdict.REJECT]
    if rejected and _conditions(ctx, rejected, timeline) == {PodCondition.RECOVERED}:
        outcome = Outcome.HARNESS_TIMING_FAILURE
    if _unseen(ctx, rejected, timeline):
        outcome = Outcome.INFRASTRUCTURE_FAILURE
        problems.append("the API failed meanwhile, as the sampler saw")
    return RunStoppedError(outcome, f"{notes.state.value} state: {'; '.join(problems).strip()}")


def stable_harness(
    ctx: RunContext, notes: StateNotes, timeline: Sequence[Sample]
) -> RunStoppedError | None:
    """A predicted ACCEPT must not be a REJECT only because pods were still coming up, or because
    the API was away: many graders take a call that failed for a state that is bad."""
    if stop := _left_out(ctx, notes):
        return stop
    unexpected = [
        item
        for item in notes.readings
        if item.reading.verdict is Verdict.REJECT
        and _expected(ctx, notes.state, item.reading.oracle) is Verdict.ACCEPT
    ]
    if unseen := _unseen(ctx, unexpected, timeline):
        return RunStoppedError(
            Outcome.INFRASTRUCTURE_FAILURE,
            f"{', '.join(unseen)} rejected while the API failed, as the sampler saw",
        )
    if not unexpected or _conditions(ctx, unexpected, timeline) != {PodCondition.RECOVERED}:
        return None
    named = ", ".join(sorted({item.reading.oracle for item in unexpected}))
    return RunStoppedError(
        Outcome.HARNESS_TIMING_FAILURE,
        f"{named} rejected while a pod was not Running that recovered by itself",
    )


def steady(state: State, watch: ClockWatch) -> RunStoppedError | None:
    """Nobody set the wall clock while the state was read: its times would say nothing."""
    if not watch.stepped:
        return None
    return RunStoppedError(
        Outcome.HARNESS_TIMING_FAILURE,
        f"{state.value} state: the wall clock of this machine was set by {watch.stepped:+.1f} s, "
        "or the machine slept",
    )


def active(ctx: RunContext, results: Sequence[CriterionResult]) -> RunStoppedError | None:
    """Every activation criterion holds. One that could not be judged is no statement about the
    mutant: it decides only where no other one failed."""
    failed = [result for result in results if not result.holds]
    if not failed:
        return None
    told = "; ".join(f"{result.criterion}: {result.observed}" for result in failed)
    if all(result.unread for result in failed):
        return RunStoppedError(
            Outcome.INFRASTRUCTURE_FAILURE,
            f"whether {ctx.mutant.id} is active cannot be told: {told}",
        )
    return RunStoppedError(
        Outcome.MUTANT_ACTIVATION_FAILURE, f"{ctx.mutant.id} is not active: {told}"
    )


def answered(notes: StateNotes) -> RunStoppedError | None:
    """No oracle of ours ended because the API gave it no answer: that would be no statement about
    the state, and no later reading could be trusted to begin without its leftovers."""
    for item in notes.readings:
        if unreachable(item.reading):
            return RunStoppedError(
                Outcome.INFRASTRUCTURE_FAILURE,
                f"{notes.state.value} state: {item.reading.oracle} {item.reading.instrument} got "
                f"no answer from the API: {item.reading.reason}",
            )
    return None


def _left_out(ctx: RunContext, notes: StateNotes) -> RunStoppedError | None:
    """A sealed run evaluates every invariant: one that was left out is against its protocol."""
    if ctx.attempt.identity.registration is not Registration.SEALED or notes.contract is None:
        return None
    if not notes.contract.not_evaluated:
        return None
    return RunStoppedError(
        Outcome.PROTOCOL_VIOLATION,
        f"{notes.state.value} state: a sealed run evaluates every invariant, not evaluated: "
        f"{', '.join(sorted(notes.contract.not_evaluated))}",
    )


def _control_problems(ctx: RunContext, notes: StateNotes) -> Iterator[str]:
    for item in notes.readings:
        reading = item.reading
        if _expected(ctx, notes.state, reading.oracle) is not Verdict.ACCEPT:
            continue
        if reading.verdict is not Verdict.ACCEPT:
            reason = reading.reason or (reading.exception.message if reading.exception else "")
            yield f"{reading.oracle} {reading.instrument} {reading.verdict} {reason}"
    assert notes.contract is not None
    if notes.contract.verdict is not ContractVerdict.PASS:
        yield f"the contract rejects: {', '.join(sorted(notes.contract.violated))}"
    assert notes.window is not None
    window = notes.window.window
    if window.failures or not window.complete:
        yield f"workload: {window.failures} failures in {len(window.usable)} rounds"


def _conditions(
    ctx: RunContext, items: Sequence[TimedReading], timeline: Sequence[Sample]
) -> set[PodCondition]:
    slack = ctx.protocol.sampler_interval
    return {pods_during(timeline, begin=item.begin, end=item.end, slack=slack) for item in items}


def _unseen(
    ctx: RunContext, items: Sequence[TimedReading], timeline: Sequence[Sample]
) -> list[str]:
    """Oracles during whose reading the API failed: a look of the sampler's then did, or, where
    none fell into a short reading, all those around it."""
    slack = ctx.protocol.sampler_interval
    found = set()
    for item in items:
        within = [s for s in timeline if item.begin <= s.at <= item.end]
        around = [s for s in timeline if item.begin - slack <= s.at <= item.end + slack]
        failed = [look.not_running is None for look in within or around]
        if any(failed) if within else failed and all(failed):
            found.add(item.reading.oracle)
    return sorted(found)


def _expected(ctx: RunContext, state: State, oracle: str) -> Verdict:
    table = ctx.study.predictions
    if table is None:
        return Verdict.ACCEPT
    return table.oracles[(ctx.run.mutant, state, oracle)]
