"""PersistentVolumeClaims: volumes for those that name a class of ours, protection for all.

Rules kept here:

* a claim whose StorageClass has our provisioner is bound at once to a volume made for it, which is
  a directory of the cluster's own; other claims stay Pending, as without a provisioner;
* a claim is not gone before the last pod that uses it; its volume goes with it, unless its class
  says ``Retain``.
"""

from __future__ import annotations

from collections.abc import Iterator

from pytest_sremut.embedded.controllers.base import Controller
from pytest_sremut.embedded.controllers.objects import Key, deleting, finalizers, pod_terminal
from pytest_sremut.embedded.meta.jsonvalue import JsonObject
from pytest_sremut.embedded.registry.defaults import PROTECTION
from pytest_sremut.embedded.registry.registry import Event

__all__ = ["PROTECTION", "PROVISIONER", "ClaimController"]

CLAIMS, VOLUMES = "persistentvolumeclaims", "persistentvolumes"
CLASSES = "storageclasses.storage.k8s.io"
_NO_CLASS = "no persistent volumes available for this claim and no storage class is set"
PROVISIONER = "sremut.local/directory"


class ClaimController(Controller[Key]):
    """Keys are claims."""

    name = "persistentvolume-controller"
    watches = (CLAIMS, CLASSES, "pods")

    def on_event(self, event: Event) -> None:
        """Claims, the pods that use them, and classes that may concern any of them."""
        if event.resource == CLAIMS:
            self.queue.add(event.key)
            if event.type == "DELETED":
                self._let_go(event.object)
        elif event.resource == CLASSES:
            for claim in self.registry.list(CLAIMS):
                self.queue.add((claim["metadata"]["namespace"], claim["metadata"]["name"]))
        else:
            for name in _claims_of(event.object):
                self.queue.add((event.key[0], name))

    def reconcile(self, key: Key) -> None:
        """See the module."""
        claim = self.registry.get(CLAIMS, *key)
        if claim is None:
            return
        if deleting(claim):
            if PROTECTION in finalizers(claim) and not self._used(key):
                self.registry.mutate(CLAIMS, *key, _unprotect)
            return
        if claim["spec"].get("volumeName"):
            return
        if not claim["spec"].get("storageClassName"):
            self.record(claim, "FailedBinding", _NO_CLASS)
            return
        storage = self.registry.get(CLASSES, "", claim["spec"].get("storageClassName") or "")
        if storage is not None and storage.get("provisioner") == PROVISIONER:
            self._bind(claim, storage)

    def _used(self, key: Key) -> bool:
        return any(
            key[1] in _claims_of(pod)
            for pod in self.registry.list("pods", key[0])
            if not pod_terminal(pod)
        )

    def _bind(self, claim: JsonObject, storage: JsonObject) -> None:
        metadata, spec = claim["metadata"], claim["spec"]
        name = f"pvc-{metadata['uid']}"
        capacity = {"storage": spec["resources"]["requests"]["storage"]}
        if self.registry.get(VOLUMES, "", name) is None:
            volume = {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {
                    "name": name,
                    "annotations": {"pv.kubernetes.io/provisioned-by": PROVISIONER},
                },
                "spec": {
                    "capacity": capacity,
                    "accessModes": list(spec["accessModes"]),
                    "persistentVolumeReclaimPolicy": storage.get("reclaimPolicy") or "Delete",
                    "storageClassName": storage["metadata"]["name"],
                    "volumeMode": spec.get("volumeMode", "Filesystem"),
                    "hostPath": {"path": f"/.sremut/claims/{metadata['uid']}"},
                    "claimRef": {
                        "kind": "PersistentVolumeClaim",
                        "apiVersion": "v1",
                        "namespace": metadata["namespace"],
                        "name": metadata["name"],
                        "uid": metadata["uid"],
                    },
                },
            }
            self.registry.create(VOLUMES, "", volume)
        self.registry.mutate(
            VOLUMES,
            "",
            name,
            lambda value: value.update(status={"phase": "Bound"}),
            subresource="status",
        )
        key = (metadata["namespace"], metadata["name"])
        self.registry.mutate(CLAIMS, *key, lambda value: value["spec"].update(volumeName=name))
        status = {"phase": "Bound", "accessModes": list(spec["accessModes"]), "capacity": capacity}
        self.registry.mutate(
            CLAIMS, *key, lambda value: value.update(status=status), subresource="status"
        )

    def _let_go(self, claim: JsonObject) -> None:
        name = claim["spec"].get("volumeName") or ""
        volume = self.registry.get(VOLUMES, "", name) if name else None
        if volume is None:
            return
        if volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete":
            self.registry.delete(VOLUMES, "", name, uid=volume["metadata"]["uid"])
        else:
            self.registry.mutate(
                VOLUMES,
                "",
                name,
                lambda value: value.update(status={"phase": "Released"}),
                subresource="status",
            )


def _claims_of(pod: JsonObject) -> Iterator[str]:
    for volume in pod["spec"].get("volumes") or ():
        name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if name:
            yield str(name)


def _unprotect(claim: JsonObject) -> None:
    kept = [name for name in finalizers(claim) if name != PROTECTION]
    if kept:
        claim["metadata"]["finalizers"] = kept
    else:
        claim["metadata"].pop("finalizers", None)
