"""The kubelet: runs the pods that are bound to this cluster's nodes, and answers for them.

Rules:
- it reacts to the registry's events only; one worker per pod uid, so a pod of the same name that
  comes later is another pod;
- pod addresses are handed out in order, around the whole network, so a dead pod's address is not
  another pod's soon after;
- logs, exec and port-forward answer with the API server's words where a container is not there.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Iterable
from datetime import datetime
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any, Protocol

from pytest_sremut.embedded.kubelet.container import ContainerLoop
from pytest_sremut.embedded.kubelet.execs import ExecSession
from pytest_sremut.embedded.kubelet.images import ImageRegistry
from pytest_sremut.embedded.kubelet.logs import LogStream
from pytest_sremut.embedded.kubelet.pod import PodWorker
from pytest_sremut.embedded.kubelet.probes.probe import connect_failure
from pytest_sremut.embedded.kubelet.view import Node
from pytest_sremut.embedded.kubelet.zygote_client import StartError, ZygoteClient
from pytest_sremut.embedded.meta import errors
from pytest_sremut.embedded.meta.jsonvalue import JsonObject, parse_time
from pytest_sremut.embedded.meta.pace import Pace
from pytest_sremut.embedded.registry.registry import Event, Registry

_FINISHED = ("Succeeded", "Failed")
_FIRST_HOST = 2


class Network(Protocol):
    """What is needed of the cluster's addresses."""

    def add_pod_address(self, address: str) -> None: ...

    def remove_pod_address(self, address: str) -> None: ...


class PodAddresses:
    """Hands out the addresses of the pod network, each as late as possible again."""

    def __init__(self, network: IPv4Network, kernel: Network) -> None:
        self._network = network
        self._kernel = kernel
        self._used: set[int] = set()
        self._next = _FIRST_HOST

    def take(self) -> str:
        """A free address, local from now on. Raises OSError where the kernel refuses."""
        last = self._network.num_addresses - 1
        for _ in range(last):
            number = self._next
            self._next = number + 1 if number + 1 < last else _FIRST_HOST
            # Octets .0 and .255 are valid, but confuse programs that think in /24 networks.
            if number in self._used or number % 256 in (0, 255):
                continue
            self._used.add(number)
            address = str(self._network[number])
            self._kernel.add_pod_address(address)
            return address
        raise OSError(f"no free address in {self._network}")

    def give_back(self, address: str) -> None:
        for number in self._used:
            if str(self._network[number]) == address:
                self._used.discard(number)
                self._kernel.remove_pod_address(address)
                return


def _no_token(_namespace: str, _account: str) -> str:
    return ""


