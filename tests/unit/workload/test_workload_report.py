"""The parser against every reported way in which a wrk report can mislead, and their neighbours.

Case ids (D-..) are those of the collection of real reports that the parser answers to.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_sremut.workload.delivery import Asked, judge
from pytest_sremut.workload.report import (
    ParsedLog,
    ReportForm,
    Round,
    RoundOutcome,
    SocketErrors,
    parse_log,
    parse_timestamp,
)
from pytest_sremut.workload.units import parse_time
from pytest_sremut.workload.window import delivery_facts, functional, window

START = datetime(2026, 8, 29, 10, 22, 4, tzinfo=UTC)
DASHES = "-" * 58


def report(
    requests: object = 1000,
    *,
    took: str = "10.00s",
    latency: str = "6.46ms",
    sockets: str = "",
    failures: str = "",
    rate: str = "",
    size: str = "1.95MB",
) -> list[str]:
    lines = [
        "Running 10s test @ http://nginx-thrift:8080",
        "  3 threads and 3 connections",
        "  Thread Stats   Avg      Stdev     99%   +/- Stdev",
        f"    Latency   {latency}     1.93ms  12.34ms   67.66%",
        "    Req/Sec     1.05k     1.12k    2.50k    64.84%",
        "  Latency Distribution (HdrHistogram - Recorded Latency)",
        " 50.000%    6.67ms",
        DASHES,
        f"  {requests} requests in {took}, {size} read",
    ]
    if sockets:
        lines.append(f"  Socket errors: {sockets}")
    if failures:
        lines.append(f"  Non-2xx or 3xx responses: {failures}")
    seconds = parse_time(took)
    if not rate:
        rate = f"{int(str(requests)) / seconds:.2f}" if seconds else "0.00"
    return [*lines, f"Requests/sec:    {rate}", "Transfer/sec:    200.12KB"]


def stamped(lines: list[str], *, start: datetime = START, lasts: float = 10.0) -> bytes:
    """A pod log: the first line at `start`, the others `lasts` seconds later."""
    later = start + timedelta(seconds=lasts)
    stamps = [start.strftime("%Y-%m-%dT%H:%M:%S.%f123Z")]
    stamps += [later.strftime("%Y-%m-%dT%H:%M:%S.%f456Z")] * (len(lines) - 1)
    pairs = zip(stamps, lines, strict=True)
    return "".join(f"{stamp} {line}\n" for stamp, line in pairs).encode()


def in_round(lines: list[str], number: int = 1, **when: object) -> bytes:
    return stamped([f"Running wrk2 on round #{number}", *lines], **when)  # type: ignore[arg-type]


def only(raw: bytes) -> Round:
    (found,) = parse_log(raw).rounds
    return found


def passes(*rounds: Round, minimum: int = 50) -> bool:
    return functional(window(rounds, after=None, at_least=len(rounds)), minimum)[0]


def test_a_good_round_is_read_whole() -> None:
    found = only(in_round(report()))
    assert found == Round(
        number=1,
        source="",
        begin=START,
        end=START + timedelta(seconds=10),
        requests=1000,
        failures=0,
        socket_errors=None,
        duration=10.0,
        received=int(1.95 * 1024**2),
        rate=100.0,
        latency=pytest.approx(6.46e-3),  # type: ignore[arg-type]
        outcome=RoundOutcome.OK,
        findings=(),
        form=ReportForm.DSB,
    )
    assert passes(found)
    assert found.record() == {
        "number": 1,
        "begin": "2026-08-29T10:22:04.000000Z",
        "end": "2026-08-29T10:22:14.000000Z",
        "parse": "OK",
        "requests": 1000,
        "failures": 0,
        "duration": 10.0,
        "socket_errors": None,
    }


def test_d01_a_hung_server_has_no_error_lines_and_completed_nothing() -> None:
    found = only(in_round(report(0, took="3.00s", rate="0.00", size="0.00B"), lasts=3))
    assert found.outcome is RoundOutcome.NO_COMPLETED_REQUESTS
    assert found.outcome.counts_usable
    assert not passes(found, minimum=0)


def test_d02_nothing_completed_but_read_errors_and_bytes() -> None:
    lines = report(
        0, sockets="connect 0, read 3605, write 0, timeout 0", rate="0.00", size="1.20KB"
    )
    found = only(in_round(lines))
    assert found.outcome is RoundOutcome.NO_COMPLETED_REQUESTS
    assert RoundOutcome.SOCKET_ERRORS in found.findings
    assert found.socket_errors == SocketErrors(read=3605)
    assert found.received == 1228
    assert not passes(found)


def test_d03_timeouts_are_kept_and_counted() -> None:
    lines = report(60, sockets="connect 0, read 0, write 0, timeout 940")
    found = only(in_round(lines))
    assert found.outcome is RoundOutcome.TIMEOUTS
    assert found.outcome.counts_usable
    assert not passes(found)
    seen = window([found], after=None, at_least=1)
    assert (seen.requests, seen.socket_errors) == (60, 940)
    large = report(100_000, sockets="connect 0, read 0, write 0, timeout 53")
    seen = window([only(in_round(large))], after=None, at_least=1)
    assert (seen.requests, seen.socket_errors) == (100_000, 53)


def test_d03_without_timeouts_it_is_other_socket_errors() -> None:
    found = only(in_round(report(60, sockets="connect 1, read 0, write 0, timeout 0")))
    assert found.outcome is RoundOutcome.SOCKET_ERRORS
    assert not passes(found)
    assert only(in_round(report(60, sockets="connect 0, read 0, write 0, timeout 0"))).outcome is (
        RoundOutcome.OK
    )


def test_d04_few_requests_without_any_error_line_are_too_few() -> None:
    found = only(in_round(report(40, took="4.00s", rate="10.00"), lasts=4))
    assert found.outcome is RoundOutcome.OK, "the report itself is sound"
    assert not passes(found)


@pytest.mark.parametrize(
    ("requests", "failures", "successes"),
    [(12_479, 12_479, 0), (3862, 386, 3476), (1000, 1, 999)],
)
def test_d05_successes_are_what_completed_less_what_failed(
    requests: int, failures: int, successes: int
) -> None:
    found = only(in_round(report(requests, failures=str(failures))))
    assert found.outcome is RoundOutcome.OK
    assert (found.requests, found.failures, found.successes) == (requests, failures, successes)
    assert not passes(found)


@pytest.mark.parametrize(
    ("requests", "outcome"),
    [(0, RoundOutcome.NO_COMPLETED_REQUESTS), (7, RoundOutcome.LATENCY_NOT_A_NUMBER)],
)
def test_d07_a_latency_that_is_not_a_number_is_missing(
    requests: int, outcome: RoundOutcome
) -> None:
    lines = report(requests, latency="-nanus", rate="-nan")
    lines.insert(2, "  Thread calibration: mean lat.: 9223372036854776.000 ms, rate sampling: 1ms")
    found = only(in_round(lines))
    assert found.outcome is outcome
    assert RoundOutcome.LATENCY_NOT_A_NUMBER in found.findings
    assert found.latency is None
    assert found.rate is None
    assert passes(found, minimum=1) is (requests > 0), "the counts decide"


def test_d08_the_per_thread_row_is_cosmetic() -> None:
    lines = [
        "    Req/Sec       -nan      -nan   0.00      0.00%" if "Req/Sec" in line else line
        for line in report()
    ]
    found = only(in_round(lines))
    assert found.outcome is RoundOutcome.OK
    assert passes(found)


@pytest.mark.parametrize(
    "took", ["307445734491.24m", "25.00h", "0.00us", "10.00", "-nanus", "12.50s", "99999999s"]
)
def test_d10_a_duration_that_cannot_be_is_an_invalid_measurement(took: str) -> None:
    sockets = "connect 0, read 0, write 0, timeout 128"
    found = only(in_round(report(35_951, took=took, sockets=sockets, rate="0.00")))
    assert found.outcome is RoundOutcome.IMPOSSIBLE_DURATION
    assert not found.outcome.counts_usable
    assert not passes(found)


@pytest.mark.parametrize(
    ("took", "seconds"),
    [
        ("850000.00us", 0.85),
        ("501.10ms", 0.5011),
        ("10.01s", 10.01),
        ("2.00m", 120.0),
        ("1.00h", 3600),
    ],
)
def test_d10_durations_have_five_units(took: str, seconds: float) -> None:
    found = only(in_round(report(took=took), lasts=seconds))
    assert found.duration == pytest.approx(seconds)
    assert found.outcome is RoundOutcome.OK


def test_d11_a_latency_without_a_unit_is_missing_and_the_counts_are_not() -> None:
    lines = report(69_967, took="2.00m", latency="1531867")
    found = only(in_round(lines, lasts=120))
    assert found.outcome is RoundOutcome.LATENCY_WITHOUT_UNIT
    assert found.latency is None
    assert found.requests == 69_967
    assert passes(found), "counts decide, and these are whole"
    sockets = "connect 90, read 0, write 0, timeout 17036"
    lines = report(69_967, took="2.00m", latency="1531867", sockets=sockets)
    found = only(in_round(lines, lasts=120))
    assert found.findings == (
        RoundOutcome.TIMEOUTS,
        RoundOutcome.SOCKET_ERRORS,
        RoundOutcome.LATENCY_WITHOUT_UNIT,
    )
    assert found.outcome.counts_usable
    assert not passes(found)


@pytest.mark.parametrize(
    ("line", "outcome"),
    [
        ("unable to connect to nginx-thrift:8080 Connection refused", "ENDPOINT_REFUSED"),
        ("unable to connect to nginx-thrift:8080 Connection timed out", "ENDPOINT_UNREACHABLE"),
        ("unable to resolve nginx-thrift:8080 Name or service not known", "DNS_FAILED"),
        ("unable to resolve a:http Temporary failure in name resolution", "DNS_FAILED"),
    ],
)
def test_d12_the_one_line_of_an_endpoint_that_cannot_be_used(line: str, outcome: str) -> None:
    raw = in_round([line], lasts=0.1) + in_round(
        report(), number=2, start=START + timedelta(seconds=1)
    )
    first, second = parse_log(raw).rounds
    assert first.outcome == outcome
    assert first.end is not None
    assert first.requests == 0
    assert first.outcome.counts_usable, "nothing was served, and that is known"
    assert not passes(first, second)
    assert second.outcome is RoundOutcome.OK
    alone = only(f"{line}\n".encode())  # wrk2's own output, without a pod around it
    assert (alone.number, alone.begin, alone.outcome) == (0, None, RoundOutcome[outcome])


def test_d12_a_tool_that_says_something_else_is_the_harness() -> None:
    raw = in_round(["sh: 1: wrk: not found"], lasts=0.1) + in_round(report(), number=2)
    first, _ = parse_log(raw).rounds
    assert first.outcome is RoundOutcome.HARNESS_FAILED
    assert not first.outcome.counts_usable


def test_d14_no_dashed_line_is_needed() -> None:
    found = only(in_round([line for line in report() if line != DASHES]))
    assert (found.outcome, found.requests) == (RoundOutcome.OK, 1000)


def test_d14_a_dashed_line_at_the_end_is_no_report() -> None:
    lines = report()
    found = only(in_round(lines[: lines.index(DASHES) + 1]))
    assert found.outcome is RoundOutcome.TORN
    assert not passes(found, minimum=0)


def test_d14_a_missing_summary_is_named() -> None:
    found = only(in_round([line for line in report() if "requests in" not in line]))
    assert found.outcome is RoundOutcome.MISSING_SUMMARY
    assert not found.outcome.counts_usable
    assert not passes(found, minimum=0)


def test_d14_a_whole_second_timestamp_hides_no_errors() -> None:
    raw = in_round(report(failures="1000")).replace(b".000000123Z", b"Z")
    found = only(raw)
    assert found.begin == START
    assert found.failures == 1000
    assert not passes(found)


def test_benchmark_spelling_with_two_blanks_after_the_rate() -> None:
    lines = [line.replace("Requests/sec:    ", "Requests/sec:  ") for line in report()]
    assert only(in_round(lines)).rate == 100.0


def rounds_log(count: int, **changes: str) -> bytes:
    return b"".join(
        in_round(report(**changes), number=n, start=START + timedelta(seconds=11 * n))  # type: ignore[arg-type]
        for n in range(1, count + 1)
    )


def test_the_last_round_may_be_cut_anywhere() -> None:
    whole = rounds_log(2)
    first = rounds_log(1)
    for cut in range(len(first), len(whole)):
        found = parse_log(whole[:cut]).rounds
        assert found[0].outcome is RoundOutcome.OK
        assert len(found) <= 2
        if len(found) == 2:
            # A cut in the last line's number still leaves a line that ends the round.
            assert found[1].outcome in (RoundOutcome.TORN, RoundOutcome.OK)
            if found[1].outcome is RoundOutcome.OK:
                assert b"Transfer/sec" in whole[len(first) : cut]
                assert found[1].requests == 1000


def test_a_round_interrupted_by_the_next_is_torn() -> None:
    raw = in_round(report()[:-2]) + in_round(report(), number=2)
    assert [found.outcome for found in parse_log(raw).rounds] == ["TORN", "OK"]


def test_rubbish_between_the_lines_changes_nothing() -> None:
    rubbish = ["", "???", "\x1b[31mred\x1b[0m", "2026-08-29T10:22:04Z", "WARN retrying", "\0\0"]
    lines = [item for line in report() for item in (*rubbish, line)]
    parsed = parse_log(in_round(lines))
    (found,) = parsed.rounds
    assert found == only(in_round(report()))
    assert parsed.lines == len(lines) + 1
    assert parsed.ignored >= 5 * len(report())


def test_two_reports_in_one_round_are_inconsistent() -> None:
    lines = report()
    found = only(in_round([*lines[:-1], "  12 requests in 10.00s, 1.00KB read", lines[-1]]))
    assert found.outcome is RoundOutcome.INCONSISTENT_COUNTS
    assert not found.outcome.counts_usable


def test_more_failures_than_requests_are_inconsistent() -> None:
    assert only(in_round(report(5, failures="6"))).outcome is RoundOutcome.INCONSISTENT_COUNTS
    assert only(in_round(report(5, failures="5"))).outcome is RoundOutcome.OK


def test_logs_of_several_pods_one_after_the_other_and_mixed_with_prefixes() -> None:
    one, two = rounds_log(2), rounds_log(3)
    assert [found.number for found in parse_log(one + two).rounds] == [1, 2, 1, 2, 3]
    prefixed = []
    for name, log in (("a", one), ("b", two)):
        prefixed.append([f"[pod/load-{name}/load] {line}" for line in log.decode().splitlines()])
    mixed = []
    for place in range(len(prefixed[1])):
        mixed += [lines[place] for lines in prefixed if place < len(lines)]
    found = parse_log("\n".join(mixed).encode()).rounds
    assert {item.outcome for item in found} == {RoundOutcome.OK}
    assert sorted((item.source, item.number) for item in found) == [
        ("pod/load-a/load", 1),
        ("pod/load-a/load", 2),
        ("pod/load-b/load", 1),
        ("pod/load-b/load", 2),
        ("pod/load-b/load", 3),
    ]


def test_a_log_without_timestamps_has_no_begin() -> None:
    lines = ["Running wrk2 on round #1", *report()]
    found = only("\r\n".join(lines).encode())
    assert (found.begin, found.end, found.outcome) == (None, None, RoundOutcome.OK)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-08-29T10:22:04Z", START),
        ("2026-08-29T10:22:04.000000999Z", START),
        ("2026-08-29T12:22:04.000001+02:00", START + timedelta(microseconds=1)),
        ("2026-08-29T10:22:04.5Z", START + timedelta(milliseconds=500)),
        ("2026-08-29T10:22:04", None),
        ("2026-13-29T10:22:04Z", None),
        ("0001-01-01T00:00:00+23:59", None),
        ("2026-08-29T10:22:60Z", None),
        ("", None),
    ],
)
def test_timestamps(text: str, expected: datetime | None) -> None:
    assert parse_timestamp(text) == expected


LINES = st.sampled_from(
    [
        "Running wrk2 on round #1",
        "Running wrk2 on round #99999999999",
        *report(),
        *report(0, latency="-nanus"),
        *report(9, took="1.00", sockets="connect 1, read 2, write 3, timeout 4", failures="3"),
        "Running wrk2 on round #2",
        "Running sremut-load on round #3",
        "  Thread Stats   Avg      Stdev     Max   +/- Stdev",
        "  Generator: sremut-load (embedded generator), variant dsb, distribution exp, seed 5",
        "  Generator: x, variant y, seed 9999999999999999",
        "  sremut: due 9, sent 9, answered 9, late 0, latest 1.00ms, stalled 0.00us",
        "  sremut: due 999999999999999999, sent 0, answered 9, late 9, latest nan, stalled -1s",
        "unable to connect to a:1 Connection refused",
        "unable to resolve a:1 Name or service not known",
        "  999999999999999999 requests in 9999999999999999999999999999999999.00h, 9PB read",
    ]
)
STAMPS = st.sampled_from(
    ["", "2026-08-29T10:22:04Z ", "9999-12-31T23:59:59.9-23:59 ", "[pod/a/b] ", "0000-00-00T "]
)


def sound(parsed: ParsedLog) -> None:
    for found in parsed.rounds:
        assert found.requests >= 0
        for value in (found.latency, found.rate, found.duration):
            assert value is None or math.isfinite(value)
        assert (found.outcome is RoundOutcome.OK) == (found.findings == ())
        found.record()
    seen = window(parsed.rounds, after=None, at_least=1)
    holds, sentence = functional(seen, 1)
    assert sentence
    asked = Asked(rate=100.0, duration=10.0, connections=3)
    assert judge(delivery_facts(seen, asked), control=True).reason
    if holds:
        assert seen.requests > 0
        assert seen.failures == 0
        assert all(found.outcome.may_pass for found in seen.rounds)


@given(st.binary(max_size=500))
def test_any_bytes_are_a_log(raw: bytes) -> None:
    sound(parse_log(raw))


@settings(max_examples=200)
@given(st.lists(st.tuples(STAMPS, LINES | st.text(max_size=20)), max_size=40))
def test_any_lines_are_a_log(lines: list[tuple[str, str]]) -> None:
    raw = "\n".join(stamp + line for stamp, line in lines).encode("utf-8", "replace")
    sound(parse_log(raw))
    sound(parse_log(raw, asked=Asked(rate=100.0, duration=10.0, connections=3)))
