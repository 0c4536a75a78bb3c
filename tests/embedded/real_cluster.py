"""What tests with a real embedded cluster share.

Rules: a machine that cannot run one skips these tests with the reason, unless
``SREMUT_REQUIRE_EMBEDDED=1`` says that it has to; then they fail.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import needs
import pytest
from kubernetes import client, config
from kubernetes.stream import stream

from pytest_sremut.embedded import EmbeddedCluster, EmbeddedError, Image, up

IMAGES = {
    "busybox:1.36": Image(kind="commands"),
    "sremut/demo:1": Image(kind="python", module="pytest_sremut.demo.service"),
    "sremut/load:1": Image(kind="python", module="pytest_sremut.workload.generator"),
    "pause": Image(kind="pause"),
}
FORBIDDEN = ("namespace", "user id", "mount", "loopback")
PATIENCE = 30.0


def start(directory: Path, **options: Any) -> EmbeddedCluster:
    """A cluster; skips where this machine forbids what it needs."""
    try:
        return up(directory=directory, name="test", images=IMAGES, **options)
    except EmbeddedError as error:
        if not any(word in error.step for word in FORBIDDEN):
            raise
        needs.lacking("embedded", f"no embedded cluster on this machine: {error}")


def core(cluster: EmbeddedCluster) -> client.CoreV1Api:
    """An unmodified client of the cluster."""
    settings = client.Configuration()
    config.load_kube_config(str(cluster.kubeconfig), client_configuration=settings)
    return client.CoreV1Api(client.ApiClient(settings))


def eventually(holds: Callable[[], Any], what: str = "") -> Any:
    """The first true value of `holds`; fails after a while that no sound machine needs."""
    deadline = time.monotonic() + PATIENCE
    while True:
        value = holds()
        if value:
            return value
        if time.monotonic() > deadline:
            pytest.fail(f"never happened: {what}")
        time.sleep(0.02)


def hang_up(session: Any) -> None:
    """Close an exec session for good; the client's own `close` may leave its socket open."""
    session.close()
    session.sock.shutdown()


class Pods:
    """Pods of one namespace, in as few words as possible."""

    def __init__(self, api: client.CoreV1Api, namespace: str) -> None:
        self.api = api
        self.namespace = namespace
        api.create_namespace({"metadata": {"name": namespace}})

    def create(
        self, name: str, *command: str, spec: dict[str, Any] | None = None, **more: Any
    ) -> None:
        container: dict[str, Any] = {"name": "main", "image": "busybox:1.36", **more}
        if command:
            container["command"] = list(command)
        body = {"containers": [container], "terminationGracePeriodSeconds": 1, **(spec or {})}
        metadata = {"name": name, "labels": {"app": name}}
        self.api.create_namespaced_pod(self.namespace, {"metadata": metadata, "spec": body})

    def get(self, name: str) -> Any:
        """The pod, or None."""
        try:
            return self.api.read_namespaced_pod(name, self.namespace)
        except client.ApiException as error:
            if error.status == 404:
                return None
            raise

    def state(self, name: str) -> Any:
        return self.get(name).status.container_statuses[0].state

    def until(self, name: str, holds: Callable[[Any], Any], what: str = "") -> Any:
        return eventually(lambda: (pod := self.get(name)) and holds(pod) and pod, what)

    def ready(self, name: str) -> Any:
        def is_ready(pod: Any) -> bool:
            conditions = {c.type: c.status for c in pod.status.conditions or []}
            return conditions.get("Ready") == "True"

        return self.until(name, is_ready, f"{name} is ready")

    def log(self, name: str, **options: Any) -> str:
        return str(self.api.read_namespaced_pod_log(name, self.namespace, **options))

    def run(self, name: str, *command: str) -> tuple[int, str, str]:
        """Run a command in a pod; exit code, stdout, stderr."""
        session = stream(
            self.api.connect_get_namespaced_pod_exec,
            name,
            self.namespace,
            command=list(command),
            stdout=True,
            stderr=True,
            stdin=False,
            tty=False,
            _preload_content=False,
        )
        try:
            session.run_forever(timeout=PATIENCE)
            return session.returncode, session.read_stdout(), session.read_stderr()
        finally:
            hang_up(session)
