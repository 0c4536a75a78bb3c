"""A ledger beside a baseline: what is known, new, gone, or not read at all.

A live session, an adjudication and `sremut baseline` all read the ledger and nothing else, so they
cannot disagree. A cell without a valid reading counts as not read: it neither matches an entry nor
makes one stale.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pytest_sremut.ledger.baseline.document import (
    ROLES,
    Baseline,
    Known,
    StudyBaseline,
    Tally,
    grader_of,
)
from pytest_sremut.study.verdict import (
    ContractVerdict,
    Expectation,
    State,
    Verdict,
    disagreement,
)

__all__ = ["Comparison", "Seen", "StudyComparison", "compare", "taken"]

_AGREES: Final = ""
_Json = Mapping[str, Any]
_Cell = tuple[str, str, State]  # oracle, mutant, state


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A disagreement, the readings that show it, and the readings that could have."""

    what: Known
    readings: int
    of: int

    def __str__(self) -> str:
        return f"{self.what} ({self.readings} of {self.of} readings)"


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyComparison:
    """One study beside what is known of it."""

    study: str
    known: tuple[Seen, ...]
    new: tuple[Seen, ...]
    stale: tuple[str, ...]  # listed, but the readings show otherwise, or the cell is gone
    unread: tuple[Known, ...]  # listed, but there is no valid reading
    fallen: tuple[str, ...]  # scores below the baseline's
    remarks: tuple[str, ...]  # entries that do not apply to the study as it is now


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Everything, in the order of the studies."""

    studies: tuple[StudyComparison, ...]
    absent: tuple[str, ...]  # studies of the baseline that the project does not have

    @property
    def failed(self) -> bool:
        """Whether anything is worse than the baseline."""
        return any(item.new or item.fallen for item in self.studies)

    def head(self) -> str:
        """One sentence of counts."""
        known, new, stale, unread, fallen = (
            sum(len(getattr(item, name)) for item in self.studies)
            for name in ("known", "new", "stale", "unread", "fallen")
        )
        stale += len(self.absent)
        told = f"{known} known disagreements seen, {new} new, {stale} stale, {unread} not read"
        return told + (f", {fallen} scores lower" if fallen else "")

    def lines(self) -> Iterator[tuple[str, bool]]:
        """The lines to report beside the counts, each with whether it is bad."""
        for item in self.studies:
            for seen in item.new:
                yield f"new: {item.study}: {seen}", True
            for text in item.fallen:
                yield f"score: {item.study}: {text}", True
            for text in item.remarks:
                yield f"does not apply: {item.study}: {text}", False
            for text in item.stale:
                yield f"baseline is stale: {item.study}: {text}", False
            if item.unread:
                yield f"not read: {item.study}: {len(item.unread)} known disagreements", False
        for study in self.absent:
            yield f"baseline is stale: {study} is no study here", False


def compare(baseline: Baseline, ledger: _Json) -> Comparison:
    """Compare every study of a ledger, and every study of the baseline."""
    here = {study["id"] for study in ledger["studies"]}
    return Comparison(
        studies=tuple(
            item
            for study in ledger["studies"]
            if (item := _compare(baseline.studies.get(study["id"]), study)) is not None
        ),
        absent=tuple(sorted(set(baseline.studies) - here)),
    )


def _compare(known: StudyBaseline | None, study: _Json) -> StudyComparison | None:
    tallies = _tallies(study)
    remarks: list[str] = []
    listed: frozenset[Known] = frozenset()
    fallen: list[str] = []
    if known is not None:
        held, remarks = known.applying(files=_files(study), oracles=_graders(study))
        listed = held.disagreements
        fallen = list(_fallen(held, study))
    elif not tallies:
        return None
    seen = {item.what: item for item in _seen(tallies)}
    gone = [what for what in sorted(listed) if what not in seen]
    cells = _cells(study)
    stale = [
        f"{what}: {_why_stale(what, cells, tallies)}"
        for what in gone
        if (what.oracle, what.mutant, what.state) not in cells or _readings(what, tallies)
    ]
    return StudyComparison(
        study=study["id"],
        known=tuple(item for what, item in sorted(seen.items()) if what in listed),
        new=tuple(item for what, item in sorted(seen.items()) if what not in listed),
        stale=tuple(stale),
        unread=tuple(
            what
            for what in gone
            if (what.oracle, what.mutant, what.state) in cells and not _readings(what, tallies)
        ),
        fallen=tuple(fallen),
        remarks=tuple(remarks),
    )


def _why_stale(what: Known, cells: set[_Cell], tallies: Mapping[_Cell, Counter[str]]) -> str:
    if (what.oracle, what.mutant, what.state) not in cells:
        return "the study has no such cell"
    return f"none of {_readings(what, tallies)} readings"


def _readings(what: Known, tallies: Mapping[_Cell, Counter[str]]) -> int:
    return tallies.get((what.oracle, what.mutant, what.state), Counter()).total()


def _fallen(known: StudyBaseline, study: _Json) -> Iterator[str]:
    """Scores that fell. Only scores over as many mutants as in the baseline are compared."""
    for row in study["scores"]:
        before = known.scores.get(row["grader"])
        if before is None or row["scored"] != before.scored or row["killed"] >= before.killed:
            continue
        yield (
            f"{row['grader']} killed {row['killed']} of {row['scored']} mutants, the baseline "
            f"says {before.killed}"
        )


# -- what a ledger says ---------------------------------------------------------------------------


def _tallies(study: _Json) -> dict[_Cell, Counter[str]]:
    """Per cell of the study: how many readings agree with the contract, and how the others differ.

    Only readings of valid attempts count. An error is no reading, and a state without a contract
    reading is left out.
    """
    found: dict[_Cell, Counter[str]] = {}
    for attempt in study["attempts"]:
        if not attempt["counted"]:
            continue
        for state, fact in attempt["states"].items():
            if fact["contract"] is None:
                continue
            contract = ContractVerdict(fact["contract"]["verdict"])
            for reading in fact["readings"]:
                verdict = Verdict(reading["verdict"])
                if verdict is not Verdict.ERROR:
                    cell = (reading["oracle"], attempt["mutant"], State(state))
                    kind = disagreement(verdict, contract) or _AGREES
                    found.setdefault(cell, Counter())[kind] += 1
    return found


def _seen(tallies: Mapping[_Cell, Counter[str]]) -> Iterator[Seen]:
    for (oracle, mutant, state), counts in tallies.items():
        for kind, readings in counts.items():
            if kind != _AGREES:
                what = Known(oracle=oracle, mutant=mutant, state=state, kind=kind)
                yield Seen(what=what, readings=readings, of=counts.total())


def _cells(study: _Json) -> set[_Cell]:
    plan = study["plan"]
    return {
        (oracle["id"], mutant["id"], State(state))
        for oracle in plan["oracles"]
        for mutant in plan["mutants"]
        for state in plan["states"]
    }


def _files(study: _Json) -> dict[str, str]:
    return {role: study["plan"]["files"][role]["sha256"] for role in ROLES}


def _graders(study: _Json) -> dict[str, str]:
    return {one["id"]: grader_of(one["use"], one["of"]) for one in study["plan"]["oracles"]}


# -- from a ledger to a baseline ------------------------------------------------------------------


def taken(ledger: _Json, digest: str, before: Baseline | None = None) -> Baseline:
    """The baseline under which everything that a ledger shows is known.

    Args:
        ledger: Of evidence that holds together.
        digest: SHA-256 of its bytes.
        before: An older baseline. Its entries stay if the ledger has no valid reading of them.
    """
    studies = {} if before is None else dict(before.studies)
    for study in ledger["studies"]:
        if any(attempt["counted"] for attempt in study["attempts"]):
            studies[study["id"]] = _taken(study, digest, studies.get(study["id"]))
    return Baseline(studies=studies)


def _taken(study: _Json, digest: str, before: StudyBaseline | None) -> StudyBaseline:
    tallies, cells = _tallies(study), _cells(study)
    mutants = sum(one["expect"] == Expectation.REJECT for one in study["plan"]["mutants"])
    profiles = {attempt["profile"] for attempt in study["attempts"] if attempt["counted"]}
    scores = {
        row["grader"]: Tally(killed=row["killed"], scored=row["scored"])
        for row in study["scores"]
        if row["scored"] == mutants and not row["unproven"]
    }
    disagreements = {item.what for item in _seen(tallies)}
    if before is not None:
        held, _ = before.applying(files=_files(study), oracles=_graders(study))
        kept = {
            what
            for what in held.disagreements
            if (cell := (what.oracle, what.mutant, what.state)) in cells and cell not in tallies
        }
        disagreements |= kept
        scores = {**held.scores, **scores}
        profiles |= set(held.profiles) if kept else set()
    return StudyBaseline(
        ledger=digest,
        profiles=tuple(sorted(profiles - {""})),
        files=_files(study),
        oracles=_graders(study),
        disagreements=frozenset(disagreements),
        scores=scores,
    )
