"""A time-stamp token taken apart: CMS SignedData around a TSTInfo (RFC 5652, RFC 3161, RFC 5816).

Nothing is judged here. Rules: exactly one signer; the attributes that identify signer, content and
digest each stand once with one value; the stamped structure fills its octet string to the last
byte; no field is guessed. What cannot be read so is "not a timestamp", what is well formed but of
a kind that we do not verify is "unsupported".
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from asn1crypto import core

from pytest_sremut.attestation.errors import NotATimestampError, UnsupportedTokenError
from pytest_sremut.attestation.rfc3161.ber import DerError, der_or_ber, elements, emit
from pytest_sremut.attestation.rfc3161.structures import (
    UNREADABLE,
    ContentInfo,
    EssCertIds,
    EssCertIdsV2,
    IssuerAndSerial,
    TstInfo,
    each,
    exact,
    integer,
    oid,
    read,
    reason,
)

__all__ = ["DIGESTS", "EssCertId", "SignerInfo", "StampInfo", "Token", "parse_token"]

DIGESTS = {
    "2.16.840.1.101.3.4.2.1": "sha256",
    "2.16.840.1.101.3.4.2.2": "sha384",
    "2.16.840.1.101.3.4.2.3": "sha512",
    "1.3.14.3.2.26": "sha1",
    "1.2.840.113549.2.5": "md5",
}
"""Digest algorithms that are known by name; which of them are allowed is decided in `verify`."""

_TST_INFO = "1.2.840.113549.1.9.16.1.4"
_CONTENT_TYPE = "1.2.840.113549.1.9.3"
_MESSAGE_DIGEST = "1.2.840.113549.1.9.4"
_SIGNING_CERTIFICATE = "1.2.840.113549.1.9.16.2.12"
_SIGNING_CERTIFICATE_V2 = "1.2.840.113549.1.9.16.2.47"

_SET = 0x31
_SEQUENCE = 0x30
_CONTEXT_0 = 0xA0  # constructed, [0]
_DIRECTORY_NAME = 0xA4
_GENERALIZED_TIME = re.compile(
    r"(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(?:\.(\d{1,18}))?Z\Z", re.ASCII
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StampInfo:
    """The statement that the authority signed (TSTInfo). Its times are UTC."""

    policy: str  # dotted OID
    hash_algorithm: str  # "sha256", or a dotted OID where unknown
    imprint: bytes
    serial: int
    gen_time: datetime
    accuracy: timedelta | None
    ordering: bool
    nonce: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EssCertId:
    """The signed identifier of a certificate (ESSCertID, ESSCertIDv2)."""

    version: int  # 1: SHA-1 by definition; 2: with its own algorithm
    hash_algorithm: str
    cert_hash: bytes
    issuer: bytes | None  # DER Name
    serial: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SignerInfo:
    """The one signer of a token."""

    issuer: bytes  # DER Name
    serial: int
    digest_algorithm: str
    signature_algorithm: str  # dotted OID
    signature: bytes
    message_digest: bytes
    signed_attributes: bytes  # what the signature is over: DER SET OF Attribute
    identifiers: tuple[tuple[EssCertId, ...], ...]  # one list per ESS attribute, v1 before v2


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token."""

    info: StampInfo
    content: bytes  # TSTInfo exactly as it was signed
    signer: SignerInfo
    certificates: tuple[bytes, ...]  # DER, unsigned, in the token's order
    encoding: Literal["DER", "BER"]  # of what was given
    parts: tuple[bytes, bytes, bytes]  # DER: content type; what stands before certificates; after

    def carrying(self, certificates: Iterable[bytes]) -> bytes:
        """The same token, DER, with these certificates in place of its unsigned ones."""
        kind, before, after = self.parts
        held = emit(_CONTEXT_0, b"".join(certificates))
        signed_data = emit(_SEQUENCE, before + held + after)
        return emit(_SEQUENCE, kind + emit(_CONTEXT_0, signed_data))


