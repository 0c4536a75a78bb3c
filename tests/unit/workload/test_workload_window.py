"""Windows: which rounds count, what they add up to, and the published figures from them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pytest_sremut.workload.report import Round, RoundOutcome, SocketErrors
from pytest_sremut.workload.window import (
    Window,
    achieved_percent,
    functional,
    retained_percent,
    window,
)

NOON = datetime(2026, 8, 29, 12, tzinfo=UTC)


def a_round(
    number: int = 1,
    *,
    requests: int = 100,
    failures: int = 0,
    begin: datetime | None = NOON,
    outcome: RoundOutcome = RoundOutcome.OK,
    sockets: SocketErrors | None = None,
    source: str = "",
) -> Round:
    return Round(
        number=number,
        source=source,
        begin=begin,
        end=begin and begin + timedelta(seconds=10),
        requests=requests,
        failures=failures,
        socket_errors=sockets,
        duration=10.0,
        received=0,
        rate=None,
        latency=None,
        outcome=outcome,
        findings=() if outcome is RoundOutcome.OK else (outcome,),
    )


def everything(*rounds: Round) -> Window:
    return window(rounds, after=None, at_least=1)


def test_a_round_counts_if_it_began_after_the_boundary() -> None:
    tick = timedelta(microseconds=1)
    rounds = [
        a_round(1, begin=NOON - tick),
        a_round(2, begin=NOON),
        a_round(3, begin=NOON + tick),
        a_round(4, begin=None),
    ]
    seen = window(rounds, after=NOON, at_least=1)
    assert [item.number for item in seen.rounds] == [3]
    assert seen.before == 3
    assert seen.complete
    assert not window(rounds, after=NOON, at_least=2).complete


def test_only_a_last_unfinished_round_is_left_out() -> None:
    torn = RoundOutcome.TORN
    seen = everything(a_round(1), a_round(2, outcome=torn), a_round(3), a_round(4, outcome=torn))
    assert [item.number for item in seen.rounds] == [1, 2, 3]
    assert seen.unfinished == 1
    assert len(seen.usable) == 2
    assert functional(seen, 50) == (
        False,
        "200 requests in 2 rounds, 0 non-2xx, 0 socket errors (timeouts unknown): "
        "round 2 reads TORN",
    )


def test_sums_and_rates() -> None:
    seen = everything(
        a_round(1, requests=90, failures=9),
        a_round(2, requests=10, sockets=SocketErrors(connect=1, timeout=99)),
        a_round(3, requests=5000, outcome=RoundOutcome.IMPOSSIBLE_DURATION),
    )
    assert (seen.requests, seen.failures, seen.successes, seen.socket_errors) == (100, 9, 91, 100)
    assert seen.error_rate_percent == pytest.approx(9.0)
    assert seen.record()["successes"] == 91
    assert [item["parse"] for item in seen.record()["rounds"]][2] == "IMPOSSIBLE_DURATION"


def test_nothing_is_no_number() -> None:
    nothing = everything()
    assert nothing.error_rate_percent is None
    assert nothing.socket_errors == 0
    assert nothing.successes_per_round is None
    assert retained_percent(nothing, everything(a_round())) is None
    assert retained_percent(everything(a_round()), nothing) is None
    assert retained_percent(everything(a_round()), everything(a_round(failures=100))) is None
    assert achieved_percent(nothing, rate=1, duration=1) is None


def test_a_service_that_answers_nothing_retains_nothing() -> None:
    dead = everything(a_round(requests=0, outcome=RoundOutcome.NO_COMPLETED_REQUESTS))
    assert retained_percent(dead, everything(a_round())) == 0.0


def test_d04_throughput_is_held_against_what_was_asked_for() -> None:
    seen = everything(a_round(requests=40))
    assert achieved_percent(seen, rate=950, duration=4) == pytest.approx(40 / 38)


@pytest.mark.parametrize(
    ("rounds", "holds", "because"),
    [
        ([a_round(requests=50)], True, "50 requests in 1 rounds, 0 non-2xx, 0 socket errors"),
        ([a_round(requests=49)], False, "fewer than 50 requests"),
        ([], False, "only 0 of 1 rounds"),
        ([a_round(requests=1000, failures=1)], False, "0.1 % of the requests failed"),
        ([a_round(sockets=SocketErrors(timeout=1))], False, "connections failed or timed out"),
        ([a_round(outcome=RoundOutcome.TIMEOUTS)], False, "round 1 reads TIMEOUTS"),
        ([a_round(outcome=RoundOutcome.LATENCY_WITHOUT_UNIT)], True, "0 non-2xx"),
        ([a_round(), a_round(2, outcome=RoundOutcome.MISSING_SUMMARY)], False, "round 2 reads"),
        ([a_round(outcome=RoundOutcome.TORN)], False, "only 0 of 1 rounds"),
    ],
)
def test_functional(rounds: list[Round], holds: bool, because: str) -> None:
    found, sentence = functional(everything(*rounds), 50)
    assert found is holds
    assert because in sentence


@pytest.mark.parametrize("minimum", [0, -1])
def test_no_requests_never_pass_whatever_is_asked_for(minimum: int) -> None:
    assert not functional(everything(a_round(requests=0)), minimum)[0]
    assert not functional(window([], after=None, at_least=0), minimum)[0]


@pytest.mark.parametrize("outcome", list(RoundOutcome))
def test_only_sound_counts_can_pass(outcome: RoundOutcome) -> None:
    """A latency that was not measured is no violation: real wrk2 prints none in its first 10 s."""
    holds, _ = functional(everything(a_round(outcome=outcome), a_round(2)), 50)
    assert holds is (
        outcome
        in (
            RoundOutcome.OK,
            RoundOutcome.LATENCY_NOT_A_NUMBER,
            RoundOutcome.LATENCY_WITHOUT_UNIT,
        )
    )
    assert holds is outcome.may_pass
    assert outcome.counts_usable or not outcome.may_pass


# Transcribed from the published mutant study: when the mutant was applied, when the first faulted
# round was reported, its requests and failures; then the published percentages.
PUBLISHED = {
    "ms-m01-r01": (
        ("10:22:09.623818", "10:22:14.591120"),
        [1024] * 10,
        [104, 88, 103, 104, 97, 104, 104, 96, 108, 111],
        (90.0488, 90.0716, 9.9512, 9.9284),
    ),
    "ms-m02-r01": (
        ("10:33:29.302009", "10:33:32.497710"),
        [813, 61, 84, 107, 72, 80, 78, 152, 76, 55],
        [57, 8, 8, 9, 8, 6, 7, 8, 6, 6],
        (14.209, 7.5846, 7.7947, 8.6275),
    ),
    "ms-m02-r03": (
        ("12:08:46.586130", "12:08:56.603348"),
        [140, 140, 142, 172, 112, 117, 146, 120, 68, 91],
        [10, 9, 8, 7, 8, 9, 8, 8, 8, 10],
        (11.3574, 11.2088, 6.8109, 6.769),
    ),
    "ms-m03-r01": (
        ("10:44:38.732593", "10:44:41.476794"),
        [1024] * 10,
        [104, 103, 95, 110, 90, 114, 99, 104, 84, 95],
        (90.2539, 90.2995, 9.7461, 9.7005),
    ),
}


def figures(
    applied: datetime, reported: datetime, requests: list[int], failures: list[int]
) -> tuple[float, ...]:
    """Full-window and post-mutation retained volume, then the same two error rates.

    The published inputs know when rounds were reported, one every eleven seconds (ten of load, one
    of pause). A round begins no earlier than the report before it, so that is taken as its begin.
    """
    period = timedelta(seconds=11)
    rounds = [
        a_round(n, requests=many, failures=bad, begin=reported + (n - 1) * period - period)
        for n, (many, bad) in enumerate(zip(requests, failures, strict=True), 1)
    ]
    healthy = window([a_round(n, requests=1024) for n in range(10)], after=None, at_least=10)
    full = window(rounds, after=None, at_least=10)
    post = window(rounds, after=applied, at_least=9)
    assert full.complete
    assert len(post.rounds) == 9
    found = (
        retained_percent(full, healthy),
        retained_percent(post, healthy),
        full.error_rate_percent,
        post.error_rate_percent,
    )
    return tuple(round(value, 4) for value in found if value is not None)


@pytest.mark.parametrize("run", PUBLISHED)
def test_published_figures_come_out_of_the_published_inputs(run: str) -> None:
    (applied, reported), requests, failures, expected = PUBLISHED[run]
    times = (datetime.fromisoformat(f"2026-08-29T{text}+00:00") for text in (applied, reported))
    assert figures(*times, requests, failures) == expected


def test_all_nine_published_runs() -> None:
    file = Path(__file__).resolve().parents[4] / "shared" / "published" / "mutant_study.json"
    if not file.exists():
        pytest.skip("the published figures are not beside this repository")
    study = json.loads(file.read_text())
    names = (
        "retained_percent_full_window",
        "retained_percent_post_mutation",
        "faulted_rate_percent",
        "faulted_rate_percent_post_mutation",
    )
    seen: dict[str, list[tuple[float, ...]]] = {}
    for run in study["runs"]:
        faulted = run["workload"]["faulted"]
        times = (run["mutant_applied_utc"], faulted["first_round_reported_utc"])
        found = figures(*map(datetime.fromisoformat, times), faulted["requests"], faulted["non2xx"])
        seen.setdefault(run["mutant"], []).append(found)
    for mutant, found_of in seen.items():
        for place, name in enumerate(names):
            published = study["published"]["per_mutant"][mutant][name]
            assert [found[place] for found in found_of] == published, (mutant, name)
