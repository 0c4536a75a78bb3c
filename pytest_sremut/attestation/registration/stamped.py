"""A stamp as it lies on disk: query, reply, and the certificates a reviewer needs.

Rules: the reply is verified against the pins before its files are given out and again whenever it
is read; the certificates that lie beside it are only *at hand*: whoever could change the reply
could change them too, so none of them is believed for lying there.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from pytest_sremut.attestation.registration.manifest import read_file
from pytest_sremut.attestation.rfc3161 import certificates
from pytest_sremut.attestation.rfc3161.authority_port import Authority
from pytest_sremut.attestation.rfc3161.request import build_query
from pytest_sremut.attestation.rfc3161.trust import TrustStore
from pytest_sremut.attestation.rfc3161.verify import VerifiedToken, verify

__all__ = ["make_stamp", "openssl_command", "root_file", "verify_stamp"]

_QUERY, _REPLY, _ROOT, _UNTRUSTED = "tsq", "tsr", "root.pem", "untrusted.pem"


def make_stamp(
    data: bytes,
    stem: str,
    authority: Authority,
    trust: TrustStore,
    *,
    hash_algorithm: str = "sha256",
    policy: str | None = None,
) -> tuple[VerifiedToken, Mapping[str, bytes]]:
    """Have `data` stamped, and verify the reply.

    Args:
        data: What is stamped.
        stem: Of the file names, `predictions` or `tree`.
        authority: Who stamps.
        trust: The pins that the reply has to verify against; a self-issued authority's own root
            counts besides.
        hash_algorithm: Of the imprint.
        policy: Asked for, if any.

    Returns:
        The verified token, and the files to write: name -> bytes.

    Raises:
        VerificationError: No reply, or one that does not verify.
    """
    if authority.root is not None and all(
        root.sha256 != authority.root.sha256 for root in trust.roots
    ):
        trust = trust.plus(authority.root)
    query = build_query(data, hash_algorithm=hash_algorithm, policy=policy)
    reply = authority.stamp(query)
    token = verify(reply, data, trust, query=query)
    files = {
        f"{stem}.{_QUERY}": query,
        f"{stem}.{_REPLY}": reply,
        f"{stem}.{_ROOT}": certificates.pem(token.chain[-1]),
    }
    if not token.complete:
        files[f"{stem}.{_UNTRUSTED}"] = b"".join(
            map(certificates.pem, token.chain[:-1] or token.chain)
        )
    return token, files


def verify_stamp(
    directory: Path, stem: str, data: bytes, trust: TrustStore, *, root: Path
) -> VerifiedToken:
    """Verify a stamp that lies in `directory` over `data`.

    The query may be missing; the nonce then counts as not checked.

    Raises:
        IncompleteRegistrationError: There is no reply.
        VerificationError: It does not verify.
    """
    reply = read_file(directory / f"{stem}.{_REPLY}", root=root)
    query_file = directory / f"{stem}.{_QUERY}"
    query = read_file(query_file, root=root) if os.path.lexists(query_file) else None
    at_hand = [
        certificate.der
        for name in (_UNTRUSTED, _ROOT)
        for certificate in _at_hand(directory / f"{stem}.{name}")
    ]
    return verify(reply, data, trust.with_certificates(*at_hand), query=query)


def root_file(stem: str) -> str:
    """The name of the file with a stamp's root."""
    return f"{stem}.{_ROOT}"


def openssl_command(directory: Path, stem: str, data: str, token: VerifiedToken) -> str:
    """The command by which anybody verifies the stamp without us, offline.

    Args:
        directory: Where the stamp lies, as the reader should type it.
        stem: Of its file names.
        data: Name of the stamped file beside it.
        token: The verified token; its time is the time of checking, since certificates expire.
    """
    arguments = [
        "openssl", "ts", "-verify",
        "-in", str(directory / f"{stem}.{_REPLY}"),
        "-data", str(directory / data),
        "-CAfile", str(directory / f"{stem}.{_ROOT}"),
        "-attime", str(int(token.gen_time.timestamp())),
    ]  # fmt: skip
    if not token.complete:
        arguments += ["-untrusted", str(directory / f"{stem}.{_UNTRUSTED}")]
    return shlex.join(arguments)


def _at_hand(file: Path) -> tuple[certificates.Certificate, ...]:
    with suppress(OSError, certificates.CertificateError):
        return certificates.load_many(file.read_bytes())
    return ()
