"""The phases of one run and the only moves between them.

A run can be advanced and never rewound. Each move is an entry of the attempt's journal.
"""

from __future__ import annotations

from enum import StrEnum

__all__ = ["FINAL", "LEGAL", "MUTATED", "STANDSTILL", "Phase", "check_transition"]


class Phase(StrEnum):
    """How far a run is."""

    CREATED = "CREATED"
    PREFLIGHT_PASS = "PREFLIGHT_PASS"  # noqa: S105 - a phase, not a password
    HEALTHY_STATE_CAPTURED = "HEALTHY_STATE_CAPTURED"
    MUTANT_INJECTED = "MUTANT_INJECTED"
    MUTANT_STATE_VERIFIED = "MUTANT_STATE_VERIFIED"
    ORACLE_STARTED = "ORACLE_STARTED"
    ORACLE_EVALUATED = "ORACLE_EVALUATED"
    CONTRACT_EVALUATED = "CONTRACT_EVALUATED"
    RESTORE_STARTED = "RESTORE_STARTED"
    RESTORE_VERIFIED = "RESTORE_VERIFIED"
    FINALIZED = "FINALIZED"
    ABORTED_SAFE = "ABORTED_SAFE"
    RESTORATION_BLOCKED = "RESTORATION_BLOCKED"


FINAL = frozenset({Phase.FINALIZED, Phase.ABORTED_SAFE, Phase.RESTORATION_BLOCKED})

MUTATED = frozenset(
    {
        Phase.MUTANT_INJECTED,
        Phase.MUTANT_STATE_VERIFIED,
        Phase.ORACLE_STARTED,
        Phase.ORACLE_EVALUATED,
        Phase.CONTRACT_EVALUATED,
        Phase.RESTORE_STARTED,
    }
)
"""Phases in which the system may be mutated: no end but through a restoration."""

STANDSTILL = frozenset({Phase.RESTORE_STARTED, Phase.RESTORATION_BLOCKED})
"""Phases that are entered even while it is unknown what became of a write."""

# Before the first mutation a run may stop safely at any point; after it, only through a
# verified restoration, or it is blocked.
LEGAL: dict[Phase, frozenset[Phase]] = {
    Phase.CREATED: frozenset({Phase.PREFLIGHT_PASS, Phase.ABORTED_SAFE}),
    Phase.PREFLIGHT_PASS: frozenset({Phase.HEALTHY_STATE_CAPTURED, Phase.ABORTED_SAFE}),
    Phase.HEALTHY_STATE_CAPTURED: frozenset({Phase.MUTANT_INJECTED, Phase.ABORTED_SAFE}),
    Phase.MUTANT_INJECTED: frozenset({Phase.MUTANT_STATE_VERIFIED, Phase.RESTORE_STARTED}),
    Phase.MUTANT_STATE_VERIFIED: frozenset({Phase.ORACLE_STARTED, Phase.RESTORE_STARTED}),
    Phase.ORACLE_STARTED: frozenset({Phase.ORACLE_EVALUATED, Phase.RESTORE_STARTED}),
    Phase.ORACLE_EVALUATED: frozenset({Phase.CONTRACT_EVALUATED, Phase.RESTORE_STARTED}),
    Phase.CONTRACT_EVALUATED: frozenset({Phase.RESTORE_STARTED}),
    Phase.RESTORE_STARTED: frozenset({Phase.RESTORE_VERIFIED, Phase.RESTORATION_BLOCKED}),
    Phase.RESTORE_VERIFIED: frozenset({Phase.FINALIZED, Phase.ABORTED_SAFE}),
    Phase.FINALIZED: frozenset(),
    Phase.ABORTED_SAFE: frozenset(),
    Phase.RESTORATION_BLOCKED: frozenset(),
}


def check_transition(old: Phase, new: Phase) -> None:
    """Raise RuntimeError for a move that is not in `LEGAL`: that is a bug of ours, not an input."""
    if new not in LEGAL[old]:
        raise RuntimeError(f"illegal transition {old} -> {new}")
