"""The generator against what two real builds of wrk2 did with one server.

The recordings (`recorded/`) are of three connections on three threads that asked for 100 requests a
second for ten seconds, with a script that took 60/30/10 in exact cycles. What was drawn there is
known and given to the generator here, so the counts need no allowance for chance:

* the order: in which place of each cycle LuaJIT's generator put the third path, thread by thread;
* the gaps of `-D exp`: that build draws them with C's `rand()`, which it never seeds, so they are
  glibc's sequence for seed 1.

All builds of all cases run side by side on one loop: ten seconds for all of them.
"""

from __future__ import annotations

import asyncio
import heapq
import math
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from itertools import repeat
from pathlib import Path

import pytest

from pytest_sremut.workload.draws import Draws
from pytest_sremut.workload.load import check, run_round
from pytest_sremut.workload.mix import Kind
from pytest_sremut.workload.plan import Calibration, Distribution, Plan, Variant
from pytest_sremut.workload.report import ReportForm, Round, RoundOutcome, parse_log
from pytest_sremut.workload.totals import Endpoint, Totals
from pytest_sremut.workload.writer import generator_line, head_lines, report_lines

RECORDED = Path(__file__).parent / "recorded"
CASES = {
    "healthy": "/ok3",
    "err10": "/err",
    "stall1": "/stall1",
    "stall5to2": "/stall5",
    "cut": "/cut",
    "redir": "/redir",
    "chunk": "/chunk",
}
BUILDS = {
    "giltene": (Variant.GILTENE, Distribution.FIXED),
    "dsb-fixed": (Variant.DSB, Distribution.FIXED),
    "dsb-exp": (Variant.DSB, Distribution.EXP),
}
# Requests, non-2xx, read errors, timeouts, as the recordings' index has them.
INDEX = {
    "healthy": ((1002, 0, 0, 0), (987, 0, 0, 0), (1024, 0, 0, 0)),
    "err10": ((1002, 102, 0, 0), (989, 99, 0, 0), (1024, 103, 0, 0)),
    "stall1": ((278, 27, 0, 0), (278, 27, 0, 0), (278, 27, 0, 0)),
    "stall5to2": ((50, 0, 0, 9), (50, 0, 0, 0), (50, 0, 0, 0)),
    "cut": ((1002, 0, 111, 0), (890, 0, 99, 0), (918, 0, 102, 0)),
    "redir": ((1001, 0, 0, 0), (990, 0, 0, 0), (1024, 0, 0, 0)),
    "chunk": ((998, 0, 0, 0), (990, 0, 0, 0), (1020, 0, 0, 0)),
}
BODY = b'{"status":"ok"}'


def recorded_counts(case: str, build: str) -> tuple[int, int, int, int]:
    return INDEX[case][tuple(BUILDS).index(build)]


def counts(found: Round) -> tuple[int, int, int, int]:
    sockets = found.socket_errors
    read, timeout = (sockets.read, sockets.timeout) if sockets else (0, 0)
    return found.requests, found.failures, read, timeout


# -- the parser ------------------------------------------------------------------------------


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("case", CASES)
def test_every_recording_is_read(case: str, build: str) -> None:
    (found,) = parse_log((RECORDED / f"{case}.{build}.txt").read_bytes()).rounds
    assert counts(found) == recorded_counts(case, build)
    assert found.form is (ReportForm.GILTENE if build == "giltene" else ReportForm.DSB)
    assert found.timeouts_known is (build == "giltene")
    assert found.outcome.counts_usable
    assert found.delivery is None, "real wrk2 says nothing of its own lateness"
    assert found.outcome.may_pass is (
        case not in ("cut", "stall5to2") or counts(found)[2:] == (0, 0)
    )


def test_nothing_is_recorded_that_is_not_listed() -> None:
    listed = {f"{case}.{build}.txt" for case in CASES for build in BUILDS}
    assert {file.name for file in RECORDED.iterdir()} == listed


# -- the server ------------------------------------------------------------------------------


def reply(status: int, *, more: bytes = b"") -> bytes:
    size = len(BODY)
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n%s\r\n%s" % (status, size, more, BODY)


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """What the recordings' server did: one request after the other on each connection."""
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            path = (await reader.readuntil(b"\r\n\r\n")).split(b" ", 2)[1]
            if path == b"/stall1":
                await asyncio.sleep(1.0)
            elif path == b"/stall5":
                await asyncio.sleep(5.0)
            if path in (b"/err", b"/stall1"):
                writer.write(reply(500))
            elif path == b"/redir":
                writer.write(reply(302, more=b"Location: /\r\n"))
            elif path == b"/cut":
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc")
                await writer.drain()
                writer.transport.abort()
                return
            elif path == b"/chunk":
                writer.write(
                    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
                )
            else:
                writer.write(reply(200))
            await writer.drain()


