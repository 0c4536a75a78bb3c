"""One line of a verification, and the pieces that attempts and sessions are verified with."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_sremut.errors import EvidenceError
from pytest_sremut.evidence.seal.anchor import AnchorState, StampVerifier
from pytest_sremut.evidence.seal.document import (
    ANCHOR,
    SEAL,
    SUMS,
    parse_canonical,
    statement_bytes,
)
from pytest_sremut.evidence.seal.key import fingerprint, is_signed
from pytest_sremut.ground.durable.atomic import reason_of
from pytest_sremut.ground.formats.canonical import sha256

__all__ = ["Report", "SealCheck", "check_key", "check_stamp", "read_together", "signed_document"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SealCheck:
    """One check. `ok` None: it cannot be verified, and `detail` says why."""

    name: str
    ok: bool | None
    detail: str
    place: str = ""  # file in the evidence, `: line N` after it where there is one

    def line(self) -> str:
        """`OK   name: detail`, `FAIL name: place: why`, `--   name: cannot be verified: why`."""
        mark = {True: "OK  ", False: "FAIL", None: "--  "}[self.ok]
        where = f"{self.place}: " if self.place and self.ok is not True else ""
        return f"{mark} {self.name}: {where}{self.detail}"


@dataclass(slots=True)
class Report:
    """Collects checks; one that fails hides none that does not depend on it."""

    prefix: str  # of names and places: the attempt or session that is spoken of
    checks: list[SealCheck] = field(default_factory=list)

    def passed(self, name: str, detail: str) -> None:
        """It holds."""
        self._add(name, True, detail, "")

    def failed(self, name: str, detail: str, place: str = "") -> None:
        """It does not."""
        self._add(name, False, detail, place)

    def unverified(self, name: str, detail: str, place: str = "") -> None:
        """Nobody can tell."""
        self._add(name, None, f"cannot be verified: {detail}", place)

    def told(self, name: str, problems: Iterable[tuple[str, str]], detail: str) -> bool:
        """Each (place, problem) fails; where there is none, it holds. Whether it holds."""
        found = list(problems)
        for place, problem in found:
            self.failed(name, problem, place)
        if not found:
            self.passed(name, detail)
        return not found

    @property
    def failures(self) -> tuple[SealCheck, ...]:
        """What failed."""
        return tuple(check for check in self.checks if check.ok is False)

    def _add(self, name: str, ok: bool | None, detail: str, place: str) -> None:
        where = "/".join(filter(None, (self.prefix, place))) if place else ""
        label = f"{self.prefix} {name}".strip()
        self.checks.append(SealCheck(name=label, ok=ok, detail=detail, place=where))


def read_together(directory: Path, name: str, report: Report) -> dict[str, bytes]:
    """The files of a flat directory of ours by name; what has no place in it fails."""
    found: dict[str, bytes] = {}
    try:
        entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
    except OSError as error:
        report.failed(name, f"cannot be listed: {reason_of(error)}", directory.name)
        return found
    for entry in entries:
        place = f"{directory.name}/{entry.name}"
        if not entry.is_file(follow_symlinks=False):
            report.failed(name, "no regular file: it has no place in a seal", place)
            continue
        try:
            found[entry.name] = Path(entry.path).read_bytes()
        except OSError as error:
            report.failed(name, f"cannot be read: {reason_of(error)}", place)
    return found


def signed_document(
    files: Mapping[str, bytes], stem: str, schema: str, report: Report, *, where: str
) -> Mapping[str, Any] | None:
    """`<stem>.json`, canonical, of that schema, signed by the key that it names; else None."""
    name = f"{stem}.json"
    if name not in files:
        report.failed("signature", "missing", f"{where}{name}")
        return None
    try:
        document = parse_canonical(files[name], schema=schema, what=name)
        signed = is_signed(document["key"]["public"], files[name], files.get(f"{stem}.sig", b""))
    except EvidenceError as error:
        report.failed("signature", str(error), f"{where}{name}")
        return None
    if not signed:
        what = "missing" if f"{stem}.sig" not in files else f"is not that key's over {name}"
        report.failed("signature", what, f"{where}{stem}.sig")
        return None
    report.passed("signature", f"{name} by {document['key']['sha256']}")
    return document


def check_key(document: Mapping[str, Any], report: Report, place: str) -> bool:
    """The fingerprint is that of the key. Whether it is."""
    key = document["key"]
    if fingerprint(key["public"]) != key["sha256"]:
        report.failed("key", "its fingerprint is another key's", place)
        return False
    return True


def check_listing(files: Mapping[str, bytes], document: Mapping[str, Any], report: Report) -> bool:
    """SHA256SUMS is the one that the signed document names, and itself signed. Whether it is."""
    place = f"seal/{SUMS}"
    if SUMS not in files:
        report.failed("listing", "missing", place)
        return False
    digest = sha256(files[SUMS])
    if digest != document["sums"]["sha256"]:
        report.failed("listing", f"SHA-256 {digest}, sealed {document['sums']['sha256']}", place)
        return False
    if not is_signed(document["key"]["public"], files[SUMS], files.get(f"{SUMS}.sig", b"")):
        report.failed("listing", "is not the key's signature over it", f"{place}.sig")
        return False
    return True


def check_names(files: Mapping[str, bytes], wanted: Iterable[str], report: Report) -> None:
    """Exactly these files stand in the seal."""
    expected = set(wanted)
    for name in sorted(set(files) - expected):
        report.failed("seal", "nothing in the seal speaks of it", f"seal/{name}")
    for name in sorted(expected - set(files)):
        report.failed("seal", "missing", f"seal/{name}")


def seal_names(document: Mapping[str, Any]) -> Iterator[str]:
    """The files of a seal."""
    yield from (SUMS, f"{SUMS}.sig", f"{SEAL}.json", f"{SEAL}.sig")
    yield from document["anchor"]["files"]


def check_stamp(
    files: Mapping[str, bytes],
    document: Mapping[str, Any],
    statement: Mapping[str, Any],
    verifier: StampVerifier | None,
    report: Report,
    *,
    stem: str = ANCHOR,
    where: str = "seal/",
) -> AnchorState | None:
    """The stamp is over this statement and verifies; the state it then stands for, else None."""
    block = document["anchor"]
    state = AnchorState(block["state"])
    own = {name: files[name] for name in block["files"] if name in files}
    for name, data in own.items():
        if sha256(data) != block["files"][name]:
            report.failed(stem, "its bytes are not the sealed ones", f"{where}{name}")
            return None
    if len(own) != len(block["files"]):
        return None  # told as missing
    if state is AnchorState.UNANCHORED:
        report.passed(stem, f"unanchored: {block['detail']}")
        return state
    data = statement_bytes(statement, stem)
    if own.pop(f"{stem}.json", b"") != data:
        report.failed(stem, "what was stamped speaks of something else", f"{where}{stem}.json")
        return None
    if verifier is None:
        report.unverified(stem, "no pinned roots are at hand", f"{where}{stem}.tsr")
        return None
    found = verifier.check(data, stem, own, block)
    if found.ok is None:
        report.unverified(stem, found.detail, f"{where}{stem}.tsr")
        return None
    if not found.ok:
        report.failed(stem, found.detail, f"{where}{stem}.tsr")
        return None
    report.passed(stem, found.detail)
    return state
