"""A cluster for controller tests: a real registry, real controllers, a fake clock and kubelet."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from pytest_sremut.embedded.controllers import ControllerManager
from pytest_sremut.embedded.meta.jsonvalue import timestamp
from pytest_sremut.embedded.registry.registry import Registry

Json = dict[str, Any]
START = datetime(2026, 11, 30, 4, 21, 32, tzinfo=UTC)
NAMESPACE = "shop"


class FakeTimer:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class FakeClock:
    """Time that passes only when told to."""

    def __init__(self) -> None:
        self.moment = START
        self._timers: list[tuple[datetime, int, FakeTimer]] = []
        self._order = count()

    def now(self) -> datetime:
        return self.moment

    def call_later(self, delay: float, callback: Callable[[], None], /) -> FakeTimer:
        timer = FakeTimer(callback)
        due = self.moment + timedelta(seconds=delay)
        heapq.heappush(self._timers, (due, next(self._order), timer))
        return timer

    def next_due(self, until: datetime) -> FakeTimer | None:
        """The next timer due by `until`; the clock stands at its time then."""
        while self._timers and self._timers[0][0] <= until:
            due, _, timer = heapq.heappop(self._timers)
            if timer.callback is not None:
                self.moment = max(self.moment, due)
                return timer
        self.moment = until
        return None

    def waiting(self) -> int:
        return sum(timer.callback is not None for _, _, timer in self._timers)


class FakeKubelet:
    """Runs every bound pod: ready at once unless `ready` says no; `stop` ends terminating ones."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.ready: Callable[[Json], bool] = lambda pod: True
        self.stops = True
        self._addresses = count(4)

    def step(self) -> bool:
        """Bring each pod one step on; whether any changed."""
        changed = False
        for pod in self.registry.list("pods"):
            metadata, status = pod["metadata"], pod.get("status") or {}
            if not pod["spec"].get("nodeName"):
                continue
            if "deletionTimestamp" in metadata:
                if self.stops and not metadata.get("finalizers"):
                    self.remove(pod)
                    changed = True
            elif status.get("phase") == "Pending":
                self.run(pod)
                changed = True
        return changed

    def run(self, pod: Json) -> None:
        address = f"10.244.0.{next(self._addresses)}"
        self._status(pod, phase="Running", podIP=address, podIPs=[{"ip": address}])
        self.set_ready(pod, self.ready(pod))

    def set_ready(self, pod: Json, ready: bool) -> None:
        moment = timestamp(self.registry.now())
        told = {"type": "Ready", "status": "True" if ready else "False"}
        told |= {"lastProbeTime": None, "lastTransitionTime": moment}
        current = self.registry.get("pods", pod["metadata"]["namespace"], pod["metadata"]["name"])
        assert current is not None
        others = [x for x in current["status"].get("conditions", []) if x["type"] != "Ready"]
        self._status(pod, conditions=[*others, told])

    def finish(self, pod: Json, phase: str, code: int = 0) -> None:
        ended = {"exitCode": code, "finishedAt": timestamp(self.registry.now())}
        names = [item["name"] for item in pod["spec"]["containers"]]
        statuses = [{"name": x, "state": {"terminated": ended}, "restartCount": 0} for x in names]
        self.set_ready(pod, False)
        self._status(pod, phase=phase, containerStatuses=statuses)

    def restarted(self, pod: Json, times: int) -> None:
        names = [item["name"] for item in pod["spec"]["containers"]]
        statuses = [{"name": x, "state": {"running": {}}, "restartCount": times} for x in names]
        self._status(pod, containerStatuses=statuses)

    def remove(self, pod: Json) -> None:
        metadata = pod["metadata"]
        self.registry.remove("pods", metadata["namespace"], metadata["name"], uid=metadata["uid"])

    def _status(self, pod: Json, **fields: Any) -> None:
        metadata = pod["metadata"]
        self.registry.mutate(
            "pods",
            metadata["namespace"],
            metadata["name"],
            lambda value: value["status"].update(fields),
            subresource="status",
        )


