"""Was the load delivered: the judgement, and a generator whose CPU is taken away."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sremut.workload.delivery import (
    Asked,
    Delivery,
    DeliveryFacts,
    add_up,
    judge,
    late_after,
)
from pytest_sremut.workload.fits import as_asked, consistent
from pytest_sremut.workload.report import RoundOutcome, parse_log
from pytest_sremut.workload.window import delivery_facts, window

ROOT = Path(__file__).resolve().parents[3]
ASKED = Asked(rate=100.0, duration=1.0, connections=3)
FINE = Delivery(due=1000, sent=1000, answered=1000, late=0, latest=0.001, stalled=0.0)


def facts(**changes: object) -> DeliveryFacts:
    values: dict[str, object] = {
        "asked": ASKED,
        "rounds": 10,
        "requests": 1000,
        "failures": 0,
        "told": FINE,
    }
    return DeliveryFacts(**{**values, **changes})  # type: ignore[arg-type]


def told(**changes: object) -> Delivery:
    values = {name: getattr(FINE, name) for name in FINE.__dataclass_fields__}
    return Delivery(**{**values, **changes})  # type: ignore[arg-type]


CASES = [
    # (facts, delivered as a control, delivered when faulted, part of the reason)
    (facts(), True, True, "asked 1000, sent 1000, answered 1000, late 0 (worst 0.001 s"),
    (facts(requests=900), True, True, "answered 900"),
    (facts(requests=899), False, True, "achieved 89.9 % of the asked load"),
    (facts(requests=90), False, True, "achieved 9.0 %"),
    (facts(requests=899, failures=1), True, True, "answered 899"),
    (facts(requests=0), True, True, "answered 0"),
    (facts(requests=10, began=False), True, True, "answered 10"),
    (facts(told=told(late=50)), True, True, "late 50"),
    (facts(told=told(late=51)), False, False, "the generator itself was late"),
    (facts(told=told(stalled=0.5)), True, True, "held up 0.500 s"),
    (facts(told=told(stalled=0.51)), False, False, "too busy to drive the load"),
    (facts(told=None, requests=900), True, True, "sent unknown, answered 900, late unknown"),
    (facts(told=None, requests=899), False, True, "late unknown"),
    (facts(misfits=("round 3 NOT_AS_ASKED",)), False, False, "no measurement of what was asked"),
]


@pytest.mark.parametrize(("given_facts", "control", "faulted", "says"), CASES)
def test_judgements(given_facts: DeliveryFacts, control: bool, faulted: bool, says: str) -> None:
    for expected, as_control in ((control, True), (faulted, False)):
        found = judge(given_facts, control=as_control)
        assert found.delivered is expected
        assert found.delivered is not (found.late or found.under_achieved or found.misfit)
    assert says in judge(given_facts, control=True).reason


def test_what_was_drawn_is_what_was_asked() -> None:
    found = judge(facts(told=told(due=1100), requests=980), control=True)
    assert found.under_achieved
    assert found.asked == 1100
    assert found.record()["achieved_percent"] == 89.0909


def test_a_sum_over_rounds() -> None:
    assert add_up([]) is None
    found = add_up([FINE, told(late=3, latest=0.2, stalled=0.1)])
    assert found is not None
    assert (found.due, found.late, found.latest, found.stalled) == (2000, 3, 0.2, 0.1)


def test_lateness_is_a_tenth_of_the_gap_and_never_below_20_ms() -> None:
    assert (late_after(0.015), late_after(0.03), late_after(1.0)) == (0.02, 0.02, 0.1)


@given(st.integers(0, 5000), st.integers(0, 5000), st.floats(0, 100), st.booleans())
def test_a_late_generator_never_delivers(
    late: int, requests: int, stalled: float, control: bool
) -> None:
    found = judge(facts(told=told(late=late, stalled=stalled), requests=requests), control=control)
    if late > 50 or stalled > 0.5:
        assert not found.delivered
    if not control and late <= 50 and stalled <= 0.5:
        assert found.delivered, "a collapse in the faulted state is a finding"


@pytest.mark.parametrize(
    ("requests", "took", "rate", "holds"),
    [
        (1002, "10.01s", 100.14, True),
        (987, "10.00s", 98.66, True),
        (100, "500.00ms", 200.0, True),
        (1000, "10.00s", 50.0, False),
        (1000, "10.00s", 102.0, False),
        (1000, "1.00m", 16.67, True),
        (1000, "1.00m", 16.9, False),
        (0, "10.00s", 0.0, True),
        (0, "0.00us", 0.0, True),
        (5, "10.00s", None, True),
        (5, "no time", 7.0, True),
        (5, "0.00s", 900.0, True),
    ],
)
def test_a_report_against_itself(requests: int, took: str, rate: float | None, holds: bool) -> None:
    assert consistent(requests, took, rate) is holds


TEN = Asked(rate=100.0, duration=10.0, connections=3)


@pytest.mark.parametrize(
    ("changes", "fits"),
    [
        ({}, True),
        ({"requests": 9}, True),  # a collapse contradicts nothing
        ({"requests": 1024}, True),
        ({"requests": 1500}, False),
        ({"duration": 3.0}, False),
        ({"duration": 30.0, "requests": 1000}, False),
        ({"duration": 12.0}, True),  # wrk2 looks every two seconds whether it is over
        ({"duration": 12.0, "embedded": True}, False),
        ({"announced": 10.0, "connections": 3}, True),
        ({"announced": 3.0}, False),
        ({"connections": 30}, False),
    ],
)
def test_a_report_against_what_was_asked(changes: dict[str, object], fits: bool) -> None:
    given_values: dict[str, object] = {
        "requests": 1000,
        "duration": 10.0,
        "announced": None,
        "connections": None,
        "embedded": False,
    }
    assert as_asked(TEN, **{**given_values, **changes}) is fits  # type: ignore[arg-type]


def test_what_does_not_fit_is_no_measurement() -> None:
    text = "Running wrk2 on round #1\n  {} requests in {}, 1.00KB read\nRequests/sec: {}\n"
    for requests, took, rate, outcome in (
        (1000, "3.00s", "333.33", RoundOutcome.NOT_AS_ASKED),
        (1000, "30.00s", "33.33", RoundOutcome.NOT_AS_ASKED),
        (1000, "10.00s", "33.33", RoundOutcome.CONTRADICTS_ITSELF),
        (1000, "10.00s", "100.00", RoundOutcome.OK),
    ):
        raw = (text.format(requests, took, rate) + "Transfer/sec: 1.00KB\n").encode()
        (found,) = parse_log(raw, asked=TEN).rounds
        assert found.outcome is outcome
        seen = window([found], after=None, at_least=1)
        judged = judge(delivery_facts(seen, TEN), control=False)
        assert judged.delivered is (outcome is RoundOutcome.OK)
        assert judged.misfit is not judged.delivered


# -- a CPU that is taken away ----------------------------------------------------------------


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


SPIN = "import os, time\nos.sched_setaffinity(0, {{{0}}})\nend = time.monotonic() + 6\n" \
       "while time.monotonic() < end: pass\n"  # fmt: skip


@pytest.mark.parametrize("control", [True, False])
def test_a_starved_generator_gives_no_measurement(url: str, control: bool) -> None:
    """Busy loops own the only CPU that the generator may use, and it has the lowest priority."""
    asked = Asked(rate=200.0, duration=0.5, connections=3)
    cpu = min(os.sched_getaffinity(0))
    arguments = ["-t3", "-c3", "-R200", "-d500ms", "--rounds=4", "--pause=10ms", url]
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest_sremut.workload.generator", *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    first = process.stdout.readline()
    spinning = [subprocess.Popen([sys.executable, "-S", "-c", SPIN.format(cpu)]) for _ in range(3)]
    try:
        os.sched_setaffinity(process.pid, {cpu})
        os.setpriority(os.PRIO_PROCESS, process.pid, 19)
        rest, _ = process.communicate(timeout=60)
    finally:
        for one in spinning:
            one.kill()
            one.wait()
        process.kill()
        process.wait()
    rounds = parse_log((first + rest).encode(), asked=asked).rounds
    seen = window(rounds, after=None, at_least=4)
    judged = judge(delivery_facts(seen, asked), control=control)
    assert not judged.delivered, judged.reason
    assert judged.late or judged.misfit, judged.reason


def test_a_fresh_window_needs_what_the_contract_needs_and_no_volume() -> None:
    """Nothing is compared with its volume: sixty requests of a hundred are enough of fifty."""
    some = facts(requests=60)
    assert judge(some, control=True).under_achieved is True
    assert judge(some, control=True, least=50).delivered is True
    few = judge(facts(requests=49), control=True, least=50)
    assert (few.delivered, few.under_achieved) == (False, True)
    assert "49 requests where 50 are needed" in few.reason
