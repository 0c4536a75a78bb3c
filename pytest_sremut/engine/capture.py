"""Capturing the live target while everything is well: what is put back is this and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_sremut.cluster.port import Failed, Present
from pytest_sremut.engine import fault
from pytest_sremut.engine.stops import RunStoppedError
from pytest_sremut.errors import ClusterUnavailableError
from pytest_sremut.evidence.redaction import redact
from pytest_sremut.study.verdict import Outcome

if TYPE_CHECKING:
    from pytest_sremut.engine.context import RunContext
    from pytest_sremut.engine.recording import StateNotes

__all__ = ["capture_target"]


def capture_target(ctx: RunContext, notes: StateNotes) -> None:
    """Capture the target and keep what may be kept of it.

    Raises:
        ClusterUnavailableError: It cannot be read.
        RunStoppedError: It is not there (`STOPPED_AT_HEALTHY_GATE`).
    """
    ref = fault.target_ref(ctx)
    found = ctx.api.get(ref)
    match found:
        case Present():
            ctx.target = found.body
            notes.objects.append(
                ctx.attempt.json("captured-target.json", redact(ref.kind, found.body))
            )
        case Failed():
            raise ClusterUnavailableError(
                f"the target cannot be captured: {found}",
                status=found.status,
                reason=found.reason,
            )
        case _:
            raise RunStoppedError(
                Outcome.STOPPED_AT_HEALTHY_GATE, f"{ref} does not exist while healthy"
            )
    notes.facts["baseline"] = dict(ctx.baseline)