class Kubelet:
    """Runs pods and implements the API's pod runtime.

    node_addresses: the address of every node by name.
    run, directory: the cluster's run directory and its whole directory.
    issue_token: a new token for the service account of that namespace and name; without it pods
        get an empty one.
    pace: how long a pod takes to start.
    """

    def __init__(
        self,
        registry: Registry,
        zygote: ZygoteClient,
        *,
        images: ImageRegistry,
        network: Network,
        node_addresses: dict[str, str],
        run: Path,
        directory: Path,
        dns: str,
        domain: str,
        issue_token: Callable[[str, str], str] = _no_token,
        pace: Pace | None = None,
    ) -> None:
        self._issue_token = issue_token
        self._registry = registry
        self._zygote = zygote
        pace = pace or Pace()
        draws = pace.draws("pods")
        self._node = Node(
            registry=registry,
            zygote=zygote,
            images=images,
            now=registry.now,
            start_delay=lambda: draws.uniform(pace.least_start, pace.most_start),
        )
        self._addresses = PodAddresses(registry.pod_cidr, network)
        self._node_addresses = node_addresses
        self._run = run
        self._directory = directory
        self._dns = dns
        self._domain = domain
        self._workers: dict[str, PodWorker] = {}
        self._unsubscribe: list[Any] = []

    def start(self) -> None:
        """Take over what is in the registry and follow it."""
        self._unsubscribe = [
            self._registry.subscribe(self._pod_event, "pods"),
            self._registry.subscribe(self._config_event, "configmaps", "secrets"),
        ]
        for pod in self._registry.list("pods"):
            self._seen(pod)

    def stop(self) -> None:
        """Follow nothing any more; processes end with the cluster."""
        for unsubscribe in self._unsubscribe:
            unsubscribe()
        self._unsubscribe = []

    @property
    def pods(self) -> int:
        """Number of pods that have a worker."""
        return len(self._workers)

    # Events

    def _pod_event(self, event: Event) -> None:
        if event.type == "DELETED":
            worker = self._workers.get(event.object["metadata"]["uid"])
            if worker is not None:
                worker.vanish()
        else:
            self._seen(event.object)

    def _config_event(self, event: Event) -> None:
        namespace = event.object["metadata"]["namespace"]
        for worker in self._workers.values():
            if worker.namespace == namespace:
                worker.wake()

    def _seen(self, pod: JsonObject) -> None:
        uid = pod["metadata"]["uid"]
        worker = self._workers.get(uid)
        if worker is not None:
            worker.update(pod)
            return
        node = pod["spec"].get("nodeName")
        if node not in self._node_addresses:
            return
        if (pod.get("status") or {}).get("phase") in _FINISHED:
            return
        self._workers[uid] = PodWorker(
            self._node,
            pod,
            run=self._run,
            directory=self._directory,
            addresses=self._addresses,
            host_ip=self._node_addresses[node],
            dns=self._dns,
            domain=self._domain,
            token=self._issue_token(
                pod["metadata"]["namespace"], pod["spec"].get("serviceAccountName") or "default"
            ),
            on_gone=lambda: self._forget(uid),
        )

    def _forget(self, uid: str) -> None:
        self._workers.pop(uid, None)

    # The API's runtime

    async def exec(
        self,
        namespace: str,
        pod: str,
        container: str,
        argv: list[str],
        *,
        stdin: bool,
        tty: bool,
    ) -> ExecSession:
        """Run a command in a container; raises ApiStatus."""
        value, loop = self._find(namespace, pod, container)
        phase = (value.get("status") or {}).get("phase", "Pending")
        if phase in _FINISHED:
            raise errors.bad_request(
                f"cannot exec into a container in a completed pod; current phase is {phase}"
            )
        process = loop.process
        if process is None:
            raise errors.internal(
                f'unable to upgrade connection: container not found ("{loop.name}")'
            )
        env = loop.env | ({"TERM": "xterm"} if tty else {})
        request = {
            "kind": "commands",
            "argv": argv,
            "env": env,
            "cwd": loop.working_directory,
            "target": process.pid,
        }
        try:
            return await ExecSession.start(self._zygote, request, stdin=stdin, tty=tty)
        except StartError as error:
            raise errors.internal(
                "Internal error occurred: error executing command in container: failed to exec in "
                f'container: failed to start exec "{secrets.token_hex(32)}": OCI runtime exec '
                f"failed: exec failed: unable to start container process: {error}"
            ) from error

    async def attach(self, namespace: str, pod: str, container: str) -> LogStream:
        """Follow a container's output from now on; raises ApiStatus."""
        _, loop = self._find(namespace, pod, container)
        if loop.log is None or loop.process is None:
            raise errors.bad_request(
                f"container {loop.name} not found in pod {pod}_{namespace}: it does not run"
            )
        return LogStream(loop.log)

    def logs(
        self,
        namespace: str,
        pod: str,
        container: str,
        *,
        follow: bool = False,
        previous: bool = False,
        tail_lines: int | None = None,
        since_time: datetime | str | None = None,
        since_seconds: int | None = None,
        timestamps: bool = False,
        limit_bytes: int | None = None,
    ) -> AsyncIterator[bytes]:
        """A container's log in pieces; raises ApiStatus."""
        _, loop = self._find(namespace, pod, container)
        log = loop.previous_log if previous else loop.log
        if log is None and previous:
            raise errors.bad_request(
                f'previous terminated container "{loop.name}" in pod "{pod}" not found'
            )
        if log is None:
            reason = (loop.record.state.get("waiting") or {}).get("reason", "ContainerCreating")
            raise errors.bad_request(
                f'container "{loop.name}" in pod "{pod}" is waiting to start: {reason}'
            )
        since = None
        if since_time is not None:
            moment = parse_time(since_time) if isinstance(since_time, str) else since_time
            since = int(moment.timestamp() * 1_000_000_000)
        elif since_seconds is not None:
            now = self._registry.now().timestamp()
            since = int((now - since_seconds) * 1_000_000_000)
        return log.read(
            follow=follow,
            tail_lines=tail_lines,
            since=since,
            timestamps=timestamps,
            limit_bytes=limit_bytes,
        )

    async def forward(
        self, namespace: str, pod: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to a port of a pod; raises ApiStatus."""
        worker = self._worker(namespace, pod)
        try:
            return await asyncio.open_connection(worker.pod_ip, port)
        except OSError as error:
            raise errors.internal(
                f"error forwarding port {port} to pod {pod}: dial tcp {worker.pod_ip}:{port}: "
                f"{connect_failure(error)}"
            ) from error

    def _worker(self, namespace: str, pod: str) -> PodWorker:
        value = self._registry.get("pods", namespace, pod)
        if value is None:
            raise errors.not_found("pods", pod)
        worker = self._workers.get(value["metadata"]["uid"])
        if worker is None:
            raise errors.bad_request(f"pod {pod} does not have a host assigned")
        return worker

    def _find(self, namespace: str, pod: str, container: str) -> tuple[JsonObject, ContainerLoop]:
        value = self._registry.get("pods", namespace, pod)
        if value is None:
            raise errors.not_found("pods", pod)
        spec = value["spec"]
        names = [c["name"] for c in spec["containers"]]
        everything = [*names, *(c["name"] for c in spec.get("initContainers") or [])]
        if not container:
            container = _only(names, spec, value)
        elif container not in everything:
            raise errors.bad_request(f"container {container} is not valid for pod {pod}")
        worker = self._worker(namespace, pod)
        loop = worker.find(container)
        assert loop is not None, "a pod's containers cannot change"
        return value, loop


def _only(names: Iterable[str], spec: JsonObject, pod: JsonObject) -> str:
    """The container that is meant when none is named."""
    names = list(names)
    annotations = pod["metadata"].get("annotations") or {}
    default = annotations.get("kubectl.kubernetes.io/default-container")
    if default in names:
        return str(default)
    if len(names) == 1:
        return names[0]
    message = (
        f"a container name must be specified for pod {pod['metadata']['name']}, "
        f"choose one of: [{' '.join(names)}]"
    )
    init = [c["name"] for c in spec.get("initContainers") or []]
    if init:
        message += f" or one of the init containers: [{' '.join(init)}]"
    raise errors.bad_request(message)
