"""From an evidence directory to facts: every attempt in it, none silently dropped.

An attempt whose evidence is inconsistent is invalid, whatever its records say: it never raises a
score. Defects of the directory are reported too: a number missing in the sequence of attempts, or
an attempt that is not in the ledger of attempts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_sremut.errors import EvidenceError
from pytest_sremut.evidence.load import load_entry
from pytest_sremut.evidence.root import AttemptEntry, EvidenceRoot, gaps
from pytest_sremut.ledger.facts import NeedsPods, attempt_fact
from pytest_sremut.ledger.model import DAMAGED, AttemptFact
from pytest_sremut.ledger.published.records import published_attempts, published_files
from pytest_sremut.ledger.seals import Seals, read_seals

__all__ = ["Evidence", "SealSource", "is_evidence", "read_attempts", "read_evidence"]

SealSource = Callable[[Path, tuple[AttemptEntry, ...]], Seals]
"""Evidence directory, its ledger of attempts -> their seals, verified."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One evidence directory as read. `digest` identifies its content, wherever it is stored."""

    digest: str
    attempts: tuple[AttemptFact, ...]
    problems: tuple[str, ...]  # what does not hold, paths relative to the directory


def is_evidence(directory: Path) -> bool:
    """Whether the directory has records, of a session or imported."""
    return (directory / "attempts").is_dir() or (directory / "published").is_dir()


def read_attempts(
    directory: Path, *, needs_pods: NeedsPods | None = None, seals: SealSource = read_seals
) -> tuple[tuple[AttemptFact, ...], tuple[str, ...]]:
    """Every attempt of an evidence directory in the order of its ledger, and every problem.

    Raises:
        EvidenceError: The directory is none, or cannot be read.
    """
    evidence = read_evidence(directory, needs_pods=needs_pods, seals=seals)
    return evidence.attempts, evidence.problems


def read_evidence(
    directory: Path, *, needs_pods: NeedsPods | None = None, seals: SealSource = read_seals
) -> Evidence:
    """Read and verify one evidence directory.

    Args:
        directory: Of a session, or of an import.
        needs_pods: For which readings the sampler's timeline is read, which costs time; None: all.
        seals: Verifies the seals. The default has no pins, so it verifies no stamp.

    Raises:
        EvidenceError: The directory is none, or cannot be read.
    """
    if not is_evidence(directory):
        raise EvidenceError(f"{directory}: no evidence directory")
    digest = _digest(directory)
    facts: list[AttemptFact] = []
    problems: list[str] = []
    if (directory / "attempts").is_dir():
        entries = EvidenceRoot.existing(directory).attempts()
        verified = seals(directory, entries)
        problems += verified.whole
        for entry in entries:
            fact, found = _attempt(entry, digest, needs_pods, verified)
            facts.append(fact)
            problems += found
        for fact in _orphans(directory.absolute(), entries, digest):
            facts.append(fact)
            problems.append(f"{fact.directory}: {fact.reason}")
        problems += gaps(entries)
    published, told = published_attempts(directory, digest)
    return Evidence(digest=digest, attempts=(*facts, *published), problems=(*problems, *told))


def _attempt(
    entry: AttemptEntry, digest: str, needs_pods: NeedsPods | None, seals: Seals
) -> tuple[AttemptFact, list[str]]:
    try:
        record = load_entry(entry)
    except EvidenceError as error:
        return _unreadable(entry, digest, str(error)), [str(error)]
    seal, broken = seals.of(entry)
    record = replace(record, problems=(*record.problems, *broken))
    fact, found = attempt_fact(record, evidence=digest, entry=entry, needs_pods=needs_pods)
    fact = replace(fact, seal=seal)
    return fact, [f"{fact.run} attempt {fact.attempt}: {problem}" for problem in found]


def _unreadable(entry: AttemptEntry, digest: str, problem: str) -> AttemptFact:
    directory = f"{entry.study}/{entry.run}/a{entry.attempt:02d}"
    return AttemptFact(
        study=entry.study,
        run=entry.run,
        mutant=entry.mutant,
        repetition=0,
        attempt=entry.attempt,
        outcome=None,
        reason=f"{DAMAGED}: {problem}",
        registration=entry.registration.value if entry.registration else "",
        states={},
        damaged=True,
        evidence=digest,
        directory=directory if entry.study else "",
        sequence=entry.sequence,
        session=entry.session,
        opened=entry.opened,
    )


def _orphans(
    directory: Path, entries: Sequence[AttemptEntry], digest: str
) -> Iterator[AttemptFact]:
    """Attempts in the directory that are not in the ledger of attempts."""
    known = {entry.directory for entry in entries}
    for path in sorted(directory.glob("*/*/a[0-9]*")):
        if path in known or not path.is_dir():
            continue
        study, run, name = path.parts[-3:]
        number = name[1:]
        yield AttemptFact(
            study=study,
            run=run,
            mutant="",
            repetition=0,
            attempt=int(number) if number.isascii() and number.isdigit() else 0,
            outcome=None,
            reason=f"{DAMAGED}: the ledger of attempts does not know it",
            registration="",
            states={},
            damaged=True,
            evidence=digest,
            directory=f"{study}/{run}/{name}",
        )


def _digest(directory: Path) -> str:
    """SHA-256 over `SHA256  PATH` of the files that list the content of the directory."""
    lines: list[str] = []
    try:
        for path in sorted([*(directory / "attempts").glob("*.json"), *published_files(directory)]):
            name = path.relative_to(directory).as_posix()
            if not path.name.startswith("."):
                lines.append(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {name}\n")
    except OSError as error:
        raise EvidenceError(f"{directory}: cannot be read: {error.strerror}") from error
    return hashlib.sha256("".join(sorted(lines, key=lambda line: line[66:])).encode()).hexdigest()
