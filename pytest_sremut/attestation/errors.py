"""Every way in which a registration or a token can fail, grouped by whose fault it is.

`fault` is in the type, so that no caller has to read a sentence to know what a failure says:

* `INVALID`: the evidence speaks against what it is attached to. Other bytes, a broken signature,
  a token that is later than the run. Looser settings would be a mistake.
* `UNVERIFIABLE`: nothing speaks against the evidence, and nothing that we trust speaks for it.
  The signer's certificate or the root is not at hand, or the file is no timestamp at all.
* `AUTHORITY`: the timestamp authority refused or did not answer.
* `MISUSE`: what was asked cannot be done here.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import ClassVar

from pytest_sremut.errors import AttestationError

__all__ = [
    "AlreadyRegisteredError",
    "AuthorityAnswerError",
    "AuthorityUnreachableError",
    "CertificateNotValidAtTimeError",
    "CheckoutError",
    "CommitNotAtHandError",
    "EkuError",
    "Fault",
    "FrozenFileError",
    "ImprintMismatchError",
    "IncompleteRegistrationError",
    "InvalidRegistrationError",
    "ManifestError",
    "MisuseError",
    "NonceMismatchError",
    "NotATimestampError",
    "NotRegisteredError",
    "PolicyMismatchError",
    "RejectedByAuthorityError",
    "SignatureInvalidError",
    "SignerMismatchError",
    "SignerNotAtHandError",
    "TokenOrderError",
    "TreeChangedError",
    "UncommittedChangesError",
    "UnsupportedTokenError",
    "UntrustedRootError",
    "UnverifiableError",
    "VerificationError",
    "WeakDigestError",
]


class Fault(StrEnum):
    """Whose fault a failure is."""

    INVALID = "invalid"
    UNVERIFIABLE = "cannot be verified"
    AUTHORITY = "authority"
    MISUSE = "misuse"


class VerificationError(AttestationError):
    """Base of this room's errors.

    Args:
        message: One sentence: what was expected and what was found.
        details: Lines for `diagnostics()`.
    """

    fault: ClassVar[Fault] = Fault.INVALID
    hint: ClassVar[str] = ""

    def __init__(self, message: str, *, details: Sequence[str] = ()) -> None:
        super().__init__(message, details=details)
        self.passed: tuple[tuple[str, str], ...] = ()
        """Checks (name, detail) that had held before this one failed."""

    def diagnostics(self) -> str:
        return "\n".join([*self.details, *([self.hint] if self.hint else [])])


# -- invalid: the evidence speaks against what it is attached to --------------------------------


class InvalidRegistrationError(VerificationError):
    """The evidence speaks against what it is attached to."""


class ImprintMismatchError(InvalidRegistrationError):
    """The token was made for other bytes."""

    hint = (
        "The timestamp is over other bytes than these: the file was edited after it was stamped, "
        "or the token belongs to another file or revision."
    )


class SignatureInvalidError(InvalidRegistrationError):
    """The token's signature or its message digest does not hold."""

    hint = "The token was damaged or altered after the authority signed it."


class SignerMismatchError(InvalidRegistrationError):
    """What the token says of its signer contradicts itself."""


class EkuError(InvalidRegistrationError):
    """The signer's certificate may not sign timestamps (RFC 3161, 2.3)."""

    hint = (
        "RFC 3161 wants an extended key usage that is critical and holds timeStamping and "
        "nothing else."
    )


class CertificateNotValidAtTimeError(InvalidRegistrationError):
    """A certificate of the chain was not valid at the token's own time.

    The present time never matters: a token outlives the certificate that signed it.
    """


class WeakDigestError(InvalidRegistrationError):
    """SHA-1, MD5 or an unknown digest stands where a collision would forge the evidence."""

    hint = "Allowed digests: SHA-256, SHA-384, SHA-512."


class NonceMismatchError(InvalidRegistrationError):
    """The reply answers another query than the one kept beside it."""

    hint = "A reply without the query's nonce may be a replay of an earlier reply."


