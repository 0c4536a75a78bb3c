"""The ASN.1 structures of a timestamp, for asn1crypto, and reading them without its leniency.

The fields are those of `asn1crypto.cms` and `asn1crypto.tsp`. Two things differ, on purpose:

* what nobody signed or nobody judges (certificates, revocation lists, unsigned attributes,
  parameters, the authority's own name) is `Raw`: it is kept as bytes and not interpreted, so it can
  be damaged without any harm;
* `[n] EXPLICIT T` is written as `[n] IMPLICIT SEQUENCE { T }`, which is the same encoding, because
  asn1crypto does not look at what follows T.

asn1crypto reads lazily and tolerates more than DER allows. `read`, `exact`, `each`, `integer` and
`oid` refuse what it tolerates: lengths that are indefinite or not minimal, fields that are too
many, integers and object identifiers that are not minimal. Bytes that matter are taken with
`contents` and `ber.elements`, never with `dump`: it takes a length whose last octet is 0x80 (128,
384, ...) for an indefinite one, and writes the value anew.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from asn1crypto import core, tsp

from pytest_sremut.attestation.rfc3161.ber import DerError, elements

__all__ = [
    "UNREADABLE",
    "ContentInfo",
    "EssCertIds",
    "EssCertIdsV2",
    "IssuerAndSerial",
    "Name",
    "Raw",
    "Response",
    "SignedData",
    "TimeStampReq",
    "TstInfo",
    "each",
    "exact",
    "integer",
    "oid",
    "read",
    "reason",
]

UNREADABLE = (ValueError, TypeError)
"""What asn1crypto raises over bytes that do not fit."""

_OID = re.compile(rb"(?:[\x00-\x7f]|[\x81-\xff][\x80-\xff]*[\x00-\x7f])+\Z")
_MAX_OID = 64  # octets


class Raw(core.SequenceOf):
    """Any elements, uninterpreted: `ber.elements` gives them."""

    _child_spec = core.Any


class _RawSet(core.SetOf):
    _child_spec = core.Any


class _Algorithm(core.Sequence):
    _fields = [
        ("algorithm", core.ObjectIdentifier),
        ("parameters", core.Any, {"optional": True}),
    ]


class _MessageImprint(core.Sequence):
    _fields = [("hash_algorithm", _Algorithm), ("hashed_message", core.OctetString)]


class TimeStampReq(core.Sequence):
    """RFC 3161, 2.4.1."""

    _fields = [
        ("version", core.Integer),
        ("message_imprint", _MessageImprint),
        ("req_policy", core.ObjectIdentifier, {"optional": True}),
        ("nonce", core.Integer, {"optional": True}),
        ("cert_req", core.Boolean, {"default": False}),
        ("extensions", Raw, {"implicit": 0, "optional": True}),
    ]


class TstInfo(core.Sequence):
    """RFC 3161, 2.4.2."""

    _fields = [
        ("version", core.Integer),
        ("policy", core.ObjectIdentifier),
        ("message_imprint", _MessageImprint),
        ("serial_number", core.Integer),
        ("gen_time", core.GeneralizedTime),
        ("accuracy", tsp.Accuracy, {"optional": True}),
        ("ordering", core.Boolean, {"default": False}),
        ("nonce", core.Integer, {"optional": True}),
        ("tsa", Raw, {"implicit": 0, "optional": True}),
        ("extensions", tsp.Extensions, {"implicit": 1, "optional": True}),
    ]


class _PkiStatusInfo(core.Sequence):
    _fields = [
        ("status", core.Integer),
        ("status_string", tsp.PKIFreeText, {"optional": True}),
        ("fail_info", core.BitString, {"optional": True}),
    ]


class Response(core.Sequence):
    """RFC 3161, 2.4.2; asn1crypto's own `TimeStampResp` cannot be without a token."""

    _fields = [
        ("status", _PkiStatusInfo),
        ("time_stamp_token", Raw, {"optional": True}),
    ]


class IssuerAndSerial(core.Sequence):
    """RFC 5652, 10.2.4."""

    _fields = [("issuer", Raw), ("serial_number", core.Integer)]


class _Attribute(core.Sequence):
    _fields = [("type", core.ObjectIdentifier), ("values", _RawSet)]


class _Attributes(core.SetOf):
    _child_spec = _Attribute


class _SignerInfo(core.Sequence):
    _fields = [
        ("version", core.Integer),
        ("sid", core.Any),  # a Choice by its tag; `cms` refuses the other kind by name
        ("digest_algorithm", _Algorithm),
        ("signed_attrs", _Attributes, {"implicit": 0}),
        ("signature_algorithm", _Algorithm),
        ("signature", core.OctetString),
        ("unsigned_attrs", _RawSet, {"implicit": 1, "optional": True}),
    ]


