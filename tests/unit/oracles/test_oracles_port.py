"""Readings: judged, never coerced."""

from __future__ import annotations

import json
import math
from collections import OrderedDict
from enum import IntEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sremut.errors import HarnessError
from pytest_sremut.oracles.oracle_port import (
    CapturesBaseline,
    Raised,
    Reading,
    json_ready,
    judge,
    why_no_verdict,
)
from pytest_sremut.study.verdict import Verdict


class _One(IntEnum):
    ONE = 1


@pytest.mark.parametrize(
    ("returned", "verdict"),
    [
        ({"success": True}, Verdict.ACCEPT),
        ({"success": False}, Verdict.REJECT),
        ({"success": True, "oracles": [], "accuracy": 0.0}, Verdict.ACCEPT),
        ({"success": 1}, Verdict.ERROR),
        ({"success": 0}, Verdict.ERROR),
        ({"success": "True"}, Verdict.ERROR),
        ({"success": None}, Verdict.ERROR),
        ({"success": _One.ONE}, Verdict.ERROR),
        ({"Success": True}, Verdict.ERROR),
        ({}, Verdict.ERROR),
        (True, Verdict.ERROR),
        (None, Verdict.ERROR),
        ([("success", True)], Verdict.ERROR),
        ("success", Verdict.ERROR),
    ],
)
def test_only_true_and_false_are_verdicts(returned: Any, verdict: Verdict) -> None:
    assert judge(returned) is verdict
    assert bool(why_no_verdict(returned)) is (verdict is Verdict.ERROR)


def test_a_reason_says_what_was_returned() -> None:
    assert why_no_verdict(3) == "the oracle returned an int, not a mapping"
    assert (
        why_no_verdict({"success": "yes"}) == "the oracle's 'success' is a str, not True or False"
    )


def test_what_json_can_say_stays() -> None:
    value = {"a": [1, 2.5, None, True, "x", {"b": []}], "c": {}}
    assert json_ready(value) == value


@pytest.mark.parametrize(
    "value",
    [math.nan, math.inf, 2**60, (1,), {1: 2}, {1}, b"x", object, "\ud800", _One.ONE,
     OrderedDict(a=1)],
)  # fmt: skip
def test_what_json_cannot_say_becomes_text_in_its_place(value: Any) -> None:
    ready = json_ready({"success": True, "odd": value})
    assert ready["success"] is True
    assert list(ready["odd"]) == ["$repr"]
    json.dumps(ready, allow_nan=False).encode()


def test_endless_and_deep_structures_end() -> None:
    loop: list[Any] = []
    loop.append(loop)
    json.dumps(json_ready(loop))
    deep: Any = 0
    for _ in range(5_000):
        deep = [deep]
    json.dumps(json_ready(deep))
    assert len(json.dumps(json_ready(list(range(500_000))))) < 20_000_000


_anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner)
        | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(_anything)
def test_anything_becomes_json(value: Any) -> None:
    text = json.dumps(json_ready(value), allow_nan=False)
    assert json.loads(text) == json_ready(value)


def _reading(**changes: Any) -> Reading:
    fields: dict[str, Any] = {
        "oracle": "O1", "use": "all-of", "instrument": "isolated", "verdict": Verdict.ERROR,
        "reason": "E: m", "returned": None, "started": "2026-11-30T00:00:00Z", "elapsed": 0.5,
        "exception": Raised(type="E", message="m", traceback="t"), "stdout": "", "stderr": "",
        "facts": {"pid": 1},
    }  # fmt: skip
    return Reading(**(fields | changes))


@pytest.mark.parametrize("changes", [{}, {"exception": None, "verdict": Verdict.ACCEPT}])
def test_a_reading_crosses_a_process(changes: dict[str, Any]) -> None:
    reading = _reading(**changes)
    assert Reading.from_json(json.loads(json.dumps(reading.to_json()))) == reading


_keys = st.sampled_from([*_reading().to_json(), "other"])


@given(_anything | st.dictionaries(_keys, _anything))
def test_what_is_no_reading(value: Any) -> None:
    try:
        reading = Reading.from_json(value)
    except HarnessError:
        return
    assert isinstance(reading.verdict, Verdict)


@given(st.sampled_from(list(_reading().to_json())), _anything)
def test_a_reading_with_one_wrong_field(field: str, value: Any) -> None:
    body = _reading().to_json() | {field: value}
    try:
        reading = Reading.from_json(body)
    except HarnessError:
        return
    assert isinstance(reading.reason, str)
    assert isinstance(reading.elapsed, float)


def test_who_captures_a_baseline() -> None:
    class With:
        def capture_baseline(self) -> None: ...

    assert isinstance(With(), CapturesBaseline)
    assert not isinstance(object(), CapturesBaseline)
