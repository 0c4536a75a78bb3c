"""Records of kind *published*: transcribed from published figures, one file a run.

    published/<study>/source.json    the file that was imported, byte for byte
    published/<study>/<run>.json     sremut/published/v1, referring to it by SHA-256

They have no times of ours, no raw returned objects and no journal, because none were published.
Every fact in them comes from `source.json`. Reading derives each record from its source again, so
an edited record is noticed. Reading never raises, whatever the records say.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from errno import ENOENT
from pathlib import Path
from typing import Any, Final

from pytest_sremut.errors import EvidenceError, InputError
from pytest_sremut.ground.durable.atomic import TEMPORARY
from pytest_sremut.ground.formats.canonical import CanonicalError, canonical_json, sha256
from pytest_sremut.ledger.model import (
    DAMAGED,
    PUBLISHED,
    AttemptFact,
    ContractFact,
    ReadingFact,
    Source,
    StateFact,
    WindowFact,
)
from pytest_sremut.ledger.published.inputs import parse_input
from pytest_sremut.ledger.published.shipped import shipped_study
from pytest_sremut.ledger.renderings.document import checked
from pytest_sremut.study.verdict import ContractVerdict, Outcome, State, Verdict

__all__ = ["SOURCE", "published_attempts", "published_files"]

SOURCE: Final = "source.json"


def published_files(directory: Path) -> list[Path]:
    """Every file of an evidence directory's published records."""
    found = (directory / "published").glob("*/*.json")
    return sorted(path for path in found if not path.name.startswith(TEMPORARY))


def published_attempts(
    directory: Path, digest: str
) -> tuple[tuple[AttemptFact, ...], tuple[str, ...]]:
    """The facts of every published record, and every problem.

    Args:
        directory: The evidence directory.
        digest: The digest that names it.
    """
    facts: list[AttemptFact] = []
    problems: list[str] = []
    by_study: dict[Path, list[Path]] = {}
    for path in published_files(directory):
        by_study.setdefault(path.parent, []).append(path)
    for parent, paths in sorted(by_study.items()):
        expected, problem = _expected(parent)
        # Every run in the source must have its record.
        wanted = {parent / f"{run}.json" for run in expected}
        for path in sorted({*paths, *wanted} - {parent / SOURCE}):
            name = path.relative_to(directory).as_posix()
            try:
                facts.append(_read(path, name, digest, expected, problem))
            except EvidenceError as error:
                problems.append(str(error))
                facts.append(_damaged(path, digest, str(error)))
    return tuple(facts), tuple(problems)


def _expected(directory: Path) -> tuple[Mapping[str, Mapping[str, Any]], str]:
    """The records that a study's source gives, by run; or why it gives none."""
    try:
        source = parse_input((directory / SOURCE).read_bytes(), SOURCE)
        records = source.records(shipped_study(source.study), {})
    except OSError as error:
        return {}, f"{SOURCE}: {'missing' if error.errno == ENOENT else error.strerror}"
    except InputError as error:
        return {}, str(error)
    return {record["run"]: record for record in records}, ""


def _read(
    path: Path, name: str, digest: str, expected: Mapping[str, Mapping[str, Any]], problem: str
) -> AttemptFact:
    if problem:
        raise EvidenceError(f"{name}: {problem}")
    try:
        data = path.read_bytes()
    except OSError as error:
        told = "missing" if error.errno == ENOENT else f"cannot be read: {error.strerror}"
        raise EvidenceError(f"{name}: {told}") from error
    body = _parsed(data, name)
    if {**expected.get(path.stem, {}), "files": body["files"]} != body:
        raise EvidenceError(f"{name}: is not what {SOURCE} gives: it was edited after the import")
    return _fact(body, name, digest, sha256(data))


def _parsed(data: bytes, name: str) -> Mapping[str, Any]:
    try:
        value = json.loads(data)
        canonical = canonical_json(value) == data
    except (ValueError, RecursionError, CanonicalError) as error:
        raise EvidenceError(f"{name}: not JSON: {error}") from None
    checked("published", value, what=name)
    if not canonical:
        raise EvidenceError(f"{name}: not canonical JSON: it was edited after the import")
    body: Mapping[str, Any] = value
    return body


def _fact(body: Mapping[str, Any], name: str, digest: str, own: str) -> AttemptFact:
    record = Source(evidence=digest, path=name, sha256=own)
    raw = Source(
        evidence=digest,
        path=f"published/{body['study']}/{SOURCE}",
        sha256=body["source"]["sha256"],
    )
    seconds = body["seconds"]
    return AttemptFact(
        study=body["study"],
        run=body["run"],
        mutant=body["mutant"],
        repetition=body["repetition"],
        attempt=1,
        outcome=Outcome.COMPLETE,
        reason="",
        registration=PUBLISHED,
        states={
            State(state): _state(State(state), item, record, raw)
            for state, item in body["states"].items()
        },
        recorded=Outcome.COMPLETE,
        evidence=digest,
        directory=f"published/{body['study']}",
        sequence=1,
        files=dict(body["files"]),
        source=record,
        timings={} if seconds is None else {"driver": float(seconds)},
        first_mutation=body["first_mutation"],
        registration_facts=dict(body["registration"]),
    )


def _state(state: State, body: Mapping[str, Any], record: Source, raw: Source) -> StateFact:
    contract, rounds = body["contract"], body["rounds"]
    return StateFact(
        state=state,
        readings=tuple(
            ReadingFact(
                oracle=item["oracle"],
                instrument=item["instrument"],
                verdict=Verdict.ACCEPT if item["success"] else Verdict.REJECT,
                exception=None,
                raw=raw,
                elapsed=item["elapsed"],
                diagnostic=item["diagnostic"],
            )
            for item in body["readings"]
        ),
        contract=(
            None
            if contract is None
            else ContractFact(
                verdict=ContractVerdict(contract["verdict"]),
                violated=frozenset(contract["violated"]),
                not_evaluated=frozenset(contract["not_evaluated"]),
            )
        ),
        window=None if rounds is None else _window(rounds),
        post_mutation=(
            None
            if rounds is None or state is not State.FAULTED
            else _window([item for item in rounds if item["post_mutation"]])
        ),
        per_round=tuple((item["requests"], item["failures"]) for item in rounds or ()),
        source=record,
        window_raw=None if rounds is None else raw,
    )


def _window(rounds: list[Mapping[str, Any]]) -> WindowFact:
    requests = sum(item["requests"] for item in rounds)
    failures = sum(item["failures"] for item in rounds)
    return WindowFact(
        rounds=len(rounds), requests=requests, failures=failures, successes=requests - failures
    )


def _damaged(path: Path, digest: str, told: str) -> AttemptFact:
    return AttemptFact(
        study=path.parent.name,
        run=path.stem,
        mutant="",
        repetition=0,
        attempt=1,
        outcome=None,
        reason=f"{DAMAGED}: {told}",
        registration=PUBLISHED,
        states={},
        damaged=True,
        evidence=digest,
        directory=f"published/{path.parent.name}",
        source=None,
    )
