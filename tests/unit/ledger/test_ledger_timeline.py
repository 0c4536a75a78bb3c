"""The sampler's timeline decides; looks that failed, our own pods and our own doings do not."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sremut.ledger.timeline import (
    PodCondition,
    Sample,
    application_down,
    parse_timeline,
    pods_during,
)

DOWN = {"uid-1": "Pending"}


def timeline(*looks: tuple[float, dict[str, str] | None]) -> list[Sample]:
    return [Sample(at=at, not_running=seen) for at, seen in looks]


@pytest.mark.parametrize(
    ("samples", "until", "expected"),
    [
        (timeline((1, {}), (2, {})), math.inf, PodCondition.ALL_RUNNING),
        (timeline((1, DOWN), (2, {})), math.inf, PodCondition.RECOVERED),
        (timeline((1, DOWN), (2, DOWN), (5, {})), math.inf, PodCondition.RECOVERED),
        # What only our own restoration repaired did not recover by itself.
        (timeline((1, DOWN), (2, DOWN), (5, {})), 3, PodCondition.NEVER_RECOVERED),
        (timeline((1, DOWN), (2, {}), (5, {})), 3, PodCondition.RECOVERED),
        # Recovered and down again when we intervened: it did not recover.
        (timeline((1, DOWN), (2, {}), (2.5, DOWN)), 3, PodCondition.NEVER_RECOVERED),
        # Recovery within the reading's own slack is recovery.
        (timeline((0.9, DOWN), (1.4, {})), math.inf, PodCondition.RECOVERED),
        # Nothing was seen afterwards, so recovery is not claimed.
        (timeline((1, DOWN)), math.inf, PodCondition.NEVER_RECOVERED),
        (timeline((1, DOWN), (2, None)), math.inf, PodCondition.NEVER_RECOVERED),
        # Another pod that goes down later is another matter.
        (timeline((1, DOWN), (2, {"uid-2": "Failed"})), math.inf, PodCondition.RECOVERED),
        (timeline((1, None)), math.inf, PodCondition.UNKNOWN),
        (timeline(), math.inf, PodCondition.UNKNOWN),
        (timeline((-5, DOWN), (9, DOWN)), math.inf, PodCondition.UNKNOWN),
        (timeline((1, None), (1.2, {})), math.inf, PodCondition.ALL_RUNNING),
    ],
)
def test_pods_during(samples: list[Sample], until: float, expected: PodCondition) -> None:
    assert pods_during(samples, begin=0.9, end=1.3, slack=0.25, until=until) is expected


def pod(name: str, phase: str = "Pending") -> dict[str, str]:
    return {"name": name, "uid": f"uid-{name}", "phase": phase}


def test_a_probe_of_a_grader_is_not_the_application() -> None:
    found = application_down(
        {
            "total": 4,
            "not_running": [
                pod("service-connectivity-check-1a2b"),
                pod("sremut-load-faulted-x", "Succeeded"),
                {**pod("dns-check-7"), "probe": True},
                {**pod("user-service-2"), "probe": "yes"},
                pod("user-service-1"),
            ],
        }
    )
    assert found == {"uid-user-service-1": "Pending", "uid-user-service-2": "Pending"}


@pytest.mark.parametrize("pods", [None, {"failed": "timeout"}, {"not_running": 7}, [], "x"])
def test_a_look_that_failed_says_nothing(pods: Any) -> None:
    assert application_down(pods) is None


def line(at: str, pods: Any) -> bytes:
    return json.dumps({"monotonic": at, "pods": pods}).encode()


def test_lines_become_samples_in_the_order_of_their_time() -> None:
    data = b"\n".join(
        [
            line("2.5", {"not_running": [pod("a")]}),
            line("1.5", {"not_running": []}),
            line("3.5", {"failed": "no answer"}),
            b"",
            b"not json",
            b"[1, 2]",
            line("soon", {"not_running": []}),
            line("nan", {"not_running": []}),
            b'{"monotonic": "4.5", "pods": {"not_runn',  # a crash
        ]
    )
    found = parse_timeline(data)
    assert [(s.at, s.not_running) for s in found] == [
        (1.5, {}),
        (2.5, {"uid-a": "Pending"}),
        (3.5, None),
    ]


@given(st.binary(max_size=300))
def test_any_bytes_are_a_timeline(data: bytes) -> None:
    parse_timeline(data)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["monotonic", "pods", "not_running", "uid", "name"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@given(st.lists(json_values, max_size=4))
def test_any_json_is_a_timeline(values: list[Any]) -> None:
    data = b"\n".join(json.dumps(value).encode() for value in values)
    assert all(math.isfinite(sample.at) for sample in parse_timeline(data))
