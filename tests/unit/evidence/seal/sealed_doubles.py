"""Attempts of a sealed session without a cluster, whose every guard held."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evidence_doubles import TickingClock, identity, state_body

from pytest_sremut.evidence.attempt import Attempt
from pytest_sremut.evidence.identity import AttemptIdentity
from pytest_sremut.evidence.root import EvidenceRoot
from pytest_sremut.evidence.seal import Anchor, SessionKey, Unanchored
from pytest_sremut.evidence.seal.session import SealedSession
from pytest_sremut.study.verdict import Outcome, Registration, State

SESSION = "20260829T102200Z-abcdef"
MANIFEST = "a" * 64


def sealed_identity(key: SessionKey, **changes: Any) -> AttemptIdentity:
    """An attempt at ms-m02-r03 in a sealed session."""
    return identity(
        **{
            "registration": Registration.SEALED,
            "session": key.session,
            "cluster": {"kind": "embedded", "kube_system_uid": "uid-of-kube-system"},
            "product": {"version": "0.1.0", "digest": "d" * 64},
            "sealed": {"registration": MANIFEST, "revision": 1, "key": key.public},
            **changes,
        }
    )


def begin(root: EvidenceRoot, key: SessionKey, **changes: Any) -> Attempt:
    """An attempt that has begun."""
    attempt = root.begin(sealed_identity(key, **changes))
    attempt.journal.append("CREATED", {"mutant": "MS-M02"})
    return attempt


def operate(attempt: Attempt, number: int = 1, *, receipt: bool = True) -> None:
    """One guarded operation."""
    operation = f"op-{number:04d}"
    attempt.journal.append("INTENT", {"operation": operation, "kind": "delete-target"})
    if receipt:
        attempt.journal.append("RECEIPT", {"operation": operation, "effects": []})


def finish(attempt: Attempt, *, not_evaluated: Mapping[State, list[str]] | None = None) -> Attempt:
    """Three states, a sampler, FINALIZED, closed as COMPLETE."""
    with attempt.stream("sampler.jsonl") as samples:
        samples.write({"pods": 27})
    operate(attempt)
    for state in State:
        raw = attempt.raw(f"{state.value}-O1.json", b'{"success":true}')
        body = state_body(raw)
        body["contract"]["not_evaluated"] = (not_evaluated or {}).get(state, [])
        attempt.finish_state(state, body)
    attempt.journal.append("FINALIZED")
    attempt.close(outcome=Outcome.COMPLETE, reason="all is well", record={})
    return attempt


def evidence(path: Path) -> EvidenceRoot:
    """An evidence directory on a clock of its own."""
    return EvidenceRoot.open(path, clock=TickingClock())


def open_session(
    root: EvidenceRoot, key: SessionKey, *, anchor: Anchor | None = None
) -> SealedSession:
    """A sealed session in an evidence directory."""
    return SealedSession.open(
        root.directory,
        key=key,
        registrations={
            "missing_service": {"registration": MANIFEST, "revision": 1, "commit": "c" * 40}
        },
        product="d" * 64,
        anchor=anchor or Unanchored(),
        clock=TickingClock(),
    )


def sealed_evidence(
    path: Path, *, session: str = SESSION, attempts: int, anchor: Anchor | None = None
) -> EvidenceRoot:
    """A whole sealed session: `attempts` runs, MS-M01 and so on, each COMPLETE."""
    root = evidence(path)
    key = SessionKey.generate(session)
    sealed = open_session(root, key, anchor=anchor)
    for number in range(1, attempts + 1):
        run, mutant = f"ms-m0{number}-r01", f"MS-M0{number}"
        finish(begin(root, key, run=run, mutant=mutant, repetition=1))
        assert len(sealed.seal_closed()) == 1
    sealed.close()
    assert sealed.complaints == []
    return root
