"""DaemonSets: one pod on each node that it may run on.

Rules kept here:

* a pod is tied to its node by affinity and gets there through the scheduler; cordons and pressure
  are tolerated, other taints only if the template says so;
* a rolling update takes old pods away as ``maxUnavailable`` allows; ``OnDelete`` waits for others.
"""

from __future__ import annotations

from typing import Any

from pytest_sremut.embedded.controllers.base import Context, Controller
from pytest_sremut.embedded.controllers.fit import misfit
from pytest_sremut.embedded.controllers.objects import (
    Key,
    deleting,
    key_of,
    labels_of,
    pod_active,
    pod_available,
    pod_ready,
    pod_terminal,
    resolve_count,
)
from pytest_sremut.embedded.controllers.workloads import history
from pytest_sremut.embedded.controllers.workloads.podcontrol import PodControl, namespace_going
from pytest_sremut.embedded.meta.errors import ApiStatus
from pytest_sremut.embedded.meta.jsonvalue import JsonObject, clone
from pytest_sremut.embedded.registry.registry import Event

__all__ = ["DaemonSetController"]

SETS = "daemonsets.apps"
REVISION_LABEL = "controller-revision-hash"
GENERATION_LABEL = "pod-template-generation"
GENERATION_ANNOTATION = "deprecated.daemonset.template.generation"
_TOLERATED = (
    ("not-ready", "NoExecute"),
    ("unreachable", "NoExecute"),
    ("disk-pressure", "NoSchedule"),
    ("memory-pressure", "NoSchedule"),
    ("pid-pressure", "NoSchedule"),
    ("unschedulable", "NoSchedule"),
)


