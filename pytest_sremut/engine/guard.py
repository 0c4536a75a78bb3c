"""The only way from the engine to a write on the cluster.

Rules kept here, in this order, for each operation of a closed list of kinds:

1. the context is one that was allowed by name, and the cluster is still the same cluster (UID of
   kube-system) as when it was leased;
2. a durable *intent* that names every object and every precondition is in the journal;
3. the typed call goes out, deletions with the UID precondition of an object that was captured or
   that this guard itself created;
4. the effect is *observed* by reading, never inferred from the acknowledgement;
5. a durable *receipt* with the observed effect is in the journal.

A call goes out only through `_dispatch`, which takes an open intent, and an intent comes only from
the journal's own append. What ends between 2 and 5 leaves it open; `reconcile` closes it by
looking, here or in the process that recovers the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, Protocol, TypeVar

from pytest_sremut.cluster.overlap import all_of, attempted, batches
from pytest_sremut.cluster.port import (
    Absent,
    Cluster,
    ClusterIdentity,
    Deleted,
    Failed,
    ObjectRef,
    Present,
)
from pytest_sremut.engine.journal_ops import (
    CREATE,
    DELETE,
    Call,
    Captured,
    Operation,
    OperationKind,
    captured,
    manager_name,
    ref_of,
)
from pytest_sremut.engine.reconciliation import (
    Conclusion,
    Finding,
    deletion_seen,
    look,
    look_all,
    uid_of,
)
from pytest_sremut.errors import ClusterError, ClusterUnavailableError, GuardRefusedError
from pytest_sremut.ground.durable.uninterrupted import uninterrupted
from pytest_sremut.ground.formats.canonical import canonical_json, sha256

__all__ = ["Captured", "Guard", "JournalPort", "OperationKind", "captured", "ref_of"]


_T = TypeVar("_T")

Note = Callable[[Present], None]


class JournalPort(Protocol):
    """What the guard needs of an attempt's journal: one durable entry."""

    def append(self, transition: str, facts: Mapping[str, Any]) -> object: ...


class _Intent:
    """A durable intent. Made by `Guard._intend` alone, once the journal has it."""

    __slots__ = ("acknowledged", "note", "operation")

    def __init__(self, operation: Operation, note: Note) -> None:
        self.operation = operation
        self.note = note
        self.acknowledged: set[ObjectRef] = set()