@asynccontextmanager
async def listening() -> AsyncIterator[Endpoint]:
    tasks: set[asyncio.Task[None]] = set()

    async def tracked(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await serve(reader, writer)
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    server = await asyncio.start_server(tracked, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    try:
        yield await check(host, port, timeout=20)
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


# -- the draws of the recordings -------------------------------------------------------------


def c_rand() -> Iterator[int]:
    """glibc's `rand()` of a program that calls no `srand`: an additive feedback generator."""
    state = [1]
    for _ in range(30):
        state.append(16807 * state[-1] % 2147483647)
    state += state[:3]
    for place in range(34, 344):
        state.append((state[place - 31] + state[place - 3]) & 0xFFFFFFFF)
    while True:
        state.append((state[-31] + state[-3]) & 0xFFFFFFFF)
        del state[0]
        yield state[-1] >> 1


def exp_gaps(plan: Plan) -> list[list[float]]:
    """The gaps of each connection: all draw from one sequence, in the order of their due times."""
    rand = c_rand()

    def gap() -> float:
        while True:
            drawn = next(rand) / 2147483647
            if 0 < drawn < 1:
                return int(-math.log(drawn) * round(plan.interval * 1e6)) * 1e-6

    gaps: list[list[float]] = [[] for _ in range(plan.connections)]
    due = [(0.0, number) for number in range(plan.connections)]
    while due[0][0] < 2 * plan.duration:
        at, number = heapq.heappop(due)
        gaps[number].append(gap())
        heapq.heappush(due, (at + gaps[number][-1], number))
    return gaps


def test_the_known_beginning_of_glibcs_sequence() -> None:
    rand = c_rand()
    assert [next(rand) for _ in range(3)] == [1804289383, 846930886, 1681692777]


THIRD_PATH = (
    "945014162434857286495637425726877411449413925016",
    "190830738082778095794554654512192217076526228140",
    "882566571588351840110358569000468057526478891597",
)
"""For each thread, and each cycle of ten: the place of the third path, from 0."""


class RecordedDraws(Draws):
    """What the recorded builds drew."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan, seed=1, number=1)
        self._gaps = exp_gaps(plan) if plan.distribution is Distribution.EXP else None
        self._plan = plan

    def gaps(self, connection: int) -> Iterator[float]:
        if self._gaps is None:
            return repeat(self._plan.interval)
        return iter(self._gaps[connection])

    def kinds(self, connection: int) -> Iterator[int]:
        order = [
            2 if place == int(third) else 0
            for third in THIRD_PATH[connection]
            for place in range(10)
        ]
        # wrk2 asks the first thread's script once before the load, to see what it sends.
        return iter(order[1:] if connection == 0 else order)


def latency_lines(lines: list[str]) -> list[str]:
    """What a report says of latencies: from its columns to the dashes before its counts."""
    begin = next(n for n, line in enumerate(lines) if line.startswith("  Thread Stats"))
    end = next(n for n, line in enumerate(lines) if n > begin and line.startswith("-----"))
    return lines[begin:end]


# -- side by side ----------------------------------------------------------------------------


def a_plan(case: str, build: str) -> Plan:
    variant, distribution = BUILDS[build]
    return Plan(
        connections=3,
        threads=3,
        rate=100.0,
        duration=10.0,
        timeout=2.0,
        kinds=(Kind("a", "/ok1", 60), Kind("b", "/ok2", 30), Kind("c", CASES[case], 10)),
        variant=variant,
        distribution=distribution,
        calibration=Calibration.WRK2,
    )


async def all_rounds() -> dict[tuple[str, str], tuple[Plan, Totals]]:
    plans = {(case, build): a_plan(case, build) for case in CASES for build in BUILDS}
    async with listening() as endpoint:
        rounds = await asyncio.gather(
            *(
                run_round(plan, endpoint, RecordedDraws(plan), asyncio.Event())
                for plan in plans.values()
            )
        )
    return {
        name: (plan, totals) for (name, plan), totals in zip(plans.items(), rounds, strict=True)
    }


@pytest.fixture(scope="module")
def driven() -> dict[tuple[str, str], tuple[Plan, Totals]]:
    """All rounds; again where this process was held up: then it says nothing of the generator."""
    for _ in range(3):
        rounds = asyncio.run(all_rounds())
        if max(totals.stalled for _, totals in rounds.values()) < 0.2:
            return rounds
    pytest.skip("this machine is too busy to drive the load of the recordings")


def near(found: int, recorded: int) -> bool:
    """Within 3 %, and never stricter than one request of a count that small."""
    return abs(found - recorded) <= max(0.03 * recorded, 1)


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("case", CASES)
def test_it_does_what_the_build_did(
    case: str, build: str, driven: dict[tuple[str, str], tuple[Plan, Totals]]
) -> None:
    _, totals = driven[case, build]
    found = (totals.completed, totals.failed, totals.read, totals.timeout)
    recorded = recorded_counts(case, build)
    assert all(map(near, found, recorded)), f"{found}, recorded {recorded}"
    assert totals.connect == 0


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("case", CASES)
def test_it_prints_what_the_build_prints(
    case: str, build: str, driven: dict[tuple[str, str], tuple[Plan, Totals]]
) -> None:
    plan, totals = driven[case, build]
    url = "http://127.0.0.1:18080/"
    lines = [*head_lines(plan, url), generator_line(plan, 1), *report_lines(plan, url, totals)]
    (found,) = parse_log("\n".join(lines).encode()).rounds
    assert counts(found) == (totals.completed, totals.failed, totals.read, totals.timeout)
    assert found.generator == "sremut-load (embedded generator)"
    assert RoundOutcome.LATENCY_NOT_A_NUMBER in found.findings, "ten seconds calibrate only"
    recorded = parse_log((RECORDED / f"{case}.{build}.txt").read_bytes()).rounds[0]
    assert found.form is recorded.form
    assert found.outcome.counts_usable
    assert (found.socket_errors is None) is (recorded.socket_errors is None)
    assert "  Thread calibration: mean lat.: " in "\n".join(lines)
    printed = (RECORDED / f"{case}.{build}.txt").read_text().splitlines()
    # A thread that ended before it calibrated, by milliseconds, kept what it had measured.
    if sum("Thread calibration" in line for line in printed) == plan.threads:
        assert latency_lines(lines) == latency_lines(printed)
