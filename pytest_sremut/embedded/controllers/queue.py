"""Work queues: which keys are to be reconciled, each waiting at most once.

Rules kept here:

* a key that is added while it waits is one key; one added while it is worked on is worked on again;
* a refusal of the API is retried after 5 ms, 10 ms, 20 ms ... as real controllers do, and so is a
  defect of ours, which is logged and remembered besides: it can neither stop a controller nor hide;
* nothing polls: a queue without keys sleeps until one is added, and `Activity` knows when all are
  without.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Generic, Protocol, TypeVar

from pytest_sremut.embedded.meta.errors import ApiStatus

__all__ = ["Activity", "CallLater", "Failure", "Timer", "WorkQueue"]

FIRST_RETRY = 0.005
LAST_RETRY = 30.0
KEPT_FAILURES = 100

_log = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)


class Timer(Protocol):
    """A callback that waits."""

    def cancel(self) -> None:
        """Do not call it any more."""


class CallLater(Protocol):
    """`asyncio.AbstractEventLoop.call_later`, or a fake clock's."""

    def __call__(self, delay: float, callback: Callable[[], None], /) -> Timer:
        """Call `callback` once, `delay` seconds from now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A defect: what a controller raised that is no answer of the API."""

    controller: str
    key: object
    error: Exception


class Activity:
    """How many keys wait or are worked on, over all queues of a cluster.

    Attributes:
        failures: the last defects seen, oldest first; empty in a sound cluster.
    """

    def __init__(self) -> None:
        self.failures: list[Failure] = []
        self._count = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def begin(self) -> None:
        """One more key waits."""
        self._count += 1
        self._idle.clear()

    def end(self, keys: int = 1) -> None:
        """`keys` keys are done."""
        self._count -= keys
        if self._count == 0:
            self._idle.set()

    def fail(self, failure: Failure) -> None:
        """Remember a defect."""
        self.failures.append(failure)
        del self.failures[:-KEPT_FAILURES]

    async def idle(self) -> None:
        """Wait until no key waits or is worked on; keys that wait for a time do not count."""
        while self._count:
            await self._idle.wait()


class WorkQueue(Generic[K]):
    """Keys of one controller.

    Args:
        name: the controller's, for logs.
        reconcile: brings one key nearer to what is wanted; must not block.
        now: the clock.
        call_later: its timers.
        activity: counts the keys of all queues.
    """

    def __init__(
        self,
        name: str,
        reconcile: Callable[[K], None],
        *,
        now: Callable[[], datetime],
        call_later: CallLater,
        activity: Activity,
    ) -> None:
        self.name = name
        self._reconcile = reconcile
        self._now = now
        self._call_later = call_later
        self._activity = activity
        self._waiting: dict[K, None] = {}
        self._added = asyncio.Event()
        self._timers: dict[K, tuple[datetime, Timer]] = {}
        self._tries: dict[K, int] = {}

    def __len__(self) -> int:
        """How many keys wait."""
        return len(self._waiting)

    def add(self, key: K) -> None:
        """Have `key` reconciled soon."""
        if key not in self._waiting:
            self._waiting[key] = None
            self._activity.begin()
            self._added.set()

    def add_after(self, key: K, delay: float) -> None:
        """Have `key` reconciled in `delay` seconds, or earlier if that was asked for."""
        if delay <= 0:
            self.add(key)
            return
        due = self._now() + timedelta(seconds=delay)
        waiting = self._timers.get(key)
        if waiting is not None and waiting[0] <= due:
            return
        self.cancel(key)

        def ring() -> None:
            if self._timers.get(key, (None, None))[0] == due:
                del self._timers[key]
                self.add(key)

        self._timers[key] = (due, self._call_later(delay, ring))

    def cancel(self, key: K) -> None:
        """Forget that `key` was to be reconciled later."""
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer[1].cancel()

    def retry(self, key: K) -> None:
        """Have `key` reconciled again, later with each failure in a row."""
        tries = self._tries.get(key, 0)
        self._tries[key] = tries + 1
        self.add_after(key, min(FIRST_RETRY * 2 ** min(tries, 20), LAST_RETRY))

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            if not self._waiting:
                self._added.clear()
                await self._added.wait()
            key = next(iter(self._waiting))
            del self._waiting[key]
            try:
                self._work(key)
            finally:
                self._activity.end()
            await asyncio.sleep(0)  # others' turn: the API, the kubelet, the other queues

    def close(self) -> None:
        """Forget every key, waiting or timed."""
        for key in list(self._timers):
            self.cancel(key)
        self._activity.end(len(self._waiting))
        self._waiting.clear()
        self._tries.clear()

    def _work(self, key: K) -> None:
        try:
            self._reconcile(key)
        except ApiStatus as refused:
            _log.debug("%s: %s: %s", self.name, key, refused.message)
            self.retry(key)
        except Exception as error:
            _log.exception("%s: %s", self.name, key)
            self._activity.fail(Failure(controller=self.name, key=key, error=error))
            self.retry(key)
        else:
            self._tries.pop(key, None)
