"""The cryptography of a token, done by rfc3161-client on what we have taken apart ourselves.

The library gets the token with exactly the chain that we chose, and one trusted certificate, the
pinned root: what else anyone put into the token can become neither signer nor anchor. (Nothing but
the root may be handed over as trusted: the library makes an anchor of every self-signed one.) Our
own reading is handed over in place of the library's, because its parser refuses forms (BER, a
fraction of a second with a trailing zero) whose signatures are sound.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import cast

import rfc3161_client
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa

from pytest_sremut.attestation.errors import SignatureInvalidError, UntrustedRootError
from pytest_sremut.attestation.rfc3161.certificates import Certificate, issued
from pytest_sremut.attestation.rfc3161.cms import Token

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
    view = cast(rfc3161_client.TimeStampResponse, _View(token, chain))
    try:
        builder.build().verify(view, token.info.imprint)
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


class _View:
    """A token as `rfc3161_client.Verifier` reads a response: these properties and no others.

    Nonce and policy are not given to the library: `verify` compares them itself.
    """

    status = rfc3161_client.PKIStatus.GRANTED

    def __init__(self, token: Token, chain: Sequence[Certificate]) -> None:
        self._token = token.carrying(step.der for step in chain[:-1] or chain)
        self.tst_info = _ViewInfo(token)
        self.signed_data = _ViewSignedData(chain[0])

    def time_stamp_token(self) -> bytes:
        return self._token


class _ViewInfo:
    def __init__(self, token: Token) -> None:
        # Whole seconds, as certificates have.
        self.gen_time = token.info.gen_time.replace(microsecond=0)
        self.message_imprint = _ViewImprint(token.info.imprint)


class _ViewImprint:
    def __init__(self, imprint: bytes) -> None:
        self.message = imprint


class _ViewSignedData:
    """Only the signer's own certificate, and the signer that names it."""

    def __init__(self, signer: Certificate) -> None:
        self.certificates = {signer.der}
        self.signer_infos = {_ViewSigner(signer)}


class _ViewSigner:
    def __init__(self, signer: Certificate) -> None:
        self.issuer = signer.parsed.issuer  # as in the token: `verify` has compared them
        self.serial_number = signer.serial
