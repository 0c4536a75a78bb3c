"""A sealed session, as the process that leads it sees it: what refuses one, and its key.

The leading process (xdist's controller, or the only one) holds the key. Workers finish attempts
that are bound to the public key. The leading process seals each attempt as soon as it has ended,
and the session itself at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_sremut.errors import SremutError
from pytest_sremut.evidence.identity import product_digest
from pytest_sremut.study.names import Check

if TYPE_CHECKING:
    from pytest_sremut.attestation.registration.result import RegistrationReport
    from pytest_sremut.attestation.rfc3161.authority import SelfIssuedAuthority
    from pytest_sremut.evidence.seal.anchor import Anchor
    from pytest_sremut.evidence.seal.key import SessionKey
    from pytest_sremut.evidence.seal.session import SealedSession
    from pytest_sremut.options.settings import Settings
    from pytest_sremut.session.admission import Admission
    from pytest_sremut.study.model import Study

__all__ = ["Sealing", "Unsealed", "refuses_sealed"]

_PACKAGE = "pytest_sremut"


def refuses_sealed(study: Study, report: RegistrationReport, root: Path) -> Iterator[str]:
    """Why a study may not run sealed, a sentence each; none where it may.

    Args:
        study: The study.
        report: The result of checking its registration.
        root: The project's root.
    """
    yield from report.refuses_sealed()
    checks = {invariant.check for invariant in study.contract.invariants}
    lacking = sorted(check.value for check in Check if check.value not in checks)
    if lacking:
        yield (
            f"a sealed run evaluates all {len(Check)} invariants; {study.contract.file} has none "
            f"of check {', '.join(lacking)}"
        )
    own = root / _PACKAGE
    if (own / "__init__.py").is_file() and product_digest(own) != product_digest():
        yield (
            f"the product that runs is not the one in {own}, which the tree token covers: run "
            "`python -m pytest` there"
        )
    elif (stamped := _stamped_product(report, root)) and stamped != product_digest():
        yield (
            f"the product that runs is not the one in the stamped commit: its digest is "
            f"{product_digest()}, that of the commit's objects {stamped}"
        )


def _stamped_product(report: RegistrationReport, root: Path) -> str:
    """The product's digest by the objects of the stamped commit; empty where it has no product.

    From git's objects: what git says of the work tree can be arranged.
    """
    from pytest_sremut.attestation.errors import CheckoutError
    from pytest_sremut.attestation.registration.checkout import open_checkout, product_at

    if report.tree is None:
        return ""
    try:
        return product_at(open_checkout(root), report.tree.commit)
    except CheckoutError:
        return ""  # told already: a sealed run needs the checkout of the stamped commit


class Unsealed:
    """Stands for `Sealing` in a session that is not sealed: nothing is done and nothing said."""

    public = ""
    """No key."""

    def lines(self) -> list[str]:
        """Nothing for the header."""
        return []

    def seal_closed(self) -> None:
        """Nothing to seal."""

    def close(self) -> list[str]:
        """Nothing that could not be sealed."""
        return []


class Sealing:
    """The leading process's part of one sealed session. Made by `start`.

    Args:
        key: Of the session.
        session: Opened under it.
        authority: Of our own, whose key is to be forgotten too.
    """

    def __init__(
        self, key: SessionKey, session: SealedSession, authority: SelfIssuedAuthority | None
    ) -> None:
        self._key = key
        self._session = session
        self._authority = authority
        self.public = key.public
        """The public key, base64; workers get it."""

    @classmethod
    def start(
        cls,
        settings: Settings,
        session_id: str,
        evidence: Path,
        admissions: Mapping[str, Admission],
    ) -> Sealing:
        """Make the session's key and say who the session is, before its first attempt.

        Raises:
            SremutError: The authority's answer does not verify, or evidence cannot be written.
        """
        from pytest_sremut.evidence.seal.key import SessionKey
        from pytest_sremut.evidence.seal.session import SealedSession

        key = SessionKey.generate(session_id)
        anchor, authority = _anchor(settings)
        session = SealedSession.open(
            evidence,
            key=key,
            registrations={
                study: _registration(admission) for study, admission in admissions.items()
            },
            product=product_digest(),
            anchor=anchor,
        )
        return cls(key, session, authority)

    def lines(self) -> list[str]:
        """For the header: whoever keeps this output can tell our key from another one later."""
        state, detail = self._session.anchor, self._session.anchor_detail
        stamps = f"{state.value} ({detail})" if detail else state.value
        return [
            f"sealed session {self._key.session}: key SHA-256 {self._key.sha256}",
            f"sealed session {self._key.session}: stamps: {stamps}",
        ]

    def seal_closed(self) -> None:
        """Seal every attempt that has ended and is not sealed. `close` reports what fails."""
        try:
            self._session.seal_closed()
        except SremutError as error:
            complaint = f"not sealed: {error}"
            if complaint not in self._session.complaints:
                self._session.complaints.append(complaint)

    def close(self) -> list[str]:
        """Seal what is left, then the session, and forget the keys.

        Returns:
            What could not be sealed, a sentence each.
        """
        try:
            self._session.close()
        except SremutError as error:
            return [*self._session.complaints, f"the session is not sealed: {error}"]
        finally:
            if self._authority is not None:
                self._authority.discard_key()
        return self._session.complaints


def _anchor(settings: Settings) -> tuple[Anchor, SelfIssuedAuthority | None]:
    """Who stamps, and the authority of our own where it is one."""
    from pytest_sremut.evidence.seal.anchor import Unanchored

    if not settings.tsa:
        return Unanchored(), None
    from pytest_sremut.attestation.registration.anchoring import TimestampAnchor
    from pytest_sremut.attestation.registration.pins import trust_of

    trust = trust_of(settings.root)
    if settings.tsa == "self":
        from pytest_sremut.attestation.rfc3161.authority import SelfIssuedAuthority

        authority = SelfIssuedAuthority()
        return TimestampAnchor(authority, trust), authority
    from pytest_sremut.attestation.rfc3161.transport import HttpAuthority

    return TimestampAnchor(HttpAuthority(url=settings.tsa), trust), None


def _registration(admission: Admission) -> dict[str, Any]:
    report = admission.report
    assert report is not None
    assert report.tree is not None
    return {
        "registration": report.digest,
        "revision": report.revision,
        "commit": report.tree.commit,
    }