def parse_token(data: bytes) -> Token:
    """Take a bare token apart.

    Raises:
        NotATimestampError: Not signed data around a TSTInfo.
        UnsupportedTokenError: Well formed, but of a kind that we do not verify.
    """
    try:
        token, encoding = der_or_ber(_token, data)
        return replace(token, encoding=encoding)
    except UNREADABLE as error:  # DerError among them
        raise NotATimestampError(
            f"not a timestamp: its signed data cannot be read: {reason(error)}"
        ) from error


def _token(data: bytes) -> Token:
    outer = read(ContentInfo, data)
    signed = exact(exact(outer["content"])["signed_data"])
    integer(signed["version"])
    content_info = exact(signed["encap_content_info"])
    if oid(content_info["content_type"]) != _TST_INFO:
        raise DerError("its content is no TSTInfo")
    content = exact(content_info["content"])["octets"].contents
    signers = each(signed["signer_infos"])
    if len(signers) != 1:
        raise DerError(f"{len(signers)} signers, a token has exactly one")
    return Token(
        info=der_or_ber(_stamp_info, content)[0],
        content=content,
        signer=_signer(signers[0]),
        certificates=_certificates(signed["certificates"]),
        encoding="DER",
        parts=(
            elements(outer.contents)[0],
            b"".join(elements(signed.contents)[:3]),
            emit(_SET, signed["signer_infos"].contents),
        ),
    )


def _certificates(unsigned: Any) -> tuple[bytes, ...]:
    """The plain certificates; other kinds (attribute certificates, say) make no chain."""
    return tuple(one for one in elements(unsigned.contents) if one[0] == _SEQUENCE)


# -- TSTInfo ------------------------------------------------------------------------------------


def _stamp_info(content: bytes) -> StampInfo:
    info = read(TstInfo, content)
    if integer(info["version"]) != 1:
        raise DerError("no TSTInfo of version 1")
    imprint = exact(info["message_imprint"])
    _refuse_critical(info["extensions"])
    elements(
        info["tsa"].contents
    )  # a claim, and the certificate is what counts; but it must be ASN.1
    return StampInfo(
        policy=oid(info["policy"]),
        hash_algorithm=_digest(imprint["hash_algorithm"]),
        imprint=imprint["hashed_message"].contents,
        serial=integer(info["serial_number"]),
        gen_time=_time(info["gen_time"].contents),
        accuracy=_accuracy(info["accuracy"]),
        ordering=bool(info["ordering"].native),
        nonce=integer(info["nonce"]) if _there(info["nonce"]) else None,
    )


def _there(value: Any) -> bool:
    """Whether an optional field is there."""
    return not isinstance(value, core.Void)


def _time(contents: bytes) -> datetime:
    """A GeneralizedTime in UTC with seconds. Fractions below a microsecond are cut off."""
    text = contents.decode("ascii", "replace")
    match = _GENERALIZED_TIME.match(text)
    if match is None:
        raise DerError(f"its time is no UTC time with seconds: {text[:40]!r}")
    *fields, fraction = match.groups()
    year, month, day, hour, minute, second = map(int, fields)
    micros = int((fraction or "0")[:6].ljust(6, "0"))
    try:
        return datetime(year, month, day, hour, minute, second, micros, tzinfo=UTC)
    except ValueError as error:
        raise DerError(f"its time does not exist: {text!r}") from error


def _accuracy(accuracy: Any) -> timedelta | None:
    if not _there(accuracy):
        return None
    exact(accuracy)
    parts = {
        name: integer(accuracy[name]) if _there(accuracy[name]) else 0
        for name in ("seconds", "millis", "micros")
    }
    if not all(0 <= value < 1 << 31 for value in parts.values()):
        raise DerError("an accuracy out of range")
    return timedelta(
        seconds=parts["seconds"], milliseconds=parts["millis"], microseconds=parts["micros"]
    )


