"""A timestamp authority of our own: real RFC 3161 replies, and no independent clock.

Rules: what it issues verifies like any other token, but its pin says `self-issued`, and nothing
that it stamps is ever called independent: whoever holds the key could have set the clock. The key
lives in memory and can be discarded after use; a query that cannot be served is answered with the
rejection and the reason that RFC 3161, 2.4.2 names for it, never with an exception.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from asn1crypto import cms, tsp
from asn1crypto import x509 as asn1_x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding

from pytest_sremut.attestation.errors import MisuseError, NotATimestampError
from pytest_sremut.attestation.rfc3161 import certificates
from pytest_sremut.attestation.rfc3161.ber import emit
from pytest_sremut.attestation.rfc3161.identity import Identity, KeyKind, new_identity
from pytest_sremut.attestation.rfc3161.request import HASH_ALGORITHMS, Query, parse_query
from pytest_sremut.attestation.rfc3161.trust import SELF_ISSUED, PinnedRoot

__all__ = ["SELF_POLICY", "SelfIssuedAuthority", "Stamp", "assemble_reply", "assemble_token"]

SELF_POLICY = "2.25.74544697296589891581210494550315966724"
"""Our policy, an arc made from a UUID (ITU-T X.667): "these bytes existed when this machine's
clock, which nobody else has checked, showed this time"."""

RESOLUTION = timedelta(milliseconds=1)
"""Stated as accuracy: how finely the machine's clock is read. Says nothing of its correctness."""

