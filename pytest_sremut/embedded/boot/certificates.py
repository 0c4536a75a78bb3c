"""The certificates by which clients verify the API: one authority a cluster, one server.

Rules kept here:

* made anew at every start, in memory; the authority's private key is never written anywhere, the
  server's only to the cluster's private run directory, and only until it is loaded;
* names and addresses are those that pods and the machine reach the API by.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

__all__ = ["ServerIdentity", "create"]

LIFE = timedelta(days=365)
SLACK = timedelta(hours=1)  # for clocks that are not quite right


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerIdentity:
    """PEM texts: what the server shows (its key included), and what its clients verify it by."""

    server: str
    root: str

    def context(self, scratch: Path) -> ssl.SSLContext:
        """The server's TLS side; `scratch` is a private directory. Raises OSError."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        file = scratch / "apiserver.pem"
        file.touch(mode=0o600, exist_ok=False)
        try:
            file.write_text(self.server, encoding="ascii")
            context.load_cert_chain(file)
        finally:
            file.unlink()
        return context


def create(*, now: datetime, addresses: Sequence[str], names: Sequence[str]) -> ServerIdentity:
    """Make an authority and a server certificate for `addresses` and `names`."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    def named(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    def builder(
        subject: x509.Name, key: ec.EllipticCurvePublicKey, *, is_authority: bool
    ) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(authority)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - SLACK)
            .not_valid_after(now + LIFE)
            .add_extension(x509.BasicConstraints(is_authority, None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()),
                critical=False,
            )
            .add_extension(
                x509.KeyUsage(
                    digital_signature=True,
                    key_cert_sign=is_authority,
                    crl_sign=is_authority,
                    content_commitment=False,
                    key_encipherment=False,
                    data_encipherment=False,
                    key_agreement=False,
                    encipher_only=False,
                    decipher_only=False,
                ),
                critical=True,
            )
        )

    authority = named("sremut-ca")
    authority_key = ec.generate_private_key(ec.SECP256R1())
    root = builder(authority, authority_key.public_key(), is_authority=True).sign(
        authority_key, hashes.SHA256()
    )
    key = ec.generate_private_key(ec.SECP256R1())
    alternatives: list[x509.GeneralName] = [x509.DNSName(name) for name in names]
    alternatives += [x509.IPAddress(IPv4Address(address)) for address in addresses]
    certificate = (
        builder(named("kube-apiserver"), key.public_key(), is_authority=False)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return ServerIdentity(
        server=(secret + certificate.public_bytes(pem)).decode("ascii"),
        root=root.public_bytes(pem).decode("ascii"),
    )
