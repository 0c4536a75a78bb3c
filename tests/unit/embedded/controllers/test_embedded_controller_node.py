"""Nodes, what every cluster holds from the start, and the manager's own life."""

from __future__ import annotations

import asyncio

import pytest
from controllers_kit import Cluster, pod, run

from pytest_sremut.embedded.controllers import ControllerManager, Endpoint
from pytest_sremut.embedded.controllers.node import QUARANTINE
from pytest_sremut.embedded.registry.registry import Registry


def test_nodes_are_ready_and_tell_their_capacity() -> None:
    async def body(cluster: Cluster) -> None:
        first, second = cluster.registry.list("nodes")
        assert first["metadata"]["labels"]["kubernetes.io/hostname"] == "node-1"
        addresses = [item["status"]["addresses"][0]["address"] for item in (first, second)]
        assert addresses == ["192.0.2.2", "192.0.2.3"]
        conditions = {x["type"]: x["status"] for x in first["status"]["conditions"]}
        assert conditions == {
            "MemoryPressure": "False",
            "DiskPressure": "False",
            "PIDPressure": "False",
            "Ready": "True",
        }
        assert first["status"]["capacity"]["pods"] == "110"
        assert int(first["status"]["capacity"]["cpu"]) >= 1
        assert first["status"]["capacity"]["memory"].endswith("Ki")

    run(body, nodes=("node-1", "node-2"))


def test_pods_of_a_node_that_is_gone_go_after_a_while() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("pods", pod())
        await cluster.settle()
        cluster.kubelet.stops = False
        cluster.registry.delete("nodes", "", "node-1")
        await cluster.advance(QUARANTINE - 1)
        assert not cluster.gone("pods", "solo")
        await cluster.advance(1)
        assert cluster.gone("pods", "solo")

    run(body)


def test_pods_bound_to_no_node_go() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("pods", pod(nodeName="elsewhere"))
        await cluster.advance(QUARANTINE, kubelet=False)
        assert cluster.gone("pods", "solo")

    run(body)


def test_the_services_of_api_and_dns_are_there() -> None:
    async def body(cluster: Cluster) -> None:
        api = cluster.get("services", "kubernetes", "default")
        assert api["spec"]["clusterIP"] == "10.96.0.1"
        assert api["spec"]["ports"] == [
            {"name": "https", "protocol": "TCP", "port": 443, "targetPort": 6443}
        ]
        assert cluster.get("endpoints", "kubernetes", "default")["subsets"] == [
            {
                "addresses": [{"ip": "192.0.2.2"}],
                "ports": [{"name": "https", "port": 6443, "protocol": "TCP"}],
            }
        ]
        slices = cluster.list("endpointslices.discovery.k8s.io", "default")
        assert [item["metadata"]["name"] for item in slices] == ["kubernetes"]
        dns = cluster.get("services", "kube-dns", "kube-system")
        assert dns["spec"]["clusterIP"] == "10.96.0.10"
        ports = [(item["name"], item["port"], item["protocol"]) for item in dns["spec"]["ports"]]
        assert ports == [("dns", 53, "UDP"), ("dns-tcp", 53, "TCP")]
        (mirror,) = cluster.list("endpointslices.discovery.k8s.io", "kube-system")
        assert mirror["metadata"]["generateName"] == "kube-dns-"

    run(body)


def test_a_second_start_finds_what_the_first_made() -> None:
    async def body() -> None:
        cluster = Cluster()
        for _ in range(2):
            cluster.manager.start()
            await cluster.settle()
            before = cluster.registry.revision
            await cluster.manager.stop()
        assert cluster.registry.revision == before
        cluster.create("pods", pod(), "default")
        await asyncio.sleep(0)
        assert "nodeName" not in cluster.get("pods", "solo", "default")["spec"]

    asyncio.run(body())


def test_starting_twice_is_refused() -> None:
    async def body(cluster: Cluster) -> None:
        with pytest.raises(RuntimeError, match="run already"):
            cluster.manager.start()

    run(body)


def test_where_the_api_is_served_can_be_told() -> None:
    async def body() -> None:
        cluster = Cluster()
        manager = ControllerManager(
            cluster.registry,
            node_names=["node-1"],
            call_later=cluster.clock.call_later,
            api=Endpoint(address="192.0.2.9", port=7443),
            root_ca="-----BEGIN CERTIFICATE-----",
        )
        manager.start()
        await manager.settle()
        subsets = cluster.get("endpoints", "kubernetes", "default")["subsets"]
        assert subsets[0]["addresses"] == [{"ip": "192.0.2.9"}]
        bundle = cluster.get("configmaps", "kube-root-ca.crt", "default")
        assert bundle["data"] == {"ca.crt": "-----BEGIN CERTIFICATE-----"}
        await manager.stop()

    asyncio.run(body())


def test_a_defect_is_raised_by_settle_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def body() -> None:
        cluster = Cluster()
        cluster.manager.start()
        await cluster.settle()
        real = Registry.list

        def broken(self: Registry, resource: str, *args: object, **options: object) -> object:
            if resource == "nodes":
                raise ZeroDivisionError("a defect")
            return real(self, resource, *args, **options)  # type: ignore[arg-type]

        monkeypatch.setattr(Registry, "list", broken)
        cluster.create("pods", pod(), "default")
        with pytest.raises(RuntimeError, match="default-scheduler failed") as caught:
            await cluster.manager.settle()
        assert isinstance(caught.value.__cause__, ZeroDivisionError)
        assert cluster.manager.failures[0].key == ("default", "solo")
        monkeypatch.setattr(Registry, "list", real)
        until = cluster.clock.moment.timestamp() + 1
        timer = cluster.clock.next_due(cluster.clock.moment.fromtimestamp(until).astimezone())
        assert timer is not None
        assert timer.callback is not None
        timer.callback()
        with pytest.raises(RuntimeError):
            await cluster.manager.settle()
        assert cluster.get("pods", "solo", "default")["spec"]["nodeName"] == "node-1"
        await cluster.manager.stop()

    asyncio.run(body())
