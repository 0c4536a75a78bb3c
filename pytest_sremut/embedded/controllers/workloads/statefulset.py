"""StatefulSets: pods with names that stay.

Rules kept here:

* pods are numbered from ``spec.ordinals.start``; each has its name, host name and claims for good;
* ``OrderedReady`` makes one pod at a time, the next when the one before is available, and takes the
  last first; ``Parallel`` does not wait;
* a rolling update replaces one pod at a time from the last down to ``partition``;
* a pod that ended, or is of another name, is replaced under the same name once it is gone.
"""

from __future__ import annotations

from typing import Any

from pytest_sremut.embedded.controllers.base import Context, Controller
from pytest_sremut.embedded.controllers.objects import (
    Key,
    controller_of,
    deleting,
    key_of,
    labels_of,
    matches,
    pod_active,
    pod_available,
    pod_ready,
    pod_terminal,
    whole,
)
from pytest_sremut.embedded.controllers.workloads import history
from pytest_sremut.embedded.controllers.workloads.podcontrol import PodControl, namespace_going
from pytest_sremut.embedded.meta.errors import ApiStatus
from pytest_sremut.embedded.meta.jsonvalue import JsonObject, clone
from pytest_sremut.embedded.registry.registry import Event

__all__ = ["StatefulSetController"]

POD_NAME = "statefulset.kubernetes.io/pod-name"
POD_INDEX = "apps.kubernetes.io/pod-index"
REVISION_LABEL = "controller-revision-hash"
SETS = "statefulsets.apps"