class _SignerInfos(core.SetOf):
    _child_spec = _SignerInfo


class _Content(core.Sequence):
    _fields = [("octets", core.OctetString)]


class _EncapsulatedContent(core.Sequence):
    _fields = [
        ("content_type", core.ObjectIdentifier),
        ("content", _Content, {"implicit": 0}),
    ]


class SignedData(core.Sequence):
    """RFC 5652, 5.1."""

    _fields = [
        ("version", core.Integer),
        ("digest_algorithms", _RawSet),
        ("encap_content_info", _EncapsulatedContent),
        ("certificates", _RawSet, {"implicit": 0, "optional": True}),
        ("crls", _RawSet, {"implicit": 1, "optional": True}),
        ("signer_infos", _SignerInfos),
    ]


class _Wrapped(core.Sequence):
    _fields = [("signed_data", SignedData)]


class ContentInfo(core.Sequence):
    """RFC 5652, 3."""

    _fields = [
        ("content_type", core.ObjectIdentifier),
        ("content", _Wrapped, {"implicit": 0}),
    ]


class _IssuerSerial(core.Sequence):
    _fields = [("issuer", Raw), ("serial_number", core.Integer)]


class _EssCertId(core.Sequence):
    _fields = [
        ("cert_hash", core.OctetString),
        ("issuer_serial", _IssuerSerial, {"optional": True}),
    ]


class _EssCertIdV2(core.Sequence):
    _fields = [
        ("hash_algorithm", _Algorithm, {"optional": True}),
        ("cert_hash", core.OctetString),
        ("issuer_serial", _IssuerSerial, {"optional": True}),
    ]


class _EssCertIdList(core.SequenceOf):
    _child_spec = _EssCertId


class _EssCertIdListV2(core.SequenceOf):
    _child_spec = _EssCertIdV2


class EssCertIds(core.Sequence):
    """SigningCertificate (RFC 5035)."""

    _fields = [("certs", _EssCertIdList), ("policies", core.Any, {"optional": True})]


class EssCertIdsV2(core.Sequence):
    """SigningCertificateV2 (RFC 5035)."""

    _fields = [("certs", _EssCertIdListV2), ("policies", core.Any, {"optional": True})]


class _NamePart(core.Sequence):
    _fields = [("type", core.ObjectIdentifier), ("value", core.Any)]


class _RelativeName(core.SetOf):
    _child_spec = _NamePart


class Name(core.SequenceOf):
    """A distinguished name; the types of its strings are left open."""

    _child_spec = _RelativeName


def read(spec: Any, data: bytes) -> Any:
    """The one DER value of that structure that `data` consists of.

    Raises:
        DerError: Another structure, another encoding, or more bytes.
    """
    found = elements(data)
    if not found:
        raise DerError("ends in the middle of a header")
    if len(found) > 1:
        raise DerError(f"{len(data) - len(found[0])} bytes follow its end")
    try:
        value = spec.load(data)
        return exact(value) if isinstance(value, core.Sequence) else value
    except UNREADABLE as error:
        raise DerError(reason(error)) from error


def exact(sequence: Any) -> Any:
    """The sequence itself, which has no more fields than its structure, each of the right type.

    asn1crypto ignores further ones, and looks at the type of a field when it is asked for it.
    """
    elements(sequence.contents)
    if len(sequence) > len(sequence._fields):
        raise DerError(f"{len(sequence) - len(sequence._fields)} unknown parts")
    for position in range(len(sequence)):
        sequence[position]
    return sequence


def each(values: Any) -> list[Any]:
    """The members of a SEQUENCE OF or SET OF; none if it is an optional one that is not there."""
    elements(values.contents)
    return [exact(value) if isinstance(value, core.Sequence) else value for value in values]


def integer(value: Any) -> int:
    """The value of an INTEGER, which must be minimal."""
    contents = value.contents
    if not contents:
        raise DerError("expected an INTEGER")
    if len(contents) > 1 and contents[0] in (0x00, 0xFF) and contents[0] >> 7 == contents[1] >> 7:
        raise DerError("an INTEGER that is not minimal")
    return int(value)


def oid(value: Any) -> str:
    """An OBJECT IDENTIFIER, dotted. It must be minimal."""
    return _dotted(value.contents)


@lru_cache(maxsize=256)  # a token holds fifteen, and they are always the same ones
def _dotted(contents: bytes) -> str:
    if len(contents) > _MAX_OID or not _OID.match(contents):
        raise DerError("an OBJECT IDENTIFIER that is too long or not minimal")
    return str(core.ObjectIdentifier(contents=contents).dotted)


def reason(error: Exception) -> str:
    """What asn1crypto said, on one line, without its trace of structures."""
    return " ".join(str(error).partition("\n    while parsing")[0].split())
