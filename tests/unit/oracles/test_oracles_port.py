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
    json_ready,
    judge,
    why_no_verdict,
)
from pytest_sremut.oracles.told import Told
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


@pytest.mark.parametrize(
    ("kept", "reason"),
    [
        ({"$repr": "<object object>"}, "the oracle returned <object object>, not a mapping"),
        ({"success": {"$repr": "(1+2j)"}}, "the oracle's 'success' is (1+2j), not True or False"),
        ({"$repr": "x" * 200}, f"the oracle returned {'x' * 80}..., not a mapping"),
    ],
)
def test_what_could_not_be_kept_is_no_verdict(kept: Any, reason: str) -> None:
    assert judge(kept) is Verdict.ERROR
    assert why_no_verdict(kept) == reason


class _Changes(dict[str, Any]):
    """Says one thing and then another."""

    asked = 0

    def __getitem__(self, key: str) -> Any:
        self.asked += 1
        return self.asked == 1

    def __contains__(self, key: object) -> bool:
        raise KeyboardInterrupt


class _Hostile:
    def __repr__(self) -> str:
        raise SystemExit(0)

    __eq__ = __hash__ = __repr__  # type: ignore[assignment]


@pytest.mark.parametrize(
    "returned",
    [
        _Changes(success=True),
        {"success": _Hostile()},
        _Hostile(),
        {"success": True, "more": [0] * 1_000_000},
        {"success": True, **{str(number): number for number in range(200_000)}},
        {"success": True, "text": "x" * (9 << 20)},
        [{"success": True}] * 1_000_000,
    ],
)
def test_a_hostile_object_is_kept_as_no_verdict(returned: Any) -> None:
    kept = json_ready(returned)
    assert judge(kept) is Verdict.ERROR
    assert len(json.dumps(kept)) < 5_000


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


def _told(**changes: Any) -> dict[str, Any]:
    return {"returned": {"success": True}, "exception": None, **changes}


@pytest.mark.parametrize(
    "told",
    [
        Told(returned={"success": True, "x": [1, None]}, exception=None),
        Told(returned=None, exception=Raised(type="E", message="m", traceback="t")),
        Told(returned=None, exception=None, notes={"problem": {}}),
    ],
)
def test_what_came_of_a_call_crosses_a_process(told: Told) -> None:
    assert Told.parse(json.dumps(told.frame()), notes=told.notes is not None) == told


_keys = st.sampled_from(["returned", "exception", "notes", "verdict", "oracle", "facts"])


@given(_anything | st.dictionaries(_keys, _anything))
def test_what_is_no_answer_is_refused(value: Any) -> None:
    try:
        text = json.dumps(value)
    except (TypeError, ValueError):
        return
    try:
        told = Told.parse(text)
    except HarnessError:
        return
    assert value.keys() == {"returned", "exception"}
    json.dumps(told.frame(), allow_nan=False).encode()


@given(st.text())
def test_any_text_is_an_answer_or_is_refused(text: str) -> None:
    with pytest.raises(HarnessError):
        Told.parse(text)


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        (_told(verdict="ACCEPT"), "a frame with exception, returned, verdict"),
        (_told(notes={}), "a frame with exception, notes, returned"),
        ({"returned": True}, "a frame with returned"),
        (_told(exception={"type": "E"}), "an exception that is none"),
        (_told(exception={"type": 1, "message": "", "traceback": ""}), "an exception that is none"),
        ([], "list, no mapping"),
    ],
)
def test_a_frame_with_more_or_less_than_the_answer_is_none(frame: Any, why: str) -> None:
    with pytest.raises(HarnessError, match=why):
        Told.parse(json.dumps(frame))


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"returned": NaN, "exception": null}', "9" * 9999]
)
def test_text_that_breaks_readers_of_json_is_refused(text: str) -> None:
    with pytest.raises(HarnessError):
        Told.parse(text)


def test_what_an_answer_holds_is_bounded_once_more() -> None:
    many = Told.parse(json.dumps(_told(returned=[0] * 500_000)))
    assert many.returned == {"$repr": "<list: too large to keep>"}
    assert judge(many.returned) is Verdict.ERROR


def test_who_captures_a_baseline() -> None:
    class With:
        def capture_baseline(self) -> None: ...

    assert isinstance(With(), CapturesBaseline)
    assert not isinstance(object(), CapturesBaseline)
