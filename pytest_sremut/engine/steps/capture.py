"""Capturing the live target while everything is well: what is put back is this and nothing else.

What is kept as evidence is redacted. The digest of the whole body is kept beside it, so whoever
restores from the evidence knows whether it holds everything; where it does not, the whole body is
kept aside, privately and only for as long as the run lasts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_sremut.cluster.port import Failed, Present
from pytest_sremut.engine.faults.writes import target_ref
from pytest_sremut.engine.journal_ops import Captured, captured, ref_from
from pytest_sremut.engine.stops import RunStoppedError
from pytest_sremut.errors import ClusterUnavailableError, EvidenceError
from pytest_sremut.evidence.rawref import RawRef
from pytest_sremut.evidence.redaction import redact
from pytest_sremut.ground.formats.canonical import canonical_json, sha256
from pytest_sremut.study.mutants import strip_server_fields
from pytest_sremut.study.verdict import Outcome

if TYPE_CHECKING:
    from pytest_sremut.engine.state import RunContext

__all__ = ["Capture", "CapturedTarget", "capture_target", "restorable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedTarget:
    """The target as it was captured, for the journal: enough to put it back."""

    object: Captured
    file: RawRef  # the redacted body
    body: str  # SHA-256 of the canonical whole body, less what the server manages
    baseline: Mapping[str, int]  # Deployment -> replicas, while healthy

    def as_json(self) -> dict[str, Any]:
        """The facts of `HEALTHY_STATE_CAPTURED`."""
        return {
            "target": {
                "object": str(self.object.ref),
                "uid": self.object.uid,
                "file": self.file.as_json(),
                "body": self.body,
            },
            "baseline": dict(self.baseline),
        }

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> CapturedTarget:
        """Read those facts. Raises EvidenceError where they are none."""
        try:
            target = facts["target"]
            return cls(
                object=Captured(ref=ref_from(str(target["object"])), uid=str(target["uid"])),
                file=RawRef.from_json(target["file"]),
                body=str(target["body"]),
                baseline={str(name): int(count) for name, count in facts["baseline"].items()},
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise EvidenceError(f"the captured target cannot be read: {error!r}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """A target that was just captured."""

    target: CapturedTarget
    body: Mapping[str, Any]  # whole, as read
    aside: bytes  # the canonical whole body where the evidence lacks some of it; else empty


def restorable(body: Mapping[str, Any]) -> bytes:
    """The canonical bytes of what is sent when a captured object is put back."""
    return canonical_json(strip_server_fields(body))


def capture_target(ctx: RunContext, baseline: Mapping[str, int]) -> Capture:
    """Capture the target and keep what may be kept of it.

    Args:
        ctx: The run.
        baseline: Deployment -> replicas, while healthy.

    Raises:
        ClusterUnavailableError: It cannot be read.
        RunStoppedError: It is not there (`STOPPED_AT_HEALTHY_GATE`).
    """
    ref = target_ref(ctx)
    found = ctx.api.get(ref)
    if isinstance(found, Failed):
        raise ClusterUnavailableError(f"{ref} cannot be captured: {found}")
    if not isinstance(found, Present):
        raise RunStoppedError(
            Outcome.STOPPED_AT_HEALTHY_GATE, f"{ref} does not exist while healthy"
        )
    kept = redact(ref.kind, found.body)
    file = ctx.attempt.json("captured-target.json", kept)
    whole = restorable(found.body)
    target = CapturedTarget(
        object=captured(found.body), file=file, body=sha256(whole), baseline=dict(baseline)
    )
    aside = b"" if restorable(kept) == whole else whole
    return Capture(target=target, body=found.body, aside=aside)
