"""The generator against scripted servers: what is sent, when, and how each failure is counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from itertools import islice

import pytest

from pytest_sremut.workload import load
from pytest_sremut.workload.delivery import Asked
from pytest_sremut.workload.draws import Draws
from pytest_sremut.workload.load import EndpointError, check, run_round
from pytest_sremut.workload.mix import Kind
from pytest_sremut.workload.plan import Distribution, Plan, Variant
from pytest_sremut.workload.report import RoundOutcome, parse_log
from pytest_sremut.workload.totals import Endpoint, Totals
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
        "distribution": Distribution.FIXED,
    }
    return Plan(**{**values, **changes})  # type: ignore[arg-type]


def drive(answer: Answer, planned: Plan, *, rounds: int = 1) -> tuple[Peer, list[Totals]]:
    async def main() -> tuple[Peer, list[Totals]]:
        peer = Peer(answer)
        async with peer.listening() as endpoint:
            found = [
                await run_round(planned, endpoint, Draws(planned, 1, n), asyncio.Event())
                for n in range(rounds)
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
        *report_lines(planned, "http://a", totals),
    ]
    (found,) = parse_log("\n".join(lines).encode()).rounds
    assert found.requests == totals.completed
    assert found.failures == totals.failed
    assert (found.socket_errors.total if found.socket_errors else 0) == totals.socket_errors
    return found.outcome


def nearly_all(totals: Totals) -> int:
    """How many of the 99 requests of a round were sent: a machine that stalls at its very end
    leaves a few unsent, which is right and no matter of these tests."""
    assert totals.due == 99
    assert 80 <= totals.sent <= 99
    return totals.sent


@pytest.mark.parametrize("variant", list(Variant))
def test_a_healthy_round_sends_what_was_drawn(variant: Variant) -> None:
    planned = plan(variant=variant)
    # A machine may stand still for a whole round; then nothing was sent, and another is asked.
    for _ in range(5):
        peer, (first, second) = drive(fine, planned, rounds=2)
        if max(first.stalled, second.stalled) < planned.duration / 10:
            break
    assert peer.connections == 2 * 3, "every round makes new connections"
    for number, totals in enumerate((first, second)):
        assert totals.due >= totals.sent >= 80
        assert totals.completed >= totals.sent - 3, "what is outstanding at the end is dropped"
        draws = Draws(planned, 1, number)
        most = [kind.sent for kind in totals.kinds]
        drawn = [0, 0, 0]
        for connection in range(3):
            for kind in islice(draws.kinds(connection), 40):
                drawn[kind] += 1
        assert all(sent <= known for sent, known in zip(most, drawn, strict=True))
        assert totals.failed == totals.socket_errors == 0
        assert planned.duration <= totals.elapsed
        assert len(totals.latencies) == totals.completed
        assert read_back(planned, totals) is RoundOutcome.OK
    assert first.kinds != second.kinds, "each round draws anew"


def test_statuses_above_399_are_failures_and_others_are_not() -> None:
    async def answer(peer: Peer, head: bytes, writer: asyncio.StreamWriter) -> bool:
        path = head.split(b" ")[1]
        writer.write(reply({b"/compose": 500, b"/user": 302, b"/home": 200}[path]))
        return True

    planned = plan()
    _, (totals,) = drive(answer, planned)
    assert totals.completed >= nearly_all(totals) - 3
    assert [kind.failed for kind in totals.kinds] == [0, 0, totals.kinds[2].completed]
    assert read_back(planned, totals) is RoundOutcome.OK


async def stall(peer: Peer, head: bytes, writer: asyncio.StreamWriter) -> bool:
    if head.startswith(b"GET /compose"):
        await asyncio.sleep(0.6)
        writer.write(reply(500))
    else:
        writer.write(reply())
    return True


@pytest.mark.parametrize("variant", [Variant.DSB, Variant.GILTENE])
def test_what_is_outstanding_at_the_end_is_dropped_and_not_waited_for(variant: Variant) -> None:
    planned = plan(variant=variant)
    _, (totals,) = drive(stall, planned)
    assert totals.elapsed < 0.5
    assert totals.completed < 60, "a connection that waits for its answer gets no other one"
    assert totals.failed == totals.socket_errors == 0, "so a stall longer than a round is not seen"


def test_a_round_that_drains_waits_for_what_it_sent_and_sends_no_more() -> None:
    """A quarter of a second of load shows a stall of 0.6 s: once for each connection, no more."""
    planned = plan(variant=Variant.DRAIN)
    _, (totals,) = drive(stall, planned)
    assert 0.6 <= totals.elapsed < 5.0
    assert 1 <= totals.failed <= 3
    assert totals.completed == totals.sent, "nothing that was sent is dropped"
    assert totals.completed < 60, "what waited behind the stall is not sent after the end"
    assert totals.socket_errors == 0
    asked = Asked(rate=400.0, duration=0.25, connections=3, drain=planned.timeout)
    text = "\n".join(
        ["Running sremut-load on round #1", *report_lines(planned, "http://a", totals)]
    )
    (found,) = parse_log(text.encode(), asked=asked).rounds
    assert (found.outcome, found.failures) == (RoundOutcome.OK, totals.failed)
    assert found.timeouts_known


def test_a_round_that_drains_waits_no_longer_than_the_timeout() -> None:
    async def hang(peer: Peer, head: bytes, writer: asyncio.StreamWriter) -> bool:
        await asyncio.Event().wait()
        return True

    planned = plan(variant=Variant.DRAIN, timeout=0.3)
    _, (totals,) = drive(hang, planned)
    assert totals.elapsed >= 0.55
    assert (totals.completed, totals.timeout) == (0, 3)


@pytest.mark.parametrize(("variant", "pipelines"), [(Variant.DSB, True), (Variant.GILTENE, False)])
def test_only_one_build_sends_before_earlier_answers(variant: Variant, pipelines: bool) -> None:
    async def hang(peer: Peer, head: bytes, writer: asyncio.StreamWriter) -> bool:
        await asyncio.Event().wait()
        return True

    _, (totals,) = drive(hang, plan(variant=variant))
    assert totals.completed == 0
    assert (totals.sent > 80) is pipelines
    assert (totals.sent == 3) is not pipelines
    assert totals.late <= 5, "waiting for an answer is not the generator's lateness"


def test_a_stall_that_is_answered_is_one_failure_and_delays_the_rest() -> None:
    planned = plan(duration=1.0)
    _, (totals,) = drive(stall, planned)
    assert 1 <= totals.failed <= 6
    assert max(totals.latencies) >= 0.6
    assert read_back(planned, totals) is RoundOutcome.OK


@pytest.mark.parametrize("variant", list(Variant))
def test_latency_counts_from_when_a_request_was_due(variant: Variant) -> None:
    calls = 0

    async def answer(peer: Peer, head: bytes, writer: asyncio.StreamWriter) -> bool:
        nonlocal calls
        calls += 1
        if calls == 1:
            await asyncio.sleep(0.1)
        writer.write(reply())
        return True

    planned = plan(connections=1, threads=1, rate=200.0, variant=variant)
    _, (totals,) = drive(answer, planned)
    assert totals.completed >= 45, "the late ones are sent, or answered, as soon as they can be"
    assert sum(latency >= 0.04 for latency in totals.latencies) >= 10


def test_a_timeout_is_counted_while_the_connection_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "_LOOK", 0.1)
    planned = plan(timeout=0.25, duration=1.0, variant=Variant.GILTENE)
    _, (totals,) = drive(stall, planned)
    assert totals.timeout >= 3, "each look counts what has waited for too long"
    assert totals.failed >= 1, "and the answer still comes"
    assert read_back(planned, totals) is RoundOutcome.TIMEOUTS
    planned = plan(timeout=0.25, duration=1.0)
    _, (totals,) = drive(stall, planned)
    assert totals.timeout == 0, "DeathStarBench's build counts none"
    assert read_back(planned, totals) is RoundOutcome.OK


def test_a_hung_server_completes_nothing() -> None:
    async def answer(peer: Peer, head: bytes, writer: asyncio.StreamWriter) -> bool:
        await asyncio.Event().wait()
        return False

    planned = plan(timeout=0.1, duration=0.05)
    _, (totals,) = drive(answer, planned)
    assert totals.completed == 0
    assert read_back(planned, totals) is RoundOutcome.NO_COMPLETED_REQUESTS


CUT = [
    b"220 ready\r\n\r\n",
    b"",
    b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
    b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\nnone\r\n",
    b"HTTP/1.1 200 X\r\nContent-Length: 100\r\n\r\nabc",
    b"HTTP/1.1 200 X\r\nContent-Length: -1\r\n\r\nabc",
]


@pytest.mark.parametrize("variant", list(Variant))
@pytest.mark.parametrize("garbage", CUT)
def test_a_connection_that_breaks_is_a_read_error_and_is_made_again(
    garbage: bytes, variant: Variant
) -> None:
    async def answer(peer: Peer, head: bytes, writer: asyncio.StreamWriter) -> bool:
        if head.startswith(b"GET /compose"):
            writer.write(garbage)
            return False
        writer.write(reply())
        return True

    planned = plan(variant=variant)
    peer, (totals,) = drive(answer, planned)
    assert totals.read >= 3
    assert totals.kinds[2].completed == 0
    assert totals.completed <= totals.sent - totals.read
    assert totals.completed >= 50
    assert peer.connections >= totals.read
    assert read_back(planned, totals) is RoundOutcome.SOCKET_ERRORS


BODIES = [
    b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\nA;x=1\r\n0123456789\r\n0\r\nT: v\r\n\r\n",
    b"HTTP/1.1 204 X\r\n\r\n",
    b"HTTP/1.1 302 X\r\nLocation: /\r\nContent-Length: 0\r\n\r\n",
]


@pytest.mark.parametrize("pieces", [1, 7])
@pytest.mark.parametrize("body", BODIES)
def test_every_kind_of_body_is_an_answer(body: bytes, pieces: int) -> None:
    async def answer(peer: Peer, head: bytes, writer: asyncio.StreamWriter) -> bool:
        size = -(-len(body) // pieces)
        for at in range(0, len(body), size):
            writer.write(body[at : at + size])
            await writer.drain()
            await asyncio.sleep(0)
        return True

    planned = plan(variant=Variant.GILTENE, rate=100.0)
    _, (totals,) = drive(answer, planned)
    assert totals.completed >= totals.sent - 3 > 0
    assert totals.failed == totals.socket_errors == 0


def test_a_body_without_a_length_ends_with_its_connection() -> None:
    async def answer(peer: Peer, head: bytes, writer: asyncio.StreamWriter) -> bool:
        writer.write(b"HTTP/1.1 500 X\r\n\r\nno length")
        return False

    planned = plan(variant=Variant.GILTENE, rate=100.0)
    _, (totals,) = drive(answer, planned)
    assert totals.completed == totals.failed > 10
    assert totals.socket_errors == 0


def test_an_answer_that_closes_the_connection_is_no_error() -> None:
    async def answer(peer: Peer, head: bytes, writer: asyncio.StreamWriter) -> bool:
        writer.write(reply(more=b"Connection: close\r\n"))
        return False

    _, (totals,) = drive(answer, plan(variant=Variant.GILTENE))
    assert totals.completed >= totals.sent - 3 > 50
    assert totals.socket_errors == 0


def test_an_endpoint_that_goes_away_costs_a_connect_error_for_each_request() -> None:
    async def main() -> Totals:
        async with Peer(fine).listening() as endpoint:
            pass
        return await run_round(plan(), endpoint, Draws(plan(), 1, 1), asyncio.Event())

    totals = asyncio.run(main())
    assert totals.completed == 0
    assert 90 <= totals.connect <= 103
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
            return await run_round(endless, endpoint, Draws(endless, 1, 1), stop)

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
    planned = plan(kinds=kinds, duration=0.1, connections=1, threads=1)

    async def main() -> Totals:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            host, port = server.sockets[0].getsockname()
            endpoint = Endpoint(host=host, port=port, address=(host, port))
            found = await run_round(planned, endpoint, Draws(planned, 1, 1), asyncio.Event())
            await closed.wait()
        return found

    totals = asyncio.run(main())
    assert 0 < totals.completed <= len(bodies) <= totals.sent
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
