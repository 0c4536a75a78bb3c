"""Objects in memory with one revision counter and the history that watches replay.

Rules kept here:

* every write takes the next revision, stamps it on the object and emits exactly one `Event`;
* events reach subscribers in revision order, even when a subscriber writes from its callback;
* an object handed in or out is shared and never changed afterwards;
* the last `history` events are remembered: within them any earlier state is known exactly
  (`list_at`) and any watch can be resumed (`since`); before them only `Expired` is honest.

The store knows nothing of kinds, defaults or validation: `registry` does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

from pytest_sremut.embedded.meta.jsonvalue import JsonObject

__all__ = ["Event", "EventType", "Objects", "Store", "TooOldError"]

EventType = Literal["ADDED", "MODIFIED", "DELETED"]

Key = tuple[str, str]
Objects = list[JsonObject]

FIRST_REVISION = 1
HISTORY = 20_000


class TooOldError(Exception):
    """The revision asked for is older than the remembered history."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One write.

    Attributes:
        type: what happened to the object.
        resource: key of the resource, ``deployments.apps``.
        object: the object after the write; for ``DELETED`` its last state, with the revision of the
            removal.
        old: the object before the write; ``None`` for ``ADDED``.
        revision: the revision of the write.
    """

    type: EventType
    resource: str
    object: JsonObject
    old: JsonObject | None
    revision: int

    @property
    def key(self) -> Key:
        """Namespace and name of the object."""
        metadata = self.object["metadata"]
        return metadata.get("namespace", ""), metadata["name"]


class Store:
    """All objects of the cluster.

    Args:
        history: how many events are remembered.
    """

    def __init__(self, *, history: int = HISTORY) -> None:
        self.revision = FIRST_REVISION
        self._objects: dict[str, dict[Key, JsonObject]] = {}
        self._history: deque[Event] = deque(maxlen=history)
        self._forgotten = FIRST_REVISION
        self._subscribers: dict[object, tuple[frozenset[str], Callable[[Event], None]]] = {}
        self._pending: deque[Event] = deque()
        self._dispatching = False

    @property
    def oldest(self) -> int:
        """The oldest revision that is still known exactly."""
        return self._forgotten

    # Reading

    def get(self, resource: str, namespace: str, name: str) -> JsonObject | None:
        """The object, or ``None``."""
        return self._objects.get(resource, {}).get((namespace, name))

    def list(self, resource: str, namespace: str = "") -> Objects:
        """Objects sorted by ``namespace/name``; all namespaces when `namespace` is empty."""
        return _sorted(self._objects.get(resource, {}), namespace)

    def list_at(self, resource: str, namespace: str, revision: int) -> Objects:
        """What `list` answered at `revision`.

        Raises:
            TooOldError: that revision is forgotten.
        """
        if revision >= self.revision:
            return self.list(resource, namespace)
        if revision < self._forgotten:
            raise TooOldError
        objects = dict(self._objects.get(resource, {}))
        for event in reversed(self._history):
            if event.revision <= revision:
                break
            if event.resource != resource:
                continue
            if event.old is None:
                objects.pop(event.key, None)
            else:
                objects[event.key] = event.old
        return _sorted(objects, namespace)

    def since(self, revision: int) -> Iterator[Event]:
        """Events after `revision`, oldest first.

        Raises:
            TooOldError: some of them are forgotten.
        """
        if revision < self._forgotten:
            raise TooOldError
        # Revisions are consecutive, so the place is arithmetic, not a search.
        skip = max(0, len(self._history) - (self.revision - revision))
        return iter(list(islice(self._history, skip, None)))

    # Writing

    def put(self, resource: str, value: JsonObject) -> JsonObject:
        """Write `value` under its own namespace and name; returns it with its new revision.

        `value` must be the caller's own: it is stamped in place and belongs to the store then.
        """
        metadata: dict[str, Any] = value["metadata"]
        key = (metadata.get("namespace", ""), metadata["name"])
        objects = self._objects.setdefault(resource, {})
        old = objects.get(key)
        self.revision += 1
        metadata["resourceVersion"] = str(self.revision)
        objects[key] = value
        kind: EventType = "ADDED" if old is None else "MODIFIED"
        self._emit(
            Event(type=kind, resource=resource, object=value, old=old, revision=self.revision)
        )
        return value

    def remove(
        self, resource: str, namespace: str, name: str, *, last: JsonObject | None = None
    ) -> JsonObject:
        """Remove an object and return its last state.

        Args:
            last: the state to show in the event, when the removing write also changed the object.

        Raises:
            KeyError: there is no such object.
        """
        old = self._objects[resource].pop((namespace, name))
        self.revision += 1
        shown = dict(last or old)
        shown["metadata"] = {**shown["metadata"], "resourceVersion": str(self.revision)}
        self._emit(
            Event(type="DELETED", resource=resource, object=shown, old=old, revision=self.revision)
        )
        return shown

    # Watching

    def subscribe(self, callback: Callable[[Event], None], *resources: str) -> Callable[[], None]:
        """Call `callback` after each write to `resources` (all, if none is named).

        Returns:
            A function that ends the subscription; calling it twice does no harm.
        """
        token = object()
        self._subscribers[token] = (frozenset(resources), callback)

        def unsubscribe() -> None:
            self._subscribers.pop(token, None)

        return unsubscribe

    def _emit(self, event: Event) -> None:
        if len(self._history) == self._history.maxlen:
            self._forgotten = self._history[0].revision if self._history else event.revision
        self._history.append(event)
        self._pending.append(event)
        if self._dispatching:
            return  # a subscriber wrote: the loop below delivers it after the current event
        self._dispatching = True
        failure: Exception | None = None
        try:
            while self._pending:
                current = self._pending.popleft()
                for wanted, callback in list(self._subscribers.values()):
                    if wanted and current.resource not in wanted:
                        continue
                    try:
                        callback(current)
                    except Exception as error:
                        # The write stands and the other subscribers must see it; the first failure
                        # is raised after all were called.
                        failure = failure or error
        finally:
            self._dispatching = False
        if failure is not None:
            raise failure


def _sorted(objects: dict[Key, JsonObject], namespace: str) -> Objects:
    keys = [key for key in objects if not namespace or key[0] == namespace]
    keys.sort(key="/".join)  # the order of the real storage: by path, not by pair
    return [objects[key] for key in keys]
