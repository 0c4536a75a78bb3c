"""Watches: the events of a selection, from a point in history onwards.

Rules kept here:

* an object that enters the selection is ``ADDED``, one that leaves it is ``DELETED``, whatever
  happened to it;
* nothing is lost between the past and the present: the past is read and the subscription made in
  one step, without giving the loop a turn;
* a point in history that is forgotten is one ``ERROR`` event with the 410, and the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from pytest_sremut.embedded.apiserver.negotiation import Form
from pytest_sremut.embedded.meta.errors import ApiStatus, expired
from pytest_sremut.embedded.meta.jsonvalue import JsonObject, encode
from pytest_sremut.embedded.meta.resources import Resource
from pytest_sremut.embedded.registry.store import Event, Store, TooOldError

__all__ = ["Selection", "Watch"]

INITIAL_EVENTS_END = {"k8s.io/initial-events-end": "true"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Objects of a resource, in a namespace (or all), that `matches`."""

    table: Resource
    namespace: str
    matches: Callable[[JsonObject], bool]

    @property
    def storage(self) -> str:
        """Key of the resource that holds the objects."""
        return self.table.stored_as or self.table.key

    def takes(self, value: JsonObject | None) -> bool:
        """Whether an object belongs to the selection."""
        if value is None:
            return False
        if self.namespace and value["metadata"].get("namespace") != self.namespace:
            return False
        return self.matches(value)


@dataclass(slots=True, kw_only=True)
class Watch:
    """One watch; frames are lines of JSON.

    Attributes:
        since: revision after which events are sent; ``None`` begins with what there is.
        bookmarks: whether the client wants to know how far it is.
        initial_end: whether to mark the end of the initial events.
    """

    store: Store
    selection: Selection
    form: Form
    now: Callable[[], datetime]
    shape: Callable[[JsonObject], JsonObject]
    since: int | None
    bookmarks: bool = False
    initial_end: bool = False
    _told: bool = field(default=False)

    def open(self, send: Callable[[bytes], None]) -> Callable[[], None] | None:
        """Send the past, then every event as it happens.

        Returns:
            A function that ends the watch; ``None`` when it has ended already, because its past is
            forgotten (an ``ERROR`` event was sent).
        """
        try:
            for frame in self._past():
                send(frame)
        except ApiStatus as status:
            send(_line("ERROR", status.body()))
            return None

        def deliver(event: Event) -> None:
            frame = self._frame(event)
            if frame is not None:
                send(frame)

        return self.store.subscribe(deliver, self.selection.storage)

    def bookmark(self, annotations: JsonObject | None = None) -> bytes:
        """A ``BOOKMARK`` with the current revision."""
        table = self.selection.table
        metadata: JsonObject = {"resourceVersion": str(self.store.revision)}
        if annotations:
            metadata["annotations"] = annotations
        value = {"kind": table.kind, "apiVersion": table.api_version, "metadata": metadata}
        return _line("BOOKMARK", value)

    def _past(self) -> Iterator[bytes]:
        if self.since is None:
            for value in self.store.list(self.selection.storage, self.selection.namespace):
                if self.selection.matches(value):
                    yield self._line("ADDED", value)
            if self.initial_end:
                yield self.bookmark(dict(INITIAL_EVENTS_END))
            return
        try:
            events = self.store.since(self.since)
        except TooOldError:
            oldest = self.store.oldest
            raise expired(f"too old resource version: {self.since} ({oldest})") from None
        for event in events:
            if event.resource == self.selection.storage:
                frame = self._frame(event)
                if frame is not None:
                    yield frame
        if self.initial_end:
            yield self.bookmark(dict(INITIAL_EVENTS_END))

    def _frame(self, event: Event) -> bytes | None:
        before, after = self.selection.takes(event.old), self.selection.takes(event.object)
        if event.type == "DELETED":
            return self._line("DELETED", event.object) if before else None
        if after:
            return self._line("MODIFIED" if before else "ADDED", event.object)
        if before and event.old is not None:
            metadata = {**event.old["metadata"], "resourceVersion": str(event.revision)}
            return self._line("DELETED", {**event.old, "metadata": metadata})
        return None

    def _line(self, kind: str, value: JsonObject) -> bytes:
        shown = self.form.event(
            self.selection.table, self.shape(value), self.now(), first=not self._told
        )
        self._told = True
        return _line(kind, shown)


def _line(kind: str, value: JsonObject) -> bytes:
    return encode({"type": kind, "object": value}) + b"\n"
