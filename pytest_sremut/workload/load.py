"""One round of load: a constant rate, offered open loop with wrk2's connection semantics.

* Requests are due at fixed times: `rate` a second over all connections, staggered evenly.
* A connection has at most one request outstanding. While it waits, its requests fall due and are
  sent as soon as it is free; their latency counts from when they were due.
* Every round begins with new connections. A request that nobody answers in `timeout` seconds is a
  timeout, its connection is replaced.
* When the duration is over nothing more is sent, and the round ends when what is outstanding has
  been answered or timed out. (wrk2 abandons it at the deadline: in a round of half a second that
  would hide exactly the one-second stalls that this load is to show.)
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field

from pytest_sremut.workload.mix import Kind

__all__ = ["Counts", "Endpoint", "EndpointError", "Plan", "Totals", "check", "run_round"]

_MAX_HEAD = 64 * 1024


class EndpointError(Exception):
    """The endpoint cannot be used at all; the message is the line that wrk2 prints then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where the load goes, and the numeric address that its name has now."""

    host: str
    port: int
    address: tuple[str, int] = ("", 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The parameters of a round. Times in seconds, `rate` in requests a second."""

    connections: int
    threads: int
    rate: float
    duration: float
    timeout: float
    kinds: tuple[Kind, ...]


@dataclass(slots=True, kw_only=True)
class Counts:
    """What happened to one kind of request. `failed` is a status above 399."""

    sent: int = 0
    completed: int = 0
    failed: int = 0


@dataclass(slots=True, kw_only=True)
class Totals:
    """What happened in a round."""

    kinds: list[Counts]
    per_connection: list[int]
    latencies: list[float] = field(default_factory=list)  # seconds, from when it was due
    connect: int = 0
    read: int = 0
    write: int = 0
    timeout: int = 0
    received: int = 0  # bytes
    elapsed: float = 0.0

    @property
    def completed(self) -> int:
        return sum(kind.completed for kind in self.kinds)

    @property
    def failed(self) -> int:
        return sum(kind.failed for kind in self.kinds)

    @property
    def socket_errors(self) -> int:
        return self.connect + self.read + self.write + self.timeout


async def check(host: str, port: int, *, timeout: float) -> Endpoint:
    """Resolves the name and connects once, as wrk2 does before a round.

    Raises:
        EndpointError: The name does not resolve, or nobody takes the connection.
    """
    loop = asyncio.get_running_loop()
    try:
        # Blocking, and nothing else runs: the resolver's own limits apply.
        found = socket.getaddrinfo(host, port, socket.AF_INET, socket.SOCK_STREAM)
    except OSError as error:
        why = error.strerror or error
        raise EndpointError(f"unable to resolve {host}:{port} {why}") from None
    address = (str(found[0][4][0]), int(found[0][4][1]))
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        async with asyncio.timeout(timeout):
            await loop.sock_connect(sock, address)
    except TimeoutError:
        raise EndpointError(f"unable to connect to {host}:{port} Connection timed out") from None
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else error  # asyncio words its own text
        raise EndpointError(f"unable to connect to {host}:{port} {why}") from None
    finally:
        sock.close()
    return Endpoint(host=host, port=port, address=address)


async def run_round(
    plan: Plan, endpoint: Endpoint, order: Iterator[int], stop: asyncio.Event
) -> Totals:
    """One round. `order` says which kind is sent next; `stop` ends the round at once."""
    loop = asyncio.get_running_loop()
    totals = Totals(kinds=[Counts() for _ in plan.kinds], per_connection=[0] * plan.connections)
    requests = [_request(endpoint, kind) for kind in plan.kinds]
    start = loop.time()
    lanes = [
        _Lane(
            loop=loop,
            plan=plan,
            endpoint=endpoint,
            requests=requests,
            order=order,
            totals=totals,
            number=number,
            start=start,
        )
        for number in range(plan.connections)
    ]
    for lane in lanes:
        lane.begin()
    over = loop.create_task(_over(lanes, start + plan.duration))
    stopped = loop.create_task(stop.wait())
    try:
        await asyncio.wait((over, stopped), return_when=asyncio.FIRST_COMPLETED)
    finally:
        over.cancel()
        stopped.cancel()
        for lane in lanes:
            lane.close()
        await asyncio.gather(over, stopped, return_exceptions=True)
    totals.elapsed = loop.time() - start
    return totals


async def _over(lanes: list[_Lane], end: float) -> bool:
    """Returns when the duration is over and nothing is outstanding any more."""
    for lane in lanes:
        await asyncio.shield(lane.done)
    await asyncio.sleep(max(end - asyncio.get_running_loop().time(), 0))
    return True


def _request(endpoint: Endpoint, kind: Kind) -> bytes:
    body = kind.body.encode()
    head = f"{kind.method} {kind.path} HTTP/1.1\r\nHost: {endpoint.host}:{endpoint.port}\r\n"
    if body:
        head += "Content-Type: application/x-www-form-urlencoded\r\n"
    if body or kind.method == "POST":
        head += f"Content-Length: {len(body)}\r\n"
    return head.encode("ascii") + b"\r\n" + body


