"""Seals: what an attempt's directory held when it was sealed, signed by its session's own key.

    <study>/<run>/a01/seal/SHA256SUMS       every file of the attempt, as `sha256sum -c` reads it
                           SHA256SUMS.sig   Ed25519 over its bytes, 64 bytes raw
                           seal.json        who this is, key, journal head, extent, guards, anchor
                           seal.sig         Ed25519 over its bytes
                           anchor.*         what a timestamp authority stamped, where one answered

The key is made when a session starts, in its controller only, and is never written. Nothing is
overwritten: the directory appears whole or not at all.
"""

from pytest_sremut.evidence.seal.anchor import Anchor, Anchored, AnchorState, Unanchored
from pytest_sremut.evidence.seal.attempt import Seal, seal_attempt, seal_recovered
from pytest_sremut.evidence.seal.key import SessionKey

__all__ = [
    "Anchor",
    "AnchorState",
    "Anchored",
    "Seal",
    "SessionKey",
    "Unanchored",
    "seal_attempt",
    "seal_recovered",
]
