"""What became of an operation whose receipt is missing, decided by looking and by nothing else.

| call | seen now | conclusion |
|---|---|---|
| delete UID | that UID is there | not applied: the same guarded call may be repeated |
| delete UID | nothing, or another UID | applied: never repeated |
| create | an object with the operation's field manager | applied: it is ours, by its UID |
| create | nothing, or an object without it | not applied: what has its name is not ours |
| a benchmark's operator | anything | what is seen is what is known |
| any | no answer | unknown: nothing is done |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pytest_sremut.cluster.port import Absent, Failed, KubeApi, ObjectRef, Present
from pytest_sremut.engine.journal_ops import CREATE, DELETE, Call, Operation, ref_of

__all__ = ["Conclusion", "Finding", "look", "look_all", "made_by"]

_ONE_BY_ONE = 2


class Conclusion(StrEnum):
    """What became of one call."""

    APPLIED = "applied"
    NOT_APPLIED = "not-applied"
    SEEN = "seen"  # a benchmark's operator: no more can be said than what is there
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What is known of one call of an operation, by looking."""

    call: Call
    conclusion: Conclusion
    observed: str  # "absent", "present", "terminating", "replaced by UID", or why it is unknown
    found: Present | None = None  # the object of that name

    @property
    def created(self) -> Present | None:
        """The object of ours that a creation left."""
        ours = self.call.call == CREATE and self.conclusion is Conclusion.APPLIED
        return self.found if ours else None

    def as_json(self) -> dict[str, str]:
        """What a receipt says of it."""
        told = {
            "object": str(self.call.ref),
            "observed": self.observed,
            "conclusion": self.conclusion.value,
        }
        if self.call.call == DELETE:
            return {**told, "uid": self.call.uid}
        return {**told, "uid": uid_of(self.found)} if self.found else told


def look(api: KubeApi, operation: Operation) -> tuple[Finding, ...]:
    """Look once at every object of an operation."""
    seen = look_all(api, [call.ref for call in operation.calls])
    return tuple(
        _concluded(call, found, operation.manager)
        for call, found in zip(operation.calls, seen, strict=True)
    )


def look_all(api: KubeApi, refs: Sequence[ObjectRef]) -> list[Present | Absent | Failed]:
    """The objects of these names now: one by one, or one list per kind for many."""
    if len(refs) <= _ONE_BY_ONE:
        return [api.get(ref) for ref in refs]
    found: dict[ObjectRef, Present] = {}
    failed: dict[tuple[str, str], Failed] = {}
    for kind, namespace in dict.fromkeys((ref.kind, ref.namespace) for ref in refs):
        listing = api.list(kind, namespace)
        if isinstance(listing, Failed):
            failed[kind, namespace] = listing
            continue
        for item in listing.items:
            # Items of a list do not carry their kind.
            body = {"kind": kind, **item}
            found[ref_of(body, namespace=namespace)] = Present(body=body, raw=b"")
    return [
        failed[ref.kind, ref.namespace]
        if (ref.kind, ref.namespace) in failed
        else found.get(ref, Absent(ref=ref))
        for ref in refs
    ]


def made_by(body: Mapping[str, Any], manager: str) -> bool:
    """Whether an object was created under that field manager, as the server noted it."""
    entries = body["metadata"].get("managedFields") or ()
    return bool(manager) and any(entry.get("manager") == manager for entry in entries)


def uid_of(found: Present) -> str:
    """The UID of an object."""
    return str(found.body["metadata"]["uid"])


def deletion_seen(uid: str, found: Present | Absent) -> str:
    """What became of a deletion: gone, terminating, or another object of that name."""
    if isinstance(found, Absent):
        return "absent"
    if uid_of(found) != uid:
        return f"replaced by {uid_of(found)}"
    return "terminating" if "deletionTimestamp" in found.body["metadata"] else "present"


def _concluded(call: Call, found: Present | Absent | Failed, manager: str) -> Finding:
    if isinstance(found, Failed):
        return Finding(call=call, conclusion=Conclusion.UNKNOWN, observed=str(found))
    present = found if isinstance(found, Present) else None
    if call.call == DELETE:
        observed = deletion_seen(call.uid, found)
        remains = observed in {"present", "terminating"}
        conclusion = Conclusion.NOT_APPLIED if remains else Conclusion.APPLIED
        return Finding(call=call, conclusion=conclusion, observed=observed, found=present)
    if call.call != CREATE:
        observed = "present" if present else "absent"
        return Finding(call=call, conclusion=Conclusion.SEEN, observed=observed, found=present)
    if present is None:
        return Finding(call=call, conclusion=Conclusion.NOT_APPLIED, observed="absent")
    ours = made_by(present.body, manager)
    return Finding(
        call=call,
        conclusion=Conclusion.APPLIED if ours else Conclusion.NOT_APPLIED,
        observed="present" if ours else f"not ours: {uid_of(present)}",
        found=present,
    )
