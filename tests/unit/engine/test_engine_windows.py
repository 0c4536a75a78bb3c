"""Windows from logs that are whole, cut, torn, or dated by another clock."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from engine_world import EngineWorld, small_application
from hypothesis import given
from hypothesis import strategies as st
from world import NS

from pytest_sremut.engine.observe import windows
from pytest_sremut.engine.observe.podclock import PodClock
from pytest_sremut.engine.observe.windows import TakenWindow, take_window
from pytest_sremut.engine.steps import deploy
from pytest_sremut.engine.stops import RunStoppedError
from pytest_sremut.study.verdict import Outcome, State
from pytest_sremut.workload.report import parse_timestamp
from pytest_sremut.workload.window import functional

Change = Callable[[list[bytes]], list[bytes]]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EngineWorld]:
    monkeypatch.setattr(deploy, "manifests_of", small_application)
    world = EngineWorld(tmp_path)
    yield world
    world.stop()


def taken(world: EngineWorld, change: Change = lambda lines: lines) -> TakenWindow:
    """A window of three rounds whose log was changed, line by line."""
    driver = world.driver("MS-M01")
    deploy.deploy(driver._ctx, None, driver._book)
    world.hooks.append(changing(world, change))
    return take_window(driver._ctx, "healthy", driver._book, rounds=3)


def changing(world: EngineWorld, change: Change) -> Callable[[str, object], None]:
    """Changes the log of the load that was begun last."""

    def hook(what: str, body: object) -> None:
        if what == "create Job":
            key = list(world.kube.log_chunks)[-1]
            lines = b"".join(world.kube.log_chunks[key]).splitlines(keepends=True)
            world.kube.log_chunks[key] = [b"".join(change(lines))]

    return hook


def stopped(world: EngineWorld, change: Change) -> RunStoppedError:
    with pytest.raises(RunStoppedError) as caught:
        taken(world, change)
    # The raw log is kept, whatever it was worth.
    assert list(world.directory.glob("*/*/a01/raw/workload-healthy.log"))
    return caught.value


def test_a_whole_log(world: EngineWorld) -> None:
    window = taken(world)
    assert [item.number for item in window.window.rounds] == [1, 2, 3]
    assert window.window.complete
    assert (window.facts["connections"], window.facts["repeated"]) == (1, 0)
    ahead = window.facts["clock"]["ahead"]
    assert ahead["least"] <= 0 <= ahead["most"]
    assert window.facts["clock"]["lines"] == 18


def beginning(number: int) -> bytes:
    return f"round #{number}\n".encode()


def without(number: int) -> Change:
    """The log less a whole round."""

    def change(lines: list[bytes]) -> list[bytes]:
        first = next(n for n, text in enumerate(lines) if text.endswith(beginning(number)))
        return lines[:first] + lines[first + 6 :]

    return change


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_round_that_is_missing_is_told(world: EngineWorld, number: int) -> None:
    error = stopped(world, without(number))
    assert error.outcome is Outcome.INFRASTRUCTURE_FAILURE
    assert f"holds 2 of 3 rounds, 0 of them unfinished; missing: {number}" in str(error)


def test_a_torn_end_is_no_smaller_window(world: EngineWorld) -> None:
    error = stopped(world, lambda lines: lines[:-1])
    assert error.outcome is Outcome.INFRASTRUCTURE_FAILURE
    assert "1 of them unfinished; missing: 3" in str(error)


def test_a_load_without_an_endpoint_is_a_window_that_fails(world: EngineWorld) -> None:
    """Not the infrastructure's failure: it is what the load was to show."""

    def refused(lines: list[bytes]) -> list[bytes]:
        stamp = lines[1].split(b" ")[0]
        return [lines[0], stamp + b" unable to connect to nginx-thrift:8080 Connection refused\n"]

    window = taken(world, refused).window
    good, why = functional(window, 50)
    assert not good
    assert "only 1 of 3 rounds" in why


