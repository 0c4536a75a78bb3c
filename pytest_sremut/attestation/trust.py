"""The pinned roots: whom we believe, said by people in `attestation/trust.yaml`.

Rules: a root is pinned by the SHA-256 fingerprint of its certificate; a file that holds another
certificate than the pin names is an error, not another root; whether an authority is independent
is declared with the pin, and a self-issued one is never called independent. The file of a root is
optional: a certificate whose fingerprint is pinned may come from anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from pytest_sremut.attestation import certificates
from pytest_sremut.attestation.certificates import Certificate
from pytest_sremut.errors import InputError

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
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(
            file=str(file), found="no such file", allowed="a trust file with the pinned roots"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            file=str(file), found=f"unreadable: {error}", allowed="a YAML file"
        ) from error
    return parse_trust(text, file=str(file), directory=file.parent)


def parse_trust(text: str, *, file: str, directory: Path) -> TrustStore:
    """Read the text of a trust file; `directory` is what its paths are relative to.

    Raises:
        InputError: The text is not what the schema allows.
    """
    try:
        document = yaml.load(text, Loader=_Loader)  # noqa: S506 - a SafeLoader of our own
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise InputError(
            file=file,
            place=f"line {mark.line + 1}" if mark else "",
            found=str(getattr(error, "problem", None) or "no YAML"),
            allowed="YAML without repeated keys",
        ) from error
    except (ValueError, RecursionError) as error:  # a date that does not exist, absurd nesting
        raise InputError(file=file, found=f"no YAML: {error}", allowed="YAML") from error
    if not isinstance(document, dict) or document.get("schema") != _SCHEMA:
        raise InputError(file=file, place="schema", found="another document", allowed=_SCHEMA)
    _only_fields(document, ("schema", "roots"), file, "")
    entries = document.get("roots")
    if not isinstance(entries, list):
        raise InputError(file=file, place="roots", found=_kind(entries), allowed="a list of roots")
    roots: list[PinnedRoot] = []
    at_hand: list[bytes] = []
    for index, entry in enumerate(entries):
        place = f"roots[{index}]"
        root, more = _root(entry, file, place, directory)
        for other in roots:
            if root.name == other.name or root.sha256 == other.sha256:
                raise InputError(
                    file=file,
                    place=place,
                    found=f"{root.name}, pinned twice",
                    allowed="each name and fingerprint once",
                )
        roots.append(root)
        at_hand.extend(more)
    return TrustStore(roots=tuple(roots), certificates=tuple(at_hand))


def pin_entry(*, name: str, sha256: str, file: str, comment: str) -> str:
    """The lines that pin one self-issued root, to be put at the end of `roots:`."""
    return (
        f"  # {comment}\n"
        f"  - name: {name}\n"
        f"    sha256: {sha256}\n"
        f"    independence: self-issued\n"
        f"    file: {file}\n"
    )


def _root(
    entry: Any, file: str, place: str, directory: Path
) -> tuple[PinnedRoot, tuple[bytes, ...]]:
    if not isinstance(entry, dict):
        raise InputError(file=file, place=place, found=_kind(entry), allowed="a mapping")
    _only_fields(entry, _FIELDS, file, place)
    name = _text(entry, "name", file, place)
    sha256 = _text(entry, "sha256", file, place).replace(":", "").lower()
    if not _FINGERPRINT.match(sha256):
        raise InputError(
            file=file,
            place=f"{place}.sha256",
            found=repr(entry["sha256"]),
            allowed="64 hex digits, the SHA-256 of the root's DER (colons are fine)",
        )
    kind = _text(entry, "independence", file, place)
    if kind not in _KINDS:
        raise InputError(
            file=file,
            place=f"{place}.independence",
            found=repr(kind),
            allowed=", ".join(_KINDS),
        )
    policies = _texts(entry, "policies", file, place)
    for index, policy in enumerate(policies):
        if not _OID.match(policy):
            raise InputError(
                file=file,
                place=f"{place}.policies[{index}]",
                found=repr(policy),
                allowed="a dotted object identifier, in quotes",
            )
    certificate = None
    if "file" in entry:
        certificate = _pinned_certificate(
            _text(entry, "file", file, place), sha256, file, f"{place}.file", directory
        )
    more = tuple(
        found.der
        for index, path in enumerate(_texts(entry, "certificates", file, place))
        for found in _certificates(path, file, f"{place}.certificates[{index}]", directory)
    )
    return (
        PinnedRoot(
            name=name,
            sha256=sha256,
            independence=_KINDS[kind],
            policies=policies,
            certificate=certificate,
        ),
        more,
    )


def _pinned_certificate(
    path: str, sha256: str, file: str, place: str, directory: Path
) -> Certificate:
    found = _certificates(path, file, place, directory)
    for certificate in found:
        if certificate.sha256 == sha256:
            if not certificate.self_issued:
                raise InputError(
                    file=file,
                    place=place,
                    found=f"{certificate.name}, issued by another authority",
                    allowed="a root: a certificate that names itself as its issuer",
                )
            return certificate
    raise InputError(
        file=file,
        place=place,
        found="certificates with SHA-256 " + ", ".join(other.sha256 for other in found),
        allowed=f"the certificate that is pinned, {sha256}",
    )


def _certificates(path: str, file: str, place: str, directory: Path) -> tuple[Certificate, ...]:
    target = directory / path
    try:
        with target.open("rb") as stream:
            return certificates.load_many(stream.read(_MAX_FILE))
    except (OSError, ValueError) as error:  # CertificateError is a ValueError
        raise InputError(
            file=file,
            place=place,
            found=f"{path}: {error}",
            allowed="a readable file of one DER or some PEM certificates",
        ) from error


# -- reading plain values -----------------------------------------------------------------------


def _only_fields(
    mapping: Mapping[Any, Any], allowed: tuple[str, ...], file: str, place: str
) -> None:
    for key in mapping:
        if key not in allowed:
            raise InputError(
                file=file,
                place=f"{place}.{key}" if place else str(key),
                found="an unknown key",
                allowed=", ".join(allowed),
            )


def _text(entry: Mapping[Any, Any], key: str, file: str, place: str) -> str:
    value = entry.get(key)
    if not isinstance(value, str) or not value:
        raise InputError(
            file=file, place=f"{place}.{key}", found=_kind(value), allowed="a text (quote it)"
        )
    return value


def _texts(entry: Mapping[Any, Any], key: str, file: str, place: str) -> tuple[str, ...]:
    value = entry.get(key, [])
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        raise InputError(
            file=file, place=f"{place}.{key}", found=_kind(value), allowed="a list of texts"
        )
    return tuple(value)


def _kind(value: Any) -> str:
    return "nothing" if value is None else f"{type(value).__name__} {value!r}"[:80]


class _Loader(yaml.SafeLoader):
    """A safe loader that refuses a key that stands twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key {key.value!r} twice", key.start_mark
                    )
                seen.add(key.value)
        return super().construct_mapping(node, deep)
