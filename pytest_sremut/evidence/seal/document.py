"""A seal's own files: the signed document and the signatures, put in place in one step.

    SHA256SUMS, SHA256SUMS.sig    what is sealed, and the key's signature over these bytes
    seal.json, seal.sig           what is said of it, and the key's signature over that
    anchor.json, anchor.*         what was stamped, and the stamp; named in seal.json by SHA-256

`seal.json` is canonical JSON (RFC 8785) to the byte and names every other file, directly or by the
signature that must hold, so no byte in the directory can change unseen.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pytest_sremut.errors import AttestationError, EvidenceError
from pytest_sremut.evidence.check import checked, parse_checked, plain
from pytest_sremut.evidence.seal.anchor import Anchor, Anchored, AnchorState
from pytest_sremut.evidence.seal.key import ALGORITHM, SessionKey, fingerprint
from pytest_sremut.ground.durable.atomic import (
    TEMPORARY,
    fsync_directory,
    make_directory,
    reason_of,
    write_new,
)
from pytest_sremut.ground.formats.canonical import CanonicalError, canonical_json, sha256

__all__ = [
    "ANCHOR",
    "DIRECTORY",
    "SEAL",
    "SUMS",
    "canonical",
    "key_block",
    "parse_canonical",
    "signed_files",
    "stamped",
    "statement_bytes",
    "write_together",
]

DIRECTORY: Final = "seal"
"""Name of a seal's directory, inside what it seals."""
SUMS: Final = "SHA256SUMS"
SEAL: Final = "seal"
ANCHOR: Final = "anchor"
"""Stem of a stamp's files."""

_ANCHOR_SCHEMA: Final = "sremut/anchor/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamped:
    """The block that a signed document holds of its stamp, and the stamp's files by name."""

    block: Mapping[str, Any]
    files: Mapping[str, bytes]
    state: AnchorState


def key_block(key: SessionKey) -> dict[str, str]:
    """What a signed document says of the key that signs it."""
    return {
        "algorithm": ALGORITHM,
        "public": key.public,
        "sha256": fingerprint(key.public),
        "session": key.session,
    }


def stamped(
    anchor: Anchor, statement: Mapping[str, Any], stem: str, *, strict: bool = False
) -> Stamped:
    """Have a statement stamped: `<stem>.json` and the stamp's files beside it.

    Raises:
        AttestationError: The answer does not verify, where `strict`; else that is noted as the
            reason for which there is no stamp: a seal without one is better than no seal.
    """
    data = statement_bytes(statement, stem)
    try:
        found = anchor.stamp(data, stem)
    except AttestationError as error:
        if strict:
            raise
        found = Anchored(state=AnchorState.UNANCHORED, detail=str(error))
    files = dict(found.files)
    if found.state is not AnchorState.UNANCHORED:
        files[f"{stem}.json"] = data
    digests = {name: sha256(content) for name, content in sorted(files.items())}
    return Stamped(
        block={**found.as_json(), "files": digests}, files=files, state=AnchorState(found.state)
    )


def statement_bytes(statement: Mapping[str, Any], stem: str) -> bytes:
    """The bytes that are stamped."""
    return canonical({"schema": _ANCHOR_SCHEMA, **statement}, what=f"{stem}.json")


def signed_files(key: SessionKey, name: str, data: bytes, stem: str) -> dict[str, bytes]:
    """A document and the signature over its bytes."""
    return {name: data, f"{stem}.sig": key.sign(data)}


def canonical(value: Mapping[str, Any], *, what: str, schema: str = "") -> bytes:
    """Canonical bytes of a document, which satisfies `schema` where one is named.

    Raises:
        EvidenceError: It does not, or it is no JSON.
    """
    document = plain(value)
    if schema:
        checked(schema, document, what=what)
    try:
        return canonical_json(document)
    except CanonicalError as error:
        raise EvidenceError(f"{what}: {error}") from error


def parse_canonical(data: bytes, *, schema: str, what: str) -> Mapping[str, Any]:
    """A document of that schema whose bytes are canonical. Raises EvidenceError."""
    value = parse_checked(schema, data, what=what)
    if canonical(value, what=what) != data:
        raise EvidenceError(f"{what}: not canonical JSON: it was written by something else")
    return value


def write_together(directory: Path, files: Mapping[str, bytes]) -> None:
    """Create `directory` with all its files in one step, durably; never over another.

    Raises:
        EvidenceError: It stands there already, or cannot be written. Nothing is left behind.
    """
    stage = directory.parent.parent / f"{TEMPORARY}{os.getpid()}-{secrets.token_hex(8)}"
    try:
        make_directory(stage)
        for name, data in files.items():
            write_new(stage / name, data)
        if os.path.lexists(directory):
            raise EvidenceError(f"{directory}: exists already; evidence is never overwritten")
        stage.rename(directory)  # fails over a directory that holds anything
        fsync_directory(directory.parent)
    except OSError as error:
        raise EvidenceError(f"{directory}: cannot be written: {reason_of(error)}") from error
    finally:
        shutil.rmtree(stage, ignore_errors=True)
