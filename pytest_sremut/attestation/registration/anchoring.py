"""Stamps for seals: the RFC 3161 side of `evidence.seal.anchor`'s ports.

An authority that does not answer leaves a seal unanchored, once for the whole session: the same
waiting would only be repeated. One that answers what does not verify against the pins is refused.
A self-issued authority lives as long as its session; its root stands beside each stamp, is named
in the signed document, and is trusted for nothing but to read the time of a clock that nobody
else has checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from pytest_sremut.attestation.errors import (
    AuthorityUnreachableError,
    UnverifiableError,
    VerificationError,
)
from pytest_sremut.attestation.registration.stamped import make_stamp
from pytest_sremut.attestation.rfc3161 import certificates
from pytest_sremut.attestation.rfc3161.authority_port import Authority
from pytest_sremut.attestation.rfc3161.trust import SELF_ISSUED, PinnedRoot, TrustStore
from pytest_sremut.attestation.rfc3161.verify import verify
from pytest_sremut.evidence.seal.anchor import Anchored, AnchorState, StampCheck
from pytest_sremut.ground.durable.clock import rfc3339

__all__ = ["OfflineStamps", "TimestampAnchor"]


class TimestampAnchor:
    """Has statements stamped by an authority (`evidence.seal.Anchor`).

    Args:
        authority: Who stamps.
        trust: The pins that its replies have to verify against.
    """

    def __init__(self, authority: Authority, trust: TrustStore) -> None:
        self._authority = authority
        self._trust = trust
        self._unreachable = ""

    def stamp(self, statement: bytes, stem: str) -> Anchored:
        """Have the bytes stamped, and verify the reply.

        Raises:
            VerificationError: The authority answered, and the answer does not verify.
        """
        if not self._unreachable:
            try:
                token, files = make_stamp(statement, stem, self._authority, self._trust)
            except AuthorityUnreachableError as error:
                self._unreachable = str(error)
            else:
                return Anchored(
                    state=AnchorState(token.independence),
                    time=rfc3339(token.gen_time),
                    root=token.root,
                    root_sha256=token.root_sha256,
                    authority=self._authority.name,
                    files=files,
                )
        return Anchored(state=AnchorState.UNANCHORED, detail=self._unreachable)


class OfflineStamps:
    """Verifies stamps against the project's pins (`evidence.seal.anchor.StampVerifier`).

    Args:
        trust: The pins.
    """

    def __init__(self, trust: TrustStore) -> None:
        self._trust = trust

    def check(
        self, statement: bytes, stem: str, files: Mapping[str, bytes], block: Mapping[str, Any]
    ) -> StampCheck:
        """Verify a stamp over the bytes; see the port."""
        trust = self._trust
        for suffix in ("untrusted.pem", "root.pem"):
            with suppress(certificates.CertificateError):
                found = certificates.load_many(files.get(f"{stem}.{suffix}", b""))
                trust = trust.with_certificates(*(certificate.der for certificate in found))
        pinned = {root.sha256 for root in trust.roots}
        if block["state"] == AnchorState.SELF_ISSUED.value and block["root_sha256"] not in pinned:
            trust = trust.plus(
                PinnedRoot(
                    name=block["root"], sha256=block["root_sha256"], independence=SELF_ISSUED
                )
            )
        try:
            token = verify(
                files.get(f"{stem}.tsr", b""), statement, trust, query=files.get(f"{stem}.tsq")
            )
        except UnverifiableError as error:
            return StampCheck(ok=None, detail=str(error))
        except VerificationError as error:
            return StampCheck(ok=False, detail=str(error))
        said = {
            "state": token.independence,
            "time": rfc3339(token.gen_time),
            "root": token.root,
            "root_sha256": token.root_sha256,
        }
        for name, value in said.items():
            if name != "root" and value != block[name]:
                return StampCheck(ok=False, detail=f"its {name} is {value}, sealed {block[name]}")
        return StampCheck(
            ok=True, detail=f"stamped at {said['time']} by {token.root}, {token.independence}"
        )
