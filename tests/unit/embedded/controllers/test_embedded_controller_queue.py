"""Work queues: one key once, retries that back off, defects that neither stop nor hide."""

from __future__ import annotations

import asyncio
import logging

import pytest
from controllers_kit import FakeClock
from hypothesis import given
from hypothesis import strategies as st

from pytest_sremut.embedded.controllers.queue import Activity, WorkQueue
from pytest_sremut.embedded.meta.errors import conflict


class Bench:
    """A queue at work, with what it did."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.activity = Activity()
        self.seen: list[str] = []
        self.failing: dict[str, Exception] = {}
        self.then: dict[str, list[str]] = {}
        self.queue: WorkQueue[str] = WorkQueue(
            "bench",
            self.work,
            now=self.clock.now,
            call_later=self.clock.call_later,
            activity=self.activity,
        )

    def work(self, key: str) -> None:
        self.seen.append(key)
        for other in self.then.pop(key, []):
            self.queue.add(other)
        if key in self.failing:
            raise self.failing[key]

    def due(self, seconds: float) -> None:
        until = self.clock.moment.timestamp() + seconds
        moment = self.clock.moment.fromtimestamp(until, tz=self.clock.moment.tzinfo)
        while (timer := self.clock.next_due(moment)) is not None:
            assert timer.callback is not None
            timer.callback()


def run(body) -> None:
    async def outer() -> None:
        bench = Bench()
        task = asyncio.create_task(bench.queue.run())
        try:
            await body(bench)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            bench.queue.close()
            assert len(bench.queue) == 0

    asyncio.run(outer())


def test_a_waiting_key_is_one_key() -> None:
    async def body(bench: Bench) -> None:
        for key in ("a", "b", "a", "a"):
            bench.queue.add(key)
        await bench.activity.idle()
        assert bench.seen == ["a", "b"]

    run(body)


def test_a_key_added_while_it_is_worked_on_is_worked_on_again() -> None:
    async def body(bench: Bench) -> None:
        bench.then["a"] = ["a", "b"]
        bench.queue.add("a")
        await bench.activity.idle()
        assert bench.seen == ["a", "a", "b"]

    run(body)


def test_refusals_are_retried_later_each_time_and_success_starts_anew() -> None:
    async def body(bench: Bench) -> None:
        bench.failing["a"] = conflict("pods", "a", "the object has been modified")
        bench.queue.add("a")
        await bench.activity.idle()
        for number, delay in enumerate((0.005, 0.010, 0.020), start=2):
            bench.due(delay * 0.9)
            await bench.activity.idle()
            assert len(bench.seen) == number - 1
            bench.due(delay * 0.2)
            await bench.activity.idle()
            assert len(bench.seen) == number
        del bench.failing["a"]
        bench.due(1)
        await bench.activity.idle()
        bench.failing["a"] = conflict("pods", "a", "again")
        bench.queue.add("a")
        await bench.activity.idle()
        before = len(bench.seen)
        bench.due(0.006)
        await bench.activity.idle()
        assert len(bench.seen) == before + 1
        assert bench.activity.failures == []

    run(body)


def test_retries_are_never_further_apart_than_half_a_minute() -> None:
    async def body(bench: Bench) -> None:
        bench.failing["a"] = conflict("pods", "a", "no")
        bench.queue.add("a")
        for _ in range(40):
            await bench.activity.idle()
            bench.due(30)
        await bench.activity.idle()
        assert len(bench.seen) > 40

    run(body)


def test_a_defect_is_logged_remembered_and_retried(caplog: pytest.LogCaptureFixture) -> None:
    async def body(bench: Bench) -> None:
        bench.failing["a"] = KeyError("spec")
        with caplog.at_level(logging.ERROR):
            bench.queue.add("a")
            bench.queue.add("b")
            await bench.activity.idle()
        assert bench.seen == ["a", "b"]
        (failure,) = bench.activity.failures
        assert (failure.controller, failure.key) == ("bench", "a")
        assert isinstance(failure.error, KeyError)
        assert "KeyError" in caplog.text
        bench.due(0.01)
        await bench.activity.idle()
        assert bench.seen == ["a", "b", "a"]

    run(body)


def test_the_earliest_time_asked_for_counts() -> None:
    async def body(bench: Bench) -> None:
        bench.queue.add_after("a", 30)
        bench.queue.add_after("a", 20)
        bench.queue.add_after("a", 25)
        bench.queue.add_after("b", 5)
        bench.queue.cancel("b")
        bench.due(15)
        await bench.activity.idle()
        assert bench.seen == []
        bench.due(6)
        await bench.activity.idle()
        assert bench.seen == ["a"]
        bench.due(60)
        await bench.activity.idle()
        assert bench.seen == ["a"]
        bench.queue.add_after("c", -1)
        await bench.activity.idle()
        assert bench.seen == ["a", "c"]

    run(body)


def test_closing_forgets_keys_and_timers() -> None:
    async def body() -> None:
        bench = Bench()
        bench.queue.add("a")
        bench.queue.add_after("b", 1)
        bench.queue.close()
        await bench.activity.idle()
        assert bench.clock.waiting() == 0

    asyncio.run(body())


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=30))
def test_every_key_added_is_worked_on_afterwards(steps: list[tuple[str, bool]]) -> None:
    async def body(bench: Bench) -> None:
        added: dict[str, int] = {}
        for key, rest in steps:
            bench.queue.add(key)
            added[key] = len(bench.seen)
            if rest:
                await bench.activity.idle()
        await bench.activity.idle()
        for key, place in added.items():
            assert key in bench.seen[place:]
        assert len(bench.seen) <= len(steps)

    run(body)
