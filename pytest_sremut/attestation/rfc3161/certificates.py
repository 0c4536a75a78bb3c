"""Certificates as facts, and the chain from a signer to a pinned root.

Rules: an issuer is a CA of the right name that may sign certificates, and of two that fit the one
that did sign; the chain ends at a root whose SHA-256 fingerprint is pinned, wherever the root's
bytes came from. Certificates that belong to no chain are ignored: the set inside a token is not
signed, anyone can add to it. A chain found here is a *candidate*: that its signatures hold is
checked by `signature`, that it was valid by `verify`.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding

from pytest_sremut.attestation.rfc3161.structures import UNREADABLE, Name, each, oid, read

__all__ = [
    "Certificate",
    "CertificateError",
    "build_chain",
    "issued",
    "load",
    "load_many",
    "pem",
    "same_name",
]

_MAX_CHAIN = 6
_WEAK = frozenset({"md5", "sha1"})
_UNREADABLE = (
    ValueError,
    TypeError,
    KeyError,
    OverflowError,
    UnsupportedAlgorithm,
    x509.InvalidVersion,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)  # what cryptography raises over damaged certificates, at parsing and at access


class CertificateError(ValueError):
    """Bytes that are no certificate we can read. Never leaves this room."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """What we need to know of one certificate."""

    der: bytes
    sha256: str  # lower-case hex
    parsed: x509.Certificate
    name: str  # the subject as RFC 4514 text
    subject: bytes  # DER Name
    issuer: bytes  # DER Name
    serial: int
    not_before: datetime
    not_after: datetime
    is_ca: bool  # basicConstraints
    path_length: int | None
    key_usage: x509.KeyUsage | None
    extended_key_usage: frozenset[str] | None  # dotted OIDs
    extended_key_usage_critical: bool
    weak_signature: bool  # signed over SHA-1 or MD5

    @property
    def self_issued(self) -> bool:
        """Whether subject and issuer are the same name."""
        return same_name(self.subject, self.issuer)

    def valid_at(self, when: datetime) -> bool:
        """Whether `when` lies within the validity.

        RFC 5280 counts the last second in, OpenSSL does not; a reviewer with openssl has to come
        to the same answer, so it does not count.
        """
        return self.not_before <= when.replace(microsecond=0) < self.not_after


def load(data: bytes) -> Certificate:
    """Read one DER certificate.

    Raises:
        CertificateError: It cannot be read.
    """
    try:
        # A certificate with an odd serial number makes cryptography warn; that is not our news.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _facts(data, x509.load_der_x509_certificate(data))
    except _UNREADABLE as error:
        raise CertificateError(f"no certificate that we can read: {error}") from error


def load_many(data: bytes) -> tuple[Certificate, ...]:
    """Read a file of one DER or any number of PEM certificates.

    Raises:
        CertificateError: It holds none, or one that cannot be read.
    """
    if data[:1] == b"\x30":
        return (load(data),)
    try:
        found = x509.load_pem_x509_certificates(data)
    except ValueError as error:
        raise CertificateError(f"neither a DER nor a PEM certificate: {error}") from error
    return tuple(load(certificate.public_bytes(Encoding.DER)) for certificate in found)


def pem(data: bytes) -> bytes:
    """One DER certificate as PEM. Raises ValueError for what is none."""
    return x509.load_der_x509_certificate(data).public_bytes(Encoding.PEM)


def _facts(data: bytes, certificate: x509.Certificate) -> Certificate:
    is_ca, path_length = False, None
    key_usage = eku = None
    eku_critical = False
    for extension in certificate.extensions:
        match extension.value:
            case x509.BasicConstraints() as constraints:
                is_ca, path_length = constraints.ca, constraints.path_length
            case x509.KeyUsage() as usage:
                key_usage = usage
            case x509.ExtendedKeyUsage() as purposes:
                eku = frozenset(purpose.dotted_string for purpose in purposes)
                eku_critical = extension.critical
    try:
        signed_over = certificate.signature_hash_algorithm
    except UnsupportedAlgorithm:
        signed_over = None  # a kind that no signature check of ours can do either
    return Certificate(
        der=data,
        sha256=hashlib.sha256(data).hexdigest(),
        parsed=certificate,
        name=certificate.subject.rfc4514_string(),
        subject=certificate.subject.public_bytes(),
        issuer=certificate.issuer.public_bytes(),
        serial=certificate.serial_number,
        not_before=certificate.not_valid_before_utc,
        not_after=certificate.not_valid_after_utc,
        is_ca=is_ca,
        path_length=path_length,
        key_usage=key_usage,
        extended_key_usage=eku,
        extended_key_usage_critical=eku_critical,
        weak_signature=signed_over is not None and signed_over.name in _WEAK,
    )


def build_chain(
    signer: Certificate,
    others: Iterable[bytes],
    roots: Mapping[str, Certificate | None],
    when: datetime,
) -> tuple[tuple[Certificate, ...] | None, str]:
    """The chain from `signer` up to a pinned root.

    Args:
        signer: The certificate that made the signature.
        others: Any further certificates, DER, in any order; unrelated and unreadable ones too.
        roots: Pinned fingerprint -> root, None where only the fingerprint is known.
        when: The token's time. Of two certificates with one name (a root that was renewed) the
            one that was valid then is tried first; that any was is for the caller to check.

    Returns:
        Signer first, root last; or None and where the search ended.
    """
    if signer.sha256 in roots:
        return (signer,), ""
    at_hand = [root for root in roots.values() if root is not None]
    known = {signer.sha256, *(root.sha256 for root in at_hand)}
    for data in others:
        fingerprint = hashlib.sha256(data).hexdigest()
        if fingerprint not in known:
            known.add(fingerprint)
            with suppress(CertificateError):  # it cannot be part of a chain
                at_hand.append(load(data))
    at_hand.sort(key=lambda certificate: not certificate.valid_at(when))
    dead_ends: list[Certificate] = []
    found = _climb((signer,), at_hand, roots, dead_ends)
    if found is not None:
        return found, ""
    last = dead_ends[-1] if dead_ends else signer
    return None, (
        f"ends at {last.name} (SHA-256 {last.sha256}), which is not pinned"
        if last.self_issued
        else f"ends at {last.name}: no certificate in the token or among the pins signed it as "
        f"{last.parsed.issuer.rfc4514_string()}"
    )


def _climb(
    chain: tuple[Certificate, ...],
    at_hand: list[Certificate],
    roots: Mapping[str, Certificate | None],
    dead_ends: list[Certificate],
) -> tuple[Certificate, ...] | None:
    """Depth first, because two certificates may share a name."""
    last = chain[-1]
    if len(chain) < _MAX_CHAIN:
        used = {step.sha256 for step in chain}
        issuers = [
            one
            for one in at_hand
            if one.sha256 not in used and _may_issue(one, last, below=len(chain) - 1)
        ]
        for issuer in issuers:
            # With one candidate there is nothing to choose: whether it did sign is then told by
            # the signature check, which goes over the whole chain (`signature`).
            if len(issuers) > 1 and not issued(last, issuer):
                continue
            longer = (*chain, issuer)
            if issuer.sha256 in roots:
                return longer
            found = _climb(longer, at_hand, roots, dead_ends)
            if found is not None:
                return found
    if not dead_ends or len(chain) > 1:
        dead_ends.append(last)
    return None


def _may_issue(issuer: Certificate, child: Certificate, *, below: int) -> bool:
    """Whether `issuer` is a CA of the right name, with `below` more between it and the signer."""
    if not issuer.is_ca or not same_name(child.issuer, issuer.subject):
        return False
    if issuer.key_usage is not None and not issuer.key_usage.key_cert_sign:
        return False
    return issuer.path_length is None or issuer.path_length >= below


def issued(child: Certificate, issuer: Certificate) -> bool:
    """Whether the key of `issuer` signed `child`."""
    try:
        child.parsed.verify_directly_issued_by(issuer.parsed)
    except (InvalidSignature, ValueError, TypeError, UnsupportedAlgorithm):
        return False
    return True


def same_name(left: bytes, right: bytes) -> bool:
    """Whether two DER names are one: string types, case and runs of spaces do not matter."""
    if left == right:
        return True
    try:
        return _canonical(left) == _canonical(right)
    except UNREADABLE:
        return False


def _canonical(name: bytes) -> list[frozenset[tuple[str, str]]]:
    return [
        frozenset(_attribute(attribute) for attribute in each(relative))
        for relative in each(read(Name, name))
    ]


def _attribute(attribute: Any) -> tuple[str, str]:
    text = attribute["value"].contents.decode("utf-8", "backslashreplace")
    return oid(attribute["type"]), " ".join(text.split()).casefold()
