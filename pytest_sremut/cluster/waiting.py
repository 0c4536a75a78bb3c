"""Waiting for the cluster by watching it.

A wait lists, then watches; it asks nothing on a timer. When a watch breaks or expires it lists
again, a little later each time, and an API that stays away ends the wait as unavailable: a wait
that timed out means that the cluster was seen and was not as wanted.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pytest_sremut.cluster.port import Absent, Failed, Kind, KubeApi, ObjectRef, WatchEvent
from pytest_sremut.errors import ClusterError, ClusterUnavailableError

__all__ = [
    "Objects",
    "Predicate",
    "WaitTimeoutError",
    "Waited",
    "change_seen",
    "deployment_lacks",
    "deployments_ready",
    "job_finished",
    "object_gone",
    "pods_gone",
    "wait_for",
]

Objects = Sequence[Mapping[str, Any]]
Predicate = Callable[[Objects], str]
"""Empty when the objects are as wanted, else a sentence that says what is still missing."""

_OUTAGE: Final = 10.0  # an API that is away for longer ends the wait
_BACK_OFF: Final = (0.05, 0.1, 0.2, 0.5, 1.0)
_UNWATCHED: Final = 0.25  # seconds between looks at what cannot be watched


class WaitTimeoutError(ClusterError):
    """The cluster answered all along and did not become as wanted in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waited:
    """The objects that satisfied the predicate, and how long that took (seconds)."""

    items: tuple[Mapping[str, Any], ...]
    elapsed: float


def wait_for(
    api: KubeApi,
    kind: Kind,
    namespace: str,
    predicate: Predicate,
    *,
    timeout: float,
    labels: str = "",
    outage: float = _OUTAGE,
) -> Waited:
    """Wait until the objects of a kind satisfy `predicate`, at most `timeout` seconds.

    Raises:
        WaitTimeoutError: They did not; the message is the predicate's last sentence.
        ClusterUnavailableError: The API was away for `outage` seconds, or at the end.
    """
    started = time.monotonic()
    deadline = started + timeout
    view = _View(predicate=predicate, contact=started)
    attempts = 0
    while True:
        events = view.events
        try:
            _follow(api, kind, namespace, view, labels=labels, deadline=deadline)
            trouble = ""
        except ClusterError as error:
            trouble = str(error)
        now = time.monotonic()
        if not view.missing:
            return Waited(items=tuple(view.known.values()), elapsed=now - started)
        if trouble and (now - view.contact >= outage or now >= deadline):
            raise ClusterUnavailableError(f"waiting for {kind} in {namespace}: {trouble}")
        if now >= deadline:
            where = namespace or "the cluster"
            raise WaitTimeoutError(
                f"after {timeout:g} s in {where}: {view.missing}", reason="Timeout"
            )
        # The watch ended early or broke: list again, at once at first, then ever later.
        attempts = 0 if view.events > events else min(attempts + 1, len(_BACK_OFF) - 1)
        threading.Event().wait(min(_BACK_OFF[attempts], deadline - now))


def change_seen(
    api: KubeApi,
    kind: Kind,
    namespace: str,
    *,
    since: str,
    within: float,
    wait: Callable[[float], None],
) -> bool:
    """Wait until something of that kind changes after resource version `since`.

    It never raises. A watch that is refused, breaks or ends early is no change: then `wait` lets a
    little time pass, and the caller looks again.

    Returns:
        Whether a change was seen within `within` seconds.
    """
    begun = time.monotonic()
    with contextlib.suppress(ClusterError):
        for event in api.watch(kind, namespace, resource_version=since, timeout=within):
            if event.type != "BOOKMARK":
                return True
    left = within - (time.monotonic() - begun)
    if left > 0:
        wait(min(left, _UNWATCHED))
    return False


def deployment_lacks(deployment: Mapping[str, Any], replicas: int | None = None) -> str:
    """What a Deployment's rollout still lacks; empty when it is complete.

    Complete: the controller has seen this generation, every pod is of the present template, none
    of an older one is left, and all are ready and available. `replicas` is the number that must be
    desired; None takes the present one.
    """
    name = deployment["metadata"]["name"]
    spec, status = deployment.get("spec") or {}, deployment.get("status") or {}
    generation = deployment["metadata"].get("generation", 0)
    desired = spec.get("replicas", 1)
    if replicas is not None and desired != replicas:
        return f"Deployment {name} desires {desired} replicas instead of {replicas}"
    if status.get("observedGeneration", 0) < generation:
        return f"Deployment {name}: generation {generation} is not observed yet"
    for count in ("updatedReplicas", "replicas", "readyReplicas", "availableReplicas"):
        found = status.get(count) or 0
        if found != desired:
            return f"Deployment {name}: {count} is {found} of {desired}"
    return ""