def test_a_cut_in_the_log_is_no_window(world: EngineWorld) -> None:
    """The follow ends in the second round; the second look begins after it: rotated meanwhile."""
    original = world.kube.logs
    calls: list[str] = []

    def logs(namespace: str, pod: str, **how: object) -> Iterator[bytes]:
        whole = b"".join(original(namespace, pod, timeout=1)).splitlines(keepends=True)
        calls.append(str(how.get("since", "")))
        yield b"".join(whole[:8] if len(calls) == 1 else whole[10:])

    world.kube.logs = logs  # type: ignore[method-assign, assignment]
    error = stopped(world, lambda lines: lines)
    assert error.outcome is Outcome.INFRASTRUCTURE_FAILURE
    assert "was cut" in str(error)
    assert "lines are missing between 2026-" in str(error)
    assert calls[0] == ""
    assert calls[1].endswith("Z")


def test_rounds_that_seem_to_have_begun_before_are_a_matter_of_clocks(world: EngineWorld) -> None:
    def an_hour_behind(lines: list[bytes]) -> list[bytes]:
        return [item.replace(b"T10:", b"T09:") for item in lines]

    error = stopped(world, an_hour_behind)
    assert error.outcome is Outcome.HARNESS_TIMING_FAILURE
    assert "our clock is ahead of the node's by 359" in str(error)


def short(lines: list[bytes], *, requests: int, late: str = "") -> list[bytes]:
    """The same rounds with fewer requests, and what the generator says of itself."""
    changed = []
    for line in lines:
        stamp = line.split(b" ")[0]
        if late and b"Requests/sec" in line:
            changed.append(stamp + b"   sremut: " + late.encode() + b"\n")
        fewer = line.replace(b"  100 requests", b"  %d requests" % requests)
        changed.append(fewer.replace(b"    100.00", b"    %d.00" % requests))
    return changed


def test_a_control_that_achieved_too_little_is_taken_again_and_then_ends(
    world: EngineWorld,
) -> None:
    error = stopped(world, lambda lines: short(lines, requests=80))
    assert error.outcome is Outcome.HARNESS_TIMING_FAILURE
    assert "not delivered, taken 3 times" in str(error)
    assert "asked 300, sent unknown, answered 240, late unknown" in str(error)
    assert "achieved 80.0 % of the asked load" in str(error)
    raw = {file.name for file in world.directory.glob("*/*/a01/raw/workload-healthy*.log")}
    assert raw == {f"workload-healthy{end}.log" for end in ("", "-again1", "-again2")}


LATE = "due 100, sent 100, answered 100, late 30, latest 88.00ms, stalled 0.00us"


def test_a_late_generator_ends_a_window_of_any_state(world: EngineWorld) -> None:
    driver = world.driver("MS-M01")
    deploy.deploy(driver._ctx, None, driver._book)
    world.hooks.append(changing(world, lambda lines: short(lines, requests=100, late=LATE)))
    for name in ("faulted", "faulted-fresh1", "restored"):
        with pytest.raises(RunStoppedError) as caught:
            take_window(driver._ctx, name, driver._book, rounds=3)
        assert caught.value.outcome is Outcome.HARNESS_TIMING_FAILURE
        assert "late 90 (worst 0.088 s" in str(caught.value)


def test_a_window_that_is_delivered_the_second_time_keeps_the_first(world: EngineWorld) -> None:
    takes: list[int] = []

    def change(lines: list[bytes]) -> list[bytes]:
        takes.append(1)
        return short(lines, requests=50) if len(takes) == 1 else lines

    found = taken(world, change)
    assert found.window.requests == 300
    (earlier,) = found.facts["earlier"]
    assert earlier["judged"]["under_achieved"] is True
    assert earlier["raw"]["path"].endswith("workload-healthy.log")
    assert earlier["seed"] != found.facts["seed"]
    assert found.facts["judged"]["delivered"] is True
    assert found.facts["asked"]["requests"] == 300


