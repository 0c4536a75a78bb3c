"""From what a worker collected to a reading: whatever a grader's process sent."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from direct_reading import answered
from hypothesis import given
from hypothesis import strategies as st

from pytest_sremut.errors import GuardRefusedError, HarnessError, UsageError
from pytest_sremut.oracles import framing
from pytest_sremut.oracles.conclude import Answer, done, reading_of
from pytest_sremut.oracles.oracle_port import Reading
from pytest_sremut.oracles.request import OracleNode, ReadingRequest
from pytest_sremut.oracles.told import BEGUN
from pytest_sremut.study.model import Target
from pytest_sremut.study.verdict import Verdict

RequestFor = Callable[..., ReadingRequest]
YES: dict[str, Any] = {"returned": {"success": True}, "exception": None}
REQUEST = ReadingRequest(
    oracle=OracleNode(id="O1", use="python:a:B"),
    kubeconfig="", context="", cluster_uid="", namespace="", baseline={}, timeout=1.0,
    target=Target(kind="Service", name="a", workload_kind="Deployment", workload_name="a", port=1),
)  # fmt: skip
KILLED, EXITED = 9, 3 << 8  # as `waitpid` says it


def concluded(answer: Answer, **more: Any) -> Reading:
    return reading_of(REQUEST, answer, instrument="isolated", facts={"known": 1}, **more)


def test_the_one_answer_is_judged() -> None:
    reading = concluded(answered(BEGUN, YES))
    assert (reading.verdict, reading.returned) == (Verdict.ACCEPT, {"success": True})
    assert (reading.oracle, reading.use) == ("O1", "python:a:B")
    assert reading.facts == {"known": 1, "pid": 7}


@pytest.mark.parametrize(
    "answer",
    [
        answered(BEGUN),
        answered(BEGUN, YES, rest=1),
        answered(BEGUN, YES, status=KILLED),
        answered(BEGUN, YES, status=EXITED),
        answered(BEGUN, status=KILLED),
        answered(BEGUN, "{"),
        answered(BEGUN, {**YES, "verdict": "ACCEPT"}),
        answered(BEGUN, {"harness": "it was you"}),
        answered(YES, YES, fresh=False),
        answered({"usage": "it was you"}, fresh=False),
    ],
)
def test_anything_else_is_an_error_of_the_oracles(answer: Answer) -> None:
    reading = concluded(answer)
    assert (reading.verdict, reading.returned) == (Verdict.ERROR, None)
    assert "it was you" not in reading.reason
    assert reading.exception is not None
    assert reading.exception.type in {"ProcessExit", "ForeignFrame"}


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (answered({"usage": "no class"}), UsageError),
        (answered({"refused": "another cluster"}), GuardRefusedError),
        (answered({"harness": "no kubeconfig"}), HarnessError),
        (answered(status=KILLED), HarnessError),
        (answered(YES), HarnessError),
        (answered(BEGUN, in_time=False), HarnessError),
    ],
)
def test_what_went_wrong_before_it_began_is_ours(answer: Answer, error: type[Exception]) -> None:
    with pytest.raises(error):
        concluded(answer)


def test_refusals_of_our_own_graders_are_believed() -> None:
    answer = answered(BEGUN, {"refused": "another cluster"})
    assert concluded(answer).verdict is Verdict.ERROR
    with pytest.raises(GuardRefusedError, match="another cluster"):
        concluded(answer, foreign=False)


def test_notes_are_shown_and_hide_nothing() -> None:
    notes = {"problem": {"seen": {}}, "known": 2, "pid": 1}
    reading = concluded(answered(BEGUN, {**YES, "notes": notes}), notes=True)
    assert reading.facts == {"problem": {"seen": {}}, "known": 1, "pid": 7}
    assert concluded(answered(BEGUN, {**YES, "notes": []}), notes=True).verdict is Verdict.ERROR
    assert concluded(answered(BEGUN, YES), notes=True).verdict is Verdict.ERROR


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["returned", "exception", "success", "begun", "usage", "notes", "x"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)
_frames = st.lists(_json.map(json.dumps) | st.text(max_size=20), max_size=3)


@given(
    _frames, st.sampled_from([0, KILLED, EXITED, 1 << 8]), st.sampled_from([0, 1]), st.booleans()
)
def test_whatever_comes_after_begun_is_a_reading(
    frames: list[str], status: int, rest: int, fresh: bool
) -> None:
    reading = concluded(answered(BEGUN, *frames, status=status, rest=rest, fresh=fresh))
    sound = len(frames) == 1 and status == 0 and rest == 0
    if reading.verdict is not Verdict.ERROR:
        assert sound
        told = json.loads(frames[0])
        assert told["exception"] is None
        assert told["returned"]["success"] is (reading.verdict is Verdict.ACCEPT)


@given(_frames, st.booleans())
def test_whatever_comes_is_a_reading_or_one_of_our_errors(frames: list[str], fresh: bool) -> None:
    try:
        reading = concluded(answered(*frames, fresh=fresh))
    except (HarnessError, UsageError, GuardRefusedError):
        assert fresh
        return
    assert isinstance(reading.verdict, Verdict)


@given(st.dictionaries(st.sampled_from(["frames", "status", "fresh", "stdout"]), _json))
def test_a_result_with_other_fields_is_no_result(changes: dict[str, Any]) -> None:
    try:
        answer = answered(BEGUN, YES, **changes)
    except HarnessError:
        return
    assert isinstance(answer.stdout, str)


def test_what_another_task_yields() -> None:
    assert done("inject f", 1.0, answered({"done": {}}, stdout=["x", 0])) == {
        "done": {}, "stdout": "x", "stderr": "",
    }  # fmt: skip
    for broken in (
        answered(), answered("{"), answered({}, {}), answered({}, rest=1),
        answered({}, status=EXITED), answered({}, in_time=False), answered({"harness": "x"}),
    ):  # fmt: skip
        with pytest.raises(HarnessError, match="inject f"):
            done("inject f", 1.0, broken)


@given(st.lists(st.binary(max_size=20), max_size=4), st.binary(max_size=6), st.integers(0, 4))
def test_frames_are_split_and_the_rest_is_counted(
    payloads: list[bytes], tail: bytes, most: int
) -> None:
    data = b"".join(len(one).to_bytes(4, "big") + one for one in payloads)
    frames, rest = framing.split(data, most)
    assert frames == payloads[:most]
    assert rest == len(data) - sum(4 + len(one) for one in frames)
    frames, rest = framing.split(tail, most)
    assert rest == len(tail) - sum(4 + len(one) for one in frames)
