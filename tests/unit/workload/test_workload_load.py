"""The generator against scripted servers: what is sent, when, and how each failure is counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from pytest_sremut.workload.load import Endpoint, EndpointError, Plan, Totals, check, run_round
from pytest_sremut.workload.mix import Kind, sequence
from pytest_sremut.workload.report import RoundOutcome, parse_log
from pytest_sremut.workload.writer import head_lines, report_lines

KINDS = (Kind("home", "/home", 60), Kind("user", "/user", 30), Kind("compose", "/compose", 10))
Answer = Callable[["Peer", bytes, asyncio.StreamWriter], Awaitable[bool]]
"""Answers one request; False closes the connection."""


def reply(status: int = 200, body: bytes = b"{}", *, more: bytes = b"") -> bytes:
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n%s\r\n%s" % (status, len(body), more, body)


class Peer:
    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.connections = 0
        self.open = 0
        self.busiest = 0
        self.paths: list[bytes] = []
        self.tasks: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Endpoint]:
        """Serves meanwhile; afterwards nothing of it is left."""
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        try:
            yield Endpoint(host=host, port=port, address=(host, port))
        finally:
            server.close()
            for task in self.tasks:
                task.cancel()
            await asyncio.gather(*self.tasks, return_exceptions=True)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        self.connections += 1
        with suppress(asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.paths.append(head.split(b" ")[1])
                self.open += 1
                self.busiest = max(self.busiest, self.open)
                stays = await self.answer(self, head, writer)
                self.open -= 1
                if not stays:
                    break
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


def plan(**changes: object) -> Plan:
    values: dict[str, object] = {
        "connections": 3,
        "threads": 3,
        "rate": 400.0,
        "duration": 0.25,
        "timeout": 20.0,
        "kinds": KINDS,
    }
    return Plan(**{**values, **changes})  # type: ignore[arg-type]


def drive(answer: Answer, planned: Plan, *, rounds: int = 1) -> tuple[Peer, list[Totals]]:
    async def main() -> tuple[Peer, list[Totals]]:
        peer = Peer(answer)
        order = sequence(planned.kinds, 1)
        async with peer.listening() as endpoint:
            found = [
                await run_round(planned, endpoint, order, asyncio.Event()) for _ in range(rounds)
            ]
        return peer, found

    return asyncio.run(main())


async def fine(peer: Peer, head: bytes, writer: asyncio.StreamWriter) -> bool:
    writer.write(reply())
    return True


def read_back(planned: Plan, totals: Totals) -> RoundOutcome:
    lines = [
        "Running wrk2 on round #1",
        *head_lines(planned, "http://a"),
        *report_lines(planned, totals),
    ]
    (found,) = parse_log("\n".join(lines).encode()).rounds
    assert found.requests == totals.completed
    assert found.failures == totals.failed
    assert (found.socket_errors.total if found.socket_errors else 0) == totals.socket_errors
    return found.outcome


def nearly_all(totals: Totals) -> int:
    """How many of the 100 requests of a round were sent: a machine that stalls at its very end
    leaves a few unsent, which is right and no matter of these tests."""
    sent = sum(kind.sent for kind in totals.kinds)
    assert 80 <= sent <= 100
    return sent


def test_a_healthy_round_sends_what_is_due_in_exact_proportions() -> None:
    planned = plan()
    peer, (first, second) = drive(fine, planned, rounds=2)
    assert peer.connections == 2 * 3, "every round makes new connections"
    assert peer.busiest <= 3
    for totals in (first, second):
        sent = nearly_all(totals)
        for kind, share in zip(totals.kinds, (0.6, 0.3, 0.1), strict=True):
            assert kind.completed == kind.sent
            assert abs(kind.sent - share * sent) <= 1
        assert totals.failed == totals.socket_errors == 0
        assert totals.elapsed >= planned.duration
        assert len(totals.latencies) == sent
        assert read_back(planned, totals) is RoundOutcome.OK
    assert peer.paths.count(b"/compose") == first.kinds[2].sent + second.kinds[2].sent


def test_statuses_above_399_are_failures_and_others_are_not() -> None:
    async def answer(peer: Peer, head: bytes, writer: asyncio.StreamWriter) -> bool:
        path = head.split(b" ")[1]
        writer.write(reply({b"/compose": 500, b"/user": 302, b"/home": 200}[path]))
        return True

    planned = plan()
    _, (totals,) = drive(answer, planned)
    assert totals.completed == nearly_all(totals)
    assert [kind.failed for kind in totals.kinds] == [0, 0, totals.kinds[2].sent]
    assert read_back(planned, totals) is RoundOutcome.OK


def test_a_stalled_answer_makes_its_connection_late_and_is_waited_for() -> None:
    async def answer(peer: Peer, head: bytes, writer: asyncio.StreamWriter) -> bool:
        if head.startswith(b"GET /compose"):
            await asyncio.sleep(0.3)
            writer.write(reply(500))
        else:
            writer.write(reply())
        return True

    planned = plan()
    peer, (totals,) = drive(answer, planned)
    assert totals.elapsed >= 0.3, "the round ends when what is outstanding has been answered"
    assert totals.completed == len(peer.paths) == sum(kind.sent for kind in totals.kinds)
    assert 1 <= totals.failed <= 3, "each of three connections stalls once at most"
    assert totals.completed < 60, "what a stalled connection could not send is not sent later"
    assert max(totals.latencies) >= 0.3
    assert peer.busiest <= 3


def test_latency_counts_from_when_a_request_was_due() -> None:
    calls = 0

    async def answer(peer: Peer, head: bytes, writer: asyncio.StreamWriter) -> bool:
        nonlocal calls
        calls += 1
        if calls == 1:
            await asyncio.sleep(0.1)
        writer.write(reply())
        return True

    _, (totals,) = drive(answer, plan(connections=1, threads=1, rate=200.0))
    assert totals.completed == 50, "the late ones are sent as soon as the connection is free"
    assert sum(latency >= 0.05 for latency in totals.latencies) >= 10


def test_a_request_that_nobody_answers_is_a_timeout_and_its_connection_is_replaced() -> None:
    async def answer(peer: Peer, head: bytes, writer: asyncio.StreamWriter) -> bool:
        if head.startswith(b"GET /compose"):
            await asyncio.Event().wait()
        writer.write(reply())
        return True

    planned = plan(timeout=0.1)
    _, (totals,) = drive(answer, planned)
    assert totals.timeout >= 1
    assert totals.kinds[2].completed == 0
    assert sum(kind.sent for kind in totals.kinds) == totals.completed + totals.timeout
    assert read_back(planned, totals) is RoundOutcome.TIMEOUTS


def test_a_hung_server_completes_nothing() -> None:
    async def answer(peer: Peer, head: bytes, writer: asyncio.StreamWriter) -> bool:
        await asyncio.Event().wait()
        return False

    planned = plan(timeout=0.1, duration=0.05)
    _, (totals,) = drive(answer, planned)
    assert totals.completed == 0
    assert read_back(planned, totals) is RoundOutcome.NO_COMPLETED_REQUESTS


@pytest.mark.parametrize(
    "garbage", [b"220 ready\r\n\r\n", b"", b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n"]
)
def test_a_connection_that_breaks_is_a_read_error_and_is_made_again(garbage: bytes) -> None:
    async def answer(peer: Peer, head: bytes, writer: asyncio.StreamWriter) -> bool:
        if head.startswith(b"GET /compose"):
            writer.write(garbage)
            return False
        writer.write(reply())
        return True

    planned = plan()
    peer, (totals,) = drive(answer, planned)
    broken = totals.kinds[2].sent
    assert broken >= 8
    assert totals.read == broken
    assert totals.completed == nearly_all(totals) - broken
    assert peer.connections >= broken
    assert read_back(planned, totals) is RoundOutcome.SOCKET_ERRORS


def test_an_answer_that_closes_the_connection_is_no_error() -> None:
    async def answer(peer: Peer, head: bytes, writer: asyncio.StreamWriter) -> bool:
        writer.write(reply(more=b"Connection: close\r\n"))
        return False

    _, (totals,) = drive(answer, plan())
    assert (totals.completed, totals.socket_errors) == (nearly_all(totals), 0)


def test_an_endpoint_that_goes_away_costs_a_connect_error_for_each_request() -> None:
    async def main() -> Totals:
        async with Peer(fine).listening() as endpoint:
            pass
        return await run_round(plan(), endpoint, sequence(KINDS, 1), asyncio.Event())

    totals = asyncio.run(main())
    assert totals.completed == 0
    assert 100 <= totals.connect <= 103
    assert read_back(plan(), totals) is RoundOutcome.NO_COMPLETED_REQUESTS


def test_a_stopped_round_ends_at_once() -> None:
    async def main() -> Totals:
        async def hang(peer: Peer, head: bytes, writer: asyncio.StreamWriter) -> bool:
            stop.set()
            await asyncio.Event().wait()
            return False

        stop = asyncio.Event()
        endless = plan(duration=3600.0, timeout=3600.0)
        async with Peer(hang).listening() as endpoint:
            return await run_round(endless, endpoint, sequence(KINDS, 1), stop)

    assert asyncio.run(main()).completed == 0


def test_a_request_carries_method_and_body() -> None:
    bodies: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                bodies.append(head.split(b" ")[0] + b" " + await reader.readexactly(9))
                writer.write(reply())
        writer.close()
        closed.set()

    closed = asyncio.Event()
    kinds = (Kind("compose", "/c", 1, "POST", "user_id=1"),)
    planned = plan(kinds=kinds, duration=0.02, connections=1, threads=1)

    async def main() -> Totals:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            host, port = server.sockets[0].getsockname()
            endpoint = Endpoint(host=host, port=port, address=(host, port))
            found = await run_round(planned, endpoint, sequence(kinds, 1), asyncio.Event())
            await closed.wait()
        return found

    totals = asyncio.run(main())
    assert totals.completed == len(bodies) == 8
    assert set(bodies) == {b"POST user_id=1"}


def test_the_check_before_a_round() -> None:
    async def main() -> None:
        async with Peer(fine).listening() as endpoint:
            assert await check(endpoint.host, endpoint.port, timeout=20) == endpoint
        where = f"127.0.0.1:{endpoint.port}"
        with pytest.raises(EndpointError, match=f"unable to connect to {where} Connection ref"):
            await check("127.0.0.1", endpoint.port, timeout=20)
        with pytest.raises(EndpointError, match=r"unable to resolve no-such\.invalid:80 "):
            await check("no-such.invalid", 80, timeout=20)

    asyncio.run(main())