class Guard:
    """Guarded writes on one leased cluster for one attempt.

    Args:
        cluster: The leased cluster.
        identity: Its identity when it was leased.
        allowed_contexts: Contexts that may be written to, by name.
        namespace: The only namespace whose objects are written.
        journal: Where intents and receipts go.
        manager: Whose creations these are; with the operation's id it is the field manager.
        sequence: Operations that the journal holds already.
    """

    def __init__(
        self,
        *,
        cluster: Cluster,
        identity: ClusterIdentity,
        allowed_contexts: frozenset[str],
        namespace: str,
        journal: JournalPort,
        manager: str = "sremut",
        sequence: int = 0,
    ) -> None:
        self._cluster = cluster
        self._identity = identity
        self._allowed = allowed_contexts
        self._namespace = namespace
        self._journal = journal
        self._manager = manager
        self._sequence = sequence
        self._open: dict[str, _Intent] = {}

    @property
    def unsettled(self) -> tuple[str, ...]:
        """Operations whose intent is durable and whose receipt is not."""
        return tuple(self._open)

    # -- operations -------------------------------------------------------------------------

    def create(
        self,
        kind: OperationKind,
        bodies: Sequence[Mapping[str, Any]],
        *,
        note: Note = lambda _: None,
    ) -> list[Present]:
        """Create objects; none may exist. A conflict is never overwritten.

        Neighbours of one kind go side by side, a few at once; after a failure no others follow.
        Args:
            kind: What for.
            bodies: The objects.
            note: Gets each object as soon as the server acknowledged it, whatever becomes of the
                next ones: what was created can then be taken away again, by UID. `reconcile` also
                calls it, with an object whose acknowledgement was lost.

        Returns: The objects as read back after creation, in order.
        Raises:
            ClusterError: The server refused one (`AlreadyExists`, `Invalid`, ...).
            ClusterUnavailableError: The effect of one is unknown.
            GuardRefusedError: The rules above forbid it.
        """
        refs = [ref_of(body, namespace=self._namespace) for body in bodies]
        calls = [
            Call(ref=ref, call=CREATE, body=sha256(canonical_json(body)))
            for ref, body in zip(refs, bodies, strict=True)
        ]
        intent = self._intend(kind, calls, note)
        acknowledged: list[Present] = []
        for batch in batches(list(zip(bodies, refs, strict=True)), lambda one: one[1].kind):
            with uninterrupted():
                answers = self._dispatch_all(
                    intent, [self._creation(intent, body, ref) for body, ref in batch]
                )
                for (_, ref), answer in zip(batch, answers, strict=True):
                    if isinstance(answer, Present):
                        intent.acknowledged.add(ref)
                        note(answer)
            acknowledged += all_of(answers)
        created = [
            _created(ref, answer, seen)
            for ref, answer, seen in zip(refs, acknowledged, self._observe(refs), strict=True)
        ]
        self._settle(
            intent,
            [
                {"object": str(ref), "observed": "present", "uid": uid_of(seen)}
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
        """Delete exactly these captured objects, each once, by UID, a few at once.

        An object that is already gone is `Absent`; one of another UID under the same name is left
        alone and raises `GuardRefusedError`.
        """
        wanted = list(targets)
        for target in wanted:
            if not target.uid:
                raise GuardRefusedError(f"no captured UID for {target.ref}: refusing to delete it")
        intent = self._intend(
            kind, [Call(ref=item.ref, call=DELETE, uid=item.uid) for item in wanted]
        )

        delete = partial(
            self._cluster.api.delete, grace_period=grace_period, propagation=propagation
        )
        results: list[Deleted | Absent] = []
        for batch in batches(wanted, lambda _: ""):
            answers = self._dispatch_all(
                intent, [partial(delete, item.ref, uid=item.uid) for item in batch]
            )
            for item, answer in zip(batch, answers, strict=True):
                match answer:
                    case ClusterUnavailableError():
                        raise answer
                    case ClusterError(reason="Conflict"):
                        results.append(self._after_conflict(item, answer))
                    case _:
                        results += all_of([answer])
        seen_now = self._observe([item.ref for item in wanted])
        self._settle(
            intent,
            [
                {
                    "object": str(item.ref),
                    "uid": item.uid,
                    "observed": deletion_seen(item.uid, seen),
                }
                for item, seen in zip(wanted, seen_now, strict=True)
            ],
        )
        return results

    def operate(
        self,
        kind: OperationKind,
        *,
        refs: Sequence[ObjectRef],
        call: str,
        act: Callable[[], _T],
        found: Callable[[], Sequence[Captured]] = tuple,
    ) -> _T:
        """Let a benchmark's operator write: on the right cluster, between intent and receipt.

        Its calls carry no preconditions of ours. What the receipt says was observed afterwards.

        Args:
            kind: What for.
            refs: The objects that it is expected to write.
            call: What it does, in words, for the intent.
            act: Runs it; may raise, which leaves the intent without a receipt.
            found: Asked afterwards what it made that could not be named beforehand.
        """
        intent = self._intend(kind, [Call(ref=ref, call=call) for ref in refs])
        result = self._dispatch(intent, act)
        seen_now = zip(refs, self._observe(refs), strict=True)
        named = [
            {"object": str(ref), "observed": "absent"}
            if isinstance(seen, Absent)
            else {"object": str(ref), "observed": "present", "uid": uid_of(seen)}
            for ref, seen in seen_now
        ]
        made = [
            {"object": str(item.ref), "observed": "present", "uid": item.uid}
            for item in found()
            if item.ref not in refs
        ]
        self._settle(intent, [*named, *made])
        return result

    def reconcile(self) -> None:
        """Close every open intent by looking, and tell its `note` what it created unnoticed.

        Nothing is sent again. See `engine.reconciliation` for what is concluded from what.

        Raises:
            ClusterUnavailableError: What became of one cannot be seen; it stays open.
            EvidenceError: Its receipt cannot be kept; it stays open.
        """
        for intent in list(self._open.values()):
            findings = look(self._cluster.api, intent.operation)
            unknown = [item for item in findings if item.conclusion is Conclusion.UNKNOWN]
            with uninterrupted():
                for item in findings:
                    if item.created is not None and item.call.ref not in intent.acknowledged:
                        intent.acknowledged.add(item.call.ref)
                        intent.note(item.created)
                if unknown:
                    raise ClusterUnavailableError(
                        f"what became of {intent.operation.id} ({intent.operation.kind}) cannot "
                        f"be seen: {unknown[0].observed}"
                    )
                self._settle(intent, [item.as_json() for item in findings], reconciled=True)

    def settle_earlier(self, operation: Operation) -> tuple[Finding, ...]:
        """Take over an intent that a process which is gone left open, and close it by looking.

        Where anything is unknown no receipt is written: the findings say so, and the operation
        stays open for whoever looks again.
        """
        findings = look(self._cluster.api, operation)
        if all(item.conclusion is not Conclusion.UNKNOWN for item in findings):
            intent = self._open[operation.id] = _Intent(operation, lambda _: None)
            self._settle(intent, [item.as_json() for item in findings], reconciled=True)
        return findings

    # -- the five steps ---------------------------------------------------------------------

    def _intend(
        self, kind: OperationKind, calls: Sequence[Call], note: Note = lambda _: None
    ) -> _Intent:
        for call in calls:
            self._check_scope(call.ref)
        self._check_cluster()
        self._sequence += 1
        identifier = f"op-{self._sequence:04d}"
        creates = any(call.call == CREATE for call in calls)
        operation = Operation(
            id=identifier,
            kind=kind,
            calls=tuple(calls),
            manager=manager_name(self._manager, identifier) if creates else "",
        )
        with uninterrupted():
            self._journal.append("INTENT", operation.as_json())
            intent = self._open[identifier] = _Intent(operation, note)
        return intent

    def _dispatch(self, intent: _Intent, call: Callable[[], _T]) -> _T:
        if self._open.get(intent.operation.id) is not intent:
            raise GuardRefusedError(f"{intent.operation.id} is not open: nothing is sent under it")
        self._check_cluster()
        return call()

    def _dispatch_all(
        self, intent: _Intent, calls: Sequence[Callable[[], _T]]
    ) -> list[_T | Exception]:
        """Dispatch the calls of one batch; what each returned or raised. None is on its way."""
        return attempted([partial(self._dispatch, intent, call) for call in calls])

    def _settle(
        self, intent: _Intent, effects: Sequence[Mapping[str, str]], *, reconciled: bool = False
    ) -> None:
        facts: dict[str, Any] = {"operation": intent.operation.id, "effects": list(effects)}
        with uninterrupted():
            self._journal.append("RECEIPT", {**facts, "reconciled": True} if reconciled else facts)
            del self._open[intent.operation.id]

    # -- checks -----------------------------------------------------------------------------

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
        now = self._cluster.kube_system_uid()
        if now != self._identity.kube_system_uid:
            raise GuardRefusedError(
                f"context {self._cluster.context} now reaches another cluster "
                f"(kube-system {now}, leased {self._identity.kube_system_uid})"
            )

    def _creation(
        self, intent: _Intent, body: Mapping[str, Any], ref: ObjectRef
    ) -> Callable[[], Present]:
        manager = intent.operation.manager
        return lambda: self._cluster.api.create(body, namespace=ref.namespace, manager=manager)

    def _after_conflict(self, item: Captured, error: ClusterError) -> Absent:
        """What a refused precondition means, by looking: only another UID is another object."""
        seen = _answered(self._cluster.api.get(item.ref))
        if isinstance(seen, Absent):
            return seen
        if uid_of(seen) == item.uid:
            raise error
        raise GuardRefusedError(
            f"{item.ref} is no longer the captured object (uid {item.uid}): "
            "an unexpected object is never deleted"
        ) from error

    def _observe(self, refs: Sequence[ObjectRef]) -> list[Present | Absent]:
        return [_answered(seen) for seen in look_all(self._cluster.api, refs)]


def _answered(read: Present | Absent | Failed) -> Present | Absent:
    if isinstance(read, Failed):
        raise ClusterUnavailableError(
            f"the effect cannot be observed: {read}", status=read.status, reason=read.reason
        )
    return read


def _created(ref: ObjectRef, acknowledged: Present, seen: Present | Absent) -> Present:
    if isinstance(seen, Absent):
        raise ClusterError(f"{ref} was acknowledged and is not there", reason="NotFound")
    if uid_of(seen) != uid_of(acknowledged):
        raise GuardRefusedError(f"{ref} was replaced by another object while creating")
    return seen
