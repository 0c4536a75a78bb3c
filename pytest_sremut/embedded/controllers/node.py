"""Nodes: what there is to run pods on, and pods whose node is gone.

Rules kept here:

* a Node shows the capacity of the machine and is ready from the start: here kubelet and cluster are
  one process;
* a cordoned node carries the taint that says so;
* pods of a node that is gone are deleted forty seconds later, without grace: nobody could stop
  them gracefully.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from datetime import datetime
from ipaddress import IPv4Address
from pathlib import Path

from pytest_sremut.embedded.controllers.base import Context, Controller
from pytest_sremut.embedded.controllers.fit import UNSCHEDULABLE_TAINT
from pytest_sremut.embedded.controllers.objects import key_of
from pytest_sremut.embedded.meta.jsonvalue import JsonObject, timestamp
from pytest_sremut.embedded.registry.registry import Event, Registry

__all__ = ["FIRST_NODE_ADDRESS", "NodeController", "create_nodes"]

FIRST_NODE_ADDRESS = IPv4Address("192.0.2.2")
KUBELET_VERSION = "v1.36.2"
MAX_PODS = 110
QUARANTINE = 40.0  # seconds
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_SOUND = (
    (
        "MemoryPressure",
        "False",
        "KubeletHasSufficientMemory",
        "kubelet has sufficient memory available",
    ),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)


class NodeController(Controller[str]):
    """Keys are names of nodes."""

    name = "node-controller"
    watches = ("nodes", "pods")

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._missing: dict[str, datetime] = {}

    def on_event(self, event: Event) -> None:
        """Nodes, and pods bound to a node that there is not."""
        if event.resource == "nodes":
            if event.type == "DELETED":
                self._missed(event.key[1])
            else:
                self._missing.pop(event.key[1], None)
                self.queue.add(event.key[1])
        elif event.type != "DELETED":
            node = event.object["spec"].get("nodeName")
            if node and self.registry.get("nodes", "", node) is None:
                self._missed(node)

    def _missed(self, node: str) -> None:
        self._missing.setdefault(node, self.context.now())
        self.queue.add(node)

    def _patience(self, node: str) -> float:
        """Seconds until the pods of a missing node go."""
        since = self._missing.setdefault(node, self.context.now())
        return QUARANTINE - (self.context.now() - since).total_seconds()

    def reconcile(self, key: str) -> None:
        """See the module."""
        node = self.registry.get("nodes", "", key)
        if node is None:
            left = self._patience(key)
            if left > 0:
                self.queue.add_after(key, left)
                return
            for pod in self.registry.list("pods"):
                if pod["spec"].get("nodeName") == key:
                    uid = pod["metadata"]["uid"]
                    self.registry.delete("pods", *key_of(pod), uid=uid, grace_period=0)
            return
        taints = node["spec"].get("taints") or []
        others = [item for item in taints if item.get("key") != UNSCHEDULABLE_TAINT]
        cordoned = bool(node["spec"].get("unschedulable"))
        if cordoned == (len(others) < len(taints)):
            return
        if cordoned:
            moment = timestamp(self.context.now())
            others.append({"key": UNSCHEDULABLE_TAINT, "effect": "NoSchedule", "timeAdded": moment})

        def change(value: JsonObject) -> None:
            if others:
                value["spec"]["taints"] = others
            else:
                value["spec"].pop("taints", None)

        self.registry.mutate("nodes", "", key, change)


def create_nodes(registry: Registry, names: Sequence[str]) -> None:
    """Create the Nodes called `names` that are not there yet, ready to run pods."""
    for number, name in enumerate(names):
        if registry.get("nodes", "", name) is not None:
            continue
        architecture = _ARCHITECTURES.get(platform.machine(), platform.machine())
        body: JsonObject = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "labels": {
                    "beta.kubernetes.io/arch": architecture,
                    "beta.kubernetes.io/os": "linux",
                    "kubernetes.io/arch": architecture,
                    "kubernetes.io/hostname": name,
                    "kubernetes.io/os": "linux",
                },
                "annotations": {
                    "node.alpha.kubernetes.io/ttl": "0",
                    "volumes.kubernetes.io/controller-managed-attach-detach": "true",
                },
            },
            "spec": {},
        }
        registry.create("nodes", "", body)
        _write_status(registry, name, _status(name, number, architecture, registry))


def _write_status(registry: Registry, name: str, status: JsonObject) -> None:
    registry.mutate(
        "nodes", "", name, lambda value: value.update(status=status), subresource="status"
    )


def _status(name: str, number: int, architecture: str, registry: Registry) -> JsonObject:
    moment = timestamp(registry.now())
    capacity = _capacity()
    return {
        "capacity": capacity,
        "allocatable": dict(capacity),
        "conditions": [
            {
                "type": type_,
                "status": status,
                "lastHeartbeatTime": moment,
                "lastTransitionTime": moment,
                "reason": reason,
                "message": message,
            }
            for type_, status, reason, message in _SOUND
        ],
        "addresses": [
            {"type": "InternalIP", "address": str(FIRST_NODE_ADDRESS + number)},
            {"type": "Hostname", "address": name},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "machineID": "",
            "systemUUID": "",
            "bootID": "",
            "kernelVersion": platform.release(),
            "osImage": _os_image(),
            "containerRuntimeVersion": "sremut://0.1",
            "kubeletVersion": KUBELET_VERSION,
            "kubeProxyVersion": "",
            "operatingSystem": "linux",
            "architecture": architecture,
        },
    }


def _capacity() -> dict[str, str]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 1024
    disk = os.statvfs("/")
    return {
        "cpu": str(os.cpu_count() or 1),
        "ephemeral-storage": f"{disk.f_blocks * disk.f_frsize // 1024}Ki",
        "hugepages-1Gi": "0",
        "hugepages-2Mi": "0",
        "memory": f"{memory}Ki",
        "pods": str(MAX_PODS),
    }


def _os_image() -> str:
    """``PRETTY_NAME`` of the machine's system; ``Linux`` where it does not say."""
    try:
        lines = Path("/etc/os-release").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return "Linux"
    names = [line.partition("=")[2].strip('"') for line in lines if line.startswith("PRETTY_NAME=")]
    return names[0] if names else "Linux"
