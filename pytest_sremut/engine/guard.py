"""The only way from the engine to a write on the cluster.

Rules kept here, in this order, for each operation of a closed list of kinds:

1. the context is one that was allowed by name, and the cluster is still the same cluster (UID of
   kube-system) as when it was leased;
2. a durable *intent* that names every object and every precondition is in the journal;
3. the typed call goes out, deletions with the UID precondition of an object that was captured or
   that this guard itself created;
4. the effect is *observed* by reading, never inferred from the acknowledgement;
5. a durable *receipt* with the observed effect is in the journal.

A failure between 2 and 5 leaves an intent without a receipt, which recovery reconciles by
observation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Literal, Protocol, TypeVar

from pytest_sremut.cluster.port import (
    Absent,
    Cluster,
    ClusterIdentity,
    Deleted,
    Failed,
    ObjectRef,
    Present,
)
from pytest_sremut.errors import ClusterError, ClusterUnavailableError, GuardRefusedError
from pytest_sremut.evidence.uninterrupted import uninterrupted

__all__ = ["Captured", "Guard", "JournalPort", "OperationKind", "captured", "ref_of"]


_T = TypeVar("_T")


class OperationKind(StrEnum):
    """Every kind of write the engine can make."""

    CREATE_NAMESPACE = "create-namespace"
    DEPLOY_APPLICATION = "deploy-application"
    REMOVE_APPLICATION = "remove-application"
    DELETE_TARGET = "delete-target"
    RECYCLE_PODS = "recycle-pods"
    CREATE_MUTANT = "create-mutant"
    DELETE_MUTANT = "delete-mutant"
    RESTORE_TARGET = "restore-target"
    CREATE_OWN_POD = "create-own-pod"
    DELETE_OWN_POD = "delete-own-pod"
    DELETE_BACKEND_POD = "delete-backend-pod"
    KILL_PODS = "kill-pods"
    BENCHMARK_INJECT = "benchmark-inject"
    BENCHMARK_RECOVER = "benchmark-recover"


class JournalPort(Protocol):
    """What the guard needs of an attempt's journal: one durable entry."""

    def append(self, transition: str, facts: Mapping[str, Any]) -> object: ...


class Captured:
    """An object with the identity it had when it was seen: a deletion names exactly this."""

    __slots__ = ("ref", "uid")

    def __init__(self, *, ref: ObjectRef, uid: str) -> None:
        self.ref = ref
        self.uid = uid

    def __repr__(self) -> str:
        return f"Captured({self.ref}, uid={self.uid})"


def ref_of(body: Mapping[str, Any], *, namespace: str = "") -> ObjectRef:
    """The reference of a whole object as the API sends it (`kind` and `metadata.name` present)."""
    metadata = body["metadata"]
    where = "" if body["kind"] in {"Namespace", "Node"} else metadata.get("namespace", namespace)
    return ObjectRef(kind=body["kind"], namespace=where, name=metadata["name"])


def captured(body: Mapping[str, Any]) -> Captured:
    """The captured identity of an object as the API sends it."""
    return Captured(ref=ref_of(body), uid=body["metadata"]["uid"])


