"""wrk2's numbers: the switch at 0.85 of the next unit, and reading them back."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sremut.workload.units import format_rate, format_size, format_time, parse_time


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0.00us"),
        (320e-6, "320.00us"),
        (849e-6, "849.00us"),
        (880e-6, "0.88ms"),
        (6.46e-3, "6.46ms"),
        (0.9, "0.90s"),
        (1.32, "1.32s"),
        (50.9, "50.90s"),
        (52, "0.87m"),
        (120, "2.00m"),
        (3600, "1.00h"),
        (math.nan, "-nanus"),
    ],
)
def test_times(seconds: float, text: str) -> None:
    assert format_time(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0.00B"), (500, "500.00B"), (880, "0.86KB"), (19.81 * 1024**2, "19.81MB")],
)
def test_sizes_are_binary(count: float, text: str) -> None:
    assert format_size(count) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(105, "105.00"), (880, "0.88k"), (1050, "1.05k"), (math.nan, "-nan")],
)
def test_rates_are_decimal(count: float, text: str) -> None:
    assert format_rate(count) == text


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("320.00us", 320e-6),
        ("0.88ms", 0.88e-3),
        ("1.32s", 1.32),
        ("2.00m", 120),
        ("1h", 3600),
        ("1531867", None),
        ("-nanus", None),
        ("-nan", None),
        ("nan", None),
        ("inf", None),
        ("-1s", None),
        ("1e3s", None),
        ("", None),
        ("1 s", None),
        ("٣s", None),
    ],
)
def test_reading_times(text: str, seconds: float | None) -> None:
    found = parse_time(text)
    assert found is None if seconds is None else found == pytest.approx(seconds)


@given(st.floats(0, 1e6))
def test_what_is_written_can_be_read_to_its_precision(seconds: float) -> None:
    found = parse_time(format_time(seconds))
    assert found is not None
    assert found == pytest.approx(seconds, rel=0.01, abs=1e-8)


@given(st.text(max_size=40))
def test_any_text_is_a_finite_time_or_none(text: str) -> None:
    found = parse_time(text)
    assert found is None or math.isfinite(found)