def _refuse_critical(extensions: Any) -> None:
    for extension in each(extensions):
        if extension["critical"].native:
            raise UnsupportedTokenError(
                f"the token has a critical extension {oid(extension['extn_id'])} that we do not "
                "know"
            )


# -- SignerInfo ---------------------------------------------------------------------------------


def _signer(signer: Any) -> SignerInfo:
    integer(signer["version"])
    named = elements(signer.contents)[1]
    if named[0] != _SEQUENCE:
        raise UnsupportedTokenError(
            "the token names its signer by key identifier, not by issuer and serial number"
        )
    sid = read(IssuerAndSerial, named)
    attributes = _attributes(signer["signed_attrs"])
    content_type = read(core.ObjectIdentifier, _one(attributes, _CONTENT_TYPE, "content type"))
    if oid(content_type) != _TST_INFO:
        raise DerError("its signed content type is no TSTInfo")
    digest = read(core.OctetString, _one(attributes, _MESSAGE_DIGEST, "message digest"))
    return SignerInfo(
        issuer=elements(sid.contents)[0],
        serial=integer(sid["serial_number"]),
        digest_algorithm=_digest(signer["digest_algorithm"]),
        signature_algorithm=_algorithm(signer["signature_algorithm"]),
        signature=signer["signature"].contents,
        message_digest=digest.contents,
        signed_attributes=emit(_SET, signer["signed_attrs"].contents),
        identifiers=_identifiers(attributes),
    )


def _attributes(attributes: Any) -> dict[str, list[bytes]]:
    found: dict[str, list[bytes]] = {}
    for attribute in each(attributes):
        kind = oid(attribute["type"])
        if kind in found:
            raise DerError(f"the signed attribute {kind} stands twice")
        found[kind] = elements(attribute["values"].contents)
    return found


def _one(attributes: dict[str, list[bytes]], kind: str, name: str) -> bytes:
    values = attributes.get(kind, [])
    if len(values) != 1:
        raise DerError(f"{len(values)} values of the signed {name}, exactly one is needed")
    return values[0]


def _identifiers(attributes: dict[str, list[bytes]]) -> tuple[tuple[EssCertId, ...], ...]:
    found = []
    for version, kind, structure in (
        (1, _SIGNING_CERTIFICATE, EssCertIds),
        (2, _SIGNING_CERTIFICATE_V2, EssCertIdsV2),
    ):
        if kind in attributes:
            certs = each(read(structure, _one(attributes, kind, "signing certificate"))["certs"])
            if not certs:
                raise DerError("a signing certificate attribute that is empty")
            found.append(tuple(_ess_cert_id(part, version) for part in certs))
    if not found:
        raise DerError("no signed identifier of the signer's certificate (ESSCertID)")
    return tuple(found)


def _ess_cert_id(part: Any, version: int) -> EssCertId:
    algorithm = "sha1" if version == 1 else "sha256"
    if version == 2 and _there(part["hash_algorithm"]):
        algorithm = _digest(part["hash_algorithm"])
    issuer = serial = None
    if _there(part["issuer_serial"]):
        issuer_serial = exact(part["issuer_serial"])
        serial = integer(issuer_serial["serial_number"])
        names = each(issuer_serial["issuer"])
        if len(names) == 1 and issuer_serial["issuer"].contents[0] == _DIRECTORY_NAME:
            issuer = names[0].contents
    return EssCertId(
        version=version,
        hash_algorithm=algorithm,
        cert_hash=part["cert_hash"].contents,
        issuer=issuer,
        serial=serial,
    )


def _algorithm(algorithm: Any) -> str:
    """AlgorithmIdentifier: its OID; parameters are left to the signature check."""
    return oid(exact(algorithm)["algorithm"])


def _digest(algorithm: Any) -> str:
    found = _algorithm(algorithm)
    return DIGESTS.get(found, found)
