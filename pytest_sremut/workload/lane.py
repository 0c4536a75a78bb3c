"""One connection of a round: what it sends when, and how its answers and losses are counted."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass

from pytest_sremut.workload.delivery import late_after
from pytest_sremut.workload.draws import Draws
from pytest_sremut.workload.pace import Pace, pace_of
from pytest_sremut.workload.plan import Plan
from pytest_sremut.workload.totals import Endpoint, Totals
from pytest_sremut.workload.wire import Answer, WireError, take_answer, take_last_answer

__all__ = ["Lane", "World"]


@dataclass(frozen=True, slots=True)
class World:
    """What the lanes of a round share."""

    loop: asyncio.AbstractEventLoop
    plan: Plan
    endpoint: Endpoint
    requests: list[bytes]
    draws: Draws
    totals: Totals
    start: float


class Lane:
    """One connection's place in the round: its due times, and the connection of the moment."""

    def __init__(self, world: World, number: int) -> None:
        self.tasks: set[asyncio.Task[None]] = set()
        self._world = world
        self._number = number
        self._end = world.start + world.plan.duration
        self._limit = late_after(world.plan.interval)
        self._kinds = world.draws.kinds(number)
        begin = world.start + world.plan.starts(number)
        self._pace: Pace = pace_of(world.plan, begin, world.draws.gaps(number))
        self._outstanding: deque[tuple[int, float, float]] = deque()  # kind, due, sent
        self._wire: _Wire | None = None
        self._free = 0.0  # since when nothing but its due time holds the next request back
        self._closed = False
        self._timer: asyncio.TimerHandle | None = world.loop.call_at(begin, self._dial, True)

    def close(self) -> None:
        """Lets go of everything; what is outstanding counts for nothing."""
        self._count_unsent()
        self._closed = True
        self._outstanding.clear()
        self._cancel_timer()
        for task in self.tasks:
            task.cancel()
        self._drop()

    @property
    def is_idle(self) -> bool:
        """Whether every request that was sent has been answered or lost."""
        return not self._outstanding

    def look(self) -> None:
        """Counts a timeout if the request that is outstanding has waited for too long."""
        now = self._world.loop.time()
        if self._outstanding and now - self._outstanding[0][2] > self._world.plan.timeout:
            self._world.totals.timeout += 1

    # -- connecting -----------------------------------------------------------------------------

    def _dial(self, first: bool = False) -> None:
        self._timer = None
        if self._closed or self._world.loop.time() >= self._end:
            return
        task = self._world.loop.create_task(self._connect(first))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _connect(self, first: bool) -> None:
        world = self._world
        wire = _Wire(self)
        try:
            async with asyncio.timeout(world.plan.timeout):
                await world.loop.create_connection(lambda: wire, *world.endpoint.address)
        except OSError:  # TimeoutError is one
            world.totals.connect += 1
            if not first:  # the request for which it was is lost; the next has its own try
                self._pace.given_up()
            self._dial_when_due()
            return
        if self._closed:
            wire.abandon()
            return
        self._wire = wire
        self._free = world.loop.time()
        self._pump()

    def _dial_when_due(self) -> None:
        """A new connection for the next request, not before it is due."""
        if not self._closed:
            self._cancel_timer()
            at = self._pace.may_send(self._world.loop.time())
            self._timer = self._world.loop.call_at(at, self._dial)

    def _drop(self) -> None:
        if self._wire is not None:
            self._wire.abandon()
            self._wire = None

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # -- sending --------------------------------------------------------------------------------

    def _pump(self) -> None:
        """Sends all that may be sent now, and waits for what may be sent next."""
        self._cancel_timer()
        loop, pace = self._world.loop, self._pace
        while (wire := self._wire) is not None and self._may_send:
            now = loop.time()
            if now >= self._end:
                return
            target = pace.may_send(now)
            if target > now:
                self._timer = loop.call_at(target, self._pump)
                return
            self._note_lateness(now - max(target, self._free))
            self._send(wire, now)

    @property
    def _may_send(self) -> bool:
        return not self._closed and (self._pace.pipelines or not self._outstanding)

    def _send(self, wire: _Wire, now: float) -> None:
        kind = next(self._kinds)
        self._world.totals.kinds[kind].sent += 1
        self._outstanding.append((kind, self._pace.due, now))
        self._pace.sent()
        wire.send(self._world.requests[kind])

    def _note_lateness(self, seconds: float, number: int = 1) -> None:
        totals = self._world.totals
        totals.latest = max(totals.latest, seconds)
        if seconds > self._limit:
            totals.late += number

    def _count_unsent(self) -> None:
        """Requests that were due, had a free connection and had not been sent at the end."""
        if self._wire is None or not self._may_send:
            return
        overdue = self._end - max(self._pace.may_send(self._end), self._free)
        if overdue > self._limit:
            # How many is an estimate: those that were due since are not drawn any more.
            self._note_lateness(overdue, 1 + int(overdue / self._world.plan.interval))

    # -- being answered -------------------------------------------------------------------------

    def answered(self, answer: Answer) -> None:
        """The oldest outstanding request has its answer, completely."""
        now = self._world.loop.time()
        if self._closed or not self._outstanding:
            return
        kind, due, _ = self._outstanding.popleft()
        if now < self._end or self._world.plan.drains:
            self._count(kind, now - due, now, answer)
        self._pace.answered()
        if not answer.keep_alive:
            self._outstanding.clear()
            self._drop()
            self._dial_when_due()
        elif not self._pace.pipelines:
            self._free = now
            self._pump()

    def _count(self, kind: int, latency: float, now: float, answer: Answer) -> None:
        world, totals = self._world, self._world.totals
        if now - world.start < world.plan.forgotten:
            totals.calibrating[self._number % world.plan.threads].append(latency)
        else:
            totals.latencies.append(latency)
        totals.received += answer.size
        totals.per_connection[self._number] += 1
        counts = totals.kinds[kind]
        counts.completed += 1
        if answer.status > 399:
            counts.failed += 1

    def lost(self) -> None:
        """The connection is gone, or what came over it was no HTTP."""
        self._wire = None
        if self._closed:
            return
        if self._outstanding:
            self._outstanding.clear()
            self._world.totals.read += 1
        self._dial_when_due()


class _Wire(asyncio.Protocol):
    """One connection: writes requests, reads answers."""

    def __init__(self, lane: Lane) -> None:
        self._lane: Lane | None = lane
        self._transport: asyncio.Transport | None = None
        self._data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def send(self, payload: bytes) -> None:
        # Where the peer has just gone, its loss comes next and is counted then.
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(payload)

    def abandon(self) -> None:
        self._lane = None
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._data = self._data + data if self._data else data
        try:
            while self._lane is not None and self._data:
                answer = take_answer(self._data)
                if answer is None:
                    return
                self._data = self._data[answer.size :]
                self._lane.answered(answer)
        except WireError:
            self._gone()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's name
        self._transport = None
        lane = self._lane
        if lane is not None and self._data:
            try:
                last = take_last_answer(self._data)
            except WireError:
                last = None
            if last is not None:
                self._lane = None
                lane.answered(last)
                return
        self._gone()

    def _gone(self) -> None:
        lane, self._lane = self._lane, None
        if self._transport is not None:
            self._transport.abort()
        if lane is not None:
            lane.lost()
