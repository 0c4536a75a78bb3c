"""Services as repairs get them wrong, seen by programs in pods, in both ways of routing."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import needs
import pytest
from kubernetes import client
from real_cluster import Pods, core, eventually, start

from pytest_sremut.embedded import EmbeddedCluster, EmbeddedError, Options

SLEEPER = ("sh", "-c", "trap 'exit 0' TERM; sleep 36000 & wait")
UDP_SERVER = """
import socket
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind((socket.gethostbyname(socket.gethostname()), 5353))
while True:
    data, sender = server.recvfrom(100)
    server.sendto(b"echo " + data, sender)
"""
UDP_CLIENT = """
import socket, sys
client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
client.settimeout(3)
client.sendto(b"hi", (sys.argv[1], 53))
print(client.recv(100).decode())
"""


@pytest.fixture(scope="module", params=["forwarder", "nft"])
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedCluster]:
    options = Options(routing=request.param, nodes=2)
    try:
        running = start(tmp_path_factory.mktemp("cluster"), options=options)
    except EmbeddedError as error:
        if request.param == "nft" and "nft" in str(error):
            needs.lacking("nft", str(error))
        raise
    with running:
        yield running


class Town(Pods):
    """A namespace with servers that answer their own name, and a client."""

    def server(self, name: str, app: str, port: int = 8080, **spec: Any) -> None:
        command = f"mkdir -p /www; hostname > /www/index.html; exec httpd -f -p {port} -h /www"
        container = {
            "name": "main",
            "image": "busybox:1.36",
            "command": ["sh", "-c", command],
            "ports": [{"name": "web", "containerPort": port}],
            "readinessProbe": {"tcpSocket": {"port": port}, "periodSeconds": 1},
        }
        body = {"containers": [container], "terminationGracePeriodSeconds": 1, **spec}
        metadata = {"name": name, "labels": {"app": app}}
        self.api.create_namespaced_pod(self.namespace, {"metadata": metadata, "spec": body})

    def service(self, name: str, **spec: Any) -> str:
        made = self.api.create_namespaced_service(
            self.namespace, {"metadata": {"name": name}, "spec": spec}
        )
        return str(made.spec.cluster_ip)

    def fetch(self, url: str) -> tuple[int, str]:
        code, out, _ = self.run("client", "wget", "-T", "3", "-qO-", url)
        return code, out.strip()

    def connects(self, address: str, port: int) -> str:
        """``open``, ``refused`` or ``timed out``."""
        code, _, err = self.run("client", "nc", "-zv", "-w", "2", address, str(port))
        if code == 0:
            return "open"
        return "timed out" if "timed out" in err else "refused"

    def becomes(self, address: str, port: int, end: str) -> None:
        eventually(lambda: self.connects(address, port) == end, f"{address}:{port} is {end}")


@pytest.fixture(scope="module")
def town(cluster: EmbeddedCluster) -> Iterator[Town]:
    town = Town(core(cluster), "town")
    town.create("client", *SLEEPER)
    town.server("a", "web")
    town.server("b", "web")
    town.server("other", "other", 9090)
    for name in ("client", "a", "b", "other"):
        town.ready(name)
    yield town
    town.api.api_client.close()


def tcp(port: int, target: Any, name: str = "") -> dict[str, Any]:
    named = {"name": name} if name else {}
    return {"port": port, "targetPort": target, "protocol": "TCP", **named}


def test_named_target_ports_and_two_ports(town: Town) -> None:
    ports = [tcp(80, "web", "one"), tcp(81, 8080, "two"), tcp(82, "nope", "three")]
    address = town.service("named", selector={"app": "web"}, ports=ports)
    town.becomes(address, 80, "open")
    assert town.connects(address, 81) == "open"
    # A target port name that no container has: that port has no endpoint.
    assert town.connects(address, 82) == "refused"
    assert town.connects(address, 83) == "timed out"


def test_every_backend_gets_some_and_an_affine_client_one(town: Town) -> None:
    town.service("spread", selector={"app": "web"}, ports=[tcp(80, 8080)])
    eventually(lambda: town.fetch("http://spread/")[0] == 0, "spread answers")
    assert {town.fetch("http://spread/")[1] for _ in range(40)} == {"a", "b"}
    town.service(
        "sticky", selector={"app": "web"}, ports=[tcp(80, 8080)], sessionAffinity="ClientIP"
    )
    eventually(lambda: town.fetch("http://sticky/")[0] == 0, "sticky answers")
    assert len({town.fetch("http://sticky/")[1] for _ in range(12)}) == 1


def test_a_foreign_slice_beside_the_right_one(town: Town) -> None:
    town.service("mixed", selector={"app": "web"}, ports=[tcp(80, 8080, "http")])
    eventually(lambda: town.fetch("http://mixed/")[0] == 0, "mixed answers")
    slices = client.DiscoveryV1Api(town.api.api_client)
    slices.create_namespaced_endpoint_slice(
        town.namespace,
        {
            "metadata": {"name": "foreign", "labels": {"kubernetes.io/service-name": "mixed"}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [town.get("other").status.pod_ip]}],
            "ports": [{"name": "http", "port": 9090}],
        },
    )
    seen: set[str] = set()

    def all_three() -> bool:
        seen.add(town.fetch("http://mixed/")[1])
        return seen == {"a", "b", "other"}

    eventually(all_three, "traffic reaches the foreign endpoint, too")
    slices.delete_namespaced_endpoint_slice("foreign", town.namespace)


def test_hand_written_endpoints(town: Town) -> None:
    address = town.service("manual", ports=[tcp(80, 8080)])
    town.becomes(address, 80, "refused")
    subset = {"addresses": [{"ip": town.get("a").status.pod_ip}], "ports": [{"port": 8080}]}
    body = {"metadata": {"name": "manual"}, "subsets": [subset]}
    town.api.create_namespaced_endpoints(town.namespace, body)
    town.becomes(address, 80, "open")
    assert town.fetch("http://manual/") == (0, "a")


def test_traffic_that_has_to_stay_on_the_node(town: Town) -> None:
    """All pods share one network here: "this node" is the first one."""
    town.server("there", "far", nodeName="node-2")
    town.ready("there")
    address = town.service(
        "far", selector={"app": "far"}, ports=[tcp(80, 8080)], internalTrafficPolicy="Local"
    )
    town.becomes(address, 80, "timed out")
    town.api.patch_namespaced_service(
        "far", town.namespace, {"spec": {"internalTrafficPolicy": "Cluster"}}
    )
    town.becomes(address, 80, "open")


def test_external_names(town: Town) -> None:
    target = f"spread2.{town.namespace}.svc.cluster.local"
    town.service("alias", type="ExternalName", externalName=target)
    address = town.service("spread2", selector={"app": "web"}, ports=[tcp(80, 8080)])
    eventually(lambda: town.fetch("http://spread2/")[0] == 0, "spread2 answers")
    code, out, _ = town.run("client", "nslookup", f"alias.{town.namespace}.svc.cluster.local")
    assert code == 0
    assert address in out
    assert town.fetch("http://alias/")[1] in ("a", "b")


def test_udp(town: Town, cluster: EmbeddedCluster) -> None:
    python = os.path.realpath(sys.executable)
    town.create("dgram", python, "-ISE", "-c", UDP_SERVER)
    town.ready("dgram")
    port = {"port": 53, "targetPort": 5353, "protocol": "UDP"}
    address = town.service("dgram", selector={"app": "dgram"}, ports=[port])

    def answered() -> bool:
        return town.run("client", python, "-ISE", "-c", UDP_CLIENT, address)[:2] == (0, "echo hi\n")

    if cluster.facts()["routing"]["mode"] == "nft":
        eventually(answered, "datagrams come back")
    else:  # not offered, and said so
        unrouted = cluster.facts()["routing"]["unrouted"]
        assert any("town/dgram" in service for service in unrouted), unrouted
    assert town.connects(address, 53) == "timed out", "the TCP port of a UDP Service"


def test_the_death_of_a_backend_moves_traffic(town: Town) -> None:
    town.server("c", "moving")
    town.ready("c")
    address = town.service("moving", selector={"app": "moving"}, ports=[tcp(80, 8080)])
    town.becomes(address, 80, "open")
    town.api.delete_namespaced_pod("c", town.namespace, grace_period_seconds=0)
    town.becomes(address, 80, "refused")
    town.server("d", "moving")
    town.becomes(address, 80, "open")
    assert town.fetch("http://moving/") == (0, "d")
    town.api.delete_namespaced_service("moving", town.namespace)
    town.becomes(address, 80, "timed out")


def test_several_nodes_for_scheduling_mistakes(town: Town) -> None:
    api = town.api
    api.patch_node("node-2", {"metadata": {"labels": {"disk": "ssd"}}})
    town.create("picky", *SLEEPER, spec={"nodeSelector": {"disk": "ssd"}})
    assert town.ready("picky").spec.node_name == "node-2"
    api.patch_node("node-2", {"spec": {"unschedulable": True}})
    town.create("stuck", *SLEEPER, spec={"nodeSelector": {"disk": "ssd"}})
    pod = town.until(
        "stuck",
        lambda pod: [c for c in pod.status.conditions or [] if c.reason == "Unschedulable"],
        "stuck is unschedulable",
    )
    (condition,) = [c for c in pod.status.conditions if c.type == "PodScheduled"]
    assert condition.message.startswith("0/2 nodes are available: ")
    api.patch_node("node-2", {"spec": {"unschedulable": False}})
    town.ready("stuck")


def test_claims_of_a_class_of_ours_keep_their_files(town: Town) -> None:
    storage = client.StorageV1Api(town.api.api_client)
    body = {"metadata": {"name": "local"}, "provisioner": "sremut.local/directory"}
    storage.create_storage_class(body)
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "storageClassName": "local",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    town.api.create_namespaced_persistent_volume_claim(town.namespace, claim)
    spec = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}
    mount = [{"name": "v", "mountPath": "/data"}]
    town.create("writer", *SLEEPER, volumeMounts=mount, spec=spec)
    town.ready("writer")
    assert town.run("writer", "sh", "-c", "echo kept > /data/file")[0] == 0
    # The claim stays as long as a pod uses it.
    town.api.delete_namespaced_persistent_volume_claim("data", town.namespace)
    found = town.api.read_namespaced_persistent_volume_claim("data", town.namespace)
    assert found.metadata.deletion_timestamp
    assert found.status.phase == "Bound"
    town.create("reader", *SLEEPER, volumeMounts=mount, spec=spec)
    town.ready("reader")
    assert town.run("reader", "cat", "/data/file") == (0, "kept\n", "")
    for name in ("writer", "reader"):
        town.api.delete_namespaced_pod(name, town.namespace, grace_period_seconds=0)
    eventually(lambda: town.api.list_persistent_volume().items == [], "the volume is gone")
    storage.delete_storage_class("local")


def test_host_aliases_pin_a_name(town: Town) -> None:
    alias = [{"ip": town.get("a").status.pod_ip, "hostnames": ["pinned"]}]
    town.create("pin", *SLEEPER, spec={"hostAliases": alias})
    town.ready("pin")
    code, out, _ = town.run("pin", "wget", "-T", "3", "-qO-", "http://pinned:8080/")
    assert (code, out) == (0, "a\n")