_DAY = timedelta(days=1)
_SERIAL_BITS = 64
_OCTET_STRING, _SEQUENCE, _SET, _CONTEXT_0 = 0x04, 0x30, 0x31, 0xA0  # identifier octets
_HASHES: dict[str, hashes.HashAlgorithm] = {
    "sha256": hashes.SHA256(),
    "sha384": hashes.SHA384(),
    "sha512": hashes.SHA512(),
}


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """What one token is to say (the fields of TSTInfo)."""

    policy: str
    hash_algorithm: str
    imprint: bytes
    serial: int
    gen_time: datetime
    accuracy: timedelta | None = None
    ordering: bool = False
    nonce: int | None = None

    def dump(self) -> bytes:
        """TSTInfo, DER."""
        fields: dict[str, Any] = {
            "version": "v1",
            "policy": self.policy,
            "message_imprint": {
                "hash_algorithm": {"algorithm": self.hash_algorithm},
                "hashed_message": self.imprint,
            },
            "serial_number": self.serial,
            "gen_time": self.gen_time,
        }
        if self.accuracy is not None:
            whole, rest = divmod(self.accuracy, timedelta(seconds=1))
            millis, micros = divmod(rest // timedelta(microseconds=1), 1000)
            parts = {"seconds": whole, "millis": millis, "micros": micros}
            fields["accuracy"] = {name: value for name, value in parts.items() if value}
        if self.ordering:
            fields["ordering"] = True
        if self.nonce is not None:
            fields["nonce"] = self.nonce
        return _dumped(tsp.TSTInfo(fields))


class SelfIssuedAuthority:
    """An authority whose key we hold ourselves.

    Args:
        identity: Key and certificates; fresh ones where None.
        clock: Where its time comes from; UTC.
        policies: The policies that may be asked for; the first one is the default.
        accuracy: Stated in every token; None states none.
        digest: What the signature is over.
        kind: Of fresh keys, "ec" (P-256) or "rsa".
        length: Of a fresh chain, 1 to 3.
        lifetime: Of fresh certificates.
    """

    def __init__(
        self,
        *,
        identity: Identity | None = None,
        clock: Callable[[], datetime] = _utc_now,
        policies: Sequence[str] = (SELF_POLICY,),
        accuracy: timedelta | None = RESOLUTION,
        digest: str = "sha256",
        kind: KeyKind = "ec",
        length: int = 2,
        lifetime: timedelta = _DAY,
    ) -> None:
        self._clock = clock
        self._policies = tuple(policies)
        self._accuracy = accuracy
        self._digest = digest
        self._identity: Identity | None = identity or new_identity(
            organization="sremut self-issued",
            now=clock().replace(microsecond=0),
            lifetime=lifetime,
            kind=kind,
            length=length,
        )
        self.chain = self._identity.chain

    @property
    def name(self) -> str:
        """What records call it."""
        return "self"

    @property
    def root(self) -> PinnedRoot:
        """The pin that makes its tokens verify, and says what they are."""
        root = certificates.load(self.chain[-1])
        return PinnedRoot(
            name=f"self-{root.sha256[:12]}",
            sha256=root.sha256,
            independence=SELF_ISSUED,
            certificate=root,
        )

    def discard_key(self) -> None:
        """Forget the key. From now on nobody can make another token of this authority."""
        self._identity = None

    def stamp(self, query: bytes) -> bytes:
        """The reply to a query: granted, or a rejection with its reason.

        Raises:
            MisuseError: The key was discarded.
        """
        if self._identity is None:
            raise MisuseError("this authority's key was discarded, it cannot stamp any more")
        try:
            asked = parse_query(query)
        except NotATimestampError as error:
            return _rejection("bad_data_format", str(error))
        refused = self._refusal(asked)
        if refused is not None:
            return _rejection(*refused)
        content = Stamp(
            policy=asked.policy or self._policies[0],
            hash_algorithm=asked.hash_algorithm,
            imprint=asked.imprint,
            serial=secrets.randbits(_SERIAL_BITS),
            gen_time=_milliseconds(self._clock()),
            accuracy=self._accuracy,
            nonce=asked.nonce,
        ).dump()
        # The root stays out: a verifier must have it from elsewhere anyhow.
        embedded = (self.chain[:-1] or self.chain) if asked.certificates else ()
        return assemble_reply(
            assemble_token(content, self._identity, embedded=embedded, digest=self._digest)
        )

    def _refusal(self, asked: Query) -> tuple[str, str] | None:
        if asked.hash_algorithm not in HASH_ALGORITHMS:
            return "bad_alg", f"the digest must be one of {', '.join(HASH_ALGORITHMS)}"
        if len(asked.imprint) != hashlib.new(asked.hash_algorithm).digest_size:
            return "bad_data_format", f"the digest is no {asked.hash_algorithm}"
        if asked.policy is not None and asked.policy not in self._policies:
            return "unaccepted_policy", f"policies: {', '.join(self._policies)}"
        if asked.extensions:
            return "unaccepted_extensions", "no extension is known here"
        return None


def assemble_token(
    content: bytes,
    identity: Identity,
    *,
    embedded: Sequence[bytes],
    digest: str = "sha256",
    identifiers: Sequence[int] = (2,),
) -> bytes:
    """Sign `content` (TSTInfo, DER) as a token, DER.

    Args:
        content: What is signed.
        identity: Who signs.
        embedded: The certificates that go, unsigned, into the token.
        digest: What the signature is over.
        identifiers: Versions of the signed identifier to include: 1 (ESSCertID), 2 (ESSCertIDv2).
    """
    signer = asn1_x509.Certificate.load(identity.chain[0])
    signed = cms.CMSAttributes(
        [
            {"type": "content_type", "values": ["tst_info"]},
            {"type": "message_digest", "values": [hashlib.new(digest, content).digest()]},
            *(_signing_certificate(version, identity, digest) for version in identifiers),
        ]
    )
    signature_kind, signature = _sign(identity, _dumped(signed), digest)
    signer_info = cms.SignerInfo(
        {
            "version": "v1",
            "sid": cms.SignerIdentifier(
                {
                    "issuer_and_serial_number": {
                        "issuer": signer.issuer,
                        "serial_number": signer.serial_number,
                    }
                }
            ),
            "digest_algorithm": {"algorithm": digest},
            "signed_attrs": signed,
            "signature_algorithm": {"algorithm": signature_kind},
            "signature": signature,
        }
    )
    # Put together here, so that content and certificates go in byte for byte: asn1crypto would
    # read them and write them anew.
    content_octets = emit(_CONTEXT_0, emit(_OCTET_STRING, content))
    parts = (
        _dumped(cms.CMSVersion("v3")),
        _dumped(cms.DigestAlgorithms([{"algorithm": digest}])),
        emit(_SEQUENCE, _dumped(cms.ContentType("tst_info")) + content_octets),
        emit(_CONTEXT_0, b"".join(embedded)) if embedded else b"",
        emit(_SET, _dumped(signer_info)),
    )
    signed_data = emit(_CONTEXT_0, emit(_SEQUENCE, b"".join(parts)))
    return emit(_SEQUENCE, _dumped(cms.ContentType("signed_data")) + signed_data)


def assemble_reply(token: bytes) -> bytes:
    """A granted reply around a token, DER."""
    return emit(_SEQUENCE, _dumped(tsp.PKIStatusInfo({"status": "granted"})) + token)


def _dumped(value: Any) -> bytes:
    return cast(bytes, value.dump())


def _signing_certificate(version: int, identity: Identity, digest: str) -> dict[str, Any]:
    certificate = identity.chain[0]
    if version == 1:
        sha1 = hashlib.sha1(certificate, usedforsecurity=False).digest()
        old = tsp.SigningCertificate({"certs": [{"cert_hash": sha1}]})
        return {"type": "signing_certificate", "values": [old]}
    new = tsp.SigningCertificateV2(
        {
            "certs": [
                {
                    "hash_algorithm": {"algorithm": digest},
                    "cert_hash": hashlib.new(digest, certificate).digest(),
                }
            ]
        }
    )
    return {"type": "signing_certificate_v2", "values": [new]}


def _sign(identity: Identity, data: bytes, digest: str) -> tuple[str, bytes]:
    key, algorithm = identity.key, _HASHES[digest]
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return f"{digest}_ecdsa", key.sign(data, ec.ECDSA(algorithm))
    return f"{digest}_rsa", key.sign(data, padding.PKCS1v15(), algorithm)


def _rejection(reason: str, text: str) -> bytes:
    status = {"status": "rejection", "status_string": [text], "fail_info": {reason}}
    # asn1crypto's TimeStampResp cannot be without a token, so the outer sequence is written here.
    return emit(_SEQUENCE, _dumped(tsp.PKIStatusInfo(status)))


def _milliseconds(when: datetime) -> datetime:
    return when.replace(microsecond=when.microsecond // 1000 * 1000)
