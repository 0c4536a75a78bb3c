"""The garbage collector: objects go with their owners.

Rules kept here:

* owners are known by uid; an object all of whose owners are gone is deleted, one that has another
  owner left only loses the references;
* ``foregroundDeletion`` holds an owner until the dependents that block it are gone, and is handed
  down to dependents that have dependents; ``orphan`` frees the dependents and then the owner;
* an owner of a kind that this cluster does not serve may exist elsewhere: its dependents stay.
"""

from __future__ import annotations

from dataclasses import dataclass

from pytest_sremut.embedded.controllers.base import Context, Controller
from pytest_sremut.embedded.controllers.objects import deleting, finalizers, without_owner
from pytest_sremut.embedded.meta.jsonvalue import JsonObject
from pytest_sremut.embedded.meta.resources import RESOURCES, by_kind
from pytest_sremut.embedded.registry.deletion import FOREGROUND_FINALIZER, ORPHAN_FINALIZER
from pytest_sremut.embedded.registry.registry import Event

__all__ = ["GarbageCollector"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    resource: str
    namespace: str
    name: str


class GarbageCollector(Controller[str]):
    """Keys are uids of objects to look at."""

    name = "garbage-collector-controller"
    watches = tuple(
        table.key for table in RESOURCES.values() if table.key != "events" and not table.stored_as
    )

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._places: dict[str, _Place] = {}
        self._dependents: dict[str, set[str]] = {}

    def start(self) -> None:
        """Know every object before any is looked at: an owner not read yet is not an owner gone."""
        for resource in self.watches:
            for value in self.registry.list(resource):
                self._know(resource, value)
        super().start()

    def on_event(self, event: Event) -> None:
        """Keep the graph of owners, and look at what it says has changed."""
        value = event.object
        uid = value["metadata"]["uid"]
        if event.type == "DELETED":
            self._forget(event.old if event.old is not None else value)
            for dependent in self._dependents.get(uid, ()):
                self.queue.add(dependent)
            self._look_at_owners(event.old or value)
            return
        if event.old is not None and _owners(event.old) != _owners(value):
            self._forget(event.old)
            self._look_at_owners(event.old)
        self._know(event.resource, value)
        if _held(value):
            self.queue.add(uid)
        elif not deleting(value):
            for reference in _owners(value):
                owner = self._owner(reference, value)
                if owner is None or _held(owner):
                    self.queue.add(uid)
        elif event.old is not None and not deleting(event.old):
            self._look_at_owners(value)

    def _look_at_owners(self, value: JsonObject) -> None:
        for reference in _owners(value):
            owner = self._object(reference["uid"])
            if owner is not None and _held(owner):
                self.queue.add(reference["uid"])

    def _know(self, resource: str, value: JsonObject) -> None:
        metadata = value["metadata"]
        uid = metadata["uid"]
        self._places[uid] = _Place(
            resource=resource, namespace=metadata.get("namespace", ""), name=metadata["name"]
        )
        for reference in _owners(value):
            self._dependents.setdefault(reference["uid"], set()).add(uid)

    def _forget(self, value: JsonObject) -> None:
        uid = value["metadata"]["uid"]
        self._places.pop(uid, None)
        for reference in _owners(value):
            dependents = self._dependents.get(reference["uid"])
            if dependents is not None:
                dependents.discard(uid)
                if not dependents:
                    del self._dependents[reference["uid"]]

    def _object(self, uid: str) -> JsonObject | None:
        place = self._places.get(uid)
        if place is None:
            return None
        value = self.registry.get(place.resource, place.namespace, place.name)
        return value if value is not None and value["metadata"]["uid"] == uid else None

    def reconcile(self, key: str) -> None:
        """See the module."""
        value = self._object(key)
        if value is None:
            return
        if deleting(value) and ORPHAN_FINALIZER in finalizers(value):
            self._orphan(key, value)
        elif deleting(value) and FOREGROUND_FINALIZER in finalizers(value):
            self._foreground(key, value)
        elif not deleting(value) and _owners(value):
            self._collect(key, value)

    def _orphan(self, uid: str, value: JsonObject) -> None:
        for dependent in sorted(self._dependents.get(uid, ())):
            place = self._places[dependent]
            self.registry.mutate(
                place.resource, place.namespace, place.name, lambda item: without_owner(item, uid)
            )
        self._release(value, ORPHAN_FINALIZER)

    def _foreground(self, uid: str, value: JsonObject) -> None:
        dependents = [
            item for x in sorted(self._dependents.get(uid, ())) if (item := self._object(x))
        ]
        blocking = [item for item in dependents if _blocks(item, uid)]
        if not blocking:
            self._release(value, FOREGROUND_FINALIZER)
        for item in dependents:
            if not deleting(item):
                self.queue.add(item["metadata"]["uid"])

    def _release(self, value: JsonObject, finalizer: str) -> None:
        place = self._places[value["metadata"]["uid"]]

        def change(item: JsonObject) -> None:
            kept = [name for name in finalizers(item) if name != finalizer]
            if kept:
                item["metadata"]["finalizers"] = kept
            else:
                item["metadata"].pop("finalizers", None)

        self.registry.mutate(place.resource, place.namespace, place.name, change)

    def _collect(self, uid: str, value: JsonObject) -> None:
        """Delete an object without owners, or take away the references that are void."""
        gone, waiting, solid = [], [], 0
        for reference in _owners(value):
            owner = self._owner(reference, value)
            if owner is not None and _waits(owner):
                waiting.append(reference["uid"])
            elif owner is not None or by_kind(reference["apiVersion"], reference["kind"]) is None:
                solid += 1
            else:
                gone.append(reference["uid"])
        place = self._places[uid]
        if solid:
            for owner_uid in (*gone, *waiting):
                self.registry.mutate(
                    place.resource,
                    place.namespace,
                    place.name,
                    lambda item, uid=owner_uid: without_owner(item, uid),  # type: ignore[misc]
                )
            return
        handed_down = bool(waiting) and bool(self._dependents.get(uid))
        self.registry.delete(
            place.resource,
            place.namespace,
            place.name,
            uid=uid,
            propagation="Foreground" if handed_down else _own_policy(value),
        )

    def _owner(self, reference: JsonObject, value: JsonObject) -> JsonObject | None:
        """The owner, if it is there and may own: in the same namespace, or of the cluster."""
        owner = self._object(reference["uid"])
        if owner is None:
            return None
        namespace = owner["metadata"].get("namespace", "")
        return owner if namespace in ("", value["metadata"].get("namespace", "")) else None


def _owners(value: JsonObject) -> list[JsonObject]:
    references: list[JsonObject] = value["metadata"].get("ownerReferences") or []
    return references


def _held(value: JsonObject) -> bool:
    """Whether the collector has to let the object go."""
    held = finalizers(value)
    return deleting(value) and (FOREGROUND_FINALIZER in held or ORPHAN_FINALIZER in held)


def _waits(owner: JsonObject) -> bool:
    """Whether the owner waits for its dependents to be deleted."""
    return deleting(owner) and FOREGROUND_FINALIZER in finalizers(owner)


def _blocks(value: JsonObject, uid: str) -> bool:
    return any(x["uid"] == uid and x.get("blockOwnerDeletion") for x in _owners(value))


def _own_policy(value: JsonObject) -> str:
    if ORPHAN_FINALIZER in finalizers(value):
        return "Orphan"
    return "Foreground" if FOREGROUND_FINALIZER in finalizers(value) else "Background"
