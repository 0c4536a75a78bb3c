"""The kubelet over a real registry; processes are the test's."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest

from pytest_sremut.embedded.kubelet.images import Image, ImageRegistry
from pytest_sremut.embedded.kubelet.kubelet import Kubelet, PodAddresses
from pytest_sremut.embedded.kubelet.zygote_client import Process
from pytest_sremut.embedded.meta.errors import ApiStatus
from pytest_sremut.embedded.registry.registry import Event, Registry

Json = dict[str, Any]
NOW = datetime(2026, 11, 30, 4, 21, 32, tzinfo=UTC)


class Network:
    def __init__(self) -> None:
        self.local: set[str] = set()

    def add_pod_address(self, address: str) -> None:
        assert address not in self.local
        self.local.add(address)

    def remove_pod_address(self, address: str) -> None:
        self.local.remove(address)


class Zygote:
    """Processes that end when they are told to, or when the test says so."""

    def __init__(self) -> None:
        self.processes: dict[str, Process] = {}
        self.requests: list[Json] = []
        self.says = b"hello\n"
        self.stubborn = False

    async def start(self, request: Mapping[str, Any], descriptors: Sequence[int]) -> Process:
        self.requests.append(dict(request))
        os.write(descriptors[1], self.says)
        process = Process(pid=len(self.requests), exited=asyncio.get_running_loop().create_future())
        self.processes[request.get("hostname", "exec")] = process
        return process

    def signal(self, process: Process, number: int, *, group: bool = False) -> None:
        if not process.exited.done() and (number == signal.SIGKILL or not self.stubborn):
            process.exited.set_result(-9 if number == signal.SIGKILL else 0)


class Bench:
    def __init__(self, folder: Path) -> None:
        self.now = NOW
        self.registry = Registry(now=lambda: self.now)
        self.registry.bootstrap()
        for namespace in ("default", "shop"):
            if self.registry.get("namespaces", "", namespace) is None:
                self.registry.create("namespaces", "", {"metadata": {"name": namespace}})
            self.registry.create("serviceaccounts", namespace, {"metadata": {"name": "default"}})
        self.network = Network()
        self.zygote = Zygote()
        self.changed = asyncio.Event()
        self.phases: list[tuple[str, str]] = []
        self.registry.subscribe(self._seen, "pods")
        self.kubelet = Kubelet(
            self.registry,
            self.zygote,  # type: ignore[arg-type]
            images=ImageRegistry({"busybox": Image(kind="commands")}),
            network=self.network,
            node_addresses={"node-1": "192.0.2.2"},
            run=folder / "run",
            directory=folder,
            dns="10.96.0.10",
            domain="cluster.local",
        )
        self.kubelet.start()

    def _seen(self, event: Event) -> None:
        if event.type != "DELETED":
            name = event.object["metadata"]["name"]
            phase = (event.object.get("status") or {}).get("phase", "")
            if (name, phase) not in self.phases:
                self.phases.append((name, phase))
        self.changed.set()

    def create(self, name: str, *, node: str = "node-1", **spec: Any) -> Json:
        body = {
            "metadata": {"name": name},
            "spec": {
                "nodeName": node,
                "automountServiceAccountToken": False,
                "containers": [{"name": "main", "image": "busybox"}],
                **spec,
            },
        }
        return self.registry.create("pods", "shop", body)

    def pod(self, name: str) -> Json | None:
        return self.registry.get("pods", "shop", name)

    async def until(self, holds: Callable[[], Any]) -> Any:
        async with asyncio.timeout(20):
            while True:
                self.changed.clear()
                value = holds()
                if value:
                    return value
                await self.changed.wait()

    async def phase(self, name: str, phase: str) -> Json:
        def reached() -> Json | None:
            pod = self.pod(name)
            return pod if pod and (pod.get("status") or {}).get("phase") == phase else None

        found: Json = await self.until(reached)
        return found

    async def idle(self) -> None:
        async with asyncio.timeout(20):
            while self.kubelet.pods:
                await asyncio.sleep(0)


def play(folder: Path, scenario: Callable[[Bench], Awaitable[None]]) -> None:
    async def main() -> None:
        bench = Bench(folder)
        try:
            await scenario(bench)
        finally:
            for pod in bench.registry.list("pods"):
                metadata = pod["metadata"]
                bench.registry.mutate(
                    "pods",
                    metadata["namespace"],
                    metadata["name"],
                    lambda value: value["metadata"].pop("finalizers", None),
                )
                if bench.registry.get("pods", metadata["namespace"], metadata["name"]):
                    bench.registry.delete(
                        "pods", metadata["namespace"], metadata["name"], grace_period=0
                    )
            await bench.idle()
            bench.kubelet.stop()
        assert bench.network.local == set()

    asyncio.run(main())


def test_a_pod_on_our_node_is_run(tmp_path: Path) -> None:
    async def scenario(bench: Bench) -> None:
        bench.create("a")
        bench.create("elsewhere", node="node-9")
        pod = await bench.phase("a", "Running")
        status = pod["status"]
        assert status["podIP"] in bench.network.local
        assert status["hostIP"] == "192.0.2.2"
        assert {c["type"]: c["status"] for c in status["conditions"]}["Ready"] == "True"
        assert bench.kubelet.pods == 1
        files = bench.zygote.requests[0]["root"]["files"]
        assert files["/etc/resolv.conf"].startswith("search shop.svc.cluster.local svc.")
        assert f"{status['podIP']}\ta\n" in files["/etc/hosts"]

    play(tmp_path, scenario)


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (
            {"dnsPolicy": "None", "dnsConfig": {"nameservers": ["192.0.2.53"]}},
            "nameserver 192.0.2.53\n",
        ),
        (
            {
                "dnsConfig": {
                    "searches": ["x.org"],
                    "options": [{"name": "ndots", "value": "1"}, {"name": "edns0"}],
                }
            },
            "search shop.svc.cluster.local svc.cluster.local cluster.local x.org\n"
            "nameserver 10.96.0.10\noptions ndots:1 edns0\n",
        ),
    ],
)
def test_dns_settings(tmp_path: Path, spec: Json, text: str) -> None:
    async def scenario(bench: Bench) -> None:
        bench.create("a", **spec)
        await bench.phase("a", "Running")
        assert bench.zygote.requests[0]["root"]["files"]["/etc/resolv.conf"] == text

    play(tmp_path, scenario)


def test_a_deleted_pod_is_stopped_and_removed(tmp_path: Path) -> None:
    async def scenario(bench: Bench) -> None:
        bench.create("a")
        await bench.phase("a", "Running")
        bench.registry.delete("pods", "shop", "a")
        await bench.until(lambda: bench.pod("a") is None)
        assert bench.phases[-1] == ("a", "Succeeded")
        await bench.idle()
        assert bench.network.local == set()
        assert not any((tmp_path / "run" / "pods").iterdir())

    play(tmp_path, scenario)


def test_a_second_delete_brings_the_end_nearer(tmp_path: Path) -> None:
    async def scenario(bench: Bench) -> None:
        bench.zygote.stubborn = True
        bench.create("a", terminationGracePeriodSeconds=1000)
        await bench.phase("a", "Running")
        bench.registry.delete("pods", "shop", "a")
        for _ in range(5):
            await asyncio.sleep(0)
        assert bench.pod("a") is not None
        bench.registry.delete("pods", "shop", "a", grace_period=1)
        await bench.until(lambda: bench.pod("a") is None)
        assert bench.phases[-1] == ("a", "Failed")

    play(tmp_path, scenario)


def test_a_forced_deletion_kills(tmp_path: Path) -> None:
    async def scenario(bench: Bench) -> None:
        bench.zygote.stubborn = True
        bench.create("a", terminationGracePeriodSeconds=1000)
        await bench.phase("a", "Running")
        bench.registry.delete("pods", "shop", "a", grace_period=0)
        assert bench.pod("a") is None
        await bench.idle()

    play(tmp_path, scenario)


def test_a_pod_of_the_same_name_is_another_pod(tmp_path: Path) -> None:
    async def scenario(bench: Bench) -> None:
        first = bench.create("a")
        await bench.phase("a", "Running")
        bench.registry.delete("pods", "shop", "a", grace_period=0)
        second = bench.create("a")
        pod = await bench.phase("a", "Running")
        assert pod["metadata"]["uid"] == second["metadata"]["uid"] != first["metadata"]["uid"]
        async with asyncio.timeout(20):
            while len(bench.network.local) != 1:
                await asyncio.sleep(0)
        assert pod["status"]["podIP"] in bench.network.local

    play(tmp_path, scenario)


def test_a_finalizer_holds_the_object_not_the_processes(tmp_path: Path) -> None:
    async def scenario(bench: Bench) -> None:
        bench.create("a")
        await bench.phase("a", "Running")
        bench.registry.mutate(
            "pods", "shop", "a", lambda pod: pod["metadata"].update(finalizers=["example.org/x"])
        )
        bench.registry.delete("pods", "shop", "a")
        await bench.phase("a", "Succeeded")
        await bench.idle()
        pod = bench.pod("a")
        assert pod is not None
        assert bench.network.local == set()
        bench.registry.mutate(
            "pods", "shop", "a", lambda value: value["metadata"].pop("finalizers")
        )
        assert bench.pod("a") is None

    play(tmp_path, scenario)


def test_a_pod_that_never_started_is_recorded_as_such(tmp_path: Path) -> None:
    async def scenario(bench: Bench) -> None:
        bench.create("a", containers=[{"name": "main", "image": "nope"}])

        def waits() -> bool:
            statuses = (bench.pod("a") or {}).get("status", {}).get("containerStatuses") or [{}]
            reason = statuses[0].get("state", {}).get("waiting", {}).get("reason")
            return bool(reason == "ErrImagePull")

        await bench.until(waits)
        seen: list[Json] = []
        bench.registry.subscribe(lambda event: seen.append(event.object), "pods")
        bench.registry.delete("pods", "shop", "a")
        await bench.until(lambda: bench.pod("a") is None)
        last = next(o for o in reversed(seen) if o["status"]["phase"] == "Failed")
        state = last["status"]["containerStatuses"][0]["state"]["terminated"]
        assert (state["reason"], state["exitCode"]) == ("ContainerStatusUnknown", 137)

    play(tmp_path, scenario)


def test_a_finished_pod_gives_its_address_back_and_keeps_its_log(tmp_path: Path) -> None:
    async def scenario(bench: Bench) -> None:
        bench.create("a", restartPolicy="Never")
        await bench.phase("a", "Running")
        bench.zygote.processes["a"].exited.set_result(0)
        pod = await bench.phase("a", "Succeeded")
        assert bench.network.local == set()
        assert pod["status"]["podIP"] == "10.244.0.2"
        pieces = bench.kubelet.logs("shop", "a", "")
        assert b"".join([piece async for piece in pieces]) == b"hello\n"
        with pytest.raises(ApiStatus, match="completed pod; current phase is Succeeded"):
            await bench.kubelet.exec("shop", "a", "", ["true"], stdin=False, tty=False)
        bench.registry.delete("pods", "shop", "a")
        assert bench.pod("a") is None

    play(tmp_path, scenario)


def test_init_containers_run_one_after_the_other(tmp_path: Path) -> None:
    async def scenario(bench: Bench) -> None:
        init = [{"name": f"i{n}", "image": "busybox", "command": [f"i{n}"]} for n in range(2)]
        bench.create("a", initContainers=init)
        for number in range(2):
            async with asyncio.timeout(20):
                while len(bench.zygote.requests) <= number:
                    await asyncio.sleep(0)
            assert bench.zygote.requests[-1]["argv"] == [f"i{number}"]
            assert (bench.pod("a") or {})["status"].get("phase") == "Pending"
            bench.zygote.processes["a"].exited.set_result(0)
        pod = await bench.phase("a", "Running")
        assert [s["ready"] for s in pod["status"]["initContainerStatuses"]] == [True, True]

    play(tmp_path, scenario)


def test_a_failed_init_container_fails_a_pod_that_is_never_restarted(tmp_path: Path) -> None:
    async def scenario(bench: Bench) -> None:
        bench.create("a", restartPolicy="Never", initContainers=[{"name": "i", "image": "busybox"}])
        await bench.until(lambda: bench.zygote.requests)
        bench.zygote.processes["a"].exited.set_result(1)
        await bench.phase("a", "Failed")
        assert len(bench.zygote.requests) == 1

    play(tmp_path, scenario)


def test_a_sidecar_runs_beside_and_ends_last(tmp_path: Path) -> None:
    async def scenario(bench: Bench) -> None:
        sidecar = {"name": "s", "image": "busybox", "restartPolicy": "Always", "command": ["s"]}
        bench.create("a", restartPolicy="Never", initContainers=[sidecar])
        await bench.phase("a", "Running")
        assert [r["argv"] for r in bench.zygote.requests] == [["s"], ["sh"]]
        bench.zygote.processes["a"].exited.set_result(0)
        await bench.phase("a", "Succeeded")

    play(tmp_path, scenario)


def test_a_volume_is_waited_for(tmp_path: Path) -> None:
    async def scenario(bench: Bench) -> None:
        bench.create("a", volumes=[{"name": "v", "configMap": {"name": "late"}}])

        def refused() -> bool:
            events = bench.registry.list("events", "shop")
            return any(event["reason"] == "FailedMount" for event in events)

        await bench.until(refused)
        assert bench.zygote.requests == []
        bench.registry.create("configmaps", "shop", {"metadata": {"name": "late"}})
        await bench.phase("a", "Running")

    play(tmp_path, scenario)


def test_logs_and_commands_of_what_is_not_there(tmp_path: Path) -> None:
    async def scenario(bench: Bench) -> None:
        with pytest.raises(ApiStatus, match='pods "none" not found'):
            bench.kubelet.logs("shop", "none", "")
        bench.create("far", node="node-9")
        with pytest.raises(ApiStatus, match="does not have a host assigned"):
            bench.kubelet.logs("shop", "far", "")
        two = [{"name": "x", "image": "busybox"}, {"name": "y", "image": "nope"}]
        init = [{"name": "z", "image": "busybox"}]
        bench.create("two", containers=two, initContainers=init)
        expected = (
            r"a container name must be specified for pod two, choose one of: \[x y\] "
            r"or one of the init containers: \[z\]"
        )
        with pytest.raises(ApiStatus, match=expected):
            bench.kubelet.logs("shop", "two", "")
        with pytest.raises(ApiStatus, match="container nope is not valid for pod two"):
            bench.kubelet.logs("shop", "two", "nope")
        with pytest.raises(ApiStatus, match='container "y" in pod "two" is waiting to start'):
            bench.kubelet.logs("shop", "two", "y")
        await bench.until(lambda: bench.zygote.requests)
        with pytest.raises(ApiStatus, match="previous terminated container"):
            bench.kubelet.logs("shop", "two", "z", previous=True)
        with pytest.raises(ApiStatus, match=r'container not found \("y"\)'):
            await bench.kubelet.exec("shop", "two", "y", ["true"], stdin=False, tty=False)

    play(tmp_path, scenario)


def test_parts_of_a_log_by_time(tmp_path: Path) -> None:
    async def scenario(bench: Bench) -> None:
        bench.create("a")
        await bench.phase("a", "Running")

        async def read(**options: Any) -> bytes:
            return b"".join(
                [piece async for piece in bench.kubelet.logs("shop", "a", "", **options)]
            )

        async with asyncio.timeout(20):
            while not await read():
                await asyncio.sleep(0)
        later = datetime.now(UTC) + timedelta(hours=1)
        assert await read(since_time=later) == b""
        assert await read(since_time=later.isoformat()) == b""
        assert await read(since_time="2000-01-01T00:00:00Z") == b"hello\n"
        bench.now = datetime.now(UTC)
        assert await read(since_seconds=3600) == b"hello\n"

    play(tmp_path, scenario)


def test_a_port_is_forwarded(tmp_path: Path) -> None:
    async def scenario(bench: Bench) -> None:
        bench.create("a")
        pod = await bench.phase("a", "Running")
        worker = bench.kubelet._workers[pod["metadata"]["uid"]]
        worker._pod_ip = "127.0.0.1"
        server = await asyncio.start_server(lambda _r, w: w.close(), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        reader, writer = await bench.kubelet.forward("shop", "a", port)
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()
        server.close()
        await server.wait_closed()
        with pytest.raises(ApiStatus, match="connection refused"):
            await bench.kubelet.forward("shop", "a", port)
        worker._pod_ip = pod["status"]["podIP"]

    play(tmp_path, scenario)


def test_addresses_go_round_and_are_not_used_again_soon() -> None:
    network = Network()
    addresses = PodAddresses(IPv4Network("10.0.0.0/29"), network)
    first = [addresses.take() for _ in range(3)]
    assert first == ["10.0.0.2", "10.0.0.3", "10.0.0.4"]
    addresses.give_back("10.0.0.2")
    addresses.give_back("10.0.0.99")
    assert [addresses.take() for _ in range(3)] == ["10.0.0.5", "10.0.0.6", "10.0.0.2"]
    with pytest.raises(OSError, match="no free address"):
        addresses.take()
    assert len(network.local) == 5


def test_addresses_avoid_the_ends_of_a_class_c() -> None:
    addresses = PodAddresses(IPv4Network("10.244.0.0/16"), Network())
    taken = [addresses.take() for _ in range(600)]
    assert len(set(taken)) == 600
    assert not [address for address in taken if address.rsplit(".", 1)[1] in ("0", "255")]
