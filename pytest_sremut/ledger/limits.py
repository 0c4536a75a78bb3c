"""What was not evaluated, and what that leaves unproved. Each limit is counted against a whole.

An invariant that was not evaluated does not weaken a REJECT, for one violation suffices. It weakens
a PASS, which holds only for the invariants that were evaluated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pytest_sremut.ledger.judge import Judged, JudgedStudy
from pytest_sremut.ledger.model import PUBLISHED, AttemptFact, StateFact
from pytest_sremut.ledger.scores import Fate, MutantFate
from pytest_sremut.ledger.sources import Sources, files_of
from pytest_sremut.ledger.unexpected import Meaning
from pytest_sremut.study.cells import runs
from pytest_sremut.study.verdict import CONTRACT, ContractVerdict, State

__all__ = ["limits"]


def limits(
    judged: Judged, study: JudgedStudy, fates: list[MutantFate], sources: Sources
) -> list[dict[str, Any]]:
    """Every limit of one study's ledger, with its count and the whole that it is part of."""
    states = [
        (attempt, attempt.states[state])
        for attempt in study.counted
        for state in study.study.states
        if state in attempt.states
    ]
    found = [
        *_regime(judged, study),
        *_runs(study),
        *_invariants(states, sources),
        *_not_read(states, sources),
        *_activation(states, sources),
        *_unscored(fates),
        *_outside_the_score(fates),
        *_contract(fates),
        *_demo(study),
        *_checks(study),
        *_silent_sampler(study),
    ]
    # The study's own files say how many runs and mutants there are.
    files = [files_of(study.study.frozen, study.digests, role) for role in ("study", "mutants")]
    every = sources.ranges([*files, *(attempt.source for attempt in study.attempts)])
    return [{"from": every, **item} for item in found]


def _limit(name: str, count: int, of: int, leaves: str) -> dict[str, Any]:
    return {"limit": name, "count": count, "of": of, "leaves": leaves}


def _regime(judged: Judged, study: JudgedStudy) -> Iterator[dict[str, Any]]:
    total = len(study.attempts)
    if judged.kind == "EXPLORATORY":
        yield _limit(
            "exploratory",
            total,
            total,
            "nothing here confirms a prediction: none was provably fixed beforehand",
        )
    elif judged.kind == "PUBLISHED":
        yield _limit(
            "published",
            total,
            total,
            "figures are as somebody published them: no raw object, no timeline, no token was seen",
        )
    elif total:
        yield _limit(
            "predictions-not-before-driver",
            total,
            total,
            "a token fixes the bytes of the predictions; it does not show that the driver was made "
            "after them, or that nothing was tried before",
        )
        alone = sum(_is_self_issued(attempt) for attempt in study.attempts)
        if alone:
            yield _limit(
                "self-issued-registration",
                alone,
                total,
                "the time of the predictions rests on a clock of the project's own",
            )


def _is_self_issued(attempt: AttemptFact) -> bool:
    stamp = attempt.registration_facts.get("predictions")
    return isinstance(stamp, Mapping) and "self-issued" in str(stamp.get("independence", ""))


def _runs(study: JudgedStudy) -> Iterator[dict[str, Any]]:
    planned = list(runs(study.study))
    without = [run for run in planned if not any(a.valid for a in study.at(run.id))]
    if without:
        yield _limit(
            "run-without-valid-attempt",
            len(without),
            len(planned),
            "nothing is known of these runs, and none of them is in a score",
        )
    damaged = [attempt for attempt in study.attempts if attempt.damaged]
    if damaged:
        yield _limit(
            "damaged-attempt",
            len(damaged),
            len(study.attempts),
            "their mutants count as not killed unless they are known to have survived",
        )


def _checks(study: JudgedStudy) -> Iterator[dict[str, Any]]:
    names = Counter(name for attempt in study.counted for name in attempt.not_made)
    for name, count in sorted(names.items()):
        yield _limit(
            f"check-not-made: {name}",
            count,
            len(study.counted),
            "what it would have seen of the cluster is not known",
        )


def _invariants(
    states: list[tuple[AttemptFact, StateFact]], sources: Sources
) -> Iterator[dict[str, Any]]:
    read = [fact for _, fact in states if fact.contract is not None]
    missing = Counter(
        name for fact in read if fact.contract for name in fact.contract.not_evaluated
    )
    for name, count in sorted(missing.items()):
        without = [f for f in read if f.contract and name in f.contract.not_evaluated]
        passes = sum(
            f.contract is not None and f.contract.verdict is ContractVerdict.PASS for f in without
        )
        yield {
            **_limit(
                f"not-evaluated {name}",
                count,
                len(read),
                f"{count - passes} REJECT stand, one violation suffices; {passes} PASS say nothing "
                f"about {name}",
            ),
            "from": sources.ranges(fact.source for fact in without),
        }


