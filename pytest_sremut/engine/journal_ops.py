"""What a write is before it is made: its kind, its calls, and the objects that they name.

An operation is journaled as an *intent* before its first call. The intent has all that anybody
needs who must find out later what became of it: each object with its UID or, for a creation, the
field manager under which it was sent. A server keeps that in `managedFields`. So an object of ours
whose acknowledgement was lost can be distinguished from somebody else's of the same name, and the
object itself stays byte for byte as it was meant to be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, cast, get_args

from pytest_sremut.cluster.port import Kind, ObjectRef
from pytest_sremut.errors import EvidenceError
from pytest_sremut.ground.formats.canonical import sha256

__all__ = [
    "Call",
    "Captured",
    "Operation",
    "OperationKind",
    "captured",
    "manager_name",
    "ref_from",
    "ref_of",
]

CREATE, DELETE = "create", "delete"
_LONGEST_MANAGER: Final = 128  # characters that an API server takes


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
    BENCHMARK_DEPLOY = "benchmark-deploy"
    BENCHMARK_REMOVE = "benchmark-remove"


class Captured:
    """An object with the identity it had when it was seen: a deletion names exactly this."""

    __slots__ = ("ref", "uid")

    def __init__(self, *, ref: ObjectRef, uid: str) -> None:
        self.ref = ref
        self.uid = uid

    def __repr__(self) -> str:
        return f"Captured({self.ref}, uid={self.uid})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of an operation."""

    ref: ObjectRef
    call: str  # "create", "delete", or in words what code that is not ours does
    uid: str = ""  # of a deletion
    body: str = ""  # of a creation: SHA-256 of the canonical body as it is sent

    def as_json(self) -> dict[str, str]:
        """What an intent says of it."""
        told = {"object": str(self.ref), "call": self.call, "uid": self.uid, "body": self.body}
        return {key: value for key, value in told.items() if value}


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What an intent announces."""

    id: str  # "op-0007", in the order of the attempt's intents
    kind: OperationKind
    calls: tuple[Call, ...]
    manager: str = ""  # the field manager of its creations

    @property
    def number(self) -> int:
        """Its place among the attempt's intents, from 1."""
        return int(self.id.removeprefix("op-"))

    def as_json(self) -> dict[str, Any]:
        """The facts of its intent."""
        facts: dict[str, Any] = {
            "operation": self.id,
            "kind": self.kind.value,
            "calls": [call.as_json() for call in self.calls],
        }
        return {**facts, "manager": self.manager} if self.manager else facts

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> Operation:
        """Read the facts of an intent. Raises EvidenceError where they are none."""
        try:
            calls = tuple(
                Call(
                    ref=ref_from(str(call["object"])),
                    call=str(call["call"]),
                    uid=str(call.get("uid", "")),
                    body=str(call.get("body", "")),
                )
                for call in facts["calls"]
            )
            return cls(
                id=f"op-{int(facts['operation'].removeprefix('op-')):04d}",
                kind=OperationKind(facts["kind"]),
                calls=calls,
                manager=str(facts.get("manager", "")),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise EvidenceError(f"an intent cannot be read: {error!r}") from None


def ref_of(body: Mapping[str, Any], *, namespace: str = "") -> ObjectRef:
    """The reference of a whole object as the API sends it (`kind` and `metadata.name` present)."""
    metadata = body["metadata"]
    where = "" if body["kind"] in {"Namespace", "Node"} else metadata.get("namespace", namespace)
    return ObjectRef(kind=body["kind"], namespace=where, name=metadata["name"])


def ref_from(text: str) -> ObjectRef:
    """The reference of which this is the `str`. Raises ValueError."""
    kind, _, path = text.partition(" ")
    namespace, slash, name = path.partition("/")
    if kind not in get_args(Kind) or not path or (slash and not name):
        raise ValueError(f"{text!r} names no object")
    if not slash:
        namespace, name = "", path
    return ObjectRef(kind=cast(Kind, kind), namespace=namespace, name=name)


def captured(body: Mapping[str, Any]) -> Captured:
    """The captured identity of an object as the API sends it."""
    return Captured(ref=ref_of(body), uid=body["metadata"]["uid"])


def manager_name(owner: str, operation: str) -> str:
    """A field manager that no other operation of any attempt has, as short as a server takes it."""
    name = f"{owner}/{operation}"
    if len(name) <= _LONGEST_MANAGER:
        return name
    return f"sremut-{sha256(owner.encode())}/{operation}"