class DaemonSetController(Controller[Key]):
    """Keeps each DaemonSet's pods."""

    name = "daemonset-controller"
    watches = (SETS, "pods", "nodes")

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._control = PodControl(context, self.name)

    def on_event(self, event: Event) -> None:
        """A DaemonSet's own events, those of its pods, and nodes, which concern all."""
        if event.resource == SETS:
            self.queue.add(event.key)
        elif event.resource == "nodes":
            for item in self.registry.list(SETS):
                self.queue.add(key_of(item))
        else:
            pods = [x for x in (event.old, event.object) if x is not None]
            for key in filter(None, (self._control.owner_key(x, "DaemonSet") for x in pods)):
                self.queue.add(key)

    def reconcile(self, key: Key) -> None:
        """See the module."""
        owner = self.registry.get(SETS, *key)
        if owner is None:
            return
        pods = self._control.owned(owner, owner["spec"].get("selector"))
        if deleting(owner):
            return
        revision = history.current_revision(self.registry, owner)
        code = labels_of(revision)[history.HASH_LABEL]
        by_node: dict[str, list[JsonObject]] = {}
        for pod in pods:
            by_node.setdefault(_node_of(pod), []).append(pod)
        failure: ApiStatus | None = None
        wanted = []
        for node in self.registry.list("nodes"):
            name = node["metadata"]["name"]
            present = by_node.pop(name, [])
            if misfit(_probe(owner, name), node, {}, set()) is None:
                wanted.append(name)
                failure = self._fill(owner, name, present, code) or failure
            elif misfit(_probe(owner, name), _without_new_taints(node), {}, set()) is not None:
                self._clear(owner, present)
        for surplus in by_node.values():
            self._clear(owner, surplus)
        self._roll(owner, code, len(wanted))
        self._write_status(owner, wanted, code)
        history.prune(self.registry, owner, {revision["metadata"]["name"]})
        if failure is not None and not namespace_going(failure):
            raise failure

    def _fill(
        self, owner: JsonObject, node: str, present: list[JsonObject], code: str
    ) -> ApiStatus | None:
        for pod in present:
            if pod_terminal(pod) and not deleting(pod):
                self._control.delete(owner, pod)
        running = [pod for pod in present if not pod_terminal(pod)]
        extra = sorted(
            filter(pod_active, running), key=lambda x: x["metadata"]["creationTimestamp"]
        )
        self._clear(owner, extra[1:])
        if running:
            return None
        template = _probe(owner, node)
        labels = {REVISION_LABEL: code}
        generation = (owner["metadata"].get("annotations") or {}).get(GENERATION_ANNOTATION)
        if generation:
            labels[GENERATION_LABEL] = generation
        try:
            self._control.create(owner, template, labels=labels)
        except ApiStatus as refused:
            return refused
        return None

    def _clear(self, owner: JsonObject, pods: list[JsonObject]) -> None:
        for pod in pods:
            if not deleting(pod):
                self._control.delete(owner, pod)

    def _roll(self, owner: JsonObject, code: str, wanted: int) -> None:
        """Take old pods away, as many as may be missing at a time."""
        strategy = owner["spec"].get("updateStrategy") or {}
        if strategy.get("type", "RollingUpdate") != "RollingUpdate":
            return
        allowed = (strategy.get("rollingUpdate") or {}).get("maxUnavailable", 1)
        pods = self.context.pods.controlled_by(owner["metadata"]["uid"])
        active = [pod for pod in pods if pod_active(pod)]
        old = [pod for pod in active if labels_of(pod).get(REVISION_LABEL) != code]
        now, minimum = self.context.now(), owner["spec"].get("minReadySeconds", 0)
        serving = [pod for pod in active if pod_available(pod, minimum, now)]
        idle = [pod for pod in old if pod not in serving]
        self._clear(owner, idle)  # what does not serve is not missed
        left = resolve_count(allowed, wanted, round_up=True) - (wanted - len(serving))
        self._clear(owner, [pod for pod in old if pod in serving][: max(0, left)])

    def _write_status(self, owner: JsonObject, wanted: list[str], code: str) -> None:
        pods = [
            pod
            for pod in self.context.pods.controlled_by(owner["metadata"]["uid"])
            if pod_active(pod)
        ]
        there = {_node_of(pod): pod for pod in pods}
        scheduled = [there[name] for name in wanted if name in there]
        now, minimum = self.context.now(), owner["spec"].get("minReadySeconds", 0)
        available = sum(pod_available(pod, minimum, now) for pod in scheduled)
        updated = sum(labels_of(pod).get(REVISION_LABEL) == code for pod in scheduled)
        status: dict[str, Any] = {
            "currentNumberScheduled": len(scheduled),
            "numberMisscheduled": sum(_node_of(pod) not in wanted for pod in pods),
            "desiredNumberScheduled": len(wanted),
            "numberReady": sum(map(pod_ready, scheduled)),
            "observedGeneration": owner["metadata"]["generation"],
        }
        counts = {
            "updatedNumberScheduled": updated,
            "numberAvailable": available,
            "numberUnavailable": len(wanted) - available,
        }
        status.update({field: count for field, count in counts.items() if count})
        self.registry.mutate(
            SETS, *key_of(owner), lambda value: value.update(status=status), subresource="status"
        )


def _without_new_taints(node: JsonObject) -> JsonObject:
    """The node as it is to a pod that runs there already: NoSchedule does not end it."""
    spec = node["spec"]
    taints = [taint for taint in spec.get("taints") or () if taint.get("effect") == "NoExecute"]
    return {**node, "spec": {**spec, "taints": taints}}


def _probe(owner: JsonObject, node: str) -> JsonObject:
    """The template for a pod on `node`: tied to it, with the tolerations of daemons."""
    template: JsonObject = clone(owner["spec"]["template"])
    spec = template["spec"]
    tolerations = spec.setdefault("tolerations", [])
    for key, effect in _TOLERATED:
        item = {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": effect}
        if item not in tolerations:
            tolerations.append(item)
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    node_affinity = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
    required = node_affinity.setdefault("requiredDuringSchedulingIgnoredDuringExecution", {})
    terms = required.get("nodeSelectorTerms") or [{}]
    required["nodeSelectorTerms"] = [{**term, "matchFields": [field]} for term in terms]
    return template


def _node_of(pod: JsonObject) -> str:
    """The node that the pod runs on or is tied to; empty if neither."""
    if pod["spec"].get("nodeName"):
        return str(pod["spec"]["nodeName"])
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or ():
        for item in term.get("matchFields") or ():
            if item.get("key") == "metadata.name" and item.get("values"):
                return str(item["values"][0])
    return ""
