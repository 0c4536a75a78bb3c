"""A time-stamp token taken apart: CMS SignedData around a TSTInfo (RFC 5652, RFC 3161, RFC 5816).

Nothing is judged here. Rules: exactly one signer; the attributes that identify signer, content and
digest each stand once with one value; the stamped structure fills its octet string to the last
byte; no field is guessed. What cannot be read so is "not a timestamp", what is well formed but of
a kind that we do not verify is "unsupported".
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pytest_sremut.attestation.errors import NotATimestampError, UnsupportedTokenError
from pytest_sremut.attestation.rfc3161 import der

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

_EXPLICIT_0 = 0xA0
_IMPLICIT_1 = 0xA1
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
    encoding: str  # "DER" or "BER"
    parts: tuple[bytes, bytes, bytes]  # DER: content type; what stands before certificates; after

    def carrying(self, certificates: Iterable[bytes]) -> bytes:
        """The same token, DER, with these certificates in place of its unsigned ones."""
        kind, before, after = self.parts
        held = der.encode(_EXPLICIT_0, b"".join(certificates))
        signed_data = der.encode(der.SEQUENCE, before + held + after)
        return der.encode(der.SEQUENCE, kind + der.encode(_EXPLICIT_0, signed_data))


def parse_token(data: bytes) -> Token:
    """Take a bare token apart.

    Raises:
        NotATimestampError: Not signed data around a TSTInfo.
        UnsupportedTokenError: Well formed, but of a kind that we do not verify.
    """
    try:
        try:
            return _token(data, "DER")
        except der.DerError:
            recoded = der.to_der(data)
            if recoded == data:
                raise
            return _token(recoded, "BER")
    except der.DerError as error:
        raise NotATimestampError(f"not a timestamp: its signed data cannot be read: {error}") from (
            error
        )


def _token(data: bytes, encoding: str) -> Token:
    outer = der.children(der.only(data, der.SEQUENCE))
    if len(outer) != 2:
        raise der.DerError("no CMS content")
    wrapped = der.children(outer[1])
    if len(wrapped) != 1 or wrapped[0].tag != der.SEQUENCE:
        raise der.DerError("no signed data")
    parts = der.children(wrapped[0])
    if len(parts) < 4:
        raise der.DerError("signed data without signer, content or digest")
    version, digests, content_info = parts[:3]
    der.integer(version)
    rest = parts[3:]
    certificates: tuple[bytes, ...] = ()
    if rest[0].tag == _EXPLICIT_0:
        certificates = tuple(
            choice.raw for choice in der.children(rest.pop(0)) if choice.tag == der.SEQUENCE
        )
    if rest and rest[0].tag == _IMPLICIT_1:
        rest.pop(0)  # revocation lists: unsigned, and nothing here asks for revocation
    if digests.tag != der.SET or len(rest) != 1 or rest[0].tag != der.SET:
        raise der.DerError("signed data with unknown parts")
    content = _content(content_info)
    signers = der.children(rest[0])
    if len(signers) != 1:
        raise der.DerError(f"{len(signers)} signers, a token has exactly one")
    return Token(
        info=_stamp_info(content),
        content=content,
        signer=_signer(signers[0]),
        certificates=certificates,
        encoding=encoding,
        parts=(
            outer[0].raw,
            version.raw + digests.raw + content_info.raw,
            rest[0].raw,
        ),
    )


def _content(element: der.Element) -> bytes:
    parts = der.children(element)
    if len(parts) != 2 or der.oid(parts[0]) != _TST_INFO or parts[1].tag != _EXPLICIT_0:
        raise der.DerError("its content is no TSTInfo")
    return der.only(parts[1].contents, der.OCTET_STRING).contents


# -- TSTInfo ------------------------------------------------------------------------------------


def _stamp_info(content: bytes) -> StampInfo:
    try:
        return _der_stamp_info(content)
    except der.DerError:
        recoded = der.to_der(content)
        if recoded == content:
            raise
        return _der_stamp_info(recoded)


def _der_stamp_info(content: bytes) -> StampInfo:
    parts = der.children(der.only(content, der.SEQUENCE))
    if len(parts) < 5 or der.integer(parts[0]) != 1:
        raise der.DerError("no TSTInfo of version 1")
    imprint = der.children(parts[2])
    if len(imprint) != 2 or imprint[1].tag != der.OCTET_STRING:
        raise der.DerError("no message imprint")
    serial, gen_time = der.integer(parts[3]), _time(parts[4])
    rest = parts[5:]
    accuracy = ordering = nonce = None
    if rest and rest[0].tag == der.SEQUENCE:
        accuracy = _accuracy(rest.pop(0))
    if rest and rest[0].tag == der.BOOLEAN:
        ordering = rest.pop(0).contents
    if rest and rest[0].tag == der.INTEGER:
        nonce = der.integer(rest.pop(0))
    if rest and rest[0].tag == _EXPLICIT_0:
        der.children(rest.pop(0))  # the authority's name, a claim; the certificate is what counts
    if rest and rest[0].tag == _IMPLICIT_1:
        _refuse_critical(rest.pop(0))
    if rest:
        raise der.DerError("a TSTInfo with unknown parts")
    return StampInfo(
        policy=der.oid(parts[1]),
        hash_algorithm=_digest(imprint[0]),
        imprint=imprint[1].contents,
        serial=serial,
        gen_time=gen_time,
        accuracy=accuracy,
        ordering=ordering not in (None, b"\x00"),
        nonce=nonce,
    )


def _time(element: der.Element) -> datetime:
    """A GeneralizedTime in UTC with seconds. Fractions below a microsecond are cut off."""
    text = element.contents.decode("ascii", "replace")
    match = _GENERALIZED_TIME.match(text)
    if element.tag != der.GENERALIZED_TIME or match is None:
        raise der.DerError(f"its time is no UTC time with seconds: {text[:40]!r}")
    *fields, fraction = match.groups()
    year, month, day, hour, minute, second = map(int, fields)
    micros = int((fraction or "0")[:6].ljust(6, "0"))
    try:
        return datetime(year, month, day, hour, minute, second, micros, tzinfo=UTC)
    except ValueError as error:
        raise der.DerError(f"its time does not exist: {text!r}") from error


def _accuracy(element: der.Element) -> timedelta:
    seconds = millis = micros = 0
    for part in der.children(element):
        value = der.integer(part._replace(tag=der.INTEGER))
        if not 0 <= value < 1 << 31:
            raise der.DerError("an accuracy out of range")
        match part.tag:
            case der.INTEGER:
                seconds = value
            case 0x80:
                millis = value
            case 0x81:
                micros = value
            case _:
                raise der.DerError("an accuracy with unknown parts")
    return timedelta(seconds=seconds, milliseconds=millis, microseconds=micros)


def _refuse_critical(element: der.Element) -> None:
    for extension in der.children(element):
        parts = der.children(extension)
        if len(parts) == 3 and parts[1].contents != b"\x00":
            raise UnsupportedTokenError(
                f"the token has a critical extension {der.oid(parts[0])} that we do not know"
            )


# -- SignerInfo ---------------------------------------------------------------------------------


def _signer(element: der.Element) -> SignerInfo:
    parts = der.children(element)
    if len(parts) < 6 or parts[3].tag != _EXPLICIT_0 or parts[5].tag != der.OCTET_STRING:
        raise der.DerError("a signer without signed attributes or signature")
    if len(parts) > 7 or (len(parts) == 7 and parts[6].tag != _IMPLICIT_1):
        raise der.DerError("a signer with unknown parts")
    der.integer(parts[0])
    if parts[1].tag != der.SEQUENCE:
        raise UnsupportedTokenError(
            "the token names its signer by key identifier, not by issuer and serial number"
        )
    sid = der.children(parts[1])
    if len(sid) != 2:
        raise der.DerError("a signer without issuer and serial number")
    attributes = _attributes(parts[3])
    content_type = der.oid(der.only(_one(attributes, _CONTENT_TYPE, "content type"), der.OID))
    if content_type != _TST_INFO:
        raise der.DerError("its signed content type is no TSTInfo")
    return SignerInfo(
        issuer=sid[0].raw,
        serial=der.integer(sid[1]),
        digest_algorithm=_digest(parts[2]),
        signature_algorithm=_algorithm(parts[4]),
        signature=parts[5].contents,
        message_digest=der.only(
            _one(attributes, _MESSAGE_DIGEST, "message digest"), der.OCTET_STRING
        ).contents,
        signed_attributes=der.encode(der.SET, parts[3].contents),
        identifiers=_identifiers(attributes),
    )


def _attributes(element: der.Element) -> dict[str, list[bytes]]:
    found: dict[str, list[bytes]] = {}
    for attribute in der.children(element):
        parts = der.children(attribute)
        if len(parts) != 2 or parts[1].tag != der.SET:
            raise der.DerError("a signed attribute that is none")
        kind = der.oid(parts[0])
        if kind in found:
            raise der.DerError(f"the signed attribute {kind} stands twice")
        found[kind] = [value.raw for value in der.children(parts[1])]
    return found


def _one(attributes: dict[str, list[bytes]], kind: str, name: str) -> bytes:
    values = attributes.get(kind, [])
    if len(values) != 1:
        raise der.DerError(f"{len(values)} values of the signed {name}, exactly one is needed")
    return values[0]


def _identifiers(attributes: dict[str, list[bytes]]) -> tuple[tuple[EssCertId, ...], ...]:
    found = []
    for version, kind in ((1, _SIGNING_CERTIFICATE), (2, _SIGNING_CERTIFICATE_V2)):
        if kind in attributes:
            value = der.only(_one(attributes, kind, "signing certificate"), der.SEQUENCE)
            lists = der.children(value)
            if not lists or len(lists) > 2 or not der.children(lists[0]):
                raise der.DerError("a signing certificate attribute that is empty")
            found.append(tuple(_ess_cert_id(part, version) for part in der.children(lists[0])))
    if not found:
        raise der.DerError("no signed identifier of the signer's certificate (ESSCertID)")
    return tuple(found)


def _ess_cert_id(element: der.Element, version: int) -> EssCertId:
    parts = der.children(element)
    algorithm = "sha1" if version == 1 else "sha256"
    if version == 2 and parts and parts[0].tag == der.SEQUENCE:
        algorithm = _digest(parts.pop(0))
    if not parts or parts[0].tag != der.OCTET_STRING or len(parts) > 2:
        raise der.DerError("a certificate identifier that is none")
    issuer = serial = None
    if len(parts) == 2:
        issuer_serial = der.children(parts[1])
        if len(issuer_serial) != 2:
            raise der.DerError("a certificate identifier with half an issuer and serial number")
        serial = der.integer(issuer_serial[1])
        names = der.children(issuer_serial[0])
        if len(names) == 1 and names[0].tag == 0xA4:  # [4] directoryName
            issuer = names[0].contents
    return EssCertId(
        version=version,
        hash_algorithm=algorithm,
        cert_hash=parts[0].contents,
        issuer=issuer,
        serial=serial,
    )


def _algorithm(element: der.Element) -> str:
    """AlgorithmIdentifier: its OID; parameters are left to the signature check."""
    parts = der.children(element)
    if element.tag != der.SEQUENCE or not 1 <= len(parts) <= 2:
        raise der.DerError("no algorithm identifier")
    return der.oid(parts[0])


def _digest(element: der.Element) -> str:
    algorithm = _algorithm(element)
    return DIGESTS.get(algorithm, algorithm)
