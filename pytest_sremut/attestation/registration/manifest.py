"""What a registration covers, and where its files lie.

    attestation/<study>/r01/manifest.json          digests of every frozen file; what is stamped
                            predictions.tsq, .tsr  query and reply over manifest.json's bytes
                            predictions.root.pem   the pinned root, for a reviewer with openssl
                            predictions.untrusted.pem  signer and intermediates, where the reply
                                                   does not hold them itself
                            tree.json              one commit of the project; what is stamped second
                            tree.tsq, .tsr, ...
    attestation/<study>/r02/...                    registered again; r01 stays as it is

Rules: both documents are canonical JSON (RFC 8785) to the byte, so that one value has one digest;
digests are SHA-256 of raw bytes; a revision names the digest of the manifest before it, so that
none can be taken out or exchanged without a trace.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from pytest_sremut.attestation.errors import (
    FrozenFileError,
    IncompleteRegistrationError,
    ManifestError,
    NotRegisteredError,
)
from pytest_sremut.ground.formats.canonical import CanonicalError, canonical_json, sha256

__all__ = [
    "DIRECTORY",
    "MANIFEST",
    "PREDICTIONS",
    "TREE",
    "FrozenFile",
    "Manifest",
    "TreeStatement",
    "digest_of",
    "parse_manifest",
    "parse_tree",
    "read_file",
    "read_frozen",
    "revision_directory",
    "revisions",
]

DIRECTORY = "attestation"
MANIFEST = "manifest.json"
PREDICTIONS = "predictions"  # stem of the first token's files
TREE = "tree"  # stem of the second token's files

_MANIFEST_SCHEMA = "sremut/registration/v1"
_TREE_SCHEMA = "sremut/tree/v1"
_REVISION = re.compile(r"r(\d{2,4})\Z")
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")
_COMMIT = re.compile(r"([0-9a-f]{40}|[0-9a-f]{64})\Z")
_STUDY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}\Z")
_MAX_FILE = 16 * 1024 * 1024  # bytes of a frozen or registration file


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenFile:
    """One file that a registration covers."""

    path: PurePosixPath  # relative to the project's root
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What the first token covers."""

    study: str
    revision: int
    created: str  # RFC 3339; by this machine's clock, the token's time is what counts
    product: str  # version of this package
    files: Mapping[str, FrozenFile]  # by role
    previous: str | None  # SHA-256 of the manifest of the revision before
    has_code: bool = False  # graders and plugins are among the files; False: made before they were

    def dump(self) -> bytes:
        """The bytes that are stamped."""
        return canonical_json(
            {
                "schema": _MANIFEST_SCHEMA,
                "study": self.study,
                "revision": self.revision,
                "created": self.created,
                "product": self.product,
                "files": {
                    role: {"path": str(file.path), "sha256": file.sha256}
                    for role, file in self.files.items()
                },
                "previous": self.previous,
                **({"code": True} if self.has_code else {}),
            },
            what=MANIFEST,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeStatement:
    """What the second token covers: the commit that is going to be executed.

    git names commits by SHA-1 mostly, which is not enough to bind contents; `content` is the
    SHA-256 over the SHA-256 of every product and frozen file at that commit.
    """

    study: str
    revision: int
    manifest: str  # SHA-256 of manifest.json
    commit: str
    paths: tuple[str, ...]  # product paths, relative to the project's root
    content: str
    created: str

    def dump(self) -> bytes:
        """The bytes that are stamped."""
        return canonical_json(
            {
                "schema": _TREE_SCHEMA,
                "study": self.study,
                "revision": self.revision,
                "manifest": self.manifest,
                "commit": self.commit,
                "paths": list(self.paths),
                "content": self.content,
                "created": self.created,
            },
            what="tree.json",
        )


def parse_manifest(data: bytes, *, name: str = MANIFEST) -> Manifest:
    """Read a manifest. Raises ManifestError."""
    fields = {"study": str, "revision": int, "created": str, "product": str, "files": dict}
    value = _canonical(
        data, name, _MANIFEST_SCHEMA, {**fields, "previous": (str, type(None))}, flag="code"
    )
    files = {}
    for role, entry in value["files"].items():
        if not isinstance(entry, dict) or entry.keys() != {"path", "sha256"}:
            raise ManifestError(f"{name}: files.{role}: no path and sha256")
        path, digest = entry["path"], entry["sha256"]
        if not isinstance(path, str) or not isinstance(digest, str) or not _SHA256.match(digest):
            raise ManifestError(f"{name}: files.{role}: no path and sha256")
        files[role] = FrozenFile(path=PurePosixPath(path), sha256=digest)
    return Manifest(
        study=value["study"],
        revision=value["revision"],
        created=value["created"],
        product=value["product"],
        files=files,
        previous=value["previous"],
        has_code="code" in value,
    )


def parse_tree(data: bytes, *, name: str = "tree.json") -> TreeStatement:
    """Read a tree statement. Raises ManifestError."""
    texts = ("study", "manifest", "commit", "content", "created")
    fields: dict[str, Any] = {"revision": int, "paths": list, **dict.fromkeys(texts, str)}
    value = _canonical(data, name, _TREE_SCHEMA, fields)
    if not _COMMIT.match(value["commit"]):
        raise ManifestError(f"{name}: commit: no full commit id: {value['commit'][:80]!r}")
    if not all(isinstance(path, str) and path for path in value["paths"]):
        raise ManifestError(f"{name}: paths: not a list of paths")
    return TreeStatement(
        paths=tuple(value["paths"]),
        revision=value["revision"],
        **{key: value[key] for key in texts},
    )


def _canonical(
    data: bytes,
    name: str,
    schema: str,
    fields: Mapping[str, type | tuple[type, ...]],
    *,
    flag: str = "",
) -> dict[str, Any]:
    """A document of exactly these fields, in canonical form; `flag` may be there, and is true."""
    try:
        value = json.loads(data)
        canonical = canonical_json(value)
    except (ValueError, RecursionError, CanonicalError) as error:
        raise ManifestError(f"{name}: no JSON: {error}") from error
    if not isinstance(value, dict) or value.get("schema") != schema:
        raise ManifestError(f"{name}: no document of schema {schema}")
    if canonical != data:
        raise ManifestError(f"{name}: not canonical JSON: it was written by something else")
    if flag in value and value[flag] is not True:
        raise ManifestError(f"{name}: {flag}: of another type")
    if value.keys() - {flag} != {"schema", *fields}:
        odd = sorted((value.keys() - {flag}) ^ {"schema", *fields})
        raise ManifestError(f"{name}: fields missing or unknown: {', '.join(odd)}")
    for key, kind in fields.items():
        if not isinstance(value[key], kind) or isinstance(value[key], bool):
            raise ManifestError(f"{name}: {key}: of another type")
    return value


# -- where things lie ---------------------------------------------------------------------------


def revisions(root: Path, study: str) -> list[int]:
    """The revisions of a study's registration that there are, ascending; empty for none.

    Raises:
        NotRegisteredError: `study` is no study id.
        ManifestError: One is missing between the first and the last.
        IncompleteRegistrationError: They cannot be listed.
    """
    if not _STUDY.match(study):
        raise NotRegisteredError(f"{study!r} is no study id")
    try:
        names = [path.name for path in (root / DIRECTORY / study).iterdir() if path.is_dir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise IncompleteRegistrationError(f"{DIRECTORY}/{study}: {error.strerror}") from None
    found = sorted(int(match[1]) for match in map(_REVISION.match, names) if match)
    if found != list(range(1, len(found) + 1)):
        raise ManifestError(
            f"{DIRECTORY}/{study}: revisions {', '.join(map(str, found))}: one was taken out"
        )
    return found


def revision_directory(root: Path, study: str, revision: int) -> Path:
    """Where a revision's files lie."""
    return root / DIRECTORY / study / f"r{revision:02d}"


def read_file(path: Path, *, root: Path) -> bytes:
    """A file of a registration.

    Raises:
        IncompleteRegistrationError: Missing, unreadable or absurdly large.
    """
    name = path.relative_to(root)
    try:
        return _read(path)
    except FileNotFoundError:
        raise IncompleteRegistrationError(f"{name}: missing") from None
    except OSError as error:
        raise IncompleteRegistrationError(f"{name}: {error.strerror or error}") from None


def read_frozen(root: Path, path: PurePosixPath) -> bytes:
    """The raw bytes of a frozen file.

    Raises:
        FrozenFileError: Missing, unreadable, no regular file, or outside the project.
    """
    if path.is_absolute() or ".." in path.parts or "\0" in str(path):
        raise FrozenFileError(f"{str(path)!r}: not a path inside the project")
    target = root / path
    try:
        inside = target.resolve(strict=True).is_relative_to(root.resolve(strict=True))
        if not inside or not target.is_file():
            raise FrozenFileError(f"{path}: no regular file inside the project")
        return _read(target)
    except FileNotFoundError:
        raise FrozenFileError(f"{path}: missing") from None
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop of symbolic links, Python 3.11
        reason = error.strerror if isinstance(error, OSError) else "a loop of symbolic links"
        raise FrozenFileError(f"{path}: {reason}") from None


def digest_of(root: Path, path: PurePosixPath) -> str:
    """SHA-256 of a frozen file's raw bytes. Raises FrozenFileError."""
    return sha256(read_frozen(root, path))


def _read(path: Path) -> bytes:
    with path.open("rb") as stream:
        data = stream.read(_MAX_FILE + 1)
    if len(data) > _MAX_FILE:
        raise OSError(0, f"more than {_MAX_FILE} bytes")
    return data
