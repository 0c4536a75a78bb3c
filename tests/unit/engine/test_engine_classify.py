from __future__ import annotations

import pytest

from pytest_sremut.ledger.timeline import PodCondition, Sample, pods_during


def timeline(*looks: tuple[float, dict[str, str] | None]) -> list[Sample]:
    return [Sample(at=at, not_running=seen) for at, seen in looks]


PENDING = {"uid-1": "Pending"}


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        (timeline((0, {}), (1, {}), (2, {})), PodCondition.ALL_RUNNING),
        (timeline((0, {}), (1, PENDING), (2, {}), (3, {})), PodCondition.RECOVERED),
        (timeline((1, PENDING), (3, PENDING)), PodCondition.NEVER_RECOVERED),
        # Another pod that goes down later does not make the first one unrecovered.
        (timeline((1, PENDING), (3, {"uid-2": "Failed"})), PodCondition.RECOVERED),
        # Nothing was seen after the reading: recovery was not observed, so it is not claimed.
        (timeline((1, PENDING)), PodCondition.NEVER_RECOVERED),
        (timeline(), PodCondition.UNKNOWN),
        (timeline((1, None)), PodCondition.UNKNOWN),
        # A failed look says nothing; the successful one beside it does.
        (timeline((1, None), (1.2, {})), PodCondition.ALL_RUNNING),
        (timeline((1, PENDING), (3, {}), (4, None)), PodCondition.RECOVERED),
        # Long before and long after the reading is not during it.
        (timeline((-5, PENDING), (1, {}), (9, PENDING)), PodCondition.ALL_RUNNING),
    ],
)
def test_timeline_decides(samples: list[Sample], expected: PodCondition) -> None:
    assert pods_during(samples, begin=0.9, end=1.3, slack=0.25) is expected
