from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sremut.ledger.figures import figure, mean, percent, wilson


@pytest.mark.parametrize(
    ("part", "whole", "low", "high"),
    [
        # By hand: with p = 0 or 1 the formula shrinks to z^2 / (n + z^2) and n / (n + z^2).
        (0, 10, 0.0, 27.7533),
        (9, 9, 70.0855, 100.0),
        # By hand from centre and spread.
        (5, 10, 23.6593, 76.3407),
        (1, 10, 1.7876, 40.4150),
        (100, 1000, 8.2909, 12.0152),
    ],
)
def test_wilson(part: int, whole: int, low: float, high: float) -> None:
    found = wilson(part, whole)
    assert found is not None
    assert found == pytest.approx((low, high), abs=1e-4)


def test_nothing_of_nothing_is_no_number() -> None:
    assert wilson(0, 0) is None
    assert percent(0, 0) is None
    assert mean([]) is None
    assert figure(None) is None


@given(st.integers(1, 10_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_an_interval_holds_its_proportion_and_stays_in_bounds(pair: tuple[int, int]) -> None:
    part, whole = pair
    found = wilson(part, whole)
    rate = percent(part, whole)
    assert found is not None
    assert rate is not None
    assert 0.0 <= found[0] <= rate + 1e-9
    assert rate - 1e-9 <= found[1] <= 100.0


@pytest.mark.parametrize(
    ("value", "written"), [(90.0, 90), (9.123449, 9.1234), (0.00004, 0), (-0.00001, 0)]
)
def test_a_figure_is_rounded_once_and_whole_where_it_is(value: float, written: float) -> None:
    found = figure(value)
    assert found == written
    assert type(found) is type(written)
