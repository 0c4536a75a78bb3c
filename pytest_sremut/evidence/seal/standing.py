"""What a run may be called. Pure: what was verified in, one label out.

Exploratory, pre-registered and sealed are three things, and a sealed run says beside the word what
its seal does not have. The one word that claims everything is given only to a sealed attempt whose
registration and stamp are independent, whose guards all held, whose seal verifies and whose session
was closed. This module alone knows the word; whoever prints a standing prints `label`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from pytest_sremut.evidence.seal.anchor import AnchorState
from pytest_sremut.study.verdict import Registration

__all__ = ["Standing", "claim_refusals", "label", "weakest"]

_CLAIM: Final = "OFFICIAL_FROZEN_ATTEMPT"
_ORDER: Final = (AnchorState.INDEPENDENT, AnchorState.SELF_ISSUED, AnchorState.UNANCHORED, None)
"""From the strongest to the weakest."""
_ANCHORS: Final = {
    AnchorState.SELF_ISSUED: "anchor self-issued",
    AnchorState.UNANCHORED: "unanchored",
    None: "anchor not verified",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What was verified of an attempt, or of all attempts of a study together.

    The defaults are what nothing is known of.
    """

    regime: Registration
    registration: AnchorState | None = None  # the weaker of its two stamps; None: not verified
    sealed: bool = False  # a seal stands there and holds
    complete: bool = False  # it was sealed as complete
    guards_held: bool = False
    anchor: AnchorState | None = None  # of the seal; None: not verified
    closed: bool = False  # the session's own seal stands there and holds


def claim_refusals(standing: Standing) -> tuple[str, ...]:
    """Why an attempt may not be called what claims everything; empty where it may."""
    return tuple(_refusals(standing))


def label(standing: Standing) -> str:
    """What the attempt is called in every output: header, summary, ledger."""
    if standing.regime is not Registration.SEALED:
        return standing.regime.value
    refusals = claim_refusals(standing)
    return f"SEALED [{'; '.join(refusals)}]" if refusals else _CLAIM


def weakest(standings: Iterable[Standing]) -> Standing | None:
    """The standing of several attempts together, in each respect the worst; None of none.

    Attempts of different regimes are never taken together: the least is then exploratory.
    """
    found = list(standings)
    if not found:
        return None
    regimes = {one.regime for one in found}
    return Standing(
        regime=regimes.pop() if len(regimes) == 1 else Registration.EXPLORATORY,
        registration=_weaker(one.registration for one in found),
        sealed=all(one.sealed for one in found),
        complete=all(one.complete for one in found),
        guards_held=all(one.guards_held for one in found),
        anchor=_weaker(one.anchor for one in found),
        closed=all(one.closed for one in found),
    )


def _refusals(standing: Standing) -> Iterator[str]:
    if standing.regime is not Registration.SEALED:
        yield f"{standing.regime.value.lower()}, not sealed"
        return
    if standing.registration is not AnchorState.INDEPENDENT:
        self_issued = standing.registration is AnchorState.SELF_ISSUED
        yield "registration self-issued" if self_issued else "registration not verified"
    if not standing.sealed:
        yield "no seal that holds"
        return
    if not standing.complete:
        yield "partial"
    if not standing.guards_held:
        yield "not every guard held"
    if standing.anchor is not AnchorState.INDEPENDENT:
        yield _ANCHORS[standing.anchor]
    if not standing.closed:
        yield "session not closed"


def _weaker(states: Iterable[AnchorState | None]) -> AnchorState | None:
    return max(states, key=_ORDER.index)
