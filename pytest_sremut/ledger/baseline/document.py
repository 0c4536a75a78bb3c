"""The baseline file: read, and written.

It is JSON with sorted keys, one value a line: the same ledger gives the same bytes, and a pull
request shows which disagreement came or went. Its entries apply to a study only with the mutants
and the contract that it was made under, and to an oracle only while it is the same grader. Under
another registry `MS-M01` may mean anything.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, Final

from pytest_sremut.ground.formats.canonical import canonical_json
from pytest_sremut.ground.formats.schema import validate
from pytest_sremut.ground.formats.yamlfile import YamlFile, parse_yaml, read_yaml
from pytest_sremut.study.model import Study
from pytest_sremut.study.verdict import State

__all__ = [
    "ROLES",
    "SCHEMA",
    "Baseline",
    "Known",
    "StudyBaseline",
    "Tally",
    "baseline_bytes",
    "grader_of",
    "parse_baseline",
    "read_baseline",
]

SCHEMA: Final = "sremut/baseline/v1"
ROLES: Final = ("contract", "mutants")
"""The files of a study that define its mutants and invariants."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Known:
    """A disagreement, regardless of repetition and instrument."""

    oracle: str
    mutant: str
    state: State
    kind: str  # "false accept" or "false reject"

    def __str__(self) -> str:
        return f"{self.oracle}: {self.kind} of {self.mutant}, {self.state.value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Killed of scored mutants."""

    killed: int
    scored: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyBaseline:
    """What is known of one study.

    `ledger` is the SHA-256 of the ledger that it was last taken from. `profiles` are the protocol
    profiles of those readings. Neither decides anything.
    """

    ledger: str
    profiles: tuple[str, ...]
    files: Mapping[str, str]  # role -> SHA-256, of `ROLES`
    oracles: Mapping[str, str]  # id -> `grader_of`
    disagreements: frozenset[Known]
    scores: Mapping[str, Tally]  # of graders of which every mutant was scored

    def applying(
        self, *, files: Mapping[str, str], oracles: Mapping[str, str]
    ) -> tuple[StudyBaseline, list[str]]:
        """What of it applies to a study as it is now, and a sentence for what does not.

        Args:
            files: SHA-256 by role.
            oracles: `grader_of` by id.
        """
        changed = [role for role in ROLES if files.get(role) != self.files[role]]
        if changed:
            told = f"made under other {' and '.join(changed)}: nothing in it counts"
            return replace(self, disagreements=frozenset(), scores={}), [told]
        other = {
            oracle: grader
            for oracle, grader in oracles.items()
            if self.oracles.get(oracle, grader) != grader
        }
        held = replace(
            self,
            disagreements=frozenset(k for k in self.disagreements if k.oracle not in other),
            scores={name: tally for name, tally in self.scores.items() if name not in other},
        )
        return held, [
            f"{oracle} was {self.oracles[oracle]}, and is {grader}: nothing in it about "
            f"{oracle} counts"
            for oracle, grader in other.items()
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """What is known, by study id."""

    studies: Mapping[str, StudyBaseline] = field(default_factory=dict)

    def known(self, study: Study, digests: Mapping[str, str]) -> frozenset[Known]:
        """The disagreements that are known of a study.

        Args:
            study: The study as it is now.
            digests: SHA-256 of its files by role.
        """
        found = self.studies.get(study.id)
        if found is None:
            return frozenset()
        oracles = {spec.id: grader_of(spec.use, spec.of) for spec in study.oracles}
        held, _ = found.applying(files=digests, oracles=oracles)
        return held.disagreements


def grader_of(use: str, of: Iterable[str]) -> str:
    """The grader behind an oracle's id: `all-of O1 O3`."""
    return " ".join([use, *of])


# -- reading --------------------------------------------------------------------------------------


def read_baseline(file: Path) -> Baseline:
    """Read the file. Raises InputError: it is missing, unreadable, or says what is not allowed."""
    return _baseline(read_yaml(file.parent, PurePosixPath(file.name)))


def parse_baseline(data: bytes, file: PurePosixPath) -> Baseline:
    """A baseline from its bytes. Raises only InputError, whatever the bytes are."""
    return _baseline(parse_yaml(data, file))


def _baseline(source: YamlFile) -> Baseline:
    # JSON is YAML. So errors name a line, no key occurs twice, and size and depth are bounded.
    validate(source, "baseline", package="pytest_sremut.ledger")
    return Baseline(
        studies={name: _study(entry) for name, entry in source.value["studies"].items()}
    )


def _study(entry: Mapping[str, Any]) -> StudyBaseline:
    return StudyBaseline(
        ledger=entry["ledger"],
        profiles=tuple(entry["profiles"]),
        files=dict(entry["files"]),
        oracles=dict(entry["oracles"]),
        disagreements=frozenset(
            Known(oracle=oracle, mutant=mutant, state=State(state), kind=kind)
            for oracle, mutants in entry["disagreements"].items()
            for mutant, states in mutants.items()
            for state, kinds in states.items()
            for kind in kinds
        ),
        scores={
            grader: Tally(killed=score["killed"], scored=score["scored"])
            for grader, score in entry["scores"].items()
        },
    )


# -- writing --------------------------------------------------------------------------------------


def baseline_bytes(baseline: Baseline) -> bytes:
    """The bytes of the file. Raises CanonicalError for values that JSON cannot hold exactly."""
    value = {
        "schema": SCHEMA,
        "studies": {name: _entry(study) for name, study in baseline.studies.items()},
    }
    canonical_json(value, what="baseline")
    text = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False)
    return text.encode() + b"\n"


def _entry(study: StudyBaseline) -> dict[str, Any]:
    disagreements: dict[str, dict[str, dict[str, list[str]]]] = {}
    for known in sorted(study.disagreements):
        states = disagreements.setdefault(known.oracle, {}).setdefault(known.mutant, {})
        states.setdefault(known.state.value, []).append(known.kind)
    return {
        "ledger": study.ledger,
        "profiles": sorted(study.profiles),
        "files": dict(study.files),
        "oracles": dict(study.oracles),
        "disagreements": disagreements,
        "scores": {
            grader: {"killed": tally.killed, "scored": tally.scored}
            for grader, tally in study.scores.items()
        },
    }
