"""An in-memory adversary behind the `KubeApi` port.

It keeps objects as the server would (uid, resourceVersion, a history to watch), and can be told to
fail, lie or go away per call. It never sleeps: a watch that has nothing more to say calls `on_idle`
once and then ends, as a watch does at its timeout.

    kube = FakeKube()
    kube.put(service("web"))
    kube.break_next("get", "Service", times=2)          # two reads fail, then it heals
    kube.break_always("list", status=503)               # until `heal()`
    kube.reactors.append(lambda kube, verb, body: ...)  # a controller: runs after each write
    kube.on_exec = lambda namespace, pod, argv: ok("...")
"""

from __future__ import annotations

import copy
import functools
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pytest_sremut.cluster.port import (
    Absent,
    Deleted,
    ExecResult,
    Failed,
    Kind,
    Listing,
    ObjectRef,
    Present,
    Right,
    WatchEvent,
)
from pytest_sremut.cluster.resources import RESOURCES
from pytest_sremut.errors import ClusterError, ClusterUnavailableError

__all__ = ["FakeKube", "Fault", "executed"]

_CLUSTER_SCOPED = frozenset(kind for kind, row in RESOURCES.items() if not row.namespaced)


@dataclass(slots=True, kw_only=True)
class Fault:
    """A rule that makes matching calls fail; empty `kind` or `name` match everything."""

    verb: str
    kind: str = ""
    name: str = ""
    times: int = -1  # how often it still strikes; -1 for ever
    status: int = 503
    reason: str = "ServiceUnavailable"
    message: str = "the fake API was told to fail"

    def strikes(self, verb: str, kind: str, name: str) -> bool:
        """Whether this call fails; counts down."""
        if self.times == 0 or self.verb not in ("*", verb):
            return False
        if (self.kind and self.kind != kind) or (self.name and self.name != name):
            return False
        if self.times > 0:
            self.times -= 1
        return True


def executed(
    argv: Sequence[str] = (),
    *,
    exit_code: int = 0,
    stdout: str = "",
    stderr: str = "",
    timed_out: bool = False,
) -> ExecResult:
    """An `ExecResult` in one line."""
    return ExecResult(
        argv=tuple(argv),
        exit_code=-1 if timed_out else exit_code,
        stdout=stdout,
        stderr=stderr,
        elapsed=0.01,
        timed_out=timed_out,
    )


