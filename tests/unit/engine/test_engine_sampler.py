from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import pytest
from engine_world import FakeClock
from world import NS, TARGET, World

from pytest_sremut.engine.observe.sampler import Sampler, look


class Sink:
    """Keeps samples; sets an event at the n-th."""

    def __init__(self, until: int = 1) -> None:
        self.samples: list[Mapping[str, Any]] = []
        self.until = until
        self.reached = threading.Event()

    def write(self, sample: Mapping[str, Any]) -> None:
        self.samples.append(sample)
        if len(self.samples) >= self.until:
            self.reached.set()


def sampler(world: World, sink: Any) -> Sampler:
    return Sampler(
        world.kube, namespace=NS, target=TARGET, interval=0.001, clock=FakeClock(), sink=sink
    )


def test_a_look_tells_what_is_not_running() -> None:
    world = World()
    name = world.pods()[0]["metadata"]["name"]
    world.kube.change("Pod", NS, name, status__phase="Pending")
    seen = look(world.kube, namespace=NS, target=TARGET)
    assert seen["pods"]["total"] == 4
    assert [pod["name"] for pod in seen["pods"]["not_running"]] == [name]
    assert seen["service"]["cluster_ip"].startswith("10.")
    assert len(seen["endpoints"]) == 3


def test_a_look_marks_the_pods_of_a_probe() -> None:
    world = World()
    for pod, phase in zip(world.pods(), ("Pending", "Failed"), strict=False):
        world.kube.change("Pod", NS, pod["metadata"]["name"], status__phase=phase)
    first = world.pods()[0]["metadata"]["name"]
    seen = look(
        world.kube,
        namespace=NS,
        target=TARGET,
        is_probe=lambda pod: bool(pod["metadata"]["name"] == first),
    )
    marked = {pod["name"]: pod.get("probe") for pod in seen["pods"]["not_running"]}
    assert len(marked) == 2
    assert marked.pop(first) is True
    assert set(marked.values()) == {None}


def test_absent_and_unreadable_are_told_apart() -> None:
    world = World()
    world.kube.drop("Service", NS, "user-service")
    assert look(world.kube, namespace=NS, target=TARGET)["service"] == {"absent": "NotFound"}
    world.kube.break_always("*")
    seen = look(world.kube, namespace=NS, target=TARGET)
    assert all("failed" in seen[key] for key in ("pods", "service", "endpoints"))


def test_the_timeline_is_kept_and_written() -> None:
    world, sink = World(), Sink(until=3)
    with sampler(world, sink) as running:
        assert sink.reached.wait(10)
    timeline = running.timeline
    assert len(timeline) == len(sink.samples) >= 3
    assert [s.at for s in timeline] == sorted(s.at for s in timeline)
    assert timeline[0].not_running == {}
    assert sink.samples[0]["utc"].endswith("Z")


def test_a_failed_look_says_nothing_about_pods() -> None:
    world, sink = World(), Sink()
    world.kube.break_always("list", "Pod")
    with sampler(world, sink) as running:
        assert sink.reached.wait(10)
    assert running.timeline[0].not_running is None


def test_a_sampler_that_dies_is_noticed() -> None:
    class Broken:
        def write(self, sample: Mapping[str, Any]) -> None:
            raise OSError("disk full")

    running = sampler(World(), Broken())
    running.start()
    running._thread.join(10)
    with pytest.raises(OSError, match="disk full"):
        running.stop()
    running.stop()


def test_stopping_twice_and_before_starting() -> None:
    running = sampler(World(), Sink())
    running.stop()
