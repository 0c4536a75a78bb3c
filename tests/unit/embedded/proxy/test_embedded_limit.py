"""How often a peer is told that a destination is unreachable."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_sremut.embedded.proxy.limit import BURST, Limit

KEY = ("10.244.0.2", "10.96.0.7")


def told(times: list[float], key: tuple[str, str] = KEY, limit: Limit | None = None) -> list[bool]:
    limit = limit or Limit()
    return [limit.take(key, now) for now in times]


def test_six_at_once_and_one_a_second() -> None:
    assert told([0.0] * 8) == [True] * BURST + [False] * 2
    assert told([0.0] * 6 + [0.9, 1.0, 1.1, 2.05, 2.1]) == [True] * 6 + [
        False, True, False, True, False,
    ]  # fmt: skip


def test_the_bucket_holds_no_more_than_six() -> None:
    assert told([0.0] + [1000.0] * 8) == [True] + [True] * BURST + [False] * 2


def test_peers_and_destinations_have_their_own() -> None:
    limit = Limit()
    assert told([0.0] * 7, limit=limit)[-1] is False
    assert told([0.0], ("10.244.0.3", KEY[1]), limit) == [True]
    assert told([0.0], (KEY[0], "10.96.0.8"), limit) == [True]


def test_what_is_forgotten_starts_anew() -> None:
    limit = Limit()
    told([0.0] * 7, limit=limit)
    for number in range(5000):
        limit.take((str(number), KEY[1]), 0.0)
    assert limit.take(KEY, 0.0)


@given(st.lists(st.floats(0, 3), max_size=60))
def test_never_more_than_a_second_s_worth_and_six(pauses: list[float]) -> None:
    now, times = 0.0, []
    for pause in pauses:
        now += pause
        times.append(now)
    assert sum(told(times)) <= BURST + now + 1e-6


@given(st.lists(st.floats(1.0, 5), max_size=40))
def test_who_asks_once_a_second_is_always_told(pauses: list[float]) -> None:
    now, times = 0.0, []
    for pause in pauses:
        now += pause
        times.append(now)
    assert all(told(times))
