"""Which jobs a matrix of CI has: one for each run, mutant or study, each with what selects it.

A path selects the study and an expression its runs, both exactly: ids of studies, mutants and
runs may well be prefixes of others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pytest_sremut.study.cells import runs
from pytest_sremut.study.model import Protocol, Run, Study
from pytest_sremut.study.names import Check

__all__ = ["By", "Job", "fresh_rounds", "jobs", "least_requests", "least_seconds"]


class By(StrEnum):
    """How finely a matrix is cut."""

    RUN = "run"
    MUTANT = "mutant"
    STUDY = "study"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One job: runs of one study, one after another on one cluster."""

    study: str
    name: str  # of the run or mutant, or `all`; with the study's id unique in the matrix
    path: str  # what pytest is given
    keyword: str  # for -k; empty: everything under the path
    runs: int
    needs_benchmark: bool
    least_seconds: int  # that the protocol itself waits, see `least_seconds`


def jobs(study: Study, *, by: By, profile: str) -> list[Job]:
    """The jobs of one study in the order of its schedule.

    Args:
        study: The study.
        by: How finely it is cut.
        profile: One of its profiles. Raises KeyError for any other.
    """
    protocol = study.profiles[profile]
    return [
        Job(
            study=study.id,
            name=name,
            path=str(study.file),
            keyword="" if by is By.STUDY else " or ".join(f"[{run.id}-" for run in own),
            runs=len(own),
            needs_benchmark=study.needs_benchmark(profile),
            least_seconds=math.ceil(len(own) * least_seconds(study, protocol)),
        )
        for name, own in _cut(study, by)
    ]


def _cut(study: Study, by: By) -> Iterator[tuple[str, Sequence[Run]]]:
    every = list(runs(study))
    match by:
        case By.RUN:
            yield from ((run.id, [run]) for run in every)
        case By.MUTANT:
            for mutant in study.mutants:
                yield mutant.slug, [run for run in every if run.mutant == mutant.id]
        case By.STUDY:
            yield "all", every


def least_seconds(study: Study, protocol: Protocol) -> float:
    """How long one run takes if nothing but the protocol's own waiting takes any time, in seconds.

    Settling, a window of load in each state, and where the contract asks for repair persistence a
    fresh one in each control. Deploying, recycling, grading, a deadline that has to expire and
    rounds that a broken application stretches all come on top.
    """
    load = protocol.workload
    window = load.rounds * (load.duration + load.pause)
    persistence = any(
        Check(invariant.check) is Check.REPAIR_PERSISTENCE
        for invariant in study.contract.invariants
    )
    fresh = fresh_rounds(study, protocol) * (load.duration + load.pause) if persistence else 0.0
    return protocol.settle + len(study.states) * window + 2 * fresh


def fresh_rounds(study: Study, protocol: Protocol) -> int:
    """Rounds of a fresh window: as many as are asked for more than the contract's least number of
    requests."""
    asked = protocol.workload.rate * protocol.workload.duration
    return max(1, math.ceil(1.5 * least_requests(study) / asked))


def least_requests(study: Study) -> int:
    """How many requests the contract needs in a window to say anything of it."""
    needed = [item.parameters.get("minimum_requests", 1) for item in study.contract.invariants]
    return max(needed, default=1)
