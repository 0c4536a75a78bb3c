"""Verifies the seal of one attempt offline: directory in, a line a check out.

In the order in which one thing stands on another: the signature over the document, the listing,
who the attempt is, the journal line by line, every file, the records, the guards, the stamp. The
first that fails is the first broken link.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_sremut.errors import EvidenceError
from pytest_sremut.evidence.journal import JournalStatus
from pytest_sremut.evidence.load import load_attempt
from pytest_sremut.evidence.records import AttemptRecord
from pytest_sremut.evidence.seal.anchor import AnchorState, StampVerifier
from pytest_sremut.evidence.seal.attempt import (
    COMPLETE,
    PARTIAL,
    Contents,
    attempt_statement,
    contents_of,
    guards_of,
    identity_block,
)
from pytest_sremut.evidence.seal.checks import (
    Report,
    SealCheck,
    check_key,
    check_listing,
    check_names,
    check_stamp,
    read_together,
    seal_names,
    signed_document,
)
from pytest_sremut.evidence.seal.document import DIRECTORY, SEAL, SUMS
from pytest_sremut.evidence.seal.sums import Listing, list_directory, parse_sums
from pytest_sremut.ground.formats.canonical import sha256
from pytest_sremut.study.verdict import Outcome

__all__ = ["SealReading", "verify_attempt"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SealReading:
    """What a seal is worth. `anchor` None: it does not hold, or cannot be verified."""

    checks: tuple[SealCheck, ...]
    sealed: bool  # a seal stands there
    document: Mapping[str, Any]  # seal.json; empty where it is not signed
    anchor: AnchorState | None
    digest: str = ""  # SHA-256 of seal.json

    @property
    def holds(self) -> bool:
        """Whether there is a seal and nothing speaks against it."""
        return self.sealed and all(check.ok is not False for check in self.checks)

    @property
    def extent(self) -> str:
        """`complete` or `partial`; empty without a signed document."""
        return str(self.document.get("extent", ""))

    @property
    def guards_held(self) -> bool:
        """Whether it says that every guard held."""
        return bool(self.document.get("guards", {}).get("held", False))


def verify_attempt(
    directory: Path,
    *,
    verifier: StampVerifier | None = None,
    key: str = "",
    prefix: str = "",
    record: AttemptRecord | None = None,
) -> SealReading:
    """Verify one attempt's seal.

    Args:
        directory: `<evidence>/<study>/<run>/aNN`.
        verifier: Of stamps; without one a stamp cannot be verified.
        key: The public key of the attempt's own session, where it is known from elsewhere.
        prefix: Stands before names and places in the checks.
        record: The attempt as loaded already.

    Returns:
        The reading. Never raises for what the directory holds.
    """
    report = Report(prefix)
    if (directory / DIRECTORY).is_symlink():
        report.failed("seal", "a symbolic link, which is no evidence", DIRECTORY)
    if not (directory / DIRECTORY).is_dir():
        _unsealed(directory, record, report)
        return SealReading(checks=tuple(report.checks), sealed=False, document={}, anchor=None)
    files = read_together(directory / DIRECTORY, "seal", report)
    document = signed_document(files, SEAL, "seal", report, where="seal/")
    anchor = None
    if document is not None:
        anchor = _Verification(directory, files, document, report).run(verifier, key, record)
    else:
        _unsealed_parts(directory, record, report)
    return SealReading(
        checks=tuple(report.checks),
        sealed=True,
        document=document or {},
        anchor=anchor,
        digest=sha256(files.get(f"{SEAL}.json", b"")),
    )


class _Verification:
    """One attempt beside its signed document."""

    def __init__(
        self,
        directory: Path,
        files: Mapping[str, bytes],
        document: Mapping[str, Any],
        report: Report,
    ) -> None:
        self.directory = directory
        self.files = files
        self.document = document
        self.report = report

    def run(
        self, verifier: StampVerifier | None, key: str, record: AttemptRecord | None
    ) -> AnchorState | None:
        report, document = self.report, self.document
        check_key(document, report, "seal/seal.json")
        check_names(self.files, seal_names(document), report)
        sound = check_listing(self.files, document, report)
        contents, problem = None, ""
        try:
            contents = contents_of(self.directory)
        except EvidenceError as error:
            problem = str(error).removeprefix(f"{self.directory}: ")
        if contents is not None:
            self._identity(contents, key)
            self._journal(contents)
        if sound:
            listing = list_directory(self.directory, without=(DIRECTORY,))
            report.told("files", self._files(listing), f"{document['sums']['files']} as sealed")
        if contents is None:  # after the files: one of them was changed, and is named there
            report.failed("identity", problem)
        _records(self.directory, record, report)
        if contents is not None:
            self._ending(contents)
            self._guards(contents)
        return check_stamp(
            self.files,
            document,
            attempt_statement(
                document["identity"],
                key_sha256=document["key"]["sha256"],
                sums=document["sums"]["sha256"],
                journal=document["journal"],
            ),
            verifier,
            report,
        )

    def _identity(self, contents: Contents, key: str) -> None:
        """The attempt is the one that was sealed, where it was made, by whom it was to be."""
        said = self.document["identity"]
        if "sealed" not in contents.identity:
            self.report.failed("identity", "of no sealed session", "attempt.json")
            return
        problems = [
            ("attempt.json", f"{name} is {value!r}, sealed {said[name]!r}")
            for name, value in identity_block(contents.identity).items()
            if value != said[name]
        ]
        where = "/".join(self.directory.absolute().parts[-3:])
        meant = f"{said['study']}/{said['run']}/a{said['attempt']:02d}"
        if where != meant:
            problems.append(("", f"it stands at {where} and was sealed as {meant}"))
        signer, bound = self.document["key"], contents.identity["sealed"]["key"]
        if key and key != bound:
            problems.append(("attempt.json", "is bound to another key than its session's"))
        if signer["session"] == said["session"]:
            if signer["public"] != bound:
                problems.append(
                    ("seal/seal.json", "signed with another key than the attempt is bound to")
                )
        elif self.document["extent"] != PARTIAL:
            problems.append(
                ("seal/seal.json", f"sealed as complete by another session, {signer['session']}")
            )
        self.report.told("identity", problems, f"{meant} of session {said['session']}")

    def _journal(self, contents: Contents) -> None:
        journal, said = contents.journal, self.document["journal"]
        entries = len(journal.entries)
        if journal.head == said["head"] and journal.status.value == said["status"]:
            if entries == said["entries"]:
                self.report.passed("journal", f"{entries} entries up to {journal.head}")
            else:
                told = f"{entries} entries stand there, sealed are {said['entries']}"
                self.report.failed("journal", told, "seal/seal.json")
            return
        line, problem = entries + 1, journal.problem.partition(": ")[2] or journal.problem
        if journal.status in {JournalStatus.INTACT, JournalStatus.TORN_TAIL}:
            if entries < said["entries"]:
                problem = f"missing: {entries} entries stand there, sealed are {said['entries']}"
            elif entries > said["entries"]:
                line, problem = said["entries"] + 1, f"added: sealed are {said['entries']} entries"
            else:
                line, problem = max(entries, 1), "the chain ends at another head than the sealed"
        self.report.failed("journal", f"line {line}: {problem}", "journal.jsonl")

    def _files(self, listing: Listing) -> Iterator[tuple[str, str]]:
        try:
            sealed = parse_sums(self.files[SUMS])
        except EvidenceError as error:
            yield f"seal/{SUMS}", str(error)
            return
        if len(sealed) != self.document["sums"]["files"]:
            yield f"seal/{SUMS}", f"{len(sealed)} files, sealed {self.document['sums']['files']}"
        yield from _differences(sealed, listing.files)
        for sentence in listing.strange:
            path, _, what = sentence.partition(": ")
            yield path, f"{what}, which is no evidence"
        empty = self.document["empty_directories"]
        for path in sorted({*empty} ^ {*listing.empty}):
            yield (
                path,
                "an empty directory that was not sealed"
                if path in listing.empty
                else ("an empty directory that was sealed is gone or holds something"),
            )

    def _ending(self, contents: Contents) -> None:
        """The record, the outcome and how far it came are told as they are."""
        said = self.document
        digest = contents.listing.files.get("record.json")
        outcome = contents.record.get("outcome")
        problems: list[tuple[str, str]] = []
        if said["record"] != digest:
            problems.append(("record.json", f"SHA-256 {digest}, sealed {said['record']}"))
        if said["outcome"] != outcome:
            problems.append(("record.json", f"outcome {outcome}, sealed {said['outcome']}"))
        ended = digest is not None and outcome != Outcome.RESTORATION_FAILURE.value
        if said["extent"] == COMPLETE and not (ended and said["stop"] is None):
            problems.append(("seal/seal.json", "sealed as complete, which it is not"))
        if said["extent"] == PARTIAL and said["stop"] is None:
            problems.append(("seal/seal.json", "sealed as partial without a stop marker"))
        if said["extent"] == PARTIAL and outcome == Outcome.COMPLETE.value:
            problems.append(("seal/seal.json", "sealed as partial, and the record says COMPLETE"))
        stop = said["stop"]
        told = said["extent"] if stop is None else f"{said['extent']}: {stop['reason']}"
        self.report.told("extent", problems, told)

    def _guards(self, contents: Contents) -> None:
        """What the seal says of the guards is what the evidence says."""
        broken, said = list(guards_of(contents)), self.document["guards"]
        if said != {"held": not broken, "broken": broken}:
            self.report.failed("guards", "not as the evidence tells", "seal/seal.json")
        else:
            self.report.passed("guards", "held" if not broken else f"not held: {broken[0]}")


def _differences(sealed: Mapping[str, str], here: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for path in sorted({*sealed, *here}):
        if path not in here:
            yield path, "missing"
        elif path not in sealed:
            yield path, "was not sealed: it was added"
        elif sealed[path] != here[path]:
            yield path, f"SHA-256 {here[path]}, sealed {sealed[path]}"


def _records(directory: Path, record: AttemptRecord | None, report: Report) -> bool:
    loaded = load_attempt(directory) if record is None else record
    states = ", ".join(loaded.states) or "no state"
    return report.told(
        "records", (("", problem) for problem in loaded.problems), f"{states}: every digest holds"
    )


def _unsealed(directory: Path, record: AttemptRecord | None, report: Report) -> None:
    report.unverified("seal", "not sealed; digests and journal are checked all the same")
    _unsealed_parts(directory, record, report)


def _unsealed_parts(directory: Path, record: AttemptRecord | None, report: Report) -> None:
    """What can be checked of an attempt without a seal that holds."""
    loaded = load_attempt(directory) if record is None else record
    journal = loaded.journal
    if journal.status is JournalStatus.INTACT:
        report.passed("journal", f"{len(journal.entries)} entries up to {journal.head}")
    elif journal.status is JournalStatus.TORN_TAIL and not loaded.record:
        report.unverified("journal", journal.problem, "journal.jsonl")
    else:
        line = len(journal.entries) + 1
        report.failed("journal", f"line {line}: {journal.problem}", "journal.jsonl")
    _records(directory, loaded, report)
