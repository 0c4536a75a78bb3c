"""One round of load: a constant rate, offered with the connection semantics of a wrk2.

* Each connection has due times of its own (`pace`), and each request a kind that was drawn for it
  (`draws`).
* When the duration is over the round ends. What is outstanding is dropped, not waited for; but in
  the variant `drain` for as long as the timeout says, and what has no answer then has timed out.
* A request that waits for longer than the timeout is counted (giltene) at a look every two
  seconds, and its connection goes on waiting for the answer.
* A connection that breaks with something outstanding is a read error, and is made again.
* How late the generator itself was is counted apart from how slow the system was: a request is
  late if its connection was free, it was due, and still it was not sent in time.
"""

from __future__ import annotations

import asyncio
import os
import socket

from pytest_sremut.workload.draws import Draws
from pytest_sremut.workload.lane import Lane, World
from pytest_sremut.workload.mix import Kind
from pytest_sremut.workload.pace import due_within
from pytest_sremut.workload.plan import Plan, Variant
from pytest_sremut.workload.pulse import Pulse
from pytest_sremut.workload.totals import Counts, Endpoint, Totals

__all__ = ["EndpointError", "check", "run_round"]

_LOOK = 2.0  # seconds between two looks at what has waited for too long
_DRAIN_STEP = 0.005  # seconds between two looks at whether all answers have come
_LOOK_STEP = 0.005  # and so much later for each connection of a thread


class EndpointError(Exception):
    """The endpoint cannot be used at all; the message is the line that wrk2 prints then."""


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


async def run_round(plan: Plan, endpoint: Endpoint, draws: Draws, stop: asyncio.Event) -> Totals:
    """One round, with new connections. `stop` ends it at once."""
    loop = asyncio.get_running_loop()
    numbers = range(plan.connections)
    totals = Totals(
        kinds=[Counts() for _ in plan.kinds],
        per_connection=[0] * plan.connections,
        calibrating=[[] for _ in range(plan.threads)],
        due=sum(due_within(plan, number, draws.gaps(number)) for number in numbers),
    )
    requests = [_request(endpoint, kind) for kind in plan.kinds]
    start = loop.time()
    world = World(loop, plan, endpoint, requests, draws, totals, start)
    lanes = [Lane(world, number) for number in numbers]
    pulse = Pulse(loop)
    looks = _look_times(plan)
    handles = [loop.call_at(start + at, _look, lanes) for at in looks]
    # The original ends at its look; one that falls just after the end still counts.
    last = max([plan.duration, *looks])
    try:
        async with asyncio.timeout_at(start + last):
            await stop.wait()
    except TimeoutError:
        if plan.drains:
            await _drained(lanes, stop, until=start + last + plan.timeout)
    finally:
        totals.elapsed = loop.time() - start
        for handle in handles:
            handle.cancel()
        for lane in lanes:
            lane.close()
    totals.stalled = pulse.stop()
    await asyncio.gather(*(task for lane in lanes for task in lane.tasks), return_exceptions=True)
    return totals


def _look_times(plan: Plan) -> list[float]:
    """When timeouts are counted, in seconds after the begin; the last may be just after the end."""
    if plan.variant is not Variant.GILTENE:
        return []
    late = max(1, plan.connections // plan.threads) * _LOOK_STEP
    return [number * _LOOK + late for number in range(1, int(plan.duration / _LOOK + 1e-9) + 1)]


async def _drained(lanes: list[Lane], stop: asyncio.Event, *, until: float) -> None:
    """Waits for the answers of what was sent; counts a timeout for each that does not come."""
    loop = asyncio.get_running_loop()
    while not all(lane.is_idle for lane in lanes) and not stop.is_set():
        if loop.time() >= until:
            _look(lanes)
            return
        await asyncio.sleep(_DRAIN_STEP)


def _look(lanes: list[Lane]) -> None:
    for lane in lanes:
        lane.look()


def _request(endpoint: Endpoint, kind: Kind) -> bytes:
    body = kind.body.encode()
    head = f"{kind.method} {kind.path} HTTP/1.1\r\nHost: {endpoint.host}:{endpoint.port}\r\n"
    if body:
        head += "Content-Type: application/x-www-form-urlencoded\r\n"
    if body or kind.method == "POST":
        head += f"Content-Length: {len(body)}\r\n"
    return head.encode("ascii") + b"\r\n" + body