class PolicyMismatchError(InvalidRegistrationError):
    """The token stands under another policy than was asked for, or than the root's pin allows."""


class TokenOrderError(InvalidRegistrationError):
    """Predictions < tree < first mutation does not hold, accuracy included."""


class ManifestError(InvalidRegistrationError):
    """A manifest is not what it must be: not canonical, another study, a broken revision chain."""


class FrozenFileError(InvalidRegistrationError):
    """A frozen file is missing, or its bytes are not the ones that were registered."""


class TreeChangedError(InvalidRegistrationError):
    """The stamped commit is no ancestor of what is checked out, or frozen files changed since."""


class IncompleteRegistrationError(InvalidRegistrationError):
    """A revision lacks one of its own files."""


# -- cannot be verified: nothing speaks against it, nothing trusted speaks for it ---------------


class UnverifiableError(VerificationError):
    """Nothing speaks against the evidence, and nothing that we trust speaks for it."""

    fault = Fault.UNVERIFIABLE


class NotATimestampError(UnverifiableError):
    """The bytes are no RFC 3161 reply and no token. Says nothing about the stamped file."""

    hint = (
        "Expected is the authority's reply exactly as it came (DER, media type "
        "application/timestamp-reply), or the bare token out of it."
    )


class UnsupportedTokenError(UnverifiableError):
    """A well-formed token that uses a form which we do not verify."""


class SignerNotAtHandError(UnverifiableError):
    """The certificate that the token names as its signer's is neither in it nor pinned."""

    hint = (
        "The query did not ask for the certificate, or it was taken out. Name the file of the "
        "authority's certificate under `certificates:` of its root in trust.yaml. "
        "This is no sign of tampering."
    )


class UntrustedRootError(UnverifiableError):
    """No chain leads from the signer to a pinned root."""

    hint = (
        "A root inside a token proves nothing by itself. If you trust this authority, get its "
        "root from the authority, compare the fingerprint, and pin it in trust.yaml."
    )


class CommitNotAtHandError(UnverifiableError):
    """The stamped commit is not in this clone."""

    hint = "A shallow clone lacks it: `git fetch --unshallow`."


class NotRegisteredError(UnverifiableError):
    """The study has no registration."""

    hint = "Register it with `sremut freeze STUDY --tsa URL`, or run with --sremut-exploratory."


# -- the authority ------------------------------------------------------------------------------


class AuthorityAnswerError(VerificationError):
    """The authority answered with something that is no timestamp reply."""

    fault = Fault.AUTHORITY


class RejectedByAuthorityError(AuthorityAnswerError):
    """The reply says that nothing was stamped.

    Args:
        message: One sentence.
        status: RFC 3161 status, as a word.
        failure_info: The set bits of failInfo, as words.
        text: The authority's own words.
    """

    hint = "A reply with this status holds no timestamp; nothing was registered by it."

    def __init__(
        self,
        message: str,
        *,
        status: str,
        failure_info: tuple[str, ...] = (),
        text: tuple[str, ...] = (),
    ) -> None:
        self.status = status
        self.failure_info = failure_info
        self.text = text
        super().__init__(message)


class AuthorityUnreachableError(VerificationError):
    """No answer came: refused, name not found, timed out, server errors to the last try."""

    fault = Fault.AUTHORITY
    hint = "Nothing was written. Try again, or name another authority with --tsa."


# -- misuse -------------------------------------------------------------------------------------


class MisuseError(VerificationError):
    """What was asked cannot be done here."""

    fault = Fault.MISUSE


class AlreadyRegisteredError(MisuseError):
    """The file or revision to be created exists; it is never overwritten."""


class UncommittedChangesError(MisuseError):
    """Frozen or product files differ from the commit that is to be stamped."""

    hint = "Commit them first: the second token covers a commit, and must cover what will run."


class CheckoutError(MisuseError):
    """The project is not in a git checkout, or git cannot read it."""
