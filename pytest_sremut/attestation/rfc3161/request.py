"""The query that is sent to an authority, and the reading of one that was kept.

Rules: a fresh random nonce of 64 bits in each query; the authority's certificate is asked for, so
that the reply can be verified long after; SHA-256, 384 or 512 only.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from typing import cast

from pytest_sremut.attestation.errors import NotATimestampError
from pytest_sremut.attestation.rfc3161 import der
from pytest_sremut.attestation.rfc3161.cms import DIGESTS
from pytest_sremut.errors import UsageError

__all__ = ["HASH_ALGORITHMS", "Query", "build_query", "parse_query"]

HASH_ALGORITHMS = ("sha256", "sha384", "sha512")
_NONCE_BITS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What a query asks for."""

    hash_algorithm: str  # "sha256", or a dotted OID where unknown
    imprint: bytes
    policy: str | None
    nonce: int | None
    certificates: bool  # certReq
    extensions: bool  # whether any were asked for


def build_query(data: bytes, *, hash_algorithm: str = "sha256", policy: str | None = None) -> bytes:
    """A query for a timestamp over `data`, DER.

    Raises:
        UsageError: The hash algorithm or the policy is not one that may be asked for.
    """
    from asn1crypto import tsp

    if hash_algorithm not in HASH_ALGORITHMS:
        raise UsageError(
            f"hash algorithm {hash_algorithm!r}; allowed: {', '.join(HASH_ALGORITHMS)}"
        )
    fields = {
        "version": "v1",
        "message_imprint": {
            "hash_algorithm": {"algorithm": hash_algorithm},
            "hashed_message": hashlib.new(hash_algorithm, data).digest(),
        },
        "nonce": secrets.randbits(_NONCE_BITS),
        "cert_req": True,
    }
    if policy is not None:
        fields["req_policy"] = policy
    try:
        return cast(bytes, tsp.TimeStampReq(fields).dump())
    except ValueError as error:
        raise UsageError(f"policy {policy!r} is no dotted object identifier") from error


def parse_query(data: bytes) -> Query:
    """Read a query.

    Raises:
        NotATimestampError: The bytes are no RFC 3161 query.
    """
    try:
        return _parse(data)
    except der.DerError as error:
        raise NotATimestampError(f"the query is no RFC 3161 query: {error}") from error


def _parse(data: bytes) -> Query:
    parts = der.children(der.only(data, der.SEQUENCE))
    if len(parts) < 2 or der.integer(parts[0]) != 1:
        raise der.DerError("no query of version 1")
    imprint = der.children(parts[1])
    if len(imprint) != 2 or imprint[1].tag != der.OCTET_STRING:
        raise der.DerError("no message imprint")
    algorithm = der.children(imprint[0])
    if not algorithm:
        raise der.DerError("no hash algorithm")
    name = der.oid(algorithm[0])
    rest = parts[2:]
    policy = der.oid(rest.pop(0)) if rest and rest[0].tag == der.OID else None
    nonce = der.integer(rest.pop(0)) if rest and rest[0].tag == der.INTEGER else None
    certificates = rest.pop(0).contents if rest and rest[0].tag == der.BOOLEAN else b"\x00"
    extensions = bool(rest) and rest[0].tag == 0xA0
    if len(rest) > extensions:
        raise der.DerError("a query with unknown parts")
    return Query(
        hash_algorithm=DIGESTS.get(name, name),
        imprint=imprint[1].contents,
        policy=policy,
        nonce=nonce,
        certificates=certificates != b"\x00",
        extensions=extensions,
    )
