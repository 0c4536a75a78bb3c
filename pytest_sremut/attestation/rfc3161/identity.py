"""Keys and certificates of a self-issued authority.

Rules: keys live in memory only and are never written; the signer's certificate carries an extended
key usage that is critical and holds timeStamping alone (RFC 3161, 2.3); a chain is one (the signer
is its own root) to three certificates long.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

__all__ = ["TIME_STAMPING_ONLY", "Identity", "KeyKind", "PrivateKey", "new_identity"]

KeyKind = Literal["ec", "rsa"]
PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey

TIME_STAMPING_ONLY = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.TIME_STAMPING])
_RSA_BITS = 2048
_BACKDATED = timedelta(minutes=1)  # a verifier's clock may be a little behind ours


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A signer: its key and its certificates, DER, signer first and root last."""

    key: PrivateKey
    chain: tuple[bytes, ...]


def new_identity(
    *,
    organization: str,
    now: datetime,
    lifetime: timedelta,
    kind: KeyKind = "ec",
    length: int = 2,
    usage: x509.ExtendedKeyUsage | None = TIME_STAMPING_ONLY,
    usage_critical: bool = True,
) -> Identity:
    """Make fresh keys and a chain of `length` certificates (1 to 3).

    Args:
        organization: The O of all subjects.
        now: The certificates are valid from a minute before.
        lifetime: How long after `now` they are valid.
        kind: P-256 or RSA 2048.
        length: 1 makes the signer its own root.
        usage: The signer's extended key usage, None for none.
        usage_critical: Whether it is critical.
    """
    if not 1 <= length <= 3:
        raise ValueError(f"a chain has 1 to 3 certificates, not {length}")
    generate = _GENERATORS[kind]
    roles = ["Root CA", "Issuing CA"][: length - 1]
    issuer_name: x509.Name | None = None
    issuer_key: PrivateKey | None = None
    chain: list[bytes] = []
    for depth, role in enumerate([*roles, "TSA"]):
        key = generate()
        name = x509.Name(
            [
                x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization),
                x509.NameAttribute(NameOID.COMMON_NAME, f"{organization} {role}"),
            ]
        )
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(issuer_name or name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _BACKDATED)
            .not_valid_after(now + lifetime)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
        )
        if issuer_key is not None:
            builder = builder.add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), False
            )
        if role == "TSA":
            builder = builder.add_extension(_key_usage(signs_certificates=False), True)
            if usage is not None:
                builder = builder.add_extension(usage, usage_critical)
        else:
            builder = builder.add_extension(
                x509.BasicConstraints(ca=True, path_length=len(roles) - 1 - depth), True
            ).add_extension(_key_usage(signs_certificates=True), True)
        certificate = builder.sign(issuer_key or key, hashes.SHA256())
        chain.insert(0, certificate.public_bytes(Encoding.DER))
        issuer_name, issuer_key = name, key
    return Identity(key=key, chain=tuple(chain))


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


_GENERATORS: dict[str, Callable[[], PrivateKey]] = {
    "ec": lambda: ec.generate_private_key(ec.SECP256R1()),
    "rsa": lambda: rsa.generate_private_key(public_exponent=65537, key_size=_RSA_BITS),
}
