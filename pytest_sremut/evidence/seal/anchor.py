"""The port to whoever stamps a seal, and the three states that an anchor can be in.

This room knows no timestamp authority; `attestation.anchoring` implements the port.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

__all__ = ["Anchor", "AnchorState", "Anchored", "StampCheck", "StampVerifier", "Unanchored"]


class AnchorState(StrEnum):
    """What stands behind a seal's time. The words are those of `attestation.trust`."""

    INDEPENDENT = "independent"
    SELF_ISSUED = "self-issued, no independent clock"
    UNANCHORED = "unanchored"


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchored:
    """What became of one anchoring. `detail` says why there is no stamp, where there is none."""

    state: AnchorState
    detail: str = ""
    time: str = ""  # RFC 3339; the authority's
    root: str = ""  # name of the pinned root
    root_sha256: str = ""
    authority: str = ""  # URL without query, or `self`
    files: Mapping[str, bytes] = field(default_factory=dict)  # the stamp's own, by name

    def as_json(self) -> dict[str, Any]:
        """What a seal says of it, without the digests of the files."""
        if self.state is AnchorState.UNANCHORED:
            return {"state": self.state.value, "detail": self.detail}
        return {
            "state": self.state.value,
            "time": self.time,
            "root": self.root,
            "root_sha256": self.root_sha256,
            "authority": self.authority,
        }


class Anchor(Protocol):
    """Whoever stamps."""

    def stamp(self, statement: bytes, stem: str) -> Anchored:
        """Have the bytes stamped; an authority that does not answer gives `UNANCHORED`.

        Args:
            statement: What is stamped.
            stem: Of the names of the stamp's files.

        Raises:
            AttestationError: It answered, and the answer does not verify.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StampCheck:
    """What became of verifying a stamp. `ok` None: nothing speaks against it, nobody for it."""

    ok: bool | None
    detail: str


class StampVerifier(Protocol):
    """Whoever verifies stamps offline."""

    def check(
        self, statement: bytes, stem: str, files: Mapping[str, bytes], block: Mapping[str, Any]
    ) -> StampCheck:
        """Verify a stamp over the bytes.

        Args:
            statement: What was stamped.
            stem: Of the names of the stamp's files.
            files: The stamp's files by name.
            block: What the signed document says of it (`Anchored.as_json`).
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Unanchored:
    """No authority was named, or none answered."""

    detail: str = "no timestamp authority was named (--sremut-tsa)"

    def stamp(self, statement: bytes, stem: str) -> Anchored:  # noqa: ARG002 - the port's
        """No stamp."""
        return Anchored(state=AnchorState.UNANCHORED, detail=self.detail)
