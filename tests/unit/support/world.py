"""The application around `user-service` as API objects, and the controllers that keep it so.

world = World()                      # 3 user-service pods, 1 media-service, Service, slices
world.kube.change("Service", NS, "user-service", spec__selector={"service": "nobody"})
world.settle()                       # what the endpoint controllers would do
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fake_kube import FakeKube, executed

from pytest_sremut.cluster.port import ExecResult, Failed
from pytest_sremut.study.model import Target

__all__ = [
    "NS",
    "TARGET",
    "World",
    "cap_cut",
    "delete_deployment",
    "deployment",
    "pod",
    "scale_zero",
    "slice_of",
]

NS = "social-network"
TARGET = Target(
    kind="Service",
    name="user-service",
    workload_kind="Deployment",
    workload_name="user-service",
    port=9090,
)
_CLUSTER_IP = "10.96.111.207"


def deployment(name: str, replicas: int, *, ready: int | None = None) -> dict[str, Any]:
    """A Deployment, completely rolled out unless told otherwise."""
    count = replicas if ready is None else ready
    return {
        "kind": "Deployment",
        "apiVersion": "apps/v1",
        "metadata": {
            "name": name,
            "namespace": NS,
            "uid": f"deployment-{name}",
            "generation": 1,
            "annotations": {"deployment.kubernetes.io/revision": "1"},
        },
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"service": name}}},
        "status": {
            "observedGeneration": 1,
            "replicas": replicas,
            "updatedReplicas": replicas,
            "readyReplicas": count,
            "availableReplicas": count,
            **({"unavailableReplicas": replicas - count} if count < replicas else {}),
        },
    }


def replica_set(name: str) -> dict[str, Any]:
    """The Deployment's active ReplicaSet."""
    return {
        "kind": "ReplicaSet",
        "apiVersion": "apps/v1",
        "metadata": {
            "name": f"{name}-56f47b76b",
            "namespace": NS,
            "uid": f"replicaset-{name}",
            "annotations": {"deployment.kubernetes.io/revision": "1"},
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "Deployment",
                    "name": name,
                    "uid": f"deployment-{name}",
                    "controller": True,
                }
            ],
        },
    }


def pod(
    name: str,
    address: str,
    *,
    workload: str = "",
    labels: Mapping[str, str] | None = None,
    phase: str = "Running",
    ready: bool = True,
) -> dict[str, Any]:
    """A pod, owned by the workload's ReplicaSet if one is named."""
    owners = [
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "name": f"{workload}-56f47b76b",
            "uid": f"replicaset-{workload}",
            "controller": True,
        }
    ]
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "namespace": NS,
            "labels": dict(labels or ({"service": workload} if workload else {})),
            **({"ownerReferences": owners} if workload else {}),
        },
        "spec": {"containers": [{"name": "main"}]},
        "status": {
            "phase": phase,
            "podIP": address,
            "podIPs": [{"ip": address}],
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
            "containerStatuses": [
                {"name": "main", "ready": ready, "state": {"running": {}} if ready else {}}
            ],
        },
    }


def slice_of(
    name: str, pods: Sequence[Mapping[str, Any]], *, service: str = "user-service", port: int = 9090
) -> dict[str, Any]:
    """An EndpointSlice as its controller writes it."""
    return {
        "kind": "EndpointSlice",
        "apiVersion": "discovery.k8s.io/v1",
        "metadata": {
            "name": name,
            "namespace": NS,
            "labels": {"kubernetes.io/service-name": service},
        },
        "addressType": "IPv4",
        "endpoints": [
            {
                "addresses": [item["status"]["podIP"]],
                "conditions": {
                    "ready": _ready(item),
                    "serving": _ready(item),
                    "terminating": "deletionTimestamp" in item["metadata"],
                },
                "targetRef": {
                    "kind": "Pod",
                    "namespace": NS,
                    "name": item["metadata"]["name"],
                    "uid": item["metadata"]["uid"],
                },
            }
            for item in pods
        ],
        "ports": [{"name": "9090", "port": port, "protocol": "TCP"}],
    }