def deployments_ready(baseline: Mapping[str, int]) -> Predicate:
    """Every Deployment of `baseline` is there, desires its number and is completely rolled out."""

    def predicate(deployments: Objects) -> str:
        found = {item["metadata"]["name"]: item for item in deployments}
        for name, replicas in sorted(baseline.items()):
            if name not in found:
                return f"Deployment {name} does not exist"
            if lacks := deployment_lacks(found[name], replicas):
                return lacks
        return ""

    return predicate


def pods_gone(uids: Iterable[str]) -> Predicate:
    """None of the pods with these UIDs exists any more."""
    unwanted = frozenset(uids)

    def predicate(pods: Objects) -> str:
        left = sorted(p["metadata"]["name"] for p in pods if p["metadata"].get("uid") in unwanted)
        return f"{len(left)} pods are still there: {', '.join(left[:3])}" if left else ""

    return predicate


def job_finished(name: str) -> Predicate:
    """The Job has ended, completely or failed. A Job that does not exist is not finished."""

    def predicate(jobs: Objects) -> str:
        for job in jobs:
            if job["metadata"]["name"] != name:
                continue
            conditions = (job.get("status") or {}).get("conditions") or ()
            ended = any(
                c.get("type") in ("Complete", "Failed") and c.get("status") == "True"
                for c in conditions
            )
            return "" if ended else f"Job {name} is still running"
        return f"Job {name} does not exist"

    return predicate


def object_gone(api: KubeApi, ref: ObjectRef, uid: str, *, timeout: float) -> None:
    """Wait until the object with that UID is gone (a namesake with another UID is another object).

    Raises:
        WaitTimeoutError: It is still there.
        ClusterUnavailableError: The API stays away.
    """
    found = api.get(ref)
    if isinstance(found, Absent):
        return

    def predicate(items: Objects) -> str:
        there = any(
            item["metadata"]["name"] == ref.name and item["metadata"].get("uid") == uid
            for item in items
        )
        return f"{ref} ({uid}) is still there" if there else ""

    wait_for(api, ref.kind, ref.namespace, predicate, timeout=timeout)


@dataclass(slots=True, kw_only=True)
class _View:
    """What is known of the objects, and what they lack."""

    predicate: Predicate
    contact: float  # when the API last said something usable
    known: dict[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)
    missing: str = "nothing was seen yet"
    events: int = 0

    def start(self, items: Objects) -> None:
        self.known = {_key(item): item for item in items}
        self._judge()

    def apply(self, event: WatchEvent) -> None:
        self.events += 1
        if event.type == "DELETED":
            self.known.pop(_key(event.object), None)
        elif event.type != "BOOKMARK":
            self.known[_key(event.object)] = event.object
        self._judge()

    def _judge(self) -> None:
        self.contact = time.monotonic()
        self.missing = self.predicate(tuple(self.known.values()))


def _follow(
    api: KubeApi, kind: Kind, namespace: str, view: _View, *, labels: str, deadline: float
) -> None:
    """List and watch until nothing is missing, the deadline, or the watch's end."""
    listing = api.list(kind, namespace, labels=labels)
    if isinstance(listing, Failed):
        raise ClusterUnavailableError(
            f"{listing.what}: {listing.reason}: {listing.message}",
            status=listing.status,
            reason=listing.reason,
        )
    view.start(listing.items)
    remaining = deadline - time.monotonic()
    if not view.missing or remaining <= 0:
        return
    for event in api.watch(
        kind,
        namespace,
        resource_version=listing.resource_version,
        timeout=remaining,
        labels=labels,
    ):
        view.apply(event)
        if not view.missing or time.monotonic() >= deadline:
            return


def _key(body: Mapping[str, Any]) -> tuple[str, str]:
    meta = body["metadata"]
    return (meta.get("namespace", ""), meta["name"])