class StatefulSetController(Controller[Key]):
    """Keeps each StatefulSet's pods, in order."""

    name = "statefulset-controller"
    watches = (SETS, "pods")

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._control = PodControl(context, self.name)

    def on_event(self, event: Event) -> None:
        """A StatefulSet's own events and those of its pods, or of pods it could adopt."""
        if event.resource == SETS:
            self.queue.add(event.key)
            return
        owners = [self._control.owner_key(x, "StatefulSet") for x in (event.old, event.object) if x]
        for key in filter(None, owners):
            self.queue.add(key)
        if event.type == "ADDED" and controller_of(event.object) is None:
            for item in self.registry.list(SETS, event.key[0]):
                if matches(item["spec"].get("selector"), labels_of(event.object)):
                    self.queue.add(key_of(item))

    def reconcile(self, key: Key) -> None:
        """See the module."""
        owner = self.registry.get(SETS, *key)
        if owner is None:
            return
        pods = {
            pod["metadata"]["name"]: pod
            for pod in self._control.owned(owner, owner["spec"].get("selector"))
        }
        if deleting(owner):
            return
        update = history.current_revision(self.registry, owner)["metadata"]["name"]
        current = (owner.get("status") or {}).get("currentRevision") or update
        try:
            self._step(owner, pods, current, update)
        except ApiStatus as refused:
            if namespace_going(refused):
                return
            self._write_status(owner, current, update)
            raise
        self._write_status(owner, current, update)
        in_use = {current, update, *(_revision(pod) for pod in pods.values())}
        history.prune(self.registry, owner, in_use)

    def _step(
        self, owner: JsonObject, pods: dict[str, JsonObject], current: str, update: str
    ) -> None:
        """Make, replace or take pods until one has to be waited for."""
        spec = owner["spec"]
        start = (spec.get("ordinals") or {}).get("start", 0)
        names = [f"{owner['metadata']['name']}-{start + n}" for n in range(spec.get("replicas", 1))]
        ordered = spec.get("podManagementPolicy", "OrderedReady") == "OrderedReady"
        partition = _partition(spec)
        for number, name in enumerate(names):
            pod = pods.get(name)
            if pod is None:
                revision = update if start + number >= partition or current == update else current
                self._make(owner, name, start + number, revision)
            elif pod_terminal(pod) and not deleting(pod):
                self._delete(owner, pod)
            if ordered and (pod is None or not pod_active(pod) or not self._available(owner, pod)):
                return
        surplus = [pod for name, pod in pods.items() if name not in names]
        for pod in sorted(surplus, key=_ordinal, reverse=True):
            if not deleting(pod):
                self._delete(owner, pod)
            if ordered:
                return
        if (spec.get("updateStrategy") or {}).get("type", "RollingUpdate") == "RollingUpdate":
            replaced = names[max(partition - start, 0) :]
            self._replace(owner, [pods.get(name) for name in replaced], update)

    def _replace(self, owner: JsonObject, pods: list[JsonObject | None], update: str) -> None:
        """Take the last pod that is not of the new revision, if all behind it are available."""
        for pod in reversed(pods):
            if pod is None:
                return
            if _revision(pod) != update and not deleting(pod):
                self._delete(owner, pod)
                return
            if not pod_active(pod) or not self._available(owner, pod):
                return

    def _available(self, owner: JsonObject, pod: JsonObject) -> bool:
        minimum = owner["spec"].get("minReadySeconds", 0)
        if pod_available(pod, minimum, self.context.now()):
            return True
        if pod_ready(pod):
            self.queue.add_after(key_of(owner), 1)
        return False

    def _delete(self, owner: JsonObject, pod: JsonObject) -> None:
        name = owner["metadata"]["name"]
        self._control.delete(
            owner, pod, message=f"delete Pod {{name}} in StatefulSet {name} successful"
        )

    def _make(self, owner: JsonObject, name: str, number: int, revision: str) -> None:
        template = clone(history.template_of(self.registry, owner, revision))
        spec = template["spec"]
        spec["hostname"] = name
        spec["subdomain"] = owner["spec"].get("serviceName", "")
        self._claims(owner, name, spec)
        labels = {REVISION_LABEL: revision, POD_NAME: name, POD_INDEX: str(number)}
        mine = owner["metadata"]["name"]
        message = f"Create Pod {{name}} in StatefulSet {mine} successful"
        self._control.create(owner, template, name=name, labels=labels, message=message)

    def _claims(self, owner: JsonObject, pod: str, spec: JsonObject) -> None:
        """Claims of the pod's own, which outlive it, and the volumes that use them."""
        namespace = owner["metadata"]["namespace"]
        volumes = {x["name"]: x for x in spec.get("volumes") or ()}
        for shape in owner["spec"].get("volumeClaimTemplates") or ():
            volume = shape["metadata"]["name"]
            name = f"{volume}-{pod}"
            volumes[volume] = {"name": volume, "persistentVolumeClaim": {"claimName": name}}
            if self.registry.get("persistentvolumeclaims", namespace, name) is None:
                labels = (owner["spec"].get("selector") or {}).get("matchLabels") or {}
                claim = {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "metadata": {**clone(shape["metadata"]), "name": name, "labels": dict(labels)},
                    "spec": clone(shape["spec"]),
                }
                self.registry.create("persistentvolumeclaims", namespace, claim)
        if volumes:
            spec["volumes"] = list(volumes.values())

    def _write_status(self, owner: JsonObject, current: str, update: str) -> None:
        everything = self.context.pods.controlled_by(owner["metadata"]["uid"])
        pods = [pod for pod in everything if not pod_terminal(pod)]
        active = [pod for pod in pods if pod_active(pod)]
        total = owner["spec"].get("replicas", 1)
        now, minimum = self.context.now(), owner["spec"].get("minReadySeconds", 0)
        ready = [pod for pod in pods if pod_ready(pod)]
        updated = [pod for pod in active if _revision(pod) == update]
        if current != update and len(updated) == total and all(map(pod_ready, updated)):
            current = update
        status: dict[str, Any] = {
            "observedGeneration": owner["metadata"]["generation"],
            "replicas": len(pods),
        }
        counts = {
            "readyReplicas": len(ready),
            "currentReplicas": sum(_revision(pod) == current for pod in active),
            "updatedReplicas": len(updated),
        }
        status.update({field: count for field, count in counts.items() if count})
        status["currentRevision"] = current
        status["updateRevision"] = update
        status["collisionCount"] = 0
        status["availableReplicas"] = sum(pod_available(pod, minimum, now) for pod in ready)
        self.registry.mutate(
            SETS, *key_of(owner), lambda value: value.update(status=status), subresource="status"
        )


def _partition(spec: JsonObject) -> int:
    rolling = (spec.get("updateStrategy") or {}).get("rollingUpdate") or {}
    return int(rolling.get("partition") or 0)


def _revision(pod: JsonObject) -> str:
    return labels_of(pod).get(REVISION_LABEL, "")


def _ordinal(pod: JsonObject) -> int:
    number = whole(str(pod["metadata"]["name"]).rpartition("-")[2])
    return -1 if number is None else number