def _one_at_a_time(write: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(write)
    def alone(self: FakeKube, *arguments: Any, **more: Any) -> Any:
        with self._writing:
            return write(self, *arguments, **more)

    return alone


class FakeKube:
    """See the module's docstring. Satisfies `KubeApi`."""

    def __init__(self, *objects: Mapping[str, Any]) -> None:
        self.objects: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.history: list[tuple[int, str, dict[str, Any]]] = []
        self.faults: list[Fault] = []
        self.calls: list[tuple[str, str, str]] = []
        self.reactors: list[Callable[[FakeKube, str, Mapping[str, Any]], None]] = []
        self.on_exec: Callable[[str, str, Sequence[str]], ExecResult | Failed] | None = None
        self.on_idle: Callable[[FakeKube], None] | None = None
        self.log_chunks: dict[tuple[str, str], list[bytes]] = {}
        self.server_version: Mapping[str, Any] = {"gitVersion": "v1.36.2"}
        self.forbidden: set[str] = set()  # rights that reviews deny, as `str(right)`
        self.watch_expired = 0  # so many watches answer 410 first
        # Writes come side by side, and a server makes them one after another, each with what its
        # controllers do at once.
        self._writing = threading.RLock()
        self._revision = 0
        self._uids = 0
        self.put({"kind": "Namespace", "metadata": {"name": "kube-system", "uid": "cluster-1"}})
        for body in objects:
            self.put(body)

    # -- the test's side -------------------------------------------------------------------------

    def put(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Create or overwrite an object without the API's rules; fills uid and resourceVersion."""
        new = copy.deepcopy(dict(body))
        meta = new.setdefault("metadata", {})
        if new["kind"] not in _CLUSTER_SCOPED:
            meta.setdefault("namespace", "default")
        key = (new["kind"], meta.get("namespace", ""), meta["name"])
        old = self.objects.get(key)
        if "uid" not in meta:
            meta["uid"] = old["metadata"]["uid"] if old else self._new_uid(key)
        self._record("MODIFIED" if old else "ADDED", key, new)
        return new

    def drop(self, kind: str, namespace: str, name: str) -> None:
        """Remove an object without the API's rules."""
        old = self.objects.pop((kind, namespace, name))
        self._revision += 1
        self.history.append((self._revision, "DELETED", old))

    def change(self, kind: str, namespace: str, name: str, **paths: Any) -> None:
        """Set `a__b__c=value` paths of an object in place (a new revision)."""
        body = copy.deepcopy(self.objects[(kind, namespace, name)])
        for path, value in paths.items():
            *parents, last = path.split("__")
            node = body
            for parent in parents:
                node = node.setdefault(parent, {})
            node[last] = value
        self.put(body)

    def break_next(self, verb: str, kind: str = "", *, times: int = 1, **how: Any) -> None:
        """The next `times` matching calls fail."""
        self.faults.append(Fault(verb=verb, kind=kind, times=times, **how))

    def break_always(self, verb: str = "*", kind: str = "", **how: Any) -> None:
        """Matching calls fail until `heal`."""
        self.faults.append(Fault(verb=verb, kind=kind, **how))

    def heal(self) -> None:
        """Forget every fault."""
        self.faults.clear()

    # -- the port --------------------------------------------------------------------------------

    def get(self, ref: ObjectRef) -> Present | Absent | Failed:
        if failed := self._strike("get", ref.kind, ref.name):
            return failed
        body = self.objects.get((ref.kind, ref.namespace, ref.name))
        return self._present(body) if body is not None else Absent(ref=ref)

    def list(
        self, kind: Kind, namespace: str, *, labels: str = "", fields: str = ""
    ) -> Listing | Failed:
        if failed := self._strike("list", kind, ""):
            return failed
        items = tuple(
            copy.deepcopy(body)
            for key, body in sorted(self.objects.items())
            if key[0] == kind
            and (not namespace or key[1] == namespace)
            and _labels_match(labels, body)
            and _fields_match(fields, body)
        )
        return Listing(
            items=items,
            resource_version=str(self._revision),
            raw=json.dumps({"items": items}).encode(),
        )

    def watch(
        self, kind: Kind, namespace: str, *, resource_version: str, timeout: float, labels: str = ""
    ) -> Iterator[WatchEvent]:
        if failed := self._strike("watch", kind, ""):
            raise ClusterUnavailableError(failed.message, status=failed.status)
        if self.watch_expired > 0:
            self.watch_expired -= 1
            raise ClusterError("too old resource version", status=410, reason="Expired")
        seen = int(resource_version)
        idled = False
        while True:
            news = [event for event in self.history if event[0] > seen]
            for revision, type_, body in news:
                seen = revision
                where = body["metadata"].get("namespace")
                if body["kind"] != kind or (namespace and where != namespace):
                    continue
                if _labels_match(labels, body):
                    yield WatchEvent(type=type_, object=copy.deepcopy(body))
            if news:
                continue
            if idled or self.on_idle is None:
                return
            idled = True
            self.on_idle(self)

    @_one_at_a_time
    def create(self, body: Mapping[str, Any], *, namespace: str, manager: str = "") -> Present:
        kind = body["kind"]
        new = copy.deepcopy(dict(body))
        meta = new.setdefault("metadata", {})
        if "name" not in meta:
            self._uids += 1
            meta["name"] = f"{meta['generateName']}{self._uids:05d}"
        self._refuse("create", kind, meta["name"])
        where = "" if kind in _CLUSTER_SCOPED else namespace
        if (kind, where, meta["name"]) in self.objects:
            raise ClusterError("already exists", status=409, reason="AlreadyExists")
        if where:
            meta["namespace"] = where
        meta.pop("uid", None)
        if manager:
            meta["managedFields"] = [{"manager": manager, "operation": "Update"}]
        created = self.put(new)
        self._react("create", created)
        return self._present(self.objects.get((kind, where, meta["name"]), created))

    @_one_at_a_time
    def replace(self, body: Mapping[str, Any], *, namespace: str) -> Present:
        meta = body["metadata"]
        self._refuse("replace", body["kind"], meta["name"])
        old = self.objects.get((body["kind"], namespace, meta["name"]))
        if old is None:
            raise ClusterError("not found", status=404, reason="NotFound")
        wanted = meta.get("resourceVersion", "")
        if wanted and wanted != old["metadata"]["resourceVersion"]:
            raise ClusterError("modified", status=409, reason="Conflict")
        new = copy.deepcopy(dict(body))
        new["metadata"]["uid"] = old["metadata"]["uid"]
        replaced = self.put(new)
        self._react("replace", replaced)
        return self._present(replaced)

    @_one_at_a_time
    def delete(
        self,
        ref: ObjectRef,
        *,
        uid: str,
        resource_version: str = "",
        grace_period: int | None = None,
        propagation: Literal["Background", "Foreground", "Orphan"] | None = None,
    ) -> Deleted | Absent:
        self._refuse("delete", ref.kind, ref.name)
        old = self.objects.get((ref.kind, ref.namespace, ref.name))
        if old is None:
            return Absent(ref=ref)
        meta = old["metadata"]
        if uid != meta["uid"] or (resource_version and resource_version != meta["resourceVersion"]):
            raise ClusterError("precondition failed", status=409, reason="Conflict")
        self.drop(ref.kind, ref.namespace, ref.name)
        self._react("delete", old)
        return Deleted(body=old)

    def exec(
        self, namespace: str, pod: str, argv: Sequence[str], *, timeout: float
    ) -> ExecResult | Failed:
        if failed := self._strike("exec", "Pod", pod):
            return failed
        if self.on_exec is None:
            return executed(argv, exit_code=127, stderr="sh: not found")
        return self.on_exec(namespace, pod, tuple(argv))

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
        self._refuse("logs", "Pod", pod)
        yield from self.log_chunks.get((namespace, pod), [])

    def version(self) -> Mapping[str, Any] | Failed:
        return self._strike("version", "", "") or self.server_version

    def allowed(self, right: Right) -> bool | Failed:
        failed = self._strike("review", right.resource, right.name)
        return failed or str(right) not in self.forbidden

    # -- inside ----------------------------------------------------------------------------------

    def _strike(self, verb: str, kind: str, name: str) -> Failed | None:
        self.calls.append((verb, kind, name))
        for fault in self.faults:
            if fault.strikes(verb, kind, name):
                return Failed(
                    what=f"{verb} {kind} {name}".strip(),
                    status=fault.status,
                    reason=fault.reason,
                    message=fault.message,
                )
        return None

    def _refuse(self, verb: str, kind: str, name: str) -> None:
        if failed := self._strike(verb, kind, name):
            if 400 <= failed.status < 500 and failed.status != 429:
                raise ClusterError(failed.message, status=failed.status, reason=failed.reason)
            raise ClusterUnavailableError(
                failed.message, status=failed.status, reason=failed.reason
            )

    def _react(self, verb: str, body: Mapping[str, Any]) -> None:
        for reactor in self.reactors:
            reactor(self, verb, body)

    def _record(self, type_: str, key: tuple[str, str, str], body: dict[str, Any]) -> None:
        self._revision += 1
        body["metadata"]["resourceVersion"] = str(self._revision)
        self.objects[key] = body
        self.history.append((self._revision, type_, copy.deepcopy(body)))

    def _new_uid(self, key: tuple[str, str, str]) -> str:
        self._uids += 1
        return f"uid-{key[0].lower()}-{key[2]}-{self._uids}"

    @staticmethod
    def _present(body: Mapping[str, Any]) -> Present:
        return Present(body=copy.deepcopy(dict(body)), raw=json.dumps(body).encode())


def _labels_match(selector: str, body: Mapping[str, Any]) -> bool:
    labels = body["metadata"].get("labels") or {}
    for term in filter(None, selector.split(",")):
        if "!=" in term:
            key, value = term.split("!=")
            if labels.get(key) == value:
                return False
        elif "=" in term:
            key, value = term.replace("==", "=").split("=")
            if labels.get(key) != value:
                return False
        elif term not in labels:
            return False
    return True


def _fields_match(selector: str, body: Mapping[str, Any]) -> bool:
    for term in filter(None, selector.split(",")):
        path, value = term.split("=")
        node: Any = body
        for part in path.split("."):
            node = node.get(part) if isinstance(node, Mapping) else None
        if node != value:
            return False
    return True