class Cluster:
    """Everything together; use inside a running loop (see `cluster_test`)."""

    def __init__(self, *, nodes: Iterable[str] = ("node-1",)) -> None:
        self.clock = FakeClock()
        self.registry = Registry(now=self.clock.now, seed=7)
        self.kubelet = FakeKubelet(self.registry)
        self.manager = ControllerManager(
            self.registry, node_names=tuple(nodes), call_later=self.clock.call_later
        )

    async def settle(self, *, kubelet: bool = True) -> None:
        """Until neither controllers nor kubelet have anything to do."""
        await self.manager.settle()
        for _ in range(500):
            if not kubelet or not self.kubelet.step():
                return
            await self.manager.settle()
        raise AssertionError("the cluster does not come to rest")

    async def advance(self, seconds: float, *, kubelet: bool = True) -> None:
        """Let time pass, each timer in its turn."""
        until = self.clock.moment + timedelta(seconds=seconds)
        while (timer := self.clock.next_due(until)) is not None:
            assert timer.callback is not None
            timer.callback()
            await self.settle(kubelet=kubelet)
        await self.settle(kubelet=kubelet)

    # Objects

    def create(self, resource: str, body: Json, namespace: str = NAMESPACE) -> Json:
        return self.registry.create(resource, namespace, body)

    def get(self, resource: str, name: str, namespace: str = NAMESPACE) -> Json:
        value = self.registry.get(resource, namespace, name)
        assert value is not None, f"{resource} {name} is not there"
        return value

    def gone(self, resource: str, name: str, namespace: str = NAMESPACE) -> bool:
        return self.registry.get(resource, namespace, name) is None

    def list(self, resource: str, namespace: str = NAMESPACE, **labels: str) -> list[Json]:
        return self.registry.list(resource, namespace, labels=labels or None)

    def delete(self, resource: str, name: str, namespace: str = NAMESPACE, **options: Any) -> None:
        self.registry.delete(resource, namespace, name, **options)

    def change(self, resource: str, name: str, fn: Callable[[Json], None]) -> Json:
        value = self.registry.mutate(resource, NAMESPACE, name, fn)
        assert value is not None
        return value

    def scale(self, resource: str, name: str, replicas: int) -> None:
        self.change(resource, name, lambda value: value["spec"].update(replicas=replicas))

    def pods(self, **labels: str) -> list[Json]:
        """Pods that neither ended nor are being deleted."""
        return [
            pod
            for pod in self.list("pods", **labels)
            if "deletionTimestamp" not in pod["metadata"]
            and pod["status"].get("phase") not in ("Succeeded", "Failed")
        ]

    def messages(self, name: str, reason: str = "") -> list[str]:
        """Messages of Events about objects called `name`, oldest first."""
        events = [
            item
            for item in self.list("events")
            if item["involvedObject"]["name"] == name and reason in ("", item["reason"])
        ]
        events.sort(key=lambda item: int(item["metadata"]["resourceVersion"]))
        return [item["message"] for item in events]


def run(test: Callable[[Cluster], Awaitable[None]], **options: Any) -> None:
    """Run `test` with a settled cluster that has the namespace `NAMESPACE`."""

    async def body() -> None:
        cluster = Cluster(**options)
        cluster.manager.start()
        try:
            cluster.registry.create("namespaces", "", {"metadata": {"name": NAMESPACE}})
            await cluster.settle()
            await test(cluster)
            await cluster.manager.settle()
        finally:
            await cluster.manager.stop()

    asyncio.run(body())


def container(name: str = "web", **fields: Any) -> Json:
    ports = [{"name": "http", "containerPort": 8080}]
    return {"name": name, "image": "busybox:1.36", "ports": ports, **fields}


def template(labels: Json, **spec: Any) -> Json:
    return {"metadata": {"labels": labels}, "spec": {"containers": [container()], **spec}}


def deployment(name: str = "web", replicas: int = 2, **spec: Any) -> Json:
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": template(labels),
            **spec,
        },
    }


def service(name: str = "web", **spec: Any) -> Json:
    ports = [{"name": "http", "port": 80, "targetPort": 8080}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"ports": ports, "selector": {"app": name}, **spec},
    }


def pod(name: str = "solo", labels: Json | None = None, **spec: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **({"labels": labels} if labels else {})},
        "spec": {"containers": [container("main")], **spec},
    }


def job(name: str = "load", **spec: Any) -> Json:
    main = {"name": "main", "image": "busybox:1.36"}
    shape = {"spec": {"restartPolicy": "Never", "containers": [main]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": shape, **spec},
    }
