"""Verify a timestamp offline: bytes and pins in, a `VerifiedToken` or one of our errors out.

What a verified token says: these bytes existed at that time, by that authority's clock. No more.

Rules, in this order; the first that does not hold ends it:

1. form: exactly one reply or token, nothing after it; a status that stamped something;
2. digest: SHA-256, 384 or 512 wherever a collision would forge the evidence;
3. signer: the certificate whose hash the *signed* identifier (ESSCertID, ESSCertIDv2) gives. It is
   never chosen by position or by name. Unrelated certificates in the unsigned set are tolerated
   and never used: anyone can add them, so refusing them would let anyone break a sound token;
4. content digest: the signed attributes are about this content;
5. usage: extended key usage critical, timeStamping and nothing else;
6. chain: up to a root pinned by SHA-256 fingerprint, never one that is merely embedded;
7. validity: every certificate of the chain was valid at the token's own time. The present time
   does not matter, and nothing switches this check off;
8. signature;
9. policy: one that the pin allows, where it says;
10. imprint: the digest of the raw bytes given;
11. nonce, digest and policy of the query, where it is given; else the nonce is "not checked".

A statement is judged only after it was proven to be the authority's: an imprint in a token that
nobody we trust has signed is no evidence for or against a file. Revocation is not checked: it
needs a network, and a revocation after the token's time would not undo it.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from pytest_sremut.attestation.errors import (
    CertificateNotValidAtTimeError,
    EkuError,
    ImprintMismatchError,
    NonceMismatchError,
    PolicyMismatchError,
    SignatureInvalidError,
    SignerMismatchError,
    SignerNotAtHandError,
    UnsupportedTokenError,
    UntrustedRootError,
    VerificationError,
    WeakDigestError,
)
from pytest_sremut.attestation.rfc3161 import certificates, reply
from pytest_sremut.attestation.rfc3161.certificates import Certificate
from pytest_sremut.attestation.rfc3161.cms import EssCertId, StampInfo, Token, parse_token
from pytest_sremut.attestation.rfc3161.request import Query, parse_query
from pytest_sremut.attestation.rfc3161.signature import (
    SIGNATURE_ALGORITHMS,
    WEAK_SIGNATURE_ALGORITHMS,
    signed_by,
    verify_signature,
)
from pytest_sremut.attestation.rfc3161.trust import PinnedRoot, TrustStore

__all__ = ["ALLOWED_DIGESTS", "VerifiedToken", "verify"]

ALLOWED_DIGESTS = frozenset({"sha256", "sha384", "sha512"})
UNSTATED_ACCURACY = timedelta(seconds=1)
"""Taken where a token states no accuracy: the resolution of a time in whole seconds."""

_TIME_STAMPING = "1.3.6.1.5.5.7.3.8"
_ANY_PURPOSE = "2.5.29.37.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedToken:
    """A token that holds, and what holds of it. Times are UTC; digests are lower-case hex."""

    gen_time: datetime
    accuracy: timedelta | None  # None: the token states none
    serial: int
    policy: str
    hash_algorithm: str
    imprint: str
    signer: str  # subject, RFC 4514
    signer_sha256: str
    root: str  # the pin's name
    root_sha256: str
    independence: str  # "independent" | "self-issued, no independent clock"
    nonce: Literal["checked", "not checked"]
    checks: tuple[tuple[str, str], ...]  # (name, detail), in the order in which they were made
    chain: tuple[bytes, ...] = field(repr=False)  # DER, signer first, root last
    complete: bool  # whether signer and intermediates are in the token itself

    @property
    def earliest(self) -> datetime:
        """The earliest moment at which the bytes can have been stamped."""
        return self.gen_time - self._margin

    @property
    def latest(self) -> datetime:
        """The latest moment at which the bytes can have been stamped."""
        return self.gen_time + self._margin

    def to_json(self) -> dict[str, Any]:
        """Exact built-ins, for records."""
        return {
            "gen_time": self.gen_time.isoformat(),
            "accuracy_seconds": None if self.accuracy is None else self.accuracy.total_seconds(),
            "serial": f"{self.serial:x}",
            "policy": self.policy,
            "hash_algorithm": self.hash_algorithm,
            "imprint": self.imprint,
            "signer": self.signer,
            "signer_sha256": self.signer_sha256,
            "root": self.root,
            "root_sha256": self.root_sha256,
            "independence": self.independence,
            "nonce": self.nonce,
        }

    @property
    def _margin(self) -> timedelta:
        return UNSTATED_ACCURACY if self.accuracy is None else self.accuracy


def verify(
    stamp: bytes, data: bytes, trust: TrustStore, *, query: bytes | None = None
) -> VerifiedToken:
    """Verify a reply or a bare token over `data`.

    Args:
        stamp: The reply as it came, or the token out of it.
        data: The stamped bytes themselves, never a digest that somebody else made.
        trust: The pinned roots.
        query: The query that was sent, where it is kept.

    Raises:
        InvalidRegistrationError: The token speaks against the data, or is broken.
        UnverifiableError: Nothing speaks against it, and nothing trusted for it.
        AuthorityAnswerError: The authority stamped nothing.
        Every error carries the checks that had held in `passed`.
    """
    checks: list[tuple[str, str]] = []
    try:
        return _verify(stamp, data, trust, query, checks)
    except VerificationError as error:
        error.passed = tuple(checks)
        raise


def _verify(
    stamp: bytes,
    data: bytes,
    trust: TrustStore,
    query: bytes | None,
    checks: list[tuple[str, str]],
) -> VerifiedToken:
    answer, token_bytes = reply.parse_granted(stamp)
    token = parse_token(token_bytes)
    encoding = "BER" if "BER" in (answer.encoding, token.encoding) else "DER"
    checks.append(("form", f"{answer.form}, {encoding}, status {answer.status}"))

    _check_digests(token)
    info = token.info
    checks.append(("digest", f"{info.hash_algorithm}, signed over {token.signer.digest_algorithm}"))

    signer, how = _find_signer(token, trust)
    checks.append(("signer", f"{signer.name}, by {how}"))

    content_digest = hashlib.new(token.signer.digest_algorithm, token.content).digest()
    if not hmac.compare_digest(content_digest, token.signer.message_digest):
        raise SignatureInvalidError("the signed message digest is not that of the token's content")
    checks.append(("content digest", token.signer.digest_algorithm))

    _check_usage(signer)
    checks.append(("usage", "timeStamping only, critical"))

    chain, root = _chain(token, signer, trust)
    checks.append(("chain", " <- ".join(step.name for step in chain) + f", pinned as {root.name}"))

    _check_validity(chain, info.gen_time)
    checks.append(("validity", f"{len(chain)} certificates valid at {info.gen_time.isoformat()}"))

    verify_signature(token, chain)
    checks.append(("signature", "holds"))

    if root.policies and info.policy not in root.policies:
        raise PolicyMismatchError(
            f"stamped under policy {info.policy}; the pin {root.name} allows "
            + ", ".join(root.policies)
        )
    _check_imprint(info, data)
    checks.append(("imprint", f"{info.hash_algorithm}:{info.imprint.hex()}"))

    nonce = _check_query(info, None if query is None else parse_query(query), checks)
    return VerifiedToken(
        gen_time=info.gen_time,
        accuracy=info.accuracy,
        serial=info.serial,
        policy=info.policy,
        hash_algorithm=info.hash_algorithm,
        imprint=info.imprint.hex(),
        signer=signer.name,
        signer_sha256=signer.sha256,
        root=root.name,
        root_sha256=root.sha256,
        independence=root.independence,
        nonce=nonce,
        checks=tuple(checks),
        chain=tuple(step.der for step in chain),
        complete={step.der for step in (chain[:-1] or chain)} <= set(token.certificates),
    )


def _check_digests(token: Token) -> None:
    """Refuse what a collision would forge. An ESSCertID of version 1 is only a name: let it be."""
    for algorithm, where in (
        (token.info.hash_algorithm, "the imprint"),
        (token.signer.digest_algorithm, "the signature"),
    ):
        if algorithm not in ALLOWED_DIGESTS:
            raise WeakDigestError(f"{where} is over {algorithm}")
    algorithm = token.signer.signature_algorithm
    if algorithm in WEAK_SIGNATURE_ALGORITHMS:
        raise WeakDigestError(f"the signature algorithm {algorithm} is over SHA-1 or MD5")
    if algorithm not in SIGNATURE_ALGORITHMS:
        raise UnsupportedTokenError(f"the signature algorithm {algorithm} is not one we verify")


def _find_signer(token: Token, trust: TrustStore) -> tuple[Certificate, str]:
    """The certificate that every signed identifier names first."""
    named = [identifiers[0] for identifiers in token.signer.identifiers]
    for identifier in named:
        if identifier.version == 2 and identifier.hash_algorithm not in ALLOWED_DIGESTS:
            raise WeakDigestError(f"the signer is identified over {identifier.hash_algorithm}")
    first = named[-1]  # version 2 where there is one
    for candidate in (*token.certificates, *trust.certificates):
        if _hash(first, candidate) == first.cert_hash:
            break
    else:
        raise SignerNotAtHandError(
            "the signer's certificate is not at hand: neither among the "
            f"{len(token.certificates)} in the token nor among the pinned ones",
            details=[f"{first.hash_algorithm} of the certificate: {first.cert_hash.hex()}"],
        )
    try:
        signer = certificates.load(candidate)
    except certificates.CertificateError as error:
        raise UnsupportedTokenError(f"the signer's certificate: {error}") from error
    for identifier in named:
        _check_identifier(identifier, signer)
    if token.signer.serial != signer.serial or not certificates.same_name(
        token.signer.issuer, signer.issuer
    ):
        raise SignerMismatchError(
            "the token names one certificate by issuer and serial number "
            f"{token.signer.serial} and another one by its signed identifier ({signer.name}, "
            f"serial number {signer.serial})"
        )
    return signer, f"ESSCertID{'v2' if first.version == 2 else ''} over {first.hash_algorithm}"


def _hash(identifier: EssCertId, certificate: bytes) -> bytes:
    # SHA-1 is what version 1 is defined with; it names a certificate whose chain is then checked.
    return hashlib.new(identifier.hash_algorithm, certificate, usedforsecurity=False).digest()


def _check_identifier(identifier: EssCertId, signer: Certificate) -> None:
    if _hash(identifier, signer.der) != identifier.cert_hash:
        raise SignerMismatchError("the two signed identifiers name two different certificates")
    if identifier.serial not in (None, signer.serial) or not (
        identifier.issuer is None or certificates.same_name(identifier.issuer, signer.issuer)
    ):
        raise SignerMismatchError(
            "the signed identifier has the hash of one certificate and the issuer and serial "
            "number of another"
        )


def _check_usage(signer: Certificate) -> None:
    purposes = signer.extended_key_usage
    if purposes is None:
        raise EkuError(f"the certificate of {signer.name} has no extended key usage")
    if purposes != {_TIME_STAMPING}:
        raise EkuError(
            f"the certificate of {signer.name} is for {', '.join(sorted(purposes)) or 'nothing'}, "
            f"not for timeStamping ({_TIME_STAMPING}) alone"
        )
    if not signer.extended_key_usage_critical:
        raise EkuError(f"the extended key usage of {signer.name} is not critical")
    usage = signer.key_usage
    if usage is not None and not (usage.digital_signature or usage.content_commitment):
        raise EkuError(f"the key of {signer.name} may not make signatures")


def _chain(
    token: Token, signer: Certificate, trust: TrustStore
) -> tuple[tuple[Certificate, ...], PinnedRoot]:
    chain, ended = certificates.build_chain(
        signer,
        (*token.certificates, *trust.certificates),
        {root.sha256: root.certificate for root in trust.roots},
        token.info.gen_time,
    )
    if chain is None:
        if not signed_by(token, signer):  # worse than unknown: broken, whoever the root is
            raise SignatureInvalidError(
                f"the signature does not hold: it was not made by the key of {signer.name}"
            )
        raise UntrustedRootError(
            f"cannot be verified: no trusted root. The chain {ended}",
            details=[f"pinned: {root.name} {root.sha256}" for root in trust.roots]
            or ["pinned: none"],
        )
    for step in chain[:-1]:
        if step.weak_signature:
            raise WeakDigestError(f"the certificate of {step.name} is signed over SHA-1 or MD5")
    for step in chain[1:]:
        purposes = step.extended_key_usage
        if purposes is not None and not purposes & {_TIME_STAMPING, _ANY_PURPOSE}:
            raise EkuError(f"the CA {step.name} may not issue certificates for timeStamping")
    return chain, next(root for root in trust.roots if root.sha256 == chain[-1].sha256)


def _check_validity(chain: tuple[Certificate, ...], when: datetime) -> None:
    for step in chain:
        if not step.valid_at(when):
            raise CertificateNotValidAtTimeError(
                f"the certificate of {step.name} was not valid at the token's time "
                f"{when.isoformat()}: it is valid from {step.not_before.isoformat()} to "
                f"{step.not_after.isoformat()}"
            )


def _check_imprint(info: StampInfo, data: bytes) -> None:
    digest = hashlib.new(info.hash_algorithm, data).digest()
    if not hmac.compare_digest(digest, info.imprint):
        raise ImprintMismatchError(
            f"the token is over other bytes: its {info.hash_algorithm} is {info.imprint.hex()}, "
            f"that of these {len(data)} bytes is {digest.hex()}"
        )


def _check_query(
    info: StampInfo, query: Query | None, checks: list[tuple[str, str]]
) -> Literal["checked", "not checked"]:
    if query is None:
        checks.append(("policy", f"{info.policy}, query not kept"))
        checks.append(("nonce", "not checked: the query is not kept"))
        return "not checked"
    if query.nonce is not None and info.nonce is None:
        raise NonceMismatchError("the reply does not return the query's nonce")
    if query.nonce is not None and info.nonce != query.nonce:
        raise NonceMismatchError(
            f"the reply has nonce {info.nonce:#x}, the query has {query.nonce:#x}: "
            "it answers another query"
        )
    if (query.hash_algorithm, query.imprint) != (info.hash_algorithm, info.imprint):
        raise ImprintMismatchError("the query kept beside the token asked for another digest")
    if query.policy is not None and query.policy != info.policy:
        raise PolicyMismatchError(f"asked for policy {query.policy}, stamped under {info.policy}")
    checks.append(("policy", info.policy + (", as asked" if query.policy else ", none asked")))
    if query.nonce is None:
        checks.append(("nonce", "not checked: the query has none"))
        return "not checked"
    checks.append(("nonce", "checked"))
    return "checked"
