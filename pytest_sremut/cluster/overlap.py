"""Calls that do not depend on each other, sent side by side.

A server that takes 30 ms for an answer takes them for each; ten reads that make one look need not
wait for one another. What is read side by side is also closer to one moment than what is read one
after another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from typing import Final, TypeVar

__all__ = ["WIDTH", "all_of", "attempted", "batches", "overlapped"]

_T = TypeVar("_T")

WIDTH: Final = 8
"""Calls at once. A client keeps ten connections to its server, and the sampler needs one."""


def overlapped(calls: Sequence[Callable[[], _T]]) -> list[_T]:
    """What the calls return, in their order; at most `WIDTH` run at once, in threads.

    When this returns or raises none of them runs any more. Where some raise, the error of the
    first of them in order is raised, and those that had not begun never do.
    """
    if min(WIDTH, len(calls)) <= 1:
        return [call() for call in calls]
    with ThreadPoolExecutor(min(WIDTH, len(calls)), "sremut-overlap") as pool:
        futures = [pool.submit(call) for call in calls]
        try:
            return [future.result() for future in futures]
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def attempted(calls: Sequence[Callable[[], _T]]) -> list[_T | Exception]:
    """As `overlapped`, for calls of which each is made, whatever the others raise."""

    def attempt(call: Callable[[], _T]) -> _T | Exception:
        try:
            return call()
        except Exception as error:
            return error

    return overlapped([lambda call=call: attempt(call) for call in calls])  # type: ignore[misc]


def all_of(answers: Sequence[_T | Exception]) -> list[_T]:
    """What calls returned. Raises the first error among them."""
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
    return [answer for answer in answers if not isinstance(answer, Exception)]


def batches(items: Sequence[_T], kind: Callable[[_T], str]) -> Iterator[Sequence[_T]]:
    """Neighbours of one kind, in order, as many as go at once."""
    for _, group in groupby(items, kind):
        same = list(group)
        for start in range(0, len(same), WIDTH):
            yield same[start : start + WIDTH]
