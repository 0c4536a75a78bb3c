"""How slow a cluster pretends to be."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sremut.embedded import PaceError, parse_pace
from pytest_sremut.embedded.meta.pace import REAL, Bucket, Pace


def test_the_named_ones() -> None:
    assert parse_pace("none") == Pace()
    assert not Pace().slows
    assert Pace().facts() == {}
    assert parse_pace("real") == REAL
    assert REAL.slows


def test_parts() -> None:
    assert parse_pace("delay:20ms,jitter:1.5s,pods:1s-3s,limit:50,seed:7") == Pace(
        delay=0.02, jitter=1.5, least_start=1.0, most_start=3.0, limit=50, seed=7
    )
    assert parse_pace("pods:2s") == Pace(least_start=2.0, most_start=2.0)
    assert parse_pace("delay:20ms").facts() == {
        "api_delay": 0.02,
        "api_jitter": 0.0,
        "api_limit": 0,
        "pod_start_least": 0.0,
        "pod_start_most": 0.0,
        "seed": 1,
    }


@pytest.mark.parametrize(
    "text",
    [
        "",
        "fast",
        "delay",
        "delay:",
        "delay:20",
        "delay:-1s",
        "delay:61s",
        "delay:1s,delay:2s",
        "pods:3s-1s",
        "limit:many",
        "limit:\u0663",
        "seed:1,",
        "jitter:nans",
    ],
)
def test_what_is_none(text: str) -> None:
    with pytest.raises(PaceError, match="allowed: none, real, or parts joined by commas"):
        parse_pace(text)


@given(st.text(alphabet="delayjitrposn:-,0123456789.ms\u0663", max_size=40))
def test_any_text_is_a_pace_or_refused(text: str) -> None:
    with contextlib.suppress(PaceError):
        pace = parse_pace(text)
        assert 0 <= pace.least_start <= pace.most_start <= 60
        assert 0 <= pace.delay <= 60


def test_draws_are_those_of_the_seed() -> None:
    once, again = (Pace(seed=3).draws("api") for _ in range(2))
    assert [once.random() for _ in range(3)] == [again.random() for _ in range(3)]
    assert Pace(seed=3).draws("api").random() != Pace(seed=3).draws("pods").random()
    assert Pace(seed=3).draws("api").random() != Pace(seed=4).draws("api").random()


@given(st.integers(1, 50), st.lists(st.floats(0, 0.5), max_size=200))
def test_a_bucket_lets_through_its_rate_and_one_second_at_once(
    limit: int, pauses: list[float]
) -> None:
    bucket, now, taken = Bucket(limit, 0.0), 0.0, 0
    for pause in pauses:
        now += pause
        taken += bucket.take(now)
    assert taken <= limit * (1 + now) + 1e-6
    if len(pauses) <= limit:
        assert taken == len(pauses)
