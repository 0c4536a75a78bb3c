"""The arithmetic of rollouts, by example and by property."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sremut.embedded.controllers.objects import resolve_count
from pytest_sremut.embedded.controllers.workloads import rollout

Json = dict[str, Any]


def deployment(replicas: int, surge: Any = "25%", unavailable: Any = "25%") -> Json:
    bounds = {"maxSurge": surge, "maxUnavailable": unavailable}
    strategy = {"type": "RollingUpdate", "rollingUpdate": bounds}
    return {"spec": {"replicas": replicas, "strategy": strategy}, "status": {}}


def replicaset(name: str, replicas: int, available: int = 0, maximum: int | None = None) -> Json:
    annotations = {} if maximum is None else {rollout.MAX_REPLICAS: str(maximum)}
    metadata = {"name": name, "creationTimestamp": f"2026-01-01T00:00:0{name[-1]}Z"}
    return {
        "metadata": {**metadata, "annotations": annotations},
        "spec": {"replicas": replicas},
        "status": {"availableReplicas": available},
    }


@pytest.mark.parametrize(
    ("value", "total", "up", "down"),
    [("25%", 2, 1, 0), ("25%", 10, 3, 2), (3, 10, 3, 3), ("0%", 5, 0, 0), ("100%", 4, 4, 4)],
)
def test_percentages_round_up_for_surge_and_down_for_missing(
    value: Any, total: int, up: int, down: int
) -> None:
    assert resolve_count(value, total, round_up=True) == up
    assert resolve_count(value, total, round_up=False) == down


@pytest.mark.parametrize("value", [None, "x%", "%", "5", 1.5, [], "9" * 5000 + "%"])
def test_what_is_no_count_is_none(value: Any) -> None:
    assert resolve_count(value, 10, round_up=True) == 0


def test_a_rollout_that_could_not_move_may_miss_one() -> None:
    assert rollout.max_unavailable(deployment(2, 0, 0)) == 1
    assert rollout.max_surge(deployment(2, 0, 0)) == 0


def test_no_more_may_be_missing_than_there_are() -> None:
    assert rollout.max_unavailable(deployment(1, 0, 5)) == 1
    assert rollout.max_unavailable(deployment(0, 0, 0)) == 0


def test_recreate_has_no_bounds() -> None:
    value = deployment(3)
    value["spec"]["strategy"] = {"type": "Recreate"}
    assert not rollout.is_rolling(value)
    assert (rollout.max_surge(value), rollout.max_unavailable(value)) == (0, 0)
    assert rollout.new_replicas(value, [replicaset("a1", 3)], 0) == 3


def test_new_replicas_come_as_there_is_room() -> None:
    two = deployment(2)
    assert rollout.new_replicas(two, [], 0) == 2
    assert rollout.new_replicas(two, [replicaset("a1", 2)], 0) == 1
    both = [replicaset("a1", 2), replicaset("a2", 1)]
    assert rollout.new_replicas(two, both, 1) == 1
    assert rollout.new_replicas(two, both, 5) == 2


def test_old_replicas_that_do_not_serve_go_first() -> None:
    old = [replicaset("a1", 2, 2), replicaset("a2", 2, 0)]
    plan = rollout.old_replicas(deployment(2), old, replicaset("a3", 1, 0))
    assert plan == {"a2": 0}


def test_old_replicas_stay_while_the_new_ones_do_not_serve() -> None:
    old = [replicaset("a1", 2, 2)]
    assert rollout.old_replicas(deployment(2), old, replicaset("a2", 1, 0)) == {}
    assert rollout.old_replicas(deployment(2), old, replicaset("a2", 1, 1)) == {"a1": 1}
    assert rollout.old_replicas(deployment(2), [replicaset("a1", 0)], replicaset("a2", 2, 2)) == {}


def test_scaling_in_the_middle_of_a_rollout_is_shared_out() -> None:
    active = [replicaset("a1", 8, 8, 13), replicaset("a2", 5, 0, 13)]
    assert rollout.proportional(deployment(20), active) == {"a1": 15, "a2": 10}
    assert rollout.proportional(deployment(0), active) == {"a1": 0, "a2": 0}
    assert rollout.proportional(deployment(10), active) == {"a1": 8, "a2": 5}


def test_without_a_note_of_the_size_before_the_largest_takes_all() -> None:
    active = [replicaset("a1", 3, 3), replicaset("a2", 2, 0)]
    assert rollout.proportional(deployment(8), active) == {"a1": 8, "a2": 2}


sizes = st.integers(0, 12)
bounds = st.one_of(st.integers(0, 5), st.integers(0, 100).map(lambda x: f"{x}%"))


@st.composite
def rollouts(draw: st.DrawFn) -> tuple[Json, list[Json], Json]:
    value = deployment(draw(sizes), draw(bounds), draw(bounds))
    members = []
    for number in range(draw(st.integers(1, 4))):
        size = draw(sizes)
        members.append(replicaset(f"a{number}", size, draw(st.integers(0, size))))
    return value, members[:-1], members[-1]


@given(rollouts())
def test_new_replicas_never_exceed_what_is_allowed(case: tuple[Json, list[Json], Json]) -> None:
    value, old, new = case
    total, size = rollout.wanted(value), rollout.wanted(new)
    result = rollout.new_replicas(value, [*old, new], size)
    everything = sum(map(rollout.wanted, old)) + result
    if result > size:
        assert result <= total
        assert everything <= total + rollout.max_surge(value)
    else:
        assert result == min(size, total)


@given(rollouts())
def test_old_replicas_never_take_serving_pods_below_the_floor(
    case: tuple[Json, list[Json], Json],
) -> None:
    value, old, new = case
    plan = rollout.old_replicas(value, old, new)
    floor = rollout.wanted(value) - rollout.max_unavailable(value)
    serving = rollout.available([*old, new])
    left = rollout.available([new])
    for item in old:
        name = item["metadata"]["name"]
        size = plan.get(name, rollout.wanted(item))
        assert 0 <= size <= rollout.wanted(item)
        left += min(rollout.available([item]), size)
    assert left >= min(floor, serving)


@given(rollouts())
def test_shares_add_up_to_what_is_allowed(case: tuple[Json, list[Json], Json]) -> None:
    value, old, new = case
    active = [item for item in (*old, new) if rollout.wanted(item)]
    shares = rollout.proportional(value, active)
    total = rollout.wanted(value)
    allowed = total + rollout.max_surge(value) if total else 0
    assert all(size >= 0 for size in shares.values())
    if active:
        assert sum(shares.values()) == allowed
