"""One pod on its node: volumes, address, init containers, containers, and its end.

Rules:
- one task per pod; the pod object is read, never changed, status is written through the registry
  and only when it differs;
- containers start together, init containers one after the other, each to its success;
- deletion: every container is stopped within the pod's grace, which a second delete may shorten,
  then the object is removed; a pod whose object vanished (forced deletion) is killed at once;
- the address is given back when the last process has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from pytest_sremut.embedded.kubelet.container import ContainerLoop, grace_of
from pytest_sremut.embedded.kubelet.environment import hostname
from pytest_sremut.embedded.kubelet.rootfs import NSSWITCH, Binding, RootSpec
from pytest_sremut.embedded.kubelet.status import PodFacts, pod_status
from pytest_sremut.embedded.kubelet.view import Node
from pytest_sremut.embedded.kubelet.volumes import MountError, PodVolumes
from pytest_sremut.embedded.meta.errors import ApiStatus
from pytest_sremut.embedded.meta.jsonvalue import JsonObject, timestamp

MOUNT_RETRY = 10.0
_HOSTS = (
    "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n"
    "::1\tlocalhost ip6-localhost ip6-loopback\nfe00::0\tip6-localnet\n"
    "fe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n"
)


class Addresses(Protocol):
    """Who hands out pod addresses."""

    def take(self) -> str: ...

    def give_back(self, address: str) -> None: ...


class PodWorker:
    """Runs one pod until it is gone; `on_gone` is called last."""

    def __init__(
        self,
        node: Node,
        pod: JsonObject,
        *,
        run: Path,
        directory: Path,
        addresses: Addresses,
        host_ip: str,
        dns: str,
        domain: str,
        token: str,
        on_gone: Callable[[], None],
    ) -> None:
        self._node = node
        self._pod = pod
        self._run_directory = run
        self._directory = directory
        self._addresses = addresses
        self._host_ip = host_ip
        self._dns = dns
        self._domain = domain
        self._on_gone = on_gone
        self.uid: str = pod["metadata"]["uid"]
        self.namespace: str = pod["metadata"]["namespace"]
        self.name: str = pod["metadata"]["name"]
        self._volumes = PodVolumes(run / "pods" / self.uid, node.registry, token=token)
        spec = pod["spec"]
        policy = spec.get("restartPolicy", "Always")
        init_policy = "Never" if policy == "Never" else "OnFailure"
        self.init = [
            ContainerLoop(
                node,
                self,
                container,
                init=True,
                restart_policy=container.get("restartPolicy") or init_policy,
            )
            for container in spec.get("initContainers") or []
        ]
        self.containers = [
            ContainerLoop(node, self, container, init=False, restart_policy=policy)
            for container in spec["containers"]
        ]
        if self.init:
            for loop in self.containers:
                loop.record.state = {"waiting": {"reason": "PodInitializing"}}
        self._start_time = timestamp(node.now())
        self._pod_ip = ""
        self._sandbox_ready = False
        self._stopping = False
        self._object_gone = False
        self._dirty = False
        self._change = asyncio.Event()
        self._deleted = asyncio.Event()
        self._task = asyncio.create_task(self._run(), name=f"pod {self.namespace}/{self.name}")

    # The view that containers have of their pod

    @property
    def pod(self) -> JsonObject:
        return self._pod

    @property
    def pod_ip(self) -> str:
        return self._pod_ip

    @property
    def host_ip(self) -> str:
        return self._host_ip

    def event(self, type: str, reason: str, message: str, field_path: str = "") -> None:  # noqa: A002
        self._node.registry.record_event(
            self._pod,
            type=type,
            reason=reason,
            message=message,
            component="kubelet",
            field_path=field_path,
        )

    def touch(self) -> None:
        if not self._dirty:
            self._dirty = True
            asyncio.get_running_loop().call_soon(self._flush)

    def changed(self) -> asyncio.Event:
        return self._change

    def message_file(self, name: str) -> Path:
        return self._volumes.scratch(f"message-{name}")

    def root_of(self, container: JsonObject, message_file: Path) -> dict[str, Any]:
        name = hostname(self._pod)
        message_path = container.get("terminationMessagePath") or "/dev/termination-log"
        return RootSpec(
            run=str(self._run_directory),
            files={
                "/etc/resolv.conf": self._resolv_conf(),
                "/etc/hosts": self._hosts(name),
                "/etc/hostname": f"{name}\n",
                "/etc/nsswitch.conf": NSSWITCH,
            },
            bindings=(
                Binding(source=str(message_file), target=message_path),
                *self._volumes.bindings(container),
            ),
            hidden=(str(self._directory),),
        ).to_json()

    # What the kubelet reports

    def update(self, pod: JsonObject) -> None:
        """The pod object has changed."""
        before, self._pod = self._pod, pod
        if pod["metadata"].get("deletionTimestamp"):
            self._deleted.set()
        if pod["spec"] != before["spec"]:
            self.wake()
            for loop in self.containers:
                if _image(before, loop.name) != _image(pod, loop.name):
                    loop.restart(f"Container {loop.name} definition changed, will be restarted")
        if pod["metadata"].get("generation") != before["metadata"].get("generation"):
            self.touch()

    def vanish(self) -> None:
        """The pod object is gone."""
        self._object_gone = True
        self._deleted.set()

    def wake(self) -> None:
        """Something that containers may be waiting for has changed."""
        change, self._change = self._change, asyncio.Event()
        change.set()

    def find(self, container: str) -> ContainerLoop | None:
        for loop in (*self.containers, *self.init):
            if loop.name == container:
                return loop
        return None

    # Life

    async def _run(self) -> None:
        try:
            self.touch()
            if self._pod["metadata"].get("deletionTimestamp"):
                self._deleted.set()
            live = asyncio.create_task(self._live())
            deleted = asyncio.create_task(self._deleted.wait())
            await asyncio.wait((live, deleted), return_when=asyncio.FIRST_COMPLETED)
            if not deleted.done():
                live.result()
                self._release()
                self.touch()
            await deleted
            self._stopping = True
            await self._stop_all()
            live.cancel()
            await asyncio.gather(live, return_exceptions=True)
            self._release()
            for loop in (*self.containers, *self.init):
                loop.record.give_up()
            self._flush()
            with suppress(ApiStatus):
                self._node.registry.remove("pods", self.namespace, self.name, uid=self.uid)
        finally:
            self._volumes.remove()
            self._on_gone()

    async def _live(self) -> None:
        await self._mounted()
        if not self._pod_ip:
            self._pod_ip = self._addresses.take()
        self._sandbox_ready = True
        self.touch()
        await asyncio.sleep(self._node.start_delay())
        for loop in self.init:
            task = loop.start()
            if _is_sidecar(self._pod, loop.name):
                await loop.up.wait()
                continue
            await task
            loop.record.ready = loop.record.exit_code == 0
            self.touch()
            if loop.record.exit_code != 0:
                return
        for loop in self.containers:
            if "waiting" in loop.record.state:
                loop.record.state = {"waiting": {"reason": "ContainerCreating"}}
        await asyncio.gather(*(loop.start() for loop in self.containers))
        await self._stop_sidecars()

    async def _mounted(self) -> None:
        while True:
            change = self._change
            try:
                self._volumes.set_up(self._pod)
            except MountError as error:
                self.event("Warning", "FailedMount", str(error))
            else:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(MOUNT_RETRY):
                    await change.wait()

    async def _stop_all(self) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()

        def deadline() -> float:
            if self._object_gone:
                return began
            grace = self._pod["metadata"].get("deletionGracePeriodSeconds")
            return began + (30 if grace is None else grace)

        await asyncio.gather(*(c.stop(deadline) for c in (*self.containers, *self.init)))

    async def _stop_sidecars(self) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + grace_of(self._pod)
        sidecars = [c for c in self.init if _is_sidecar(self._pod, c.name)]
        await asyncio.gather(*(c.stop(lambda: until) for c in sidecars))

    def _release(self) -> None:
        self._sandbox_ready = False
        if self._pod_ip and not self._released:
            self._released = True
            self._addresses.give_back(self._pod_ip)

    _released = False

    # Status

    def _flush(self) -> None:
        self._dirty = False
        if self._object_gone:
            return
        facts = PodFacts(
            init=[loop.record for loop in self.init],
            containers=[loop.record for loop in self.containers],
            sandbox_ready=self._sandbox_ready,
            stopping=self._stopping,
            pod_ip=self._pod_ip,
            host_ip=self._host_ip,
            start_time=self._start_time,
        )
        now = timestamp(self._node.now())

        def write(pod: JsonObject) -> None:
            if pod["metadata"]["uid"] == self.uid:
                pod["status"] = pod_status(pod, facts, now)

        self._node.registry.mutate("pods", self.namespace, self.name, write, subresource="status")

    def _hosts(self, name: str) -> str:
        lines = [_HOSTS, f"{self._pod_ip}\t{name}\n"]
        aliases = self._pod["spec"].get("hostAliases") or []
        if aliases:
            lines.append("\n# Entries added by HostAliases.\n")
        for alias in aliases:
            lines.append("\t".join([alias["ip"], *(alias.get("hostnames") or [])]) + "\n")
        return "".join(lines)

    def _resolv_conf(self) -> str:
        spec = self._pod["spec"]
        policy = spec.get("dnsPolicy", "ClusterFirst")
        own = spec.get("dnsConfig") or {}
        servers, searches = [], []
        options = []
        if policy != "None":
            servers = [self._dns]
            searches = [f"{self.namespace}.svc.{self._domain}", f"svc.{self._domain}", self._domain]
            options = ["ndots:5"]
        servers += own.get("nameservers") or []
        searches += own.get("searches") or []
        for option in own.get("options") or []:
            name = option["name"]
            options = [o for o in options if o.partition(":")[0] != name]
            options.append(f"{name}:{option['value']}" if option.get("value") else name)
        lines = [f"search {' '.join(searches)}"] if searches else []
        lines += [f"nameserver {server}" for server in servers]
        if options:
            lines.append(f"options {' '.join(options)}")
        return "\n".join(lines) + "\n"


def _is_sidecar(pod: JsonObject, name: str) -> bool:
    return any(
        container["name"] == name and container.get("restartPolicy") == "Always"
        for container in pod["spec"].get("initContainers") or []
    )


def _image(pod: JsonObject, name: str) -> str | None:
    for container in pod["spec"]["containers"]:
        if container["name"] == name:
            return str(container["image"])
    return None
