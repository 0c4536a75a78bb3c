"""core/v1 Events: what happened to an object, counted.

Rules kept here:

* the same event about the same object counts up instead of being written again;
* after ten events that differ in their message only, the next ones within ten minutes are
  aggregated as "(combined from similar events)", as recorders do;
* an event that cannot be written (its namespace is going) is dropped, as recorders do.
"""

from __future__ import annotations

from collections import OrderedDict
from datetime import datetime, timedelta
from typing import Any, Protocol

from pytest_sremut.embedded.meta.errors import ApiStatus
from pytest_sremut.embedded.meta.jsonvalue import JsonObject, clone, timestamp

__all__ = ["EventRecorder"]

NODE_COMPONENTS = frozenset({"kubelet", "kube-proxy"})
INSTANCES = {"default-scheduler": "default-scheduler-node-1"}
REMEMBERED = 4096
SIMILAR = 10
SIMILAR_FOR = timedelta(minutes=10)


class EventStore(Protocol):
    """The part of the registry that a recorder needs."""

    @property
    def revision(self) -> int:
        """Revision of the last write."""

    def now(self) -> datetime:
        """The cluster's clock."""

    def get(self, resource: str, namespace: str, name: str) -> JsonObject | None:
        """The object, or ``None``."""

    def create(self, resource: str, namespace: str, body: JsonObject) -> JsonObject:
        """Create an object; raises ApiStatus."""

    def update(self, resource: str, body: JsonObject) -> JsonObject:
        """Replace an object; raises ApiStatus."""


class EventRecorder:
    """Writes Events into a registry; remembers the latest ones by what they say."""

    def __init__(self, registry: EventStore) -> None:
        self._registry = registry
        self._names: OrderedDict[tuple[str, ...], str] = OrderedDict()
        self._similar: OrderedDict[tuple[str, ...], tuple[set[str], datetime]] = OrderedDict()

    def record(
        self,
        involved: JsonObject,
        *,
        type: str,  # noqa: A002 - the name of the field
        reason: str,
        message: str,
        component: str,
        field_path: str,
    ) -> None:
        """See `Registry.record_event`."""
        metadata = involved["metadata"]
        namespace = metadata.get("namespace") or "default"
        alike = (
            namespace,
            str(metadata.get("uid") or metadata.get("name", "")),
            type,
            reason,
            component,
        )
        combined = self._one_of_many(alike, message)
        identity = (*alike, field_path, "" if combined else message)
        if combined:
            message = f"(combined from similar events): {message}"
        if self._count_up(namespace, self._names.get(identity, ""), message):
            self._names.move_to_end(identity)
            return
        body = _event(involved, component, field_path)
        now = timestamp(self._registry.now())
        name = f"{metadata.get('name', '')}.{self._registry.revision:016x}"
        body |= {
            "metadata": {"name": name, "namespace": namespace},
            "reason": reason,
            "message": message,
            "type": type,
            "firstTimestamp": now,
            "lastTimestamp": now,
        }
        try:
            self._registry.create("events", namespace, body)
        except ApiStatus as refused:
            if refused.reason not in ("Forbidden", "NotFound"):
                raise
            return
        self._names[identity] = name
        if len(self._names) > REMEMBERED:
            self._names.popitem(last=False)

    def _one_of_many(self, alike: tuple[str, ...], message: str) -> bool:
        """Whether this event is aggregated because too many similar ones arrived recently."""
        now = self._registry.now()
        messages, last = self._similar.get(alike, (set(), now))
        if now - last > SIMILAR_FOR:
            messages = set()
        messages.add(message)
        self._similar[alike] = (messages, now)
        self._similar.move_to_end(alike)
        if len(self._similar) > REMEMBERED:
            self._similar.popitem(last=False)
        if len(messages) <= SIMILAR:
            return False
        messages.pop()  # it stays full, and does not grow
        return True

    def _count_up(self, namespace: str, name: str, message: str) -> bool:
        event = self._registry.get("events", namespace, name) if name else None
        if event is None:
            return False
        value = clone(event)
        value["count"] = int(event.get("count") or 1) + 1
        value["message"] = message
        value["lastTimestamp"] = timestamp(self._registry.now())
        self._registry.update("events", value)
        return True


def _event(involved: JsonObject, component: str, field_path: str) -> JsonObject:
    """What an Event says of its object and its reporter."""
    metadata = involved["metadata"]
    reference: dict[str, Any] = {
        "kind": involved.get("kind", ""),
        "namespace": metadata.get("namespace", ""),
        "name": metadata.get("name", ""),
        "uid": metadata.get("uid", ""),
        "apiVersion": involved.get("apiVersion", "v1"),
        "resourceVersion": metadata.get("resourceVersion", ""),
        "fieldPath": field_path,
    }
    host = ""
    if component in NODE_COMPONENTS:
        host = (involved.get("spec") or {}).get("nodeName", "")
    source = {"component": component, "host": host} if host else {"component": component}
    return {
        "involvedObject": {key: value for key, value in reference.items() if value},
        "source": source,
        "count": 1,
        "eventTime": None,
        "reportingComponent": component,
        "reportingInstance": INSTANCES.get(component, host),
    }
