"""The port through which everything above sees a cluster.

Reads tell *absent* (a 404 for that object) from *failed* (anything else) in the type, so neither
can be taken for the other. Writes are typed calls of a closed list of kinds and are only ever
made by the engine's guard (or, for an oracle under audit, by the oracle itself).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

__all__ = [
    "Absent",
    "Cluster",
    "ClusterFacts",
    "ClusterIdentity",
    "Deleted",
    "ExecResult",
    "Failed",
    "Kind",
    "KubeApi",
    "Listing",
    "LogLine",
    "LogSource",
    "ObjectRef",
    "Present",
    "Right",
    "WatchEvent",
]

Kind = Literal[
    "ConfigMap",
    "CustomResourceDefinition",
    "DaemonSet",
    "Deployment",
    "EndpointSlice",
    "Endpoints",
    "Event",
    "Job",
    "MutatingWebhookConfiguration",
    "Namespace",
    "Node",
    "Pod",
    "PriorityClass",
    "ReplicaSet",
    "Service",
    "ServiceAccount",
    "StorageClass",
    "ValidatingWebhookConfiguration",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectRef:
    """An object by kind and name. `namespace` is empty for the kinds of the cluster's scope."""

    kind: Kind
    namespace: str
    name: str

    def __str__(self) -> str:
        where = f"{self.namespace}/" if self.namespace else ""
        return f"{self.kind} {where}{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """One kind of call that a user may be allowed to make, in RBAC's words.

    `resource` is the plural, with a subresource if it is about one (`pods/exec`); `namespace` is
    empty at the cluster scope, `name` for any object.
    """

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        what, slash, sub = self.resource.partition("/")
        told = f"{self.verb} {what}{f'.{self.group}' if self.group else ''}{slash}{sub}"
        told += f" {self.name}" if self.name else ""
        if self.resource == "namespaces" and self.name:
            return told
        return (
            f"{told} in namespace {self.namespace}"
            if self.namespace
            else f"{told} at the cluster scope"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """The object as the server sent it."""

    body: Mapping[str, Any]
    raw: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Absent:
    """The server said NotFound for exactly this object."""

    ref: ObjectRef


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """No statement about the object: refused, timed out, 403, 5xx, truncated, not JSON, ..."""

    what: str
    status: int  # 0 without an HTTP answer
    reason: str
    message: str

    def __str__(self) -> str:
        """The call, and why it gave no answer: every message about it names the call."""
        return f"{self.what}: {self.reason}: {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A complete list (all pages) and the resourceVersion from which to watch."""

    items: tuple[Mapping[str, Any], ...]
    resource_version: str
    raw: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    """The server accepted a deletion; `body` is the object or Status it answered with."""

    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchEvent:
    """One event of a watch: ADDED, MODIFIED, DELETED, BOOKMARK."""

    type: str
    object: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecResult:
    """What a command in a pod did. `timed_out` means that we ended it; `exit_code` is then -1."""

    argv: tuple[str, ...]
    exit_code: int
    stdout: str
    stderr: str
    elapsed: float
    timed_out: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """One log line with the kubelet's RFC 3339 timestamp (nanoseconds), both as sent."""

    timestamp: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterIdentity:
    """What tells one cluster from another."""

    kube_system_uid: str
    server_version: str
    server: str  # API address


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """What a record says about the cluster. Values are JSON-ready and hold no secret."""

    kind: str  # "embedded", "kind", "context"
    name: str
    context: str
    values: Mapping[str, Any]


class KubeApi(Protocol):
    """Typed calls on one cluster. Read calls never raise for what the server says.

    Write calls raise `ClusterError` (the server refused; `status`, `reason`) or
    `ClusterUnavailableError` (no usable answer: the effect is unknown).
    """

    def get(self, ref: ObjectRef) -> Present | Absent | Failed: ...

    def list(
        self, kind: Kind, namespace: str, *, labels: str = "", fields: str = ""
    ) -> Listing | Failed:
        """All objects of a kind; an empty namespace lists over all of them."""
        ...

    def watch(
        self, kind: Kind, namespace: str, *, resource_version: str, timeout: float, labels: str = ""
    ) -> Iterator[WatchEvent]:
        """Events after `resource_version` until `timeout`. Raises ClusterUnavailableError."""
        ...

    def create(self, body: Mapping[str, Any], *, namespace: str, manager: str = "") -> Present:
        """POST; the server notes `manager` as the field manager of what is created."""
        ...

    def replace(self, body: Mapping[str, Any], *, namespace: str) -> Present:
        """PUT; the body's resourceVersion is the precondition."""
        ...

    def delete(
        self,
        ref: ObjectRef,
        *,
        uid: str,
        resource_version: str = "",
        grace_period: int | None = None,
        propagation: Literal["Background", "Foreground", "Orphan"] | None = None,
    ) -> Deleted | Absent:
        """Delete exactly the object with that UID. Another UID is a Conflict (ClusterError)."""
        ...

    def exec(
        self, namespace: str, pod: str, argv: Sequence[str], *, timeout: float
    ) -> ExecResult | Failed: ...

    def logs(
        self,
        namespace: str,
        pod: str,
        *,
        container: str = "",
        follow: bool = False,
        since: str = "",
        timeout: float,
    ) -> Iterator[bytes]:
        """Chunks of the log with `timestamps=true`, as sent; `since` an RFC 3339 time, "" for all.

        Raises ClusterError and subclass.
        """
        ...

    def version(self) -> Mapping[str, Any] | Failed: ...

    def allowed(self, right: Right) -> bool | Failed:
        """Whether the server would let us do that; asked of it, not tried."""
        ...


@runtime_checkable
class LogSource(Protocol):
    """A cluster whose own logs can explain why a run went wrong."""

    def export_logs(self, into: Path) -> None:
        """Keep them in a new directory below `into`, redacted. Logs that cannot be had are no
        error."""
        ...


class Cluster(Protocol):
    """A leased cluster: where it is, what it is, and how to reach it."""

    @property
    def name(self) -> str: ...

    @property
    def context(self) -> str: ...

    @property
    def kubeconfig(self) -> Path: ...

    @property
    def api(self) -> KubeApi: ...

    def identity(self) -> ClusterIdentity:
        """Read now, never cached. Raises ClusterUnavailableError."""
        ...

    def kube_system_uid(self) -> str:
        """Which cluster it is, by one request: for whoever asks before each write.

        Read now, never cached. Raises ClusterUnavailableError.
        """
        ...

    def facts(self) -> ClusterFacts: ...

    def fit_for_verdicts(self, *, timeout: float) -> Sequence[str]:
        """Empty when the cluster passed its own self-test, else one sentence per deviation."""
        ...

    def close(self) -> None: ...
