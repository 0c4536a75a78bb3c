"""One container's life, with a zygote that does what the test says."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pytest_sremut.embedded.kubelet import container as kubelet_container
from pytest_sremut.embedded.kubelet import pulling as kubelet_images
from pytest_sremut.embedded.kubelet.container import ContainerLoop
from pytest_sremut.embedded.kubelet.images import Image, ImageRegistry
from pytest_sremut.embedded.kubelet.view import Node
from pytest_sremut.embedded.kubelet.zygote_client import Process, StartError

Json = dict[str, Any]
Ends = Callable[[Process, int], None]


class Zygote:
    """Starts nothing; remembers what was asked."""

    def __init__(self) -> None:
        self.requests: list[Json] = []
        self.processes: list[Process] = []
        self.signals: list[tuple[int, int]] = []
        self.refuse = ""
        self.says = b""
        self.obeys: dict[int, int] = {signal.SIGTERM: 0, signal.SIGKILL: -9}
        self.started = asyncio.Event()

    async def start(self, request: Mapping[str, Any], descriptors: Sequence[int]) -> Process:
        self.requests.append(dict(request))
        if self.refuse:
            raise StartError(self.refuse)
        if self.says:
            os.write(descriptors[1], self.says)
        process = Process(pid=len(self.requests), exited=asyncio.get_running_loop().create_future())
        self.processes.append(process)
        self.started.set()
        return process

    def signal(self, process: Process, number: int, *, group: bool = False) -> None:
        self.signals.append((process.pid, number))
        if number in self.obeys and not process.exited.done():
            process.exited.set_result(self.obeys[number])

    def end(self, code: int) -> None:
        self.processes[-1].exited.set_result(code)

    async def next(self) -> None:
        """Wait for the next start."""
        await self.started.wait()
        self.started.clear()


class Objects:
    def __init__(self) -> None:
        self.config: dict[str, Json] = {}

    def get(self, resource: str, namespace: str, name: str) -> Json | None:
        return self.config.get(name)

    def list(self, resource: str, namespace: str = "") -> list[Json]:
        return []


class View:
    """The pod as the container sees it."""

    host_ip = "192.0.2.2"
    pod_ip = "127.0.0.1"

    def __init__(self, folder: Path, container: Json) -> None:
        self.folder = folder
        self.pod: Json = {
            "metadata": {"name": "p", "namespace": "n", "uid": "u-1"},
            "spec": {"containers": [container], "terminationGracePeriodSeconds": 1},
        }
        self.events: list[tuple[str, str, str]] = []
        self.touched = asyncio.Event()
        self.change = asyncio.Event()

    def touch(self) -> None:
        self.touched.set()

    def event(self, type: str, reason: str, message: str, field_path: str = "") -> None:  # noqa: A002
        assert field_path == "spec.containers{main}"
        self.events.append((type, reason, message))

    def root_of(self, container: Json, message_file: Path) -> Json:
        return {}

    def message_file(self, name: str) -> Path:
        path = self.folder / "message"
        path.write_bytes(b"")
        return path

    def changed(self) -> asyncio.Event:
        return self.change

    def edit(self, **changes: Any) -> None:
        self.pod["spec"]["containers"][0].update(changes)
        change, self.change = self.change, asyncio.Event()
        change.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            self.touched.clear()
            await self.touched.wait()


class Bench:
    def __init__(self, folder: Path, policy: str, container: Json) -> None:
        self.zygote = Zygote()
        self.objects = Objects()
        self.view = View(folder, {"name": "main", "image": "busybox", **container})
        images = ImageRegistry(
            {
                "busybox": Image(kind="commands"),
                "demo": Image(kind="python", module="m", function="f"),
                "pause": Image(kind="pause"),
            }
        )
        node = Node(
            registry=self.objects,
            zygote=self.zygote,  # type: ignore[arg-type]
            images=images,
            now=lambda: datetime(2026, 11, 30, tzinfo=UTC),
            start_delay=lambda: 0.0,
        )
        spec = self.view.pod["spec"]["containers"][0]
        self.loop = ContainerLoop(node, self.view, spec, init=False, restart_policy=policy)
        self.task = self.loop.start()

    @property
    def reason(self) -> str:
        state = self.loop.record.state
        return str((state.get("waiting") or state.get("terminated") or {}).get("reason", ""))

    def reasons(self) -> list[str]:
        return [reason for _, reason, _ in self.view.events]


Scenario = Callable[[Bench], Awaitable[None]]


@pytest.fixture
def play(tmp_path: Path) -> Callable[..., None]:
    def run(scenario: Scenario, *, policy: str = "Always", **container: Any) -> None:
        async def main() -> None:
            bench = Bench(tmp_path, policy, container)
            try:
                async with asyncio.timeout(20):
                    await scenario(bench)
            finally:
                bench.task.cancel()
                await asyncio.gather(bench.task, return_exceptions=True)

        asyncio.run(main())

    return run


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubelet_container, "BACKOFF_FIRST", 0.02)
    monkeypatch.setattr(kubelet_images, "BACKOFF_FIRST", 0.02)
    monkeypatch.setattr(kubelet_images, "PULL_SHOWN", 0.01)


def test_a_container_runs_to_its_end(play: Callable[..., None]) -> None:
    async def scenario(bench: Bench) -> None:
        bench.zygote.says = b"hello\n"
        await bench.zygote.next()
        await bench.view.until(lambda: bench.loop.record.running)
        record = bench.loop.record
        assert record.ready
        assert record.started
        assert record.image == "docker.io/library/busybox:latest"
        bench.zygote.end(0)
        await bench.task
        assert record.state["terminated"] == {
            "exitCode": 0,
            "reason": "Completed",
            "startedAt": "2026-11-30T00:00:00Z",
            "finishedAt": "2026-11-30T00:00:00Z",
            "containerID": record.container_id,
        }
        assert record.done
        assert not record.ready
        assert bench.loop.log is not None
        assert bench.loop.log.tail(100) == b"hello\n"
        assert bench.reasons() == ["Pulled", "Created", "Started"]

    play(scenario, policy="Never", command=["sh", "-c", "x"])


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        ({"command": ["a"], "args": ["b"]}, {"kind": "commands", "argv": ["a", "b"]}),
        ({"args": ["b"]}, {"kind": "commands", "argv": ["b"]}),
        ({}, {"kind": "commands", "argv": ["sh"]}),
        (
            {"image": "demo", "args": ["--x"]},
            {"kind": "python", "module": "m", "function": "f", "argv": ["--x"]},
        ),
        ({"image": "demo", "command": ["sh"]}, {"kind": "commands", "argv": ["sh"]}),
        (
            {"image": "pause", "workingDir": "/tmp"},
            {"kind": "python", "function": "pause", "argv": [], "cwd": "/tmp"},
        ),
    ],
)
def test_what_is_started(play: Callable[..., None], container: Json, expected: Json) -> None:
    async def scenario(bench: Bench) -> None:
        await bench.zygote.next()
        (request,) = bench.zygote.requests
        assert {key: request[key] for key in expected} == expected
        assert request["env"]["HOSTNAME"] == request["hostname"] == "p"

    play(scenario, **container)


@pytest.mark.parametrize(
    ("policy", "code", "again"),
    [
        ("Always", 0, True),
        ("Always", 1, True),
        ("OnFailure", 0, False),
        ("OnFailure", 1, True),
        ("Never", 1, False),
    ],
)
def test_restart_policies(play: Callable[..., None], policy: str, code: int, again: bool) -> None:
    async def scenario(bench: Bench) -> None:
        await bench.zygote.next()
        bench.zygote.end(code)
        if not again:
            await bench.task
            assert bench.loop.record.done
            return
        await bench.zygote.next()  # at once, the first time
        await bench.view.until(lambda: bench.loop.record.running)
        record = bench.loop.record
        assert record.restart_count == 1
        assert record.last_state["terminated"]["exitCode"] == code
        assert bench.loop.previous_log is not None

    play(scenario, policy=policy)


@pytest.mark.usefixtures("short_pauses")
def test_a_crash_loop_is_backed_off_in_the_recorded_words(play: Callable[..., None]) -> None:
    async def scenario(bench: Bench) -> None:
        await bench.zygote.next()
        bench.zygote.end(3)
        await bench.zygote.next()
        bench.zygote.end(3)
        await bench.view.until(lambda: bench.reason == "CrashLoopBackOff")
        record = bench.loop.record
        assert record.state["waiting"]["message"] == (
            "back-off 0.02s restarting failed container=main pod=p_n(u-1)"
        )
        assert record.last_state["terminated"]["exitCode"] == 3
        assert record.restart_count == 1
        assert bench.view.events[-1] == (
            "Warning",
            "BackOff",
            "Back-off restarting failed container main in pod p_n(u-1)",
        )
        await bench.zygote.next()
        await bench.view.until(lambda: record.running)
        assert record.restart_count == 2

    play(scenario)


def test_a_new_image_ends_the_back_off(play: Callable[..., None]) -> None:
    async def scenario(bench: Bench) -> None:
        for _ in range(2):
            await bench.zygote.next()
            bench.zygote.end(1)
        await bench.view.until(lambda: bench.reason == "CrashLoopBackOff")
        bench.view.edit(image="demo")
        await bench.zygote.next()
        assert bench.zygote.requests[-1]["kind"] == "python"

    play(scenario)


def test_what_cannot_be_started_is_a_start_error(play: Callable[..., None]) -> None:
    async def scenario(bench: Bench) -> None:
        bench.zygote.refuse = 'exec: "/no": stat /no: no such file or directory'
        await bench.task
        terminated = bench.loop.record.state["terminated"]
        assert terminated["exitCode"] == 128
        assert terminated["reason"] == "StartError"
        assert terminated["startedAt"] == "1970-01-01T00:00:00Z"
        assert terminated["message"].endswith(
            f"unable to start container process: {bench.zygote.refuse}"
        )
        assert bench.reasons() == ["Pulled", "Created", "Failed"]

    play(scenario, policy="Never")


def test_a_killed_container_has_128_and_the_signal(play: Callable[..., None]) -> None:
    async def scenario(bench: Bench) -> None:
        await bench.zygote.next()
        (bench.view.folder / "message").write_bytes(b"last words")
        bench.zygote.end(-9)
        await bench.task
        terminated = bench.loop.record.state["terminated"]
        assert (terminated["exitCode"], terminated["reason"]) == (137, "Error")
        assert terminated["message"] == "last words"

    play(scenario, policy="Never")


def test_the_end_of_the_log_may_be_the_message(play: Callable[..., None]) -> None:
    async def scenario(bench: Bench) -> None:
        bench.zygote.says = b"it broke\n"
        await bench.zygote.next()
        bench.zygote.end(1)
        await bench.task
        assert bench.loop.record.state["terminated"]["message"] == "it broke\n"

    play(scenario, policy="Never", terminationMessagePolicy="FallbackToLogsOnError")


@pytest.mark.usefixtures("short_pauses")
@pytest.mark.parametrize(
    ("image", "policy", "reason", "events"),
    [
        (
            "busybox:nope",
            "Never",
            "ErrImageNeverPull",
            ["ErrImageNeverPull", "Failed"],
        ),
        ("UPPER:bad", "IfNotPresent", "InvalidImageName", ["InspectFailed", "Failed"]),
        (
            "busybox:nope",
            "IfNotPresent",
            "ImagePullBackOff",
            ["Pulling", "Failed", "Failed", "BackOff", "Failed"],
        ),
    ],
)
def test_images_that_are_not_there(
    play: Callable[..., None], image: str, policy: str, reason: str, events: list[str]
) -> None:
    async def scenario(bench: Bench) -> None:
        await bench.view.until(lambda: bench.reason == reason)
        assert bench.reasons()[: len(events)] == events
        bench.view.edit(image="busybox")
        await bench.zygote.next()

    play(scenario, image=image, imagePullPolicy=policy)


def test_a_missing_config_map_is_waited_for(play: Callable[..., None]) -> None:
    async def scenario(bench: Bench) -> None:
        await bench.view.until(lambda: bench.reason == "CreateContainerConfigError")
        assert bench.loop.record.state["waiting"]["message"] == 'configmap "c" not found'
        bench.objects.config["c"] = {"data": {"A": "1"}}
        bench.view.edit()
        await bench.zygote.next()
        assert bench.zygote.requests[0]["env"]["A"] == "1"

    play(scenario, envFrom=[{"configMapRef": {"name": "c"}}])


def test_stopping_is_term_then_kill_at_the_deadline(play: Callable[..., None]) -> None:
    async def scenario(bench: Bench) -> None:
        bench.zygote.obeys = {signal.SIGKILL: -9}
        await bench.zygote.next()
        await bench.view.until(lambda: bench.loop.record.running)
        until = asyncio.get_running_loop().time() + 0.05
        await bench.loop.stop(lambda: until)
        assert [number for _, number in bench.zygote.signals] == [signal.SIGTERM, signal.SIGKILL]
        assert bench.loop.record.exit_code == 137
        assert bench.loop.record.done
        assert bench.view.events[-1] == ("Normal", "Killing", "Stopping container main")
        assert len(bench.zygote.requests) == 1

    play(scenario)


def test_stopping_what_waits_starts_nothing(play: Callable[..., None]) -> None:
    async def scenario(bench: Bench) -> None:
        await bench.view.until(lambda: bench.reason == "ErrImagePull")
        await bench.loop.stop(lambda: 0.0)
        assert bench.zygote.requests == []
        assert bench.task.cancelled()

    play(scenario, image="none")


def test_a_hook_runs_before_the_signal(play: Callable[..., None]) -> None:
    async def scenario(bench: Bench) -> None:
        await bench.zygote.next()
        await bench.view.until(lambda: bench.loop.record.running)
        loop = asyncio.get_running_loop()
        stopping = asyncio.create_task(bench.loop.stop(lambda: loop.time() + 5))
        await bench.zygote.next()
        assert bench.zygote.requests[1]["argv"] == ["bye"]
        assert bench.zygote.requests[1]["target"] == 1
        assert bench.zygote.signals == []
        bench.zygote.processes[1].exited.set_result(0)
        await stopping
        assert bench.zygote.signals == [(1, signal.SIGTERM)]

    play(scenario, lifecycle={"preStop": {"exec": {"command": ["bye"]}}})


def test_a_failed_liveness_probe_restarts(play: Callable[..., None]) -> None:
    async def scenario(bench: Bench) -> None:
        bench.zygote.obeys = {signal.SIGTERM: 0}
        await bench.zygote.next()  # the container
        await bench.zygote.next()  # its probe
        bench.zygote.processes[1].exited.set_result(1)
        await bench.zygote.next()  # the container again
        assert ("Warning", "Unhealthy", "Liveness probe failed: ") in bench.view.events
        assert (
            "Normal",
            "Killing",
            "Container main failed liveness probe, will be restarted",
        ) in bench.view.events
        assert bench.loop.record.restart_count == 1

    probe = {"exec": {"command": ["false"]}, "failureThreshold": 1}
    play(scenario, command=["x"], livenessProbe=probe)


def test_a_container_is_ready_when_its_probe_says_so(play: Callable[..., None]) -> None:
    async def scenario(bench: Bench) -> None:
        await bench.zygote.next()
        await bench.zygote.next()
        record = bench.loop.record
        assert record.running
        assert not record.ready
        bench.zygote.processes[1].exited.set_result(0)
        await bench.view.until(lambda: record.ready)

    play(scenario, readinessProbe={"exec": {"command": ["ready?"]}})


def test_a_startup_probe_comes_first(play: Callable[..., None]) -> None:
    async def scenario(bench: Bench) -> None:
        await bench.zygote.next()
        await bench.zygote.next()
        record = bench.loop.record
        assert bench.zygote.requests[1]["argv"] == ["up?"]
        assert not record.started
        bench.zygote.processes[1].exited.set_result(0)
        await bench.loop.up.wait()
        assert record.started
        assert record.ready

    play(scenario, startupProbe={"exec": {"command": ["up?"]}})
