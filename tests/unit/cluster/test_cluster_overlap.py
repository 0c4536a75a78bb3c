"""Calls side by side."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sremut.cluster import overlap
from pytest_sremut.cluster.overlap import all_of, attempted, batches, overlapped


def test_they_run_at_the_same_time_and_answer_in_order() -> None:
    together = threading.Barrier(overlap.WIDTH)

    def call(number: int) -> int:
        together.wait(timeout=30)  # breaks unless all of them have begun
        return number

    assert overlapped([partial(call, n) for n in range(overlap.WIDTH)]) == [*range(overlap.WIDTH)]


@pytest.mark.parametrize("count", [0, 1])
def test_fewer_than_two_need_no_thread(count: int) -> None:
    here = threading.current_thread().name
    found = overlapped([lambda: threading.current_thread().name] * count)
    assert found == [here] * count


def test_one_at_a_time_is_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlap, "WIDTH", 1)
    here = threading.current_thread().name
    assert overlapped([lambda: threading.current_thread().name] * 3) == [here] * 3


def test_the_error_of_the_first_in_order_is_raised_when_none_runs_any_more() -> None:
    second_raised, third_began, ended = (threading.Event() for _ in range(3))

    def first() -> None:
        assert second_raised.wait(30)
        raise ValueError("first")

    def second() -> None:
        assert third_began.wait(30)
        second_raised.set()
        raise ValueError("second")

    def third() -> None:
        third_began.set()
        assert second_raised.wait(30)
        ended.set()

    with pytest.raises(ValueError, match="first"):
        overlapped([first, second, third])
    assert ended.is_set()


def test_an_interrupt_waits_for_those_that_run_and_starts_no_others() -> None:
    begun, let_go = threading.Semaphore(0), threading.Event()
    ran: list[int] = []

    def interrupted() -> int:
        for _ in range(overlap.WIDTH - 1):
            assert begun.acquire(timeout=30)
        let_go.set()
        raise KeyboardInterrupt  # as the main thread would see it, waiting for the first

    def call(number: int) -> int:
        begun.release()
        assert let_go.wait(30)
        ran.append(number)
        return number

    calls: list[Callable[[], int]] = [interrupted]
    calls += [partial(call, number) for number in range(overlap.WIDTH - 1)]
    with pytest.raises(KeyboardInterrupt):
        overlapped(calls)
    assert sorted(ran) == [*range(overlap.WIDTH - 1)]


def test_each_is_attempted_whatever_the_others_raise() -> None:
    def fails() -> int:
        raise ValueError("no")

    one, error, two = attempted([lambda: 1, fails, lambda: 2])
    assert (one, two) == (1, 2)
    assert isinstance(error, ValueError)
    with pytest.raises(ValueError, match="no"):
        all_of([one, error, two])
    assert all_of([one, two]) == [1, 2]


@given(st.lists(st.sampled_from("aab")))
def test_batches_are_the_items_in_order_by_kind(items: list[str]) -> None:
    found = [list(batch) for batch in batches(items, str)]
    assert [item for batch in found for item in batch] == items
    assert all(1 <= len(batch) <= overlap.WIDTH and len(set(batch)) == 1 for batch in found)
    # None is smaller than it need be.
    for one, other in pairwise(found):
        assert one[0] != other[0] or len(one) == overlap.WIDTH
