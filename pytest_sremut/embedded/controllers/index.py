"""Objects of one resource, found by namespace and by owner without searching.

Rules kept here:

* an index sees each write at once and before any controller is, so that a controller that
  reads it sees its own writes;
* objects are shared with the store and never changed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from pytest_sremut.embedded.controllers.objects import controller_of
from pytest_sremut.embedded.meta.jsonvalue import JsonObject
from pytest_sremut.embedded.registry.registry import Event, Registry

__all__ = ["ObjectIndex"]

_NOTHING: dict[str, JsonObject] = {}


class ObjectIndex:
    """The objects of `resource` (``pods``), kept up to date from `start` to `stop`."""

    def __init__(self, registry: Registry, resource: str) -> None:
        self.resource = resource
        self._registry = registry
        self._by_namespace: dict[str, dict[str, JsonObject]] = {}
        self._by_controller: dict[str, dict[str, JsonObject]] = {}
        self._free: dict[str, dict[str, JsonObject]] = {}
        self._unsubscribe: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Read what there is and follow changes."""
        self._unsubscribe = self._registry.subscribe(self._follow, self.resource)
        for value in self._registry.list(self.resource):
            self._put(value)

    def stop(self) -> None:
        """Follow no more."""
        self._unsubscribe()

    def get(self, namespace: str, name: str) -> JsonObject | None:
        """The object of that name, or ``None``."""
        return self._by_namespace.get(namespace, _NOTHING).get(name)

    def in_namespace(self, namespace: str) -> Collection[JsonObject]:
        """Objects of a namespace, oldest write first."""
        return self._by_namespace.get(namespace, _NOTHING).values()

    def controlled_by(self, uid: str) -> list[JsonObject]:
        """Objects whose controller has that uid, by name."""
        return [value for _, value in sorted(self._by_controller.get(uid, _NOTHING).items())]

    def uncontrolled(self, namespace: str) -> list[JsonObject]:
        """Objects of a namespace that no controller owns, by name."""
        return [value for _, value in sorted(self._free.get(namespace, _NOTHING).items())]

    def _follow(self, event: Event) -> None:
        if event.old is not None:
            self._drop(event.old)
        if event.type != "DELETED":
            self._put(event.object)

    def _put(self, value: JsonObject) -> None:
        metadata = value["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        self._by_namespace.setdefault(namespace, {})[name] = value
        owner = controller_of(value)
        if owner is None:
            self._free.setdefault(namespace, {})[name] = value
        else:
            self._by_controller.setdefault(owner["uid"], {})[name] = value

    def _drop(self, value: JsonObject) -> None:
        metadata = value["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        owner = controller_of(value)
        _take(self._by_namespace, namespace, name)
        if owner is None:
            _take(self._free, namespace, name)
        else:
            _take(self._by_controller, owner["uid"], name)


def _take(groups: dict[str, dict[str, JsonObject]], group: str, name: str) -> None:
    members = groups.get(group)
    if members is None:
        return
    members.pop(name, None)
    if not members:
        del groups[group]
