"""How far a run is and what it did, from its journal alone. Pure.

Everything that a dead process knew and that matters is here: the phase, whether the system may be
mutated, what was captured, which writes were announced, and what became of each. Marks elsewhere
only help to find the journal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pytest_sremut.engine.journal_ops import CREATE, Call, Operation
from pytest_sremut.engine.steps.capture import CapturedTarget
from pytest_sremut.engine.transitions import FINAL, Phase
from pytest_sremut.errors import EvidenceError
from pytest_sremut.evidence.journal import JournalEntry

__all__ = ["RECOVERY_STARTED", "Creation", "Journaled", "rebuild"]

RECOVERY_STARTED: Final = "RECOVERY_STARTED"
"""The transition with which a recovery begins; it lifts a block."""

_PHASES: Final = frozenset(phase.value for phase in Phase)


@dataclass(frozen=True, slots=True, kw_only=True)
class Creation:
    """One object that was, or may have been, created."""

    operation: Operation
    call: Call
    uid: str  # as a receipt observed it; empty where none did


@dataclass(frozen=True, slots=True, kw_only=True)
class Journaled:
    """Where a run is, and what it did, by its journal."""

    phase: Phase = Phase.CREATED
    mutated: bool = False  # injected, and no restoration verified since
    study: str = ""  # its file, relative to the project
    target: CapturedTarget | None = None
    operations: tuple[Operation, ...] = ()
    effects: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    recoveries: int = 0

    @property
    def open(self) -> tuple[Operation, ...]:
        """Operations with an intent and no receipt, in order."""
        return tuple(item for item in self.operations if item.id not in self.effects)

    @property
    def over(self) -> bool:
        """Whether nothing is left to be done on the cluster."""
        return self.phase in {Phase.FINALIZED, Phase.ABORTED_SAFE}

    @property
    def creations(self) -> Iterator[Creation]:
        """Everything that was, or may have been, created, in order."""
        for operation in self.operations:
            seen = {e.get("object"): e.get("uid", "") for e in self.effects.get(operation.id, ())}
            for call in operation.calls:
                if call.call == CREATE:
                    uid = str(seen.get(str(call.ref)) or "")
                    yield Creation(operation=operation, call=call, uid=uid)


def rebuild(entries: Sequence[JournalEntry]) -> Journaled:
    """The state that a journal, and those of earlier recoveries after it, add up to.

    Raises:
        EvidenceError: An entry chains and does not say what one of its kind says.
    """
    phase = before = Phase.CREATED
    mutated = False
    study, recoveries = "", 0
    target: CapturedTarget | None = None
    operations: dict[str, Operation] = {}
    effects: dict[str, Sequence[Mapping[str, Any]]] = {}
    for entry in entries:
        facts = entry.facts
        match entry.transition:
            case "INTENT":
                operation = Operation.from_json(facts)
                operations[operation.id] = operation
            case "RECEIPT":
                effects[_known(facts, operations)] = _effects(facts)
            case "RECOVERY_STARTED":
                recoveries += 1
                if phase is Phase.RESTORATION_BLOCKED:
                    phase = Phase.RESTORE_STARTED if mutated else before
            case transition if transition in _PHASES:
                before, phase = (before if phase in FINAL else phase), Phase(transition)
                if phase is Phase.CREATED:
                    study = str(facts.get("study", ""))
                elif phase is Phase.HEALTHY_STATE_CAPTURED and "target" in facts:
                    target = CapturedTarget.from_json(facts)
                mutated = _mutated(phase, mutated)
            case _:
                pass  # a state that was recorded, an end that was announced
    return Journaled(
        phase=phase,
        mutated=mutated,
        study=study,
        target=target,
        operations=tuple(operations.values()),
        effects=effects,
        recoveries=recoveries,
    )


def _mutated(phase: Phase, before: bool) -> bool:
    if phase is Phase.MUTANT_INJECTED:
        return True
    return before and phase is not Phase.RESTORE_VERIFIED


def _known(facts: Mapping[str, Any], operations: Mapping[str, Operation]) -> str:
    operation = str(facts.get("operation", ""))
    if operation not in operations:
        raise EvidenceError(f"a receipt of {operation!r} without its intent")
    return operation


def _effects(facts: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    effects = facts.get("effects")
    if not isinstance(effects, list) or not all(isinstance(one, dict) for one in effects):
        raise EvidenceError(f"a receipt of {facts.get('operation')!r} without effects")
    return effects
