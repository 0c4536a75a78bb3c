"""Predictions < tree < first mutation: by the tokens' own times, at the worse end of accuracy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Self

from pytest_sremut.attestation.errors import TokenOrderError
from pytest_sremut.attestation.rfc3161.verify import VerifiedToken
from pytest_sremut.ground.durable.clock import rfc3339

__all__ = ["Step", "require_order"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Something that happened between two moments."""

    name: str
    earliest: datetime
    latest: datetime

    @classmethod
    def of(cls, name: str, token: VerifiedToken) -> Self:
        """The stamping of a token."""
        return cls(name=name, earliest=token.earliest, latest=token.latest)

    @classmethod
    def at(cls, name: str, when: datetime) -> Self:
        """Something of which the moment is known."""
        return cls(name=name, earliest=when, latest=when)


def require_order(steps: Sequence[Step]) -> None:
    """Every step ended, at the latest, before the next one began, at the earliest.

    Raises:
        TokenOrderError: Two neighbours are not so ordered, or may not be.
    """
    for before, after in pairwise(steps):
        if not before.latest < after.earliest:
            raise TokenOrderError(
                f"{before.name} is not before {after.name}: it may be as late as "
                f"{rfc3339(before.latest)}, {after.name} as early as {rfc3339(after.earliest)}"
            )
