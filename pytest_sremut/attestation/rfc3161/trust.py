"""The pinned roots: whom we believe, said by people in `attestation/trust.yaml`.

Rules: a root is pinned by the SHA-256 fingerprint of its certificate; a file that holds another
certificate than the pin names is an error, not another root; whether an authority is independent
is declared with the pin, and a self-issued one is never called independent. The file of a root is
optional: a certificate whose fingerprint is pinned may come from anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from pytest_sremut.attestation.rfc3161 import certificates
from pytest_sremut.attestation.rfc3161.certificates import Certificate
from pytest_sremut.errors import InputError
from pytest_sremut.ground.formats.yamlfile import YamlFile, parse_yaml

__all__ = [
    "INDEPENDENT",
    "SELF_ISSUED",
    "TRUST_FILE",
    "PinnedRoot",
    "TrustStore",
    "load_trust",
    "parse_trust",
    "pin_entry",
]

TRUST_FILE = Path("attestation") / "trust.yaml"
INDEPENDENT = "independent"
SELF_ISSUED = "self-issued, no independent clock"

_SCHEMA = "sremut/trust/v1"
_KINDS = {"independent": INDEPENDENT, "self-issued": SELF_ISSUED}
_FIELDS = ("name", "sha256", "independence", "file", "certificates", "policies")
_FINGERPRINT = re.compile(r"[0-9a-f]{64}\Z")
_OID = re.compile(r"[0-2](\.(0|[1-9][0-9]*))+\Z")
_MAX_FILE = 1 << 20  # bytes
_Path = tuple[str | int, ...]  # keys and indices from the root of the document


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedRoot:
    """One root that is believed."""

    name: str
    sha256: str  # lower-case hex
    independence: str  # INDEPENDENT or SELF_ISSUED
    policies: tuple[str, ...] = ()  # the only ones that count; empty: any
    certificate: Certificate | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustStore:
    """All pinned roots, and certificates that are at hand for tokens that lack them."""

    roots: tuple[PinnedRoot, ...]
    certificates: tuple[bytes, ...] = ()  # DER: signers and intermediates, trusted for nothing

    def plus(self, root: PinnedRoot) -> TrustStore:
        """This store with one more root."""
        return TrustStore(roots=(*self.roots, root), certificates=self.certificates)

    def with_certificates(self, *found: bytes) -> TrustStore:
        """This store with more certificates at hand; none of them becomes trusted by it."""
        return TrustStore(roots=self.roots, certificates=(*self.certificates, *found))


def load_trust(file: Path) -> TrustStore:
    """Read a trust file. Paths in it are relative to its directory.

    Raises:
        InputError: Missing, unreadable, or not what the schema allows.
    """
    try:
        with file.open("rb") as stream:
            data = stream.read(_MAX_FILE + 1)
    except FileNotFoundError:
        raise InputError(
            file=str(file), found="no such file", allowed="a trust file with the pinned roots"
        ) from None
    except OSError as error:
        raise InputError(
            file=str(file), found=f"unreadable: {error.strerror}", allowed="a YAML file"
        ) from None
    return parse_trust(data, file=file)


def parse_trust(data: bytes, *, file: Path) -> TrustStore:
    """Read the bytes of a trust file; `file` names it, and its paths are relative to its parent.

    Raises:
        InputError: The bytes are not what the schema allows.
    """
    source = parse_yaml(data, PurePosixPath(file))
    document = _mapping(source, (), source.value, ("schema", "roots"))
    if document.get("schema") != _SCHEMA:
        raise source.error(("schema",), found=_kind(document.get("schema")), allowed=_SCHEMA)
    entries = document.get("roots")
    if not isinstance(entries, list):
        raise source.error(("roots",), found=_kind(entries), allowed="a list of roots")
    roots: list[PinnedRoot] = []
    at_hand: list[bytes] = []
    for index, entry in enumerate(entries):
        root, more = _root(source, ("roots", index), entry, file.parent)
        if any(root.name == other.name or root.sha256 == other.sha256 for other in roots):
            raise source.error(
                ("roots", index),
                found=f"{root.name}, pinned twice",
                allowed="each name and each fingerprint once",
            )
        roots.append(root)
        at_hand.extend(more)
    return TrustStore(roots=tuple(roots), certificates=tuple(at_hand))


def pin_entry(*, name: str, sha256: str, file: str, comment: str) -> str:
    """The lines that pin one self-issued root, to be put at the end of `roots:`."""
    return (
        f"  # {comment}\n"
        f"  - name: {name}\n"
        f'    sha256: "{sha256}"\n'
        f"    independence: self-issued\n"
        f"    file: {file}\n"
    )


def _root(
    source: YamlFile, path: _Path, value: Any, directory: Path
) -> tuple[PinnedRoot, tuple[bytes, ...]]:
    entry = _mapping(source, path, value, _FIELDS)
    name = _text(source, (*path, "name"), entry.get("name"))
    sha256 = _text(source, (*path, "sha256"), entry.get("sha256")).replace(":", "").lower()
    if not _FINGERPRINT.match(sha256):
        raise source.error(
            (*path, "sha256"),
            found=repr(entry["sha256"]),
            allowed="64 hex digits, the SHA-256 of the root's DER (colons are fine)",
        )
    kind = _text(source, (*path, "independence"), entry.get("independence"))
    if kind not in _KINDS:
        raise source.error((*path, "independence"), found=repr(kind), allowed=", ".join(_KINDS))
    policies = _texts(source, (*path, "policies"), entry.get("policies", []))
    for index, policy in enumerate(policies):
        if not _OID.match(policy):
            raise source.error(
                (*path, "policies", index),
                found=repr(policy),
                allowed="a dotted object identifier, in quotes",
            )
    root = PinnedRoot(name=name, sha256=sha256, independence=_KINDS[kind], policies=policies)
    if "file" in entry:
        root = replace(
            root, certificate=_pinned(source, (*path, "file"), entry["file"], sha256, directory)
        )
    more = tuple(
        found.der
        for index, text in enumerate(
            _texts(source, (*path, "certificates"), entry.get("certificates", []))
        )
        for found in _certificates(source, (*path, "certificates", index), text, directory)
    )
    return root, more


def _pinned(source: YamlFile, path: _Path, value: Any, sha256: str, directory: Path) -> Certificate:
    found = _certificates(source, path, value, directory)
    for certificate in found:
        if certificate.sha256 == sha256:
            if not certificate.self_issued:
                raise source.error(
                    path,
                    found=f"{certificate.name}, issued by another authority",
                    allowed="a root: a certificate that names itself as its issuer",
                )
            return certificate
    raise source.error(
        path,
        found="certificates with SHA-256 " + ", ".join(other.sha256 for other in found),
        allowed=f"the certificate that is pinned, {sha256}",
    )


def _certificates(
    source: YamlFile, path: _Path, value: Any, directory: Path
) -> tuple[Certificate, ...]:
    name = _text(source, path, value)
    try:
        with (directory / name).open("rb") as stream:
            return certificates.load_many(stream.read(_MAX_FILE))
    except (OSError, ValueError) as error:  # CertificateError is a ValueError
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise source.error(
            path,
            found=f"{name}: {reason}",
            allowed="a readable file of one DER or some PEM certificates",
        ) from None


# -- reading plain values -----------------------------------------------------------------------


def _mapping(
    source: YamlFile, path: _Path, value: Any, allowed: tuple[str, ...]
) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise source.error(path, found=_kind(value), allowed="a mapping")
    for key in value:
        if key not in allowed:
            raise source.error((*path, key), found="an unknown key", allowed=", ".join(allowed))
    return value


def _text(source: YamlFile, path: _Path, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise source.error(path, found=_kind(value), allowed="a text (quote it)")
    return value


def _texts(source: YamlFile, path: _Path, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise source.error(path, found=_kind(value), allowed="a list of texts")
    return tuple(_text(source, (*path, index), item) for index, item in enumerate(value))


def _kind(value: Any) -> str:
    return "nothing" if value is None else f"{type(value).__name__} {value!r}"[:80]
