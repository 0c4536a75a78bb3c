"""The scheduler: a node for each pod that has none.

Rules kept here:

* of the nodes that fit, the one with the fewest pods is taken; where none fits, the pod says why,
  in the recorded words, and is tried again when nodes, claims or the pods on nodes change;
* what nodes have left is counted from their pods as they come and go, never searched for.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

from pytest_sremut.embedded.controllers.base import Context, Controller
from pytest_sremut.embedded.controllers.fit import Amounts, Misfit, host_ports, misfit, requests_of
from pytest_sremut.embedded.controllers.objects import (
    Key,
    condition,
    deleting,
    key_of,
    pod_terminal,
)
from pytest_sremut.embedded.meta.errors import ApiStatus
from pytest_sremut.embedded.meta.jsonvalue import JsonObject, micro_timestamp, timestamp
from pytest_sremut.embedded.registry.registry import Event

__all__ = ["SchedulerController"]

SCHEDULER = "default-scheduler"
HOPELESS = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"


class SchedulerController(Controller[Key]):
    """Binds pods to nodes."""

    name = SCHEDULER
    watches = ("nodes", "pods", "persistentvolumeclaims")

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._on_node: dict[str, dict[str, JsonObject]] = {}
        self._used: dict[str, Amounts] = {}
        self._unfit: dict[Key, None] = {}

    def on_event(self, event: Event) -> None:
        """Pods without a node, and whatever may make room for one."""
        if event.resource != "pods":
            if event.type != "DELETED" and not self._only_status(event):
                self._try_again()
            return
        freed = event.old is not None and self._account(event.old, -1)
        if event.type != "DELETED":
            freed = not self._account(event.object, 1) and freed
            if _pending(event.object):
                self.queue.add(event.key)
        if freed:
            self._try_again()

    def _only_status(self, event: Event) -> bool:
        """Whether a node or claim changed in nothing that scheduling looks at."""
        old, new = event.old, event.object
        if old is None:
            return False
        fields = ("allocatable", "phase")
        return (
            old.get("spec") == new.get("spec")
            and all(
                (old.get("status") or {}).get(x) == (new.get("status") or {}).get(x) for x in fields
            )
            and old["metadata"].get("labels") == new["metadata"].get("labels")
        )

    def _account(self, pod: JsonObject, sign: int) -> bool:
        """Add the pod to what its node has to bear, or take it off; whether it is on one at all."""
        node = pod["spec"].get("nodeName")
        if not node or pod_terminal(pod):
            return False
        pods = self._on_node.setdefault(node, {})
        uid = pod["metadata"]["uid"]
        if (uid in pods) == (sign > 0):
            return True
        used = self._used.setdefault(node, {})
        for resource, amount in requests_of(pod).items():
            used[resource] = used.get(resource, Fraction(0)) + sign * amount
        if sign > 0:
            pods[uid] = pod
        else:
            del pods[uid]
        return True

    def _try_again(self) -> None:
        for key in self._unfit:
            self.queue.add(key)
        self._unfit.clear()

    def reconcile(self, key: Key) -> None:
        """See the module."""
        pod = self.registry.get("pods", *key)
        if pod is None or not _pending(pod):
            return
        nodes = self.registry.list("nodes")
        problem = self._claim_problem(pod)
        if problem:
            self._refuse(pod, f"0/{len(nodes)} nodes are available: {problem}. not found")
            return
        misfits: list[Misfit] = []
        fitting: list[str] = []
        for node in nodes:
            name = node["metadata"]["name"]
            pods = self._on_node.get(name, {})
            taken = {port for item in pods.values() for port in host_ports(item)}
            why = misfit(pod, node, self._used.get(name, {}), taken)
            if why is None:
                fitting.append(name)
            else:
                misfits.append(why)
        if fitting:
            self._bind(pod, min(fitting, key=lambda name: (len(self._on_node.get(name, {})), name)))
        else:
            self._refuse(pod, _summary(misfits))

    def _claim_problem(self, pod: JsonObject) -> str:
        """Why the pod's volumes keep it from every node; empty if they do not."""
        namespace = pod["metadata"]["namespace"]
        for volume in pod["spec"].get("volumes") or ():
            name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
            if not name:
                continue
            claim = self.registry.get("persistentvolumeclaims", namespace, name)
            if claim is None:
                return f'persistentvolumeclaim "{name}" not found'
            if not claim["spec"].get("volumeName"):
                return "pod has unbound immediate PersistentVolumeClaims"
        return ""

    def _bind(self, pod: JsonObject, node: str) -> None:
        key = key_of(pod)
        told = {
            "type": "PodScheduled",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": timestamp(self.context.now()),
        }

        def bind(value: JsonObject) -> None:
            value["spec"]["nodeName"] = node
            _set_scheduled(value, told)

        self.registry.mutate("pods", *key, bind, subresource="binding")
        # A registry whose bindings have no status needs a second write; else this writes nothing.
        self.registry.mutate(
            "pods", *key, lambda value: _set_scheduled(value, told), subresource="status"
        )
        place = f"{key[0]}/{key[1]}"
        message = f"Successfully assigned {place} to {node}"
        self._tell(pod, "Normal", "Scheduled", message, "Binding")

    def _refuse(self, pod: JsonObject, message: str) -> None:
        key = key_of(pod)
        self._unfit[key] = None
        present = condition(pod, "PodScheduled")
        if present is not None and present.get("message") == message:
            return
        told = {
            "type": "PodScheduled",
            "observedGeneration": pod["metadata"].get("generation", 1),
            "status": "False",
            "lastProbeTime": None,
            "lastTransitionTime": (
                present["lastTransitionTime"] if present else timestamp(self.context.now())
            ),
            "reason": "Unschedulable",
            "message": message,
        }
        self._tell(pod, "Warning", "FailedScheduling", message, "Scheduling")
        self.registry.mutate(
            "pods", *key, lambda value: _set_scheduled(value, told), subresource="status"
        )

    def _tell(self, pod: JsonObject, type_: str, reason: str, message: str, action: str) -> None:
        """Write an Event of the newer form, as schedulers do: with an action, without a count."""
        metadata = pod["metadata"]
        name = f"{metadata['name']}.{self.registry.revision:016x}"
        body = {
            "metadata": {"name": name, "namespace": metadata["namespace"]},
            "involvedObject": {
                "kind": "Pod",
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
                "apiVersion": "v1",
                "resourceVersion": metadata["resourceVersion"],
            },
            "reason": reason,
            "message": message,
            "source": {},
            "firstTimestamp": None,
            "lastTimestamp": None,
            "type": type_,
            "eventTime": micro_timestamp(self.context.now()),
            "action": action,
            "reportingComponent": SCHEDULER,
            "reportingInstance": f"{SCHEDULER}-node-1",
        }
        try:
            self.registry.create("events", metadata["namespace"], body)
        except ApiStatus as refused:
            if refused.reason not in ("Forbidden", "NotFound"):
                raise  # a namespace that goes takes no events


def _pending(pod: JsonObject) -> bool:
    spec = pod["spec"]
    return not (
        spec.get("nodeName")
        or deleting(pod)
        or pod_terminal(pod)
        or spec.get("schedulerName", SCHEDULER) != SCHEDULER
        or spec.get("schedulingGates")
    )


def _set_scheduled(pod: JsonObject, told: JsonObject) -> None:
    status = pod.setdefault("status", {})
    others = [x for x in status.get("conditions") or () if x["type"] != "PodScheduled"]
    status["conditions"] = [*others, told]


def _summary(misfits: list[Misfit]) -> str:
    """Why no node will do: ``0/1 nodes are available: 1 Insufficient cpu. ...``."""
    total = len(misfits)
    if not total:
        return "no nodes available to schedule pods"
    counts = Counter(reason for item in misfits for reason in item.reasons)
    reasons = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
    helpless = Counter(HOPELESS if item.helpless else NO_VICTIMS for item in misfits)
    tried = ", ".join(sorted(f"{count} {reason}" for reason, count in helpless.items()))
    head = f"0/{total} nodes are available"
    return f"{head}: {reasons}. no new claims to deallocate, preemption: {head}: {tried}."