def _not_read(
    states: list[tuple[AttemptFact, StateFact]], sources: Sources
) -> Iterator[dict[str, Any]]:
    without = [fact for _, fact in states if fact.contract is None]
    if without:
        yield {
            **_limit(
                "contract-not-read",
                len(without),
                len(states),
                "no false accept and no false reject can be known there, and mutants are scored "
                "by what their author expects alone",
            ),
            "from": sources.ranges(fact.source for fact in without),
        }
    cycles = [fact for _, fact in states if fact.window is not None and fact.window.seed is None]
    if cycles:
        yield {
            **_limit(
                "requests-not-drawn",
                len(cycles),
                len(states),
                "nothing says that their requests were drawn independently: repetitions are no "
                "further sample, and no interval is given",
            ),
            "from": sources.ranges(fact.source for fact in cycles),
        }
    silent = [fact for _, fact in states if fact.window is None]
    if silent:
        yield {
            **_limit(
                "no-workload-window", len(silent), len(states), "no rate and no retained volume"
            ),
            "from": sources.ranges(fact.source for fact in silent),
        }


def _activation(
    states: list[tuple[AttemptFact, StateFact]], sources: Sources
) -> Iterator[dict[str, Any]]:
    faulted = [fact for _, fact in states if fact.state is State.FAULTED]
    unasked = [fact for fact in faulted if not fact.activation]
    if unasked:
        yield {
            **_limit(
                "activation-not-recorded",
                len(unasked),
                len(faulted),
                "that the mutant was active rests on whoever says so",
            ),
            "from": sources.ranges(fact.source for fact in unasked),
        }


def _unscored(fates: list[MutantFate]) -> Iterator[dict[str, Any]]:
    unscored = Counter(item.grader for item in fates if item.fate is Fate.UNSCORED)
    totals = Counter(item.grader for item in fates)
    for grader, count in sorted(unscored.items()):
        yield _limit(
            f"unscored-mutants {grader}",
            count,
            totals[grader],
            "they are not in its score: no valid reading, or one that is an error",
        )


_OUTSIDE: Final = {
    Fate.BRITTLE: "they are not in its score: it rejected healthy or restored systems as well",
    Fate.EQUIVALENT: "they are not in its score: the contract passes them, so they are equivalent "
    "or the contract is blind to them",
}


def _outside_the_score(fates: list[MutantFate]) -> Iterator[dict[str, Any]]:
    totals = Counter(item.grader for item in fates)
    for fate, leaves in _OUTSIDE.items():
        found = Counter(item.grader for item in fates if item.fate is fate)
        for grader, count in sorted(found.items()):
            yield _limit(f"{fate.value}-mutants {grader}", count, totals[grader], leaves)


def _contract(fates: list[MutantFate]) -> Iterator[dict[str, Any]]:
    """Where the contract says something else than the mutants' authors."""
    own = [item for item in fates if item.grader == CONTRACT]
    against = [item for item in own if item.is_survivor or item.is_false_reject]
    if against:
        yield _limit(
            "contract-against-authors",
            len(against),
            len(own),
            "the contract passes a repair that its author calls wrong, or rejects one that its "
            "author calls right: " + ", ".join(item.mutant for item in against),
        )


def _demo(study: JudgedStudy) -> Iterator[dict[str, Any]]:
    runs_of_the_demo = [a for a in study.attempts if a.registration != PUBLISHED]
    if runs_of_the_demo and study.study.application.startswith("demo:"):
        yield _limit(
            "stand-in-application",
            len(runs_of_the_demo),
            len(study.attempts),
            "the application is the demo's: verdicts and volumes say nothing about the real images",
        )


def _silent_sampler(study: JudgedStudy) -> Iterator[dict[str, Any]]:
    asked = [item for item in study.unexpected if item.observed == "REJECT"]
    silent = [item for item in asked if item.meaning is Meaning.INVESTIGATE]
    if silent:
        yield _limit(
            "unexplained-rejection",
            len(silent),
            len(asked),
            "whether the harness or the grader caused it cannot be told from the timeline",
        )
