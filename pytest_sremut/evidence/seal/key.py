"""A session's signing key: Ed25519, in memory only.

What a signature says: whoever held this key signed these bytes. Whose key it was is for the public
key's fingerprint to say, where it was told outside of the evidence: on the terminal, in a stamp
from before the first attempt.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import TYPE_CHECKING, Final, Self

from pytest_sremut.errors import EvidenceError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

__all__ = ["ALGORITHM", "SessionKey", "fingerprint", "is_signed"]

ALGORITHM: Final = "Ed25519"
_SIGNATURE: Final = 64  # bytes, RFC 8032


class SessionKey:
    """The key of one session. Made by `generate`; it can sign until it is discarded.

    It has no representation, cannot be copied and cannot be pickled: there is one, here.
    """

    def __init__(self, private: Ed25519PrivateKey, session: str) -> None:
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        self._private: Ed25519PrivateKey | None = private
        self.session = session
        der = private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        self.public = base64.b64encode(der).decode("ascii")
        """The public key: base64 of its SubjectPublicKeyInfo, the one line inside a PEM file."""

    @classmethod
    def generate(cls, session: str) -> Self:
        """A fresh key for that session."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return cls(Ed25519PrivateKey.generate(), session)

    @property
    def sha256(self) -> str:
        """The public key's fingerprint."""
        return fingerprint(self.public)

    def sign(self, data: bytes) -> bytes:
        """The signature over `data`, 64 bytes. Raises EvidenceError once the key is discarded."""
        if self._private is None:
            raise EvidenceError(f"session {self.session}: its key was discarded")
        return self._private.sign(data)

    def discard(self) -> None:
        """Forget the private key; idempotent."""
        self._private = None

    def __reduce__(self) -> str:
        raise TypeError("a session's key does not leave its process")

    def __copy__(self) -> Self:
        raise TypeError("a session's key is not copied")


def fingerprint(public: str) -> str:
    """SHA-256 of a public key's SubjectPublicKeyInfo. Raises EvidenceError where it is none."""
    return hashlib.sha256(_der(public)).hexdigest()


def is_signed(public: str, data: bytes, signature: bytes) -> bool:
    """Whether `signature` is that key's over `data`. Raises EvidenceError where the key is none."""
    from cryptography.exceptions import InvalidSignature

    key = _public(public)
    if len(signature) != _SIGNATURE:
        return False
    try:
        key.verify(signature, data)
    except InvalidSignature:
        return False
    return True


def _der(public: str) -> bytes:
    try:
        der = base64.b64decode(public, validate=True)
    except (binascii.Error, ValueError):
        raise EvidenceError("the public key is not base64") from None
    if base64.b64encode(der).decode("ascii") != public:
        raise EvidenceError("the public key is not written as we write one")
    return der


def _public(public: str) -> Ed25519PublicKey:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_der_public_key

    try:
        key = load_der_public_key(_der(public))
    except (ValueError, UnsupportedAlgorithm) as error:
        raise EvidenceError(f"the public key cannot be read: {error}") from None
    if not isinstance(key, Ed25519PublicKey):
        raise EvidenceError(f"the public key is of another kind than {ALGORITHM}")
    return key
