"""Making, taking, adopting and releasing pods for a controller.

Rules kept here:

* a pod belongs to the controller its one controller reference names; a controller only ever touches
  its own pods, adopts matching ones without an owner, and releases own ones that match no longer;
* each pod created or deleted is reported by one Event on the owner, as recorded.
"""

from __future__ import annotations

from pytest_sremut.embedded.controllers.base import Context
from pytest_sremut.embedded.controllers.objects import (
    add_owner,
    controller_of,
    deleting,
    key_of,
    labels_of,
    matches,
    owner_reference,
    pod_active,
    without_owner,
)
from pytest_sremut.embedded.meta.errors import ApiStatus
from pytest_sremut.embedded.meta.jsonvalue import JsonObject, clone

__all__ = ["PodControl", "namespace_going"]


def namespace_going(refused: ApiStatus) -> bool:
    """Whether a create was refused because the namespace is being deleted."""
    causes = (refused.details or {}).get("causes") or ()
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)


class PodControl:
    """Pods on behalf of the controller called `component`."""

    def __init__(self, context: Context, component: str) -> None:
        self._registry = context.registry
        self._pods = context.pods
        self._component = component

    def owned(self, owner: JsonObject, selector: JsonObject | None) -> list[JsonObject]:
        """The owner's pods, by name, after adopting and releasing by `selector`.

        An owner that is being deleted adopts nothing.
        """
        uid = owner["metadata"]["uid"]
        mine = []
        for pod in self._pods.controlled_by(uid):
            if matches(selector, labels_of(pod)):
                mine.append(pod)
            elif not deleting(owner) and not deleting(pod):
                self._registry.mutate("pods", *key_of(pod), lambda value: without_owner(value, uid))
        if deleting(owner):
            return mine
        for pod in self._pods.uncontrolled(owner["metadata"]["namespace"]):
            if pod_active(pod) and matches(selector, labels_of(pod)):
                adopted = self._registry.mutate(
                    "pods", *key_of(pod), lambda value: add_owner(value, owner)
                )
                if adopted is not None:
                    mine.append(adopted)
        return mine

    def create(
        self,
        owner: JsonObject,
        template: JsonObject,
        *,
        name: str = "",
        labels: dict[str, str] | None = None,
        finalizers: list[str] | None = None,
        message: str = "Created pod: {name}",
    ) -> JsonObject:
        """Create a pod from `template`.

        Args:
            name: its name; empty lets the API generate one from the owner's.
            labels: added to those of the template.
            finalizers: put on the pod.
            message: text of the Event, given the pod's `name`.

        Raises:
            ApiStatus: the pod was refused; reported by a ``FailedCreate`` Event, unless the
                namespace is being deleted.
        """
        shape = template.get("metadata") or {}
        metadata: JsonObject = {"name": name} if name else {}
        metadata["generateName"] = f"{owner['metadata']['name']}-"
        if shape.get("labels") or labels:
            metadata["labels"] = {**(shape.get("labels") or {}), **(labels or {})}
        if shape.get("annotations"):
            metadata["annotations"] = dict(shape["annotations"])
        metadata["ownerReferences"] = [owner_reference(owner)]
        if finalizers:
            metadata["finalizers"] = finalizers
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": clone(template["spec"]),
        }
        try:
            pod = self._registry.create("pods", owner["metadata"]["namespace"], body)
        except ApiStatus as refused:
            if not namespace_going(refused):
                self._tell(owner, "FailedCreate", f"Error creating: {refused.message}", "Warning")
            raise
        self._tell(owner, "SuccessfulCreate", message.format(name=pod["metadata"]["name"]))
        return pod

    def delete(
        self, owner: JsonObject, pod: JsonObject, *, message: str = "Deleted pod: {name}"
    ) -> None:
        """Delete `pod` gracefully; one that is gone already is no failure.

        Raises:
            ApiStatus: the delete was refused; reported by a ``FailedDelete`` Event.
        """
        namespace, name = key_of(pod)
        try:
            self._registry.delete("pods", namespace, name, uid=pod["metadata"]["uid"])
        except ApiStatus as refused:
            if refused.reason == "NotFound":
                return
            self._tell(owner, "FailedDelete", f"Error deleting: {refused.message}", "Warning")
            raise
        self._tell(owner, "SuccessfulDelete", message.format(name=name))

    def owner_key(self, pod: JsonObject, kind: str) -> tuple[str, str] | None:
        """Namespace and name of the pod's controller, if it is of that kind."""
        reference = controller_of(pod)
        if reference is None or reference.get("kind") != kind:
            return None
        return pod["metadata"]["namespace"], reference["name"]

    def _tell(self, owner: JsonObject, reason: str, message: str, type_: str = "Normal") -> None:
        self._registry.record_event(
            owner, type=type_, reason=reason, message=message, component=self._component
        )