class World:
    """The application in a `FakeKube`, with the controllers as reactors."""

    def __init__(self, *, replicas: int = 3) -> None:
        self.kube = FakeKube()
        self._addresses = 10
        for name, count in (("user-service", replicas), ("media-service", 1)):
            self.kube.put(deployment(name, count))
            self.kube.put(replica_set(name))
            for _ in range(count):
                self.new_pod(name)
        self.kube.put(
            {
                "kind": "Service",
                "apiVersion": "v1",
                "metadata": {"name": "user-service", "namespace": NS},
                "spec": {
                    "type": "ClusterIP",
                    "clusterIP": _CLUSTER_IP,
                    "clusterIPs": [_CLUSTER_IP],
                    "selector": {"service": "user-service"},
                    "ports": [
                        {"name": "9090", "port": 9090, "targetPort": 9090, "protocol": "TCP"}
                    ],
                },
            }
        )
        self.replace_pods = True
        self.listening = {9090}
        self.kube.reactors.append(self._react)
        self.kube.on_exec = self._exec
        self.settle()

    @property
    def baseline(self) -> dict[str, int]:
        """What a healthy application desires."""
        return {"media-service": 1, "user-service": 3}

    def pods(self, workload: str = "user-service") -> list[dict[str, Any]]:
        """The workload's pods by name."""
        return [
            body
            for key, body in sorted(self.kube.objects.items())
            if key[0] == "Pod" and key[2].startswith(f"{workload}-")
        ]

    def new_pod(self, workload: str) -> dict[str, Any]:
        """Another pod of the workload, with an address never used before."""
        self._addresses += 1
        number = self._addresses
        return self.kube.put(
            pod(f"{workload}-56f47b76b-p{number}", f"10.244.0.{number}", workload=workload)
        )

    def settle(self) -> None:
        """Write Endpoints and the EndpointSlice that the Service's selector asks for."""
        service = self.kube.objects.get(("Service", NS, "user-service"))
        name = "user-service-ctl"
        if service is None:
            for kind, called in (("EndpointSlice", name), ("Endpoints", "user-service")):
                if (kind, NS, called) in self.kube.objects:
                    self.kube.drop(kind, NS, called)
            return
        selector = service["spec"].get("selector")
        if not selector:
            return
        chosen = [
            body
            for key, body in sorted(self.kube.objects.items())
            if key[0] == "Pod"
            and selector.items() <= (body["metadata"].get("labels") or {}).items()
            and body.get("status", {}).get("phase") == "Running"
        ]
        target_port = service["spec"]["ports"][0]["targetPort"]
        port = 9090 if target_port == "http" else target_port
        self.kube.put(slice_of(name, chosen, port=port))
        addresses = [
            {
                "ip": item["status"]["podIP"],
                "targetRef": {
                    "kind": "Pod",
                    "name": item["metadata"]["name"],
                    "uid": item["metadata"]["uid"],
                },
            }
            for item in chosen
            if _ready(item)
        ]
        subsets = [{"addresses": addresses, "ports": [{"port": port}]}] if addresses else []
        self.kube.put(
            {
                "kind": "Endpoints",
                "apiVersion": "v1",
                "metadata": {"name": "user-service", "namespace": NS},
                "subsets": subsets,
            }
        )

    def pin_endpoints(self) -> None:
        """The mutant that only persistence catches: no selector, today's addresses by hand."""
        self.kube.change("Service", NS, "user-service", spec__selector=None)

    def connects(self) -> bool:
        """Whether a client that connects by name gets through."""
        if ("Service", NS, "user-service") not in self.kube.objects:
            return False
        live = {
            body["status"]["podIP"]
            for key, body in self.kube.objects.items()
            if key[0] == "Pod" and _ready(body)
        }
        for key, body in self.kube.objects.items():
            if key[0] != "EndpointSlice" or body["ports"][0]["port"] not in self.listening:
                continue
            for endpoint in body["endpoints"]:
                if endpoint["addresses"][0] in live:
                    return True
        return False

    def _react(self, kube: FakeKube, verb: str, body: Mapping[str, Any]) -> None:
        if verb != "delete" or body["kind"] != "Pod":
            return
        owners = body["metadata"].get("ownerReferences")
        if owners and self.replace_pods:
            self.new_pod(owners[0]["uid"].removeprefix("replicaset-"))
        self.settle()

    def _exec(self, _namespace: str, _pod: str, argv: Sequence[str]) -> ExecResult | Failed:
        if argv[0] == "nslookup":
            service = self.kube.objects.get(("Service", NS, "user-service"))
            head = "Server:\t\t10.96.0.10\nAddress:\t10.96.0.10:53\n\n"
            if service is None:
                text = f"{head}** server can't find {argv[1]}: NXDOMAIN\n\n"
                return executed(argv, exit_code=1, stdout=text)
            address = service["spec"]["clusterIP"]
            text = f"{head}Name:\t{argv[1]}\nAddress: {address}\n\n\n"
            return executed(argv, stdout=text)
        if argv[0] == "nc":
            return executed(argv, exit_code=0 if self.connects() else 1)
        return executed(argv, exit_code=127, stderr="not found")


def _ready(body: Mapping[str, Any]) -> bool:
    conditions = body.get("status", {}).get("conditions", ())
    return "deletionTimestamp" not in body["metadata"] and any(
        c["type"] == "Ready" and c["status"] == "True" for c in conditions
    )


def scale_zero(world: World) -> None:
    """No pod is wanted, and there is none."""
    world.kube.put(deployment("user-service", 0))
    for item in world.pods():
        world.kube.drop("Pod", NS, item["metadata"]["name"])


def delete_deployment(world: World) -> None:
    """The workload is gone, with its pods."""
    scale_zero(world)
    world.kube.drop("Deployment", NS, "user-service")


def cap_cut(world: World) -> None:
    """One pod of three is wanted, and one is there."""
    world.kube.put(deployment("user-service", 1))
    for item in world.pods()[1:]:
        world.kube.drop("Pod", NS, item["metadata"]["name"])
