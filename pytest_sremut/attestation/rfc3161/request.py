"""The query that is sent to an authority, and the reading of one that was kept.

Rules: a fresh random nonce of 64 bits in each query; the authority's certificate is asked for, so
that the reply can be verified long after; SHA-256, 384 or 512 only.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from typing import cast

from asn1crypto import core, tsp

from pytest_sremut.attestation.errors import NotATimestampError
from pytest_sremut.attestation.rfc3161.ber import DerError
from pytest_sremut.attestation.rfc3161.cms import DIGESTS
from pytest_sremut.attestation.rfc3161.structures import (
    UNREADABLE,
    TimeStampReq,
    exact,
    integer,
    oid,
    read,
    reason,
)
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
    except UNREADABLE as error:  # DerError among them
        raise NotATimestampError(f"the query is no RFC 3161 query: {reason(error)}") from error


def _parse(data: bytes) -> Query:
    query = read(TimeStampReq, data)
    if integer(query["version"]) != 1:
        raise DerError("no query of version 1")
    imprint = exact(query["message_imprint"])
    name = oid(exact(imprint["hash_algorithm"])["algorithm"])
    policy, nonce = query["req_policy"], query["nonce"]
    return Query(
        hash_algorithm=DIGESTS.get(name, name),
        imprint=imprint["hashed_message"].contents,
        policy=None if isinstance(policy, core.Void) else oid(policy),
        nonce=None if isinstance(nonce, core.Void) else integer(nonce),
        certificates=bool(query["cert_req"].native),
        extensions=not isinstance(query["extensions"], core.Void),
    )