class Guard:
    """Guarded writes on one leased cluster for one attempt.

    Args:
        cluster: The leased cluster.
        identity: Its identity when it was leased.
        allowed_contexts: Contexts that may be written to, by name.
        namespace: The only namespace whose objects are written.
        journal: Where intents and receipts go.
    """

    def __init__(
        self,
        *,
        cluster: Cluster,
        identity: ClusterIdentity,
        allowed_contexts: frozenset[str],
        namespace: str,
        journal: JournalPort,
    ) -> None:
        self._cluster = cluster
        self._identity = identity
        self._allowed = allowed_contexts
        self._namespace = namespace
        self._journal = journal
        self._sequence = 0

    def create(
        self,
        kind: OperationKind,
        bodies: Sequence[Mapping[str, Any]],
        *,
        note: Callable[[Present], None] = lambda _: None,
    ) -> list[Present]:
        """Create objects in order; none may exist. A conflict is never overwritten.

        Args:
            kind: What for.
            bodies: The objects.
            note: Told each object the moment the server acknowledged it, whatever becomes of the
                next ones: what was created can then be taken away again, by UID.

        Returns:
            The objects as read back after creation, in order.
        Raises:
            ClusterError: The server refused one (`AlreadyExists`, `Invalid`, ...).
            ClusterUnavailableError: The effect of one is unknown.
            GuardRefusedError: The rules above forbid it.
        """
        refs = [ref_of(body, namespace=self._namespace) for body in bodies]
        for ref in refs:
            self._check_scope(ref)
        intent = self._intent(kind, [{"object": str(ref), "call": "create"} for ref in refs])
        acknowledged: list[Present] = []
        for body, ref in zip(bodies, refs, strict=True):
            with uninterrupted():
                answer = self._cluster.api.create(body, namespace=ref.namespace)
                note(answer)
            acknowledged.append(answer)
        seen_now = self._observe(refs)
        created = [
            _created(ref, answer, seen)
            for ref, answer, seen in zip(refs, acknowledged, seen_now, strict=True)
        ]
        self._receipt(
            intent,
            [
                {"object": str(ref), "observed": "present", "uid": seen.body["metadata"]["uid"]}
                for ref, seen in zip(refs, created, strict=True)
            ],
        )
        return created

    def delete(
        self,
        kind: OperationKind,
        targets: Iterable[Captured],
        *,
        grace_period: int | None = None,
        propagation: Literal["Background", "Foreground", "Orphan"] | None = None,
    ) -> list[Deleted | Absent]:
        """Delete exactly these captured objects, each once, by UID.

        An object that is already gone is `Absent`; one of another UID under the same name is left
        alone and raises `GuardRefusedError`.
        """
        wanted = list(targets)
        for target in wanted:
            self._check_scope(target.ref)
            if not target.uid:
                raise GuardRefusedError(f"no captured UID for {target.ref}: refusing to delete it")
        intent = self._intent(
            kind,
            [{"object": str(item.ref), "call": "delete", "uid": item.uid} for item in wanted],
        )
        results: list[Deleted | Absent] = []
        for item in wanted:
            try:
                result = self._cluster.api.delete(
                    item.ref, uid=item.uid, grace_period=grace_period, propagation=propagation
                )
            except ClusterUnavailableError:
                raise
            except ClusterError as error:
                if error.reason == "Conflict":
                    raise GuardRefusedError(
                        f"{item.ref} is no longer the captured object (uid {item.uid}): "
                        "an unexpected object is never deleted"
                    ) from error
                raise
            results.append(result)
        seen_now = self._observe([item.ref for item in wanted])
        self._receipt(
            intent,
            [
                {"object": str(item.ref), "uid": item.uid, "observed": _deleted(item, seen)}
                for item, seen in zip(wanted, seen_now, strict=True)
            ],
        )
        return results

    def foreign(
        self, kind: OperationKind, *, refs: Sequence[ObjectRef], call: str, act: Callable[[], _T]
    ) -> _T:
        """Let code that is not ours write: on the right cluster, between an intent and a receipt.

        Its calls carry no preconditions of ours. What the receipt says was observed afterwards.

        Args:
            kind: What for.
            refs: The objects that it is expected to write.
            call: What it does, in words, for the intent.
            act: Runs it; may raise, which leaves the intent without a receipt.
        """
        for ref in refs:
            self._check_scope(ref)
        intent = self._intent(kind, [{"object": str(ref), "call": call} for ref in refs])
        result = act()
        self._receipt(
            intent,
            [
                {"object": str(ref), "observed": "absent"}
                if isinstance(seen, Absent)
                else {
                    "object": str(ref),
                    "observed": "present",
                    "uid": seen.body["metadata"]["uid"],
                }
                for ref, seen in zip(refs, self._observe(refs), strict=True)
            ],
        )
        return result

    def _check_scope(self, ref: ObjectRef) -> None:
        inside = ref.namespace == self._namespace or (
            ref.kind == "Namespace" and ref.name == self._namespace
        )
        if not inside:
            raise GuardRefusedError(
                f"{ref} lies outside the study's namespace {self._namespace}: refusing to write"
            )

    def _check_cluster(self) -> None:
        if self._cluster.context not in self._allowed:
            names = ", ".join(sorted(self._allowed)) or "none"
            raise GuardRefusedError(
                f"context {self._cluster.context} is not allowed for writing (allowed: {names})"
            )
        now = self._cluster.identity()
        if now.kube_system_uid != self._identity.kube_system_uid:
            raise GuardRefusedError(
                f"context {self._cluster.context} now reaches another cluster "
                f"(kube-system {now.kube_system_uid}, leased {self._identity.kube_system_uid})"
            )

    def _intent(self, kind: OperationKind, calls: Sequence[Mapping[str, str]]) -> str:
        self._check_cluster()
        self._sequence += 1
        intent = f"op-{self._sequence:04d}"
        self._journal.append(
            "INTENT", {"operation": intent, "kind": kind.value, "calls": list(calls)}
        )
        return intent

    def _receipt(self, intent: str, effects: Sequence[Mapping[str, str]]) -> None:
        self._journal.append("RECEIPT", {"operation": intent, "effects": list(effects)})

    def _observe(self, refs: Sequence[ObjectRef]) -> list[Present | Absent]:
        """What stands under these names now: one by one, or one list per kind for many."""
        if len(refs) <= _ONE_BY_ONE:
            return [_answered(self._cluster.api.get(ref)) for ref in refs]
        found: dict[ObjectRef, Present] = {}
        for kind in dict.fromkeys(ref.kind for ref in refs):
            listing = self._cluster.api.list(kind, self._namespace)
            if isinstance(listing, Failed):
                raise _unobserved(listing)
            for item in listing.items:
                # Items of a list do not carry their kind.
                body = {"kind": kind, **item}
                found[ref_of(body, namespace=self._namespace)] = Present(body=body, raw=b"")
        return [found.get(ref, Absent(ref=ref)) for ref in refs]


_ONE_BY_ONE = 2


def _answered(read: Present | Absent | Failed) -> Present | Absent:
    if isinstance(read, Failed):
        raise _unobserved(read)
    return read


def _unobserved(failed: Failed) -> ClusterUnavailableError:
    return ClusterUnavailableError(
        f"the effect cannot be observed: {failed.what}: {failed.message}",
        status=failed.status,
        reason=failed.reason,
    )


def _created(ref: ObjectRef, acknowledged: Present, seen: Present | Absent) -> Present:
    if isinstance(seen, Absent):
        raise ClusterError(f"{ref} was acknowledged and is not there", reason="NotFound")
    if seen.body["metadata"]["uid"] != acknowledged.body["metadata"]["uid"]:
        raise GuardRefusedError(f"{ref} was replaced by another object while creating")
    return seen


def _deleted(item: Captured, seen: Present | Absent) -> str:
    """Gone, terminating, or another object under that name."""
    if isinstance(seen, Absent):
        return "absent"
    metadata = seen.body["metadata"]
    if metadata["uid"] != item.uid:
        return f"replaced by {metadata['uid']}"
    return "terminating" if "deletionTimestamp" in metadata else "present"
