"""The cryptography of a token, done by rfc3161-client on what we have taken apart ourselves.

The library gets the token with exactly the chain that we chose, and one trusted certificate, the
pinned root: what else anyone put into the token can become neither signer nor anchor. (Nothing but
the root may be handed over as trusted: the library makes an anchor of every self-signed one.)

Our own reading is handed over in place of the library's, because its parser refuses forms (BER, a
fraction of a second with a trailing zero) whose signatures are sound. The classes below implement
the library's abstract ones. One that a later version extends can then not be made any more, which
is seen at once; pyproject.toml also keeps to the versions that were tested.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import Any

import rfc3161_client
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa

from pytest_sremut.attestation.errors import SignatureInvalidError, UntrustedRootError
from pytest_sremut.attestation.rfc3161.ber import emit
from pytest_sremut.attestation.rfc3161.certificates import Certificate, issued
from pytest_sremut.attestation.rfc3161.cms import DIGESTS, Token

__all__ = ["SIGNATURE_ALGORITHMS", "WEAK_SIGNATURE_ALGORITHMS", "signed_by", "verify_signature"]

SIGNATURE_ALGORITHMS = frozenset(
    {
        "1.2.840.113549.1.1.1",  # rsaEncryption: PKCS#1 v1.5 with the signer's digest
        "1.2.840.113549.1.1.11",  # sha256, 384, 512 WithRSAEncryption
        "1.2.840.113549.1.1.12",
        "1.2.840.113549.1.1.13",
        "1.2.840.10045.2.1",  # ecPublicKey: some authorities name the key, not the algorithm
        "1.2.840.10045.4.3.2",  # ecdsa-with-SHA256, 384, 512
        "1.2.840.10045.4.3.3",
        "1.2.840.10045.4.3.4",
    }
)
WEAK_SIGNATURE_ALGORITHMS = frozenset(
    {
        "1.2.840.113549.1.1.4",  # md5WithRSAEncryption
        "1.2.840.113549.1.1.5",  # sha1WithRSAEncryption
        "1.2.840.10045.4.1",  # ecdsa-with-SHA1
        "1.2.840.10040.4.3",  # dsa-with-sha1
    }
)
_GRANTED = bytes.fromhex("3003020100")  # PKIStatusInfo
_HASHES: dict[str, hashes.HashAlgorithm] = {
    "sha256": hashes.SHA256(),
    "sha384": hashes.SHA384(),
    "sha512": hashes.SHA512(),
}


def verify_signature(token: Token, chain: Sequence[Certificate]) -> None:
    """Check the signature of `token` and of every certificate of the chain, at the token's time.

    Args:
        token: The token; its digests are SHA-2.
        chain: Signer first, pinned root last.

    Raises:
        SignatureInvalidError: The token's signature does not hold.
        UntrustedRootError: The chain's do not: the pinned root did not sign what bears its name.
    """
    builder = rfc3161_client.VerifierBuilder(roots=[chain[-1].parsed])
    try:
        builder.build().verify(_response(token, chain), token.info.imprint)
    except (rfc3161_client.VerificationError, ValueError) as error:
        if not signed_by(token, chain[0]):
            raise SignatureInvalidError(
                "the signature does not hold: it was not made over this token by the key of "
                f"{chain[0].name}"
            ) from error
        for child, issuer in pairwise(chain):
            if not issued(child, issuer):
                raise UntrustedRootError(
                    f"cannot be verified: no trusted root. {child.name} names {issuer.name} as "
                    "its issuer, whose key did not sign it"
                ) from error
        raise SignatureInvalidError(
            "the certificates do not hold together for a timestamp", details=[str(error)]
        ) from error


def signed_by(token: Token, signer: Certificate) -> bool:
    """Whether `signer`'s key made the token's signature. Used to tell failures apart."""
    algorithm = _HASHES.get(token.signer.digest_algorithm)
    if algorithm is None:
        return False
    key = signer.parsed.public_key()
    signature, signed = token.signer.signature, token.signer.signed_attributes
    try:
        match key:
            case rsa.RSAPublicKey():
                key.verify(signature, signed, padding.PKCS1v15(), algorithm)
            case ec.EllipticCurvePublicKey():
                key.verify(signature, signed, ec.ECDSA(algorithm))
            case _:
                return False
    except (InvalidSignature, UnsupportedAlgorithm, ValueError):
        return False
    return True


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Imprint(rfc3161_client.MessageImprint):
    hash_algorithm: x509.ObjectIdentifier
    message: bytes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Info(rfc3161_client.TimeStampTokenInfo):
    version: int = 1
    message_imprint: rfc3161_client.MessageImprint
    serial_number: int
    gen_time: datetime
    ordering: bool
    # Not given to the library: `verify` judges policy and nonce itself, and the others are no
    # matter of a signature.
    policy: Any = None
    nonce: Any = None
    accuracy: Any = None
    name: Any = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Signer(rfc3161_client.SignerInfo):
    version: int = 1
    issuer: x509.Name
    serial_number: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _SignedData(rfc3161_client.SignedData):
    version: int = 3
    digest_algorithms: set[x509.ObjectIdentifier]
    certificates: set[bytes]
    signer_infos: set[rfc3161_client.SignerInfo]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Response(rfc3161_client.TimeStampResponse):
    token: bytes
    tst_info: rfc3161_client.TimeStampTokenInfo
    signed_data: rfc3161_client.SignedData
    status: int = rfc3161_client.PKIStatus.GRANTED
    status_string: list[str] = field(default_factory=list)

    def time_stamp_token(self) -> bytes:
        return self.token

    def as_bytes(self) -> bytes:
        return emit(0x30, _GRANTED + self.token)


def _response(token: Token, chain: Sequence[Certificate]) -> _Response:
    """The token as the library reads one: only this chain, only the signer's own certificate."""
    signer, info = chain[0], token.info
    return _Response(
        token=token.carrying(step.der for step in chain[:-1] or chain),
        tst_info=_Info(
            message_imprint=_Imprint(
                hash_algorithm=_object_identifier(info.hash_algorithm), message=info.imprint
            ),
            serial_number=info.serial,
            gen_time=info.gen_time.replace(microsecond=0),  # whole seconds, as certificates have
            ordering=info.ordering,
        ),
        signed_data=_SignedData(
            digest_algorithms={_object_identifier(token.signer.digest_algorithm)},
            certificates={signer.der},
            # The issuer as the certificate writes it: `verify` has compared it with the token's.
            signer_infos={_Signer(issuer=signer.parsed.issuer, serial_number=signer.serial)},
        ),
    )


def _object_identifier(digest: str) -> x509.ObjectIdentifier:
    return x509.ObjectIdentifier(next(dotted for dotted, name in DIGESTS.items() if name == digest))
