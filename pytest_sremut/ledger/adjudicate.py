"""Records in, ledger out: one document with every finding and the source of every figure.

Pure: no clock, locale, host, user or path of the machine goes into it. The order of the evidence
directories, and of the files in them, does not matter. The same records give the same bytes.

Every block of figures has `from`: ranges of numbers in `sources`. A source is a path inside an
evidence directory, or a file of the study itself (evidence 0), with its SHA-256.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from pytest_sremut.ledger.figures import INTERVAL, figure, percent
from pytest_sremut.ledger.instruments import agreement, compositions, diagnostics, identities
from pytest_sremut.ledger.judge import Judged, JudgedStudy
from pytest_sremut.ledger.limits import limits
from pytest_sremut.ledger.matrix import graders_of, matrix, table, totals, violated
from pytest_sremut.ledger.model import AttemptFact, ReadingFact, StateFact
from pytest_sremut.ledger.registration import registration
from pytest_sremut.ledger.renderings.document import FORMAT, SCHEMA
from pytest_sremut.ledger.scores import Disagreement, MutantFate, disagreements, fates, score
from pytest_sremut.ledger.sides import Share, sides
from pytest_sremut.ledger.sources import Sources, files_of
from pytest_sremut.ledger.timings import timings
from pytest_sremut.ledger.windows import quantities, retained_means, windows
from pytest_sremut.study.cells import runs
from pytest_sremut.study.model import Study
from pytest_sremut.study.verdict import ContractVerdict, State, Verdict

__all__ = ["ledger"]


def ledger(judged: Judged) -> dict[str, Any]:
    """The ledger of everything that was judged, JSON-ready (`ledger.schema.json`)."""
    sources = Sources(judged)
    return {
        "schema": SCHEMA,
        "format": FORMAT,
        "interval": INTERVAL,
        "kind": judged.kind or None,
        "evidence": [
            {
                "id": sources.directory(item.digest),
                "digest": item.digest,
                "attempts": len(item.attempts),
                "sessions": sorted({a.session for a in item.attempts if a.session}),
            }
            for item in judged.evidence
        ],
        "studies": [_study(judged, study, sources) for study in judged.studies],
        "foreign": [_foreign(attempt, sources) for attempt in judged.foreign],
        "problems": [
            {"evidence": sources.directory(digest), "problem": text}
            for digest, text in judged.problems
        ],
        "sources": sources.listed(),
    }


def _study(judged: Judged, given: JudgedStudy, sources: Sources) -> dict[str, Any]:
    study = given.study
    every_fate = fates(given.attempts, graders=graders_of(study), mutants=study.mutants)
    return {
        "id": study.id,
        "title": study.title,
        "plan": _plan(given),
        "registration": registration(judged, given, sources),
        "attempts": [_attempt(given, attempt, sources) for attempt in given.attempts],
        "runs_without_valid_attempt": [
            {"run": run.id, "why": why} for run in runs(study) if (why := given.why_not(run.id))
        ],
        "totals": totals(given, sources),
        "scores": _scores(given, every_fate, sources),
        "matrix": matrix(given, sources),
        "table": table(given, sources),
        "violated": violated(given, sources),
        "disagreements": _disagreements(given, sources),
        "surprises": _unexpected(given, sources),
        "falsification": _falsification(given, sources),
        "windows": windows(given, sources),
        "retained": retained_means(given, sources),
        "quantities": quantities(given, sources),
        "agreement": agreement(given, sources),
        "compositions": compositions(given, sources),
        "diagnostics": diagnostics(given, sources),
        "instruments": identities(given, sources),
        "timings": timings(given, sources),
        "limits": limits(judged, given, every_fate, sources),
    }


def _plan(given: JudgedStudy) -> dict[str, Any]:
    study = given.study
    return {
        "files": {
            role: {"path": str(study.frozen[role]), "sha256": digest}
            for role, digest in sorted(given.digests.items())
        },
        "mutants": [
            {"id": m.id, "slug": m.slug, "models": m.models, "expect": m.expect.value}
            for m in study.mutants
        ],
        "oracles": [{"id": o.id, "use": o.use, "of": list(o.of)} for o in study.oracles],
        "contract": {
            "id": study.contract.id,
            "invariants": [invariant.id for invariant in study.contract.invariants],
        },
        "states": [state.value for state in study.states],
        "repetitions": study.repetitions,
        "runs": len(study.mutants) * study.repetitions,
    }


# -- attempts -----------------------------------------------------------------------------------


def _attempt(given: JudgedStudy, attempt: AttemptFact, sources: Sources) -> dict[str, Any]:
    return {
        "run": attempt.run,
        "mutant": attempt.mutant,
        "repetition": attempt.repetition,
        "attempt": attempt.attempt,
        "evidence": sources.directory(attempt.evidence),
        "directory": attempt.directory,
        "session": attempt.session,
        "sequence": attempt.sequence,
        "profile": attempt.profile,
        "opened": attempt.opened,
        "closed": attempt.closed,
        "recorded": attempt.recorded.value if attempt.recorded else None,
        "outcome": attempt.outcome.value if attempt.outcome else None,
        "reason": attempt.reason,
        "excluded": attempt.excluded,
        "damaged": attempt.damaged,
        "counted": attempt.valid,
        "first_mutation": attempt.first_mutation or None,
        "timings": {name: figure(value) for name, value in sorted(attempt.timings.items())},
        "waiting": {name: figure(value) for name, value in sorted(attempt.waiting.items())},
        "states": {
            state.value: _state(given.study, attempt, attempt.states[state], sources)
            for state in given.study.states
            if state in attempt.states
        },
        "from": sources.ranges([attempt.source]),
    }


def _state(study: Study, attempt: AttemptFact, fact: StateFact, sources: Sources) -> dict[str, Any]:
    contract = fact.contract
    return {
        "readings": [_reading(study, attempt, fact.state, item) for item in fact.readings],
        "contract": (
            None
            if contract is None
            else {
                "verdict": contract.verdict.value,
                "violated": sorted(contract.violated),
                "not_evaluated": sorted(contract.not_evaluated),
            }
        ),
        "activation": (
            None
            if not fact.activation
            else {
                "asked": len(fact.activation),
                "held": sum(item.holds for item in fact.activation),
            }
        ),
        "from": sources.ranges([fact.source]),
    }


def _reading(
    study: Study, attempt: AttemptFact, state: State, reading: ReadingFact
) -> dict[str, Any]:
    predicted = None
    if study.predictions is not None:
        predicted = study.predictions.oracles.get((attempt.mutant, state, reading.oracle))
    return {
        "oracle": reading.oracle,
        "instrument": reading.instrument,
        "verdict": reading.verdict.value,
        "exception": reading.exception,
        "predicted": None if predicted is None else predicted.value,
        "matches": None if predicted is None else reading.verdict is predicted,
        "elapsed": figure(reading.elapsed),
        "raw": (
            None
            if reading.raw is None
            else {"path": reading.raw.path, "sha256": reading.raw.sha256}
        ),
    }


def _foreign(attempt: AttemptFact, sources: Sources) -> dict[str, Any]:
    return {
        "study": attempt.study,
        "run": attempt.run,
        "attempt": attempt.attempt,
        "evidence": sources.directory(attempt.evidence),
        "directory": attempt.directory,
    }


# -- what graders did ---------------------------------------------------------------------------


def _scores(
    given: JudgedStudy, every: Sequence[MutantFate], sources: Sources
) -> list[dict[str, Any]]:
    faulted = {
        mutant.id: [
            attempt.states[State.FAULTED].source
            for attempt in given.counted
            if attempt.mutant == mutant.id and State.FAULTED in attempt.states
        ]
        for mutant in given.study.mutants
    }
    registry = files_of(given.study.frozen, given.digests, "mutants")
    expected = {mutant.id: mutant.expect for mutant in given.study.mutants}
    every_state = [fact.source for one in given.counted for fact in one.states.values()]
    rows = []
    for grader in graders_of(given.study):
        result = score(grader, every)
        both = sides(given.counted, grader, expected)
        own = [item for item in every if item.grader == grader]
        rows.append(
            {
                "grader": grader,
                "killed": result.killed,
                "scored": result.scored,
                "unscored": result.unscored,
                "unproven": result.unproven,
                "brittle": result.brittle,
                "brittle_runs": result.brittle_runs,
                "equivalent": result.equivalent,
                "controls": result.controls,
                "controls_accepted": result.controls_accepted,
                "percent": figure(result.percent),
                "wrong_rejected": _share(both.rejected),
                "right_accepted": _share(both.accepted),
                "informedness": figure(both.informedness),
                "mutants": [
                    {
                        "mutant": item.mutant,
                        "expect": item.expect.value,
                        "fate": item.fate.value,
                        "accepted": item.accepted,
                        "rejected": item.rejected,
                        "errors": item.errors,
                        "readings": item.readings,
                        "instruments": item.instruments,
                        "runs": {fate.value: count for fate, count in item.runs.items()},
                        "first_accepting_run": item.first_accepting_run,
                        "first_rejecting_run": item.first_rejecting_run,
                        "from": sources.ranges(faulted[item.mutant]),
                    }
                    for item in own
                ],
                # How many mutants there are is the registry's to say.
                "from": sources.ranges([registry, *every_state]),
            }
        )
    return rows


def _share(given: Share) -> dict[str, Any]:
    return {
        "part": given.part,
        "of": given.of,
        "errors": given.errors,
        "differing": given.differing,
        "percent": figure(percent(given.part, given.of)),
    }


def _disagreements(given: JudgedStudy, sources: Sources) -> list[dict[str, Any]]:
    """Per oracle. The denominators count what could have been a false accept or a false reject."""
    found = disagreements(given.counted)
    rows = []
    for spec in given.study.oracles:
        own = [item for item in found if item.oracle == spec.id]
        kinds = Counter(item.kind for item in own)
        rejected = passed = 0
        touched = []
        for attempt in given.counted:
            for fact in attempt.states.values():
                if fact.contract is None:
                    continue
                told = sum(
                    r.oracle == spec.id and r.verdict is not Verdict.ERROR for r in fact.readings
                )
                if told:
                    touched.append(fact.source)
                if fact.contract.verdict is ContractVerdict.REJECT:
                    rejected += told
                else:
                    passed += told
        rows.append(
            {
                "oracle": spec.id,
                "false_accepts": kinds["false accept"],
                "of_contract_rejects": rejected,
                "false_rejects": kinds["false reject"],
                "of_contract_passes": passed,
                "cases": [_case(item) for item in own],
                "from": sources.ranges(touched),
            }
        )
    return rows


def _case(item: Disagreement) -> dict[str, Any]:
    return {
        "kind": item.kind,
        "run": item.run,
        "attempt": item.attempt,
        "state": item.state.value,
        "instrument": item.instrument,
    }


def _unexpected(given: JudgedStudy, sources: Sources) -> list[dict[str, Any]]:
    places = {
        (a.evidence, a.run, a.attempt, state): fact.source
        for a in given.attempts
        for state, fact in a.states.items()
    }
    return [
        {
            "run": item.run,
            "attempt": item.attempt,
            "evidence": sources.directory(item.evidence),
            "state": item.state.value,
            "grader": item.grader,
            "instrument": item.instrument,
            "predicted": item.predicted,
            "observed": item.observed,
            "pods": item.pods.value,
            "meaning": item.meaning.value,
            "from": sources.ranges([places[item.evidence, item.run, item.attempt, item.state]]),
        }
        for item in given.unexpected
    ]


def _falsification(given: JudgedStudy, sources: Sources) -> list[dict[str, Any]]:
    read = [fact.source for a in given.counted for fact in a.states.values()]
    frozen = files_of(given.study.frozen, given.digests, "predictions")
    rules = () if given.study.predictions is None else given.study.predictions.falsification
    return [
        {
            "rule": rule["id"],
            "says": rule["says"],
            "then": rule["then"],
            "fired": len(own := [item for item in given.fired if item.rule == rule["id"]]),
            "where": [
                {
                    "mutant": item.mutant,
                    "state": item.state.value,
                    "grader": item.grader,
                    "at": list(item.where),
                }
                for item in own
            ],
            "from": sources.ranges([frozen, *read]),
        }
        for rule in rules
    ]
