"""What all controllers share: what they are given, how they start, run and stop.

Rules kept here:

* level-triggered: an event only says which key to look at; `reconcile` reads the registry as it is
  now and writes only what differs, so any number of events, in any order, end in the same state;
* `reconcile` never waits, so between its reads and its writes nobody else writes.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Generic

from pytest_sremut.embedded.controllers.index import ObjectIndex
from pytest_sremut.embedded.controllers.queue import Activity, CallLater, K, WorkQueue
from pytest_sremut.embedded.meta.jsonvalue import JsonObject
from pytest_sremut.embedded.registry.registry import Event, Registry

__all__ = ["Context", "Controller"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What a controller works with."""

    registry: Registry
    pods: ObjectIndex
    replicasets: ObjectIndex
    services: ObjectIndex
    now: Callable[[], datetime]
    call_later: CallLater
    activity: Activity


class Controller(ABC, Generic[K]):
    """One control loop over keys of type `K`.

    Attributes:
        name: as in Kubernetes; the component of its events.
        watches: resources whose events it receives.
        working: whether `reconcile` is under way, so that an event is of its own making.
    """

    name: ClassVar[str]
    watches: ClassVar[tuple[str, ...]]

    def __init__(self, context: Context) -> None:
        self.context = context
        self.registry = context.registry
        self.working = False
        self.queue: WorkQueue[K] = WorkQueue(
            self.name,
            self._guarded,
            now=context.now,
            call_later=context.call_later,
            activity=context.activity,
        )
        self._unsubscribe: Callable[[], None] = lambda: None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Look at everything there is, then follow events. Needs a running event loop."""
        self._unsubscribe = self.registry.subscribe(self.on_event, *self.watches)
        for resource in self.watches:
            for value in self.registry.list(resource):
                revision = int(value["metadata"]["resourceVersion"])
                self.on_event(
                    Event(
                        type="ADDED", resource=resource, object=value, old=None, revision=revision
                    )
                )
        self._task = asyncio.get_running_loop().create_task(self.queue.run(), name=self.name)

    async def stop(self) -> None:
        """Stop; what is under way is finished first."""
        self._unsubscribe()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        self.queue.close()

    @abstractmethod
    def on_event(self, event: Event) -> None:
        """Put the keys that `event` concerns into the queue."""

    @abstractmethod
    def reconcile(self, key: K) -> None:
        """Bring what `key` names nearer to what is wanted."""

    def record(
        self, involved: JsonObject, reason: str, message: str, type_: str = "Normal"
    ) -> None:
        """Write an Event about `involved`."""
        self.registry.record_event(
            involved, type=type_, reason=reason, message=message, component=self.name
        )

    def _guarded(self, key: K) -> None:
        self.working = True
        try:
            self.reconcile(key)
        finally:
            self.working = False
