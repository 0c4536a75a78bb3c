"""The port through which a registration reaches a timestamp authority."""

from __future__ import annotations

from typing import Protocol

from pytest_sremut.attestation.rfc3161.trust import PinnedRoot

__all__ = ["Authority"]


class Authority(Protocol):
    """Whoever stamps. It is asked, and what it answers is verified like anything from outside."""

    @property
    def name(self) -> str:
        """What records call it: a URL, or `self`."""
        ...

    @property
    def root(self) -> PinnedRoot | None:
        """The root that comes with a self-issued authority and has to be pinned with the token.

        None for everybody else: their roots are pinned by people, before.
        """
        ...

    def stamp(self, query: bytes) -> bytes:
        """The reply to one query, as it came.

        Raises:
            AuthorityUnreachableError: No answer came.
            AuthorityAnswerError: The answer is no timestamp reply.
        """
        ...