class _Lane:
    """One connection's place in the round: its due times, and the connection of the moment."""

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        plan: Plan,
        endpoint: Endpoint,
        requests: list[bytes],
        order: Iterator[int],
        totals: Totals,
        number: int,
        start: float,
    ) -> None:
        self.done: asyncio.Future[None] = loop.create_future()
        self._loop = loop
        self._plan = plan
        self._endpoint = endpoint
        self._requests = requests
        self._order = order
        self._totals = totals
        self._number = number
        self._end = start + plan.duration
        self._interval = plan.connections / plan.rate
        self._due = start + number / plan.rate
        self._kind = 0
        self._outstanding = False
        self._wire: _Wire | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._connecting: asyncio.Task[None] | None = None

    def begin(self) -> None:
        self._connecting = self._loop.create_task(self._connect(first=True))

    def close(self) -> None:
        """Lets go of everything; what is outstanding counts for nothing."""
        self._outstanding = False
        if self._timer is not None:
            self._timer.cancel()
        if self._connecting is not None:
            self._connecting.cancel()
        if self._wire is not None:
            self._wire.abandon()
            self._wire = None
        if not self.done.done():
            self.done.set_result(None)

    async def _connect(self, *, first: bool = False) -> None:
        wire = _Wire(self)
        try:
            async with asyncio.timeout(self._plan.timeout):
                await self._loop.create_connection(lambda: wire, *self._endpoint.address)
        except OSError:  # TimeoutError is one
            self._totals.connect += 1
            self._connecting = None
            if not first:  # the request for which it was is lost; the next has its own try
                self._due += self._interval
            self._next()
            return
        self._connecting = None
        self._wire = wire
        self._next()

    def _next(self) -> None:
        """Waits for, or sends, the request that is due next; ends the lane after the duration."""
        now = self._loop.time()
        if self._due >= self._end or now >= self._end:
            self.close()
        elif self._due > now:
            self._timer = self._loop.call_at(self._due, self._send)
        else:
            self._send()

    def _send(self) -> None:
        if self._loop.time() >= self._end:
            self.close()
            return
        wire = self._wire
        if wire is None:
            self._connecting = self._loop.create_task(self._connect())
            return
        self._kind = next(self._order)
        self._outstanding = True
        self._totals.kinds[self._kind].sent += 1
        self._timer = self._loop.call_later(self._plan.timeout, self._expired)
        wire.send(self._requests[self._kind])

    def answered(self, status: int, size: int, *, keep_alive: bool) -> None:
        """An answer has arrived completely."""
        if not self._outstanding:
            return
        self._settle()
        totals = self._totals
        totals.latencies.append(self._loop.time() - self._due)
        totals.received += size
        totals.per_connection[self._number] += 1
        counts = totals.kinds[self._kind]
        counts.completed += 1
        if status > 399:
            counts.failed += 1
        self._advance(reconnect=not keep_alive)

    def lost(self, *, written: bool) -> None:
        """The connection is gone, or what came over it was no HTTP."""
        self._wire = None
        if self._outstanding:
            self._settle()
            if written:
                self._totals.read += 1
            else:
                self._totals.write += 1
            self._advance(reconnect=True)

    def _expired(self) -> None:
        self._timer = None
        self._outstanding = False
        self._totals.timeout += 1
        self._advance(reconnect=True)

    def _settle(self) -> None:
        self._outstanding = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _advance(self, *, reconnect: bool) -> None:
        self._due += self._interval
        if reconnect and self._wire is not None:
            self._wire.abandon()
            self._wire = None
        self._next()


class _Wire(asyncio.Protocol):
    """One connection: writes a request, reads one answer."""

    def __init__(self, lane: _Lane) -> None:
        self._lane: _Lane | None = lane
        self._transport: asyncio.Transport | None = None
        self._data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def send(self, payload: bytes) -> None:
        if self._transport is None or self._transport.is_closing():
            self._gone(written=False)
        else:
            self._transport.write(payload)

    def abandon(self) -> None:
        self._lane = None
        if self._transport is not None:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's name
        self._transport = None
        self._gone(written=True)

    def data_received(self, data: bytes) -> None:
        if self._lane is None:
            return
        self._data = self._data + data if self._data else data
        end = self._data.find(b"\r\n\r\n")
        if end < 0:
            if len(self._data) > _MAX_HEAD:
                self._broken()
            return
        head = self._data[:end].lower()
        if not head.startswith(b"http/1.") or not head[9:12].isdigit():
            self._broken()
            return
        size = end + 4 + _length(head)
        if size < end + 4:
            self._broken()
        elif len(self._data) >= size:
            self._data = b""
            keep_alive = b"\r\nconnection: close" not in head
            self._lane.answered(int(head[9:12]), size, keep_alive=keep_alive)

    def _broken(self) -> None:
        lane, self._lane = self._lane, None
        if self._transport is not None:
            self._transport.abort()
        if lane is not None:
            lane.lost(written=True)

    def _gone(self, *, written: bool) -> None:
        lane, self._lane = self._lane, None
        if lane is not None:
            lane.lost(written=written)


def _length(head: bytes) -> int:
    """Content-Length in a lower-case head; 0 without one, negative for what we cannot read."""
    if b"\r\ntransfer-encoding:" in head:
        return -(1 << 30)
    at = head.find(b"\r\ncontent-length:")
    if at < 0:
        return 0
    value = head[at + 17 :].partition(b"\r\n")[0].strip()
    return int(value) if value.isdigit() and len(value) < 12 else -(1 << 30)
