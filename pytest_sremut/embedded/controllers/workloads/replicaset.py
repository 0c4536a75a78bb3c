"""ReplicaSets: so many pods of one template, no more and no fewer.

Rules kept here:

* a pod that is being deleted is no replica any more: it is replaced at once and counted as
  terminating;
* pods are given up in the order of real Kubernetes: unscheduled, pending, not ready, cheaper, then
  the younger by order of magnitude, so that what serves longest is kept;
* the first refused pod ends the attempt; the ReplicaSet says so (``ReplicaFailure``) and tries
  again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pytest_sremut.embedded.controllers.base import Context, Controller
from pytest_sremut.embedded.controllers.objects import (
    Key,
    condition,
    container_statuses,
    controller_of,
    deleting,
    key_of,
    labels_of,
    matches,
    pod_active,
    pod_available,
    pod_ready,
    pod_terminating,
    ready_since,
)
from pytest_sremut.embedded.controllers.workloads.podcontrol import PodControl, namespace_going
from pytest_sremut.embedded.meta.errors import ApiStatus
from pytest_sremut.embedded.meta.jsonvalue import JsonObject, parse_time, timestamp
from pytest_sremut.embedded.registry.registry import Event

__all__ = ["ReplicaSetController", "deletion_order"]

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
PHASE_ORDER = {"Pending": 0, "Unknown": 1}
MAX_BURST = 500


class ReplicaSetController(Controller[Key]):
    """Keeps each ReplicaSet's pods at the wanted number."""

    name = "replicaset-controller"
    watches = ("replicasets.apps", "pods")

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._control = PodControl(context, self.name)

    def on_event(self, event: Event) -> None:
        """A ReplicaSet's own events and those of its pods, or of pods it could adopt."""
        if event.resource != "pods":
            self.queue.add(event.key)
            return
        for pod in (event.old, event.object):
            if pod is None:
                continue
            owner = self._control.owner_key(pod, "ReplicaSet")
            if owner is not None:
                self.queue.add(owner)
        if event.type != "DELETED" and controller_of(event.object) is None:
            self._offer(event)

    def _offer(self, event: Event) -> None:
        old, pod = event.old, event.object
        if old is not None and labels_of(old) == labels_of(pod) and controller_of(old) is None:
            return
        for owner in self.context.replicasets.in_namespace(event.key[0]):
            if matches(owner["spec"].get("selector"), labels_of(pod)):
                self.queue.add(key_of(owner))

    def reconcile(self, key: Key) -> None:
        """See the module."""
        owner = self.registry.get("replicasets.apps", *key)
        if owner is None:
            return
        pods = self._control.owned(owner, owner["spec"].get("selector"))
        failure: ApiStatus | None = None
        difference = 0
        if not deleting(owner):
            difference = sum(map(pod_active, pods)) - owner["spec"].get("replicas", 1)
            failure = self._scale(owner, pods, difference)
        uid = owner["metadata"]["uid"]
        self._write_status(owner, self.context.pods.controlled_by(uid), difference, failure)
        if failure is not None and not namespace_going(failure):
            raise failure

    def _scale(
        self, owner: JsonObject, pods: Sequence[JsonObject], difference: int
    ) -> ApiStatus | None:
        try:
            for _ in range(min(-difference, MAX_BURST)):
                self._control.create(owner, owner["spec"]["template"])
            if difference > 0:
                active = [pod for pod in pods if pod_active(pod)]
                for pod in deletion_order(active, self.context.now())[: min(difference, MAX_BURST)]:
                    self._control.delete(owner, pod)
        except ApiStatus as refused:
            return refused
        return None

    def _write_status(
        self,
        owner: JsonObject,
        pods: Sequence[JsonObject],
        difference: int,
        failure: ApiStatus | None,
    ) -> None:
        now = self.context.now()
        spec = owner["spec"]
        min_ready = spec.get("minReadySeconds", 0)
        wanted_labels = (spec["template"].get("metadata") or {}).get("labels") or {}
        active = [pod for pod in pods if pod_active(pod)]
        ready = [pod for pod in active if pod_ready(pod)]
        available = sum(pod_available(pod, min_ready, now) for pod in ready)
        status: dict[str, Any] = {"replicas": len(active)}
        counts = {
            "fullyLabeledReplicas": sum(
                wanted_labels.items() <= labels_of(pod).items() for pod in active
            ),
            "readyReplicas": len(ready),
            "availableReplicas": available,
        }
        status.update({field: count for field, count in counts.items() if count})
        status["terminatingReplicas"] = sum(map(pod_terminating, pods))
        status["observedGeneration"] = owner["metadata"]["generation"]
        problem = _failure_condition(owner, difference, failure, now)
        others = [
            item
            for item in (owner.get("status") or {}).get("conditions") or ()
            if item["type"] != "ReplicaFailure"
        ]
        if others or problem:
            status["conditions"] = [*others, problem] if problem else others
        if status != owner.get("status"):
            self.registry.mutate(
                "replicasets.apps",
                *key_of(owner),
                lambda value: value.update(status=status),
                subresource="status",
            )
        if available < len(ready):
            self._look_again(key_of(owner), ready, min_ready, now)

    def _look_again(
        self, key: Key, ready: Sequence[JsonObject], min_ready: int, now: datetime
    ) -> None:
        """Come back when the next ready pod has been ready for long enough."""
        ages = [(now - since).total_seconds() for pod in ready if (since := ready_since(pod))]
        waits = [min_ready - age for age in ages if age < min_ready]
        if waits:
            self.queue.add_after(key, min(waits))


def _failure_condition(
    owner: JsonObject, difference: int, failure: ApiStatus | None, now: datetime
) -> JsonObject | None:
    if failure is None:
        return None
    present = condition(owner, "ReplicaFailure")
    if present is not None:
        return present
    return {
        "type": "ReplicaFailure",
        "status": "True",
        "lastTransitionTime": timestamp(now),
        "reason": "FailedCreate" if difference < 0 else "FailedDelete",
        "message": failure.message,
    }


def deletion_order(pods: Sequence[JsonObject], now: datetime) -> list[JsonObject]:
    """`pods`, those to give up first in front."""
    per_node: dict[str, int] = {}
    for pod in pods:
        node = pod["spec"].get("nodeName", "")
        per_node[node] = per_node.get(node, 0) + 1

    def rank(pod: JsonObject) -> tuple[Any, ...]:
        spec, metadata = pod["spec"], pod["metadata"]
        node = spec.get("nodeName", "")
        restarts = max((item.get("restartCount", 0) for item in container_statuses(pod)), default=0)
        return (
            bool(node),
            PHASE_ORDER.get((pod.get("status") or {}).get("phase", "Pending"), 2),
            pod_ready(pod),
            _deletion_cost(pod),
            -per_node[node],
            _magnitude(ready_since(pod), now),
            -restarts,
            _magnitude(parse_time(metadata["creationTimestamp"]), now),
            metadata["uid"],
        )

    return sorted(pods, key=rank)


def _deletion_cost(pod: JsonObject) -> int:
    text = (pod["metadata"].get("annotations") or {}).get(DELETION_COST, "0")
    try:
        return int(text)
    except ValueError:
        return 0  # as Kubernetes: what is no number costs nothing


def _magnitude(since: datetime | None, now: datetime) -> int:
    """Age by powers of two, so that pods of about one age are given up at random (by uid)."""
    if since is None:
        return -1
    age = (now - since).total_seconds()
    return int(math.log2(age)) + 1 if age >= 1 else 0
