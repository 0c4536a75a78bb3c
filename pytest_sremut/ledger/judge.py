"""Which attempts count, and what their unexpected readings mean. Pure: facts in, facts out.

The steps, in this order; each one only takes attempts away:

1. evidence of more than one regime, the same evidence twice, or two completed verdicts of one run
   from two directories: nothing is adjudicated;
2. an attempt under other study files, at a run that the study does not have, or whose evidence does
   not hold together, is damaged;
3. an attempt whose unexpected readings show the harness's timing or an inactive mutant is invalid
   with that outcome, whatever its record says;
4. an attempt that was not allowed is excluded (`retries`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_sremut.errors import EvidenceError
from pytest_sremut.ledger.falsification import Fired, fired, needs_pods
from pytest_sremut.ledger.load import Evidence
from pytest_sremut.ledger.model import DAMAGED, AttemptFact
from pytest_sremut.ledger.retries import apply_retry_rule
from pytest_sremut.ledger.unexpected import (
    UnexpectedReading,
    invalidating,
    outcome_of,
    unexpected_readings,
)
from pytest_sremut.study.cells import runs
from pytest_sremut.study.model import Run, Study
from pytest_sremut.study.verdict import Outcome, State, Verdict

__all__ = ["ConflictError", "Judged", "JudgedStudy", "StudyInput", "judge", "pods_needed"]


class ConflictError(EvidenceError):
    """The evidence contradicts itself as a whole: nothing can be adjudicated from it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyInput:
    """A study, and the SHA-256 of its files by role."""

    study: Study
    digests: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedStudy:
    """All attempts of one study in schedule order, and what each of them counts for."""

    study: Study
    digests: Mapping[str, str]
    by_run: Mapping[str, tuple[AttemptFact, ...]]  # in the order in which they began
    unexpected: tuple[UnexpectedReading, ...]  # of attempts whose evidence holds, counted or not
    fired: tuple[Fired, ...]  # over valid attempts
    problems: tuple[tuple[str, str], ...]  # (digest of the evidence, why it does not belong here)

    @property
    def attempts(self) -> tuple[AttemptFact, ...]:
        """All of them."""
        return tuple(attempt for own in self.by_run.values() for attempt in own)

    @property
    def counted(self) -> tuple[AttemptFact, ...]:
        """The valid ones."""
        return tuple(attempt for attempt in self.attempts if attempt.valid)

    def at(self, run: str) -> tuple[AttemptFact, ...]:
        """Every attempt at a run, in the order in which they began."""
        return self.by_run.get(run, ())

    def why_not(self, run: str) -> str:
        """Why a run has no valid attempt; empty if it has one."""
        own = self.at(run)
        if any(attempt.valid for attempt in own):
            return ""
        if not own:
            return f"no valid attempt at {run}: the evidence holds none at all"
        told = "; ".join(f"attempt {a.attempt}: {why_invalid(a)}" for a in own)
        return f"no valid attempt at {run}: {told}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """Everything that was judged. `kind` is the one regime of all of it; empty without records."""

    kind: str
    evidence: tuple[Evidence, ...]
    studies: tuple[JudgedStudy, ...]
    foreign: tuple[AttemptFact, ...]  # of studies that are not here
    problems: tuple[tuple[str, str], ...]  # (digest of the evidence, what does not hold)


def why_invalid(attempt: AttemptFact) -> str:
    """One sentence: outcome, and reason."""
    if attempt.damaged:
        return attempt.reason
    if attempt.excluded:
        return f"excluded: {attempt.excluded}"
    outcome = attempt.outcome.value if attempt.outcome else "DIED"
    return f"{outcome}: {attempt.reason}" if attempt.reason else outcome


def pods_needed(studies: Sequence[StudyInput]) -> NeedsPodsOf:
    """The readings that need the sampler: unexpected ones, and those that a rule is about."""
    return NeedsPodsOf({item.study.id: item.study for item in studies})


class NeedsPodsOf:
    """Satisfies `facts.NeedsPods`."""

    def __init__(self, studies: Mapping[str, Study]) -> None:
        self._studies = studies

    def __call__(
        self, study: str, mutant: str, state: State, oracle: str, verdict: Verdict
    ) -> bool:
        known = self._studies.get(study)
        if known is None or known.predictions is None:
            return True
        table = known.predictions
        return table.oracles.get((mutant, state, oracle)) is not verdict or needs_pods(
            table.falsification, state=state, grader=oracle, verdict=verdict.value
        )


def judge(studies: Sequence[StudyInput], evidence: Sequence[Evidence]) -> Judged:
    """Judge every attempt in the evidence against the studies that are here.

    The order of either argument changes nothing.

    Raises:
        ConflictError: The evidence contradicts itself; the message lists every contradiction.
    """
    ordered = sorted(evidence, key=lambda item: (_first_opened(item), item.digest))
    attempts = [attempt for item in ordered for attempt in item.attempts]
    known = {item.study.id: item for item in studies}
    conflicts = [*_duplicates(ordered), *_mixed(attempts), *_completed_twice(attempts)]
    if conflicts:
        raise ConflictError("\n  ".join(["nothing was adjudicated:", *conflicts]))
    judged = [
        _judge_study(known[name], [a for a in attempts if a.study == name])
        for name in sorted(known)
    ]
    foreign = tuple(attempt for attempt in attempts if attempt.study not in known)
    problems = [(item.digest, text) for item in ordered for text in item.problems]
    problems += _foreign_problems(foreign)
    problems += [problem for one in judged for problem in one.problems]
    kinds = {attempt.registration for attempt in attempts if attempt.registration}
    return Judged(
        kind=kinds.pop() if kinds else "",
        evidence=tuple(ordered),
        studies=tuple(judged),
        foreign=foreign,
        problems=tuple(dict.fromkeys(problems)),
    )


# -- the evidence as a whole --------------------------------------------------------------------


def _first_opened(evidence: Evidence) -> str:
    return min((a.opened for a in evidence.attempts if a.opened), default="")


def _duplicates(evidence: Sequence[Evidence]) -> Iterator[str]:
    directories = Counter(item.digest for item in evidence)
    for digest, count in sorted(directories.items()):
        if count > 1:
            yield f"the same evidence is given {count} times (digest {digest})"
    records: dict[str, set[str]] = {}
    for item in evidence:
        for attempt in item.attempts:
            # Damaged evidence is reported elsewhere and counted nowhere.
            sound = attempt.source is not None and not attempt.damaged
            if sound and directories[item.digest] == 1:
                assert attempt.source is not None
                where = f"{attempt.directory} of {item.digest[:12]}"
                records.setdefault(attempt.source.sha256, set()).add(where)
    for digest, places in sorted(records.items()):
        if len(places) > 1:
            yield f"the same record stands in {' and '.join(sorted(places))} (SHA-256 {digest})"


def _mixed(attempts: Sequence[AttemptFact]) -> Iterator[str]:
    kinds = Counter(attempt.registration for attempt in attempts if attempt.registration)
    if len(kinds) > 1:
        told = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
        yield f"records of more than one regime are never mixed in one ledger: {told}"
    for study in sorted({attempt.study for attempt in attempts}):
        own = [a for a in attempts if a.study == study and not a.damaged]
        digests = sorted({str(a.registration_facts.get("digest", "")) for a in own})
        if len(digests) > 1 and {a.registration for a in own} & {"PREREGISTERED", "SEALED"}:
            told = ", ".join(digest or "none" for digest in digests)
            yield f"{study}: records of more than one registration: {told}"


def _completed_twice(attempts: Sequence[AttemptFact]) -> Iterator[str]:
    places: dict[tuple[str, str], dict[str, str]] = {}
    for attempt in attempts:
        if attempt.valid:
            found = places.setdefault((attempt.study, attempt.run), {})
            found[attempt.evidence] = f"{attempt.directory} of {attempt.evidence[:12]}"
    for (study, run), found in sorted(places.items()):
        if len(found) > 1:
            yield (
                f"{study}: {run} has a completed verdict in {len(found)} evidence directories: "
                + ", ".join(sorted(found.values()))
            )


def _foreign_problems(foreign: Sequence[AttemptFact]) -> Iterator[tuple[str, str]]:
    counts = Counter((attempt.evidence, attempt.study) for attempt in foreign)
    for (digest, study), count in sorted(counts.items()):
        named = study or "a study that cannot be told"
        yield digest, f"{count} attempts of {named}, which is no study of this project"


# -- one study ----------------------------------------------------------------------------------


def _judge_study(given: StudyInput, attempts: Sequence[AttemptFact]) -> JudgedStudy:
    study = given.study
    planned = {run.id: run for run in runs(study)}
    place = {run: number for number, run in enumerate(planned)}
    checked = [_placed(attempt, planned, given.digests) for attempt in attempts]
    problems = [
        (after.evidence, f"{after.run} attempt {after.attempt}: {after.reason}")
        for before, after in zip(attempts, checked, strict=True)
        if after.damaged and not before.damaged
    ]
    checked.sort(key=lambda a: (place.get(a.run, len(place)), a.opened, a.evidence, a.sequence))
    found: list[UnexpectedReading] = []
    by_run: dict[str, list[AttemptFact]] = {}
    for attempt in checked:
        own = (
            []
            if attempt.damaged or study.predictions is None
            else list(unexpected_readings(attempt, study.predictions))
        )
        found += own
        by_run.setdefault(attempt.run, []).append(_classified(attempt, own))
    result = {run: tuple(apply_retry_rule(own)) for run, own in by_run.items()}
    rules = () if study.predictions is None else study.predictions.falsification
    valid = [attempt for own in result.values() for attempt in own if attempt.valid]
    return JudgedStudy(
        study=study,
        digests=given.digests,
        by_run=result,
        unexpected=tuple(found),
        fired=tuple(fired(rules, valid)),
        problems=tuple(problems),
    )


def _placed(
    attempt: AttemptFact, planned: Mapping[str, Run], digests: Mapping[str, str]
) -> AttemptFact:
    """The attempt; marked as damaged if it does not belong to this study as it is now."""
    run = planned.get(attempt.run)
    if attempt.damaged:
        mutant = run.mutant if run is not None else attempt.mutant
        return replace(attempt, mutant=mutant)
    if run is None:
        return _damaged(attempt, f"the study has no run {attempt.run!r}")
    if (attempt.mutant, attempt.repetition) != (run.mutant, run.repetition):
        return replace(
            _damaged(attempt, f"it names mutant {attempt.mutant}, the run is of {run.mutant}"),
            mutant=run.mutant,
        )
    for role in sorted({*digests, *attempt.files}):
        recorded, here = attempt.files.get(role, "none"), digests.get(role, "none")
        if recorded != here:
            return _damaged(
                attempt, f"made under another study: {role} {recorded[:16]}, here {here[:16]}"
            )
    return attempt


def _damaged(attempt: AttemptFact, why: str) -> AttemptFact:
    return replace(attempt, damaged=True, outcome=None, reason=f"{DAMAGED}: {why}")


def _classified(attempt: AttemptFact, found: list[UnexpectedReading]) -> AttemptFact:
    """The attempt with the outcome that its unexpected readings give it."""
    cause = invalidating(found) if attempt.outcome is Outcome.COMPLETE else None
    if cause is None:
        return attempt
    return replace(
        attempt,
        outcome=outcome_of(cause.meaning),
        reason=(
            f"adjudicated: {cause.grader} {cause.instrument} {cause.state.value} "
            f"{cause.observed}, predicted {cause.predicted}, pods {cause.pods.value}"
        ),
    )