def test_a_collapse_in_the_faulted_state_is_a_finding(world: EngineWorld) -> None:
    driver = world.driver("MS-M01")
    deploy.deploy(driver._ctx, None, driver._book)
    world.hooks.append(changing(world, lambda lines: short(lines, requests=9)))
    found = take_window(driver._ctx, "faulted", driver._book, rounds=3)
    assert found.window.requests == 27
    assert found.facts["judged"]["achieved_percent"] == 9.0


BEGIN = datetime(2026, 11, 30, 12, tzinfo=UTC)


@given(
    offset=st.floats(-1000, 1000),
    lines=st.lists(st.tuples(st.floats(0, 100), st.floats(0, 5)), min_size=1, max_size=20),
)
def test_the_offset_lies_within_its_bounds(offset: float, lines: list[tuple[float, float]]) -> None:
    """`offset` is ours minus theirs; each line is written some time after, and takes its time."""
    clock = PodClock(BEGIN)
    for after, took in lines:
        written = BEGIN + timedelta(seconds=after)
        stamp = (written - timedelta(seconds=offset)).strftime("%Y-%m-%dT%H:%M:%S.%f000Z")
        assert parse_timestamp(stamp) is not None
        clock.see(stamp, written + timedelta(seconds=took))
    assert clock.bounds is not None
    least, most = clock.bounds
    assert least - 1e-5 <= offset <= most + 1e-5


def test_a_log_without_times_tells_nothing() -> None:
    clock = PodClock(BEGIN)
    clock.see("yesterday", BEGIN)
    assert clock.bounds is None
    assert clock.record() is None
    assert "no line" in str(clock)


def test_every_window_of_a_run_says_how_it_was_read(world: EngineWorld) -> None:
    driver = world.driver("MS-M03")
    driver.state(State.RESTORED)
    for state in ("healthy", "faulted", "restored"):
        file = driver.attempt.directory / "states" / f"{state}.json"
        record = json.loads(file.read_text())
        own, fresh = record["workload"]["facts"], record["facts"]["windows"]
        assert fresh.keys() >= {f"{state}-fresh1"}
        for facts in (own, *fresh.values()):
            assert facts["connections"] == 1
            assert facts["clock"]["ahead"]["least"] <= 0 <= facts["clock"]["ahead"]["most"]


def _pending(world: EngineWorld, starts: threading.Event | None) -> Callable[[str, object], None]:
    """Keeps the load pod from starting until `starts`; for ever without it."""

    def hook(what: str, body: object) -> None:
        if what != "create Job":
            return
        name = next(
            name
            for (kind, _, name), pod in world.kube.objects.items()
            if kind == "Pod" and "sremut.io/window" in (pod["metadata"].get("labels") or {})
        )
        phase = world.kube.objects[("Pod", NS, name)]["status"]["phase"]
        world.kube.change("Pod", NS, name, status__phase="Pending")
        if starts is not None:

            def start() -> None:
                starts.wait(10)
                world.kube.change("Pod", NS, name, status__phase=phase)

            threading.Thread(target=start).start()

    return hook


def test_a_load_pod_that_starts_late_is_waited_for(world: EngineWorld) -> None:
    """A real node may take half a minute to start a pod; that is no part of the window."""
    starts = threading.Event()
    driver = world.driver("MS-M01")
    deploy.deploy(driver._ctx, None, driver._book)
    world.hooks.append(_pending(world, starts))
    threading.Timer(0.3, starts.set).start()
    window = take_window(driver._ctx, "healthy", driver._book, rounds=3)
    assert window.window.complete


def test_a_load_pod_that_never_starts_is_no_window(
    world: EngineWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(windows, "_STARTUP", 0.2)
    driver = world.driver("MS-M01")
    deploy.deploy(driver._ctx, None, driver._book)
    world.hooks.append(_pending(world, None))
    with pytest.raises(RunStoppedError, match="the load pod is Pending") as caught:
        take_window(driver._ctx, "healthy", driver._book, rounds=3)
    assert caught.value.outcome is Outcome.INFRASTRUCTURE_FAILURE
