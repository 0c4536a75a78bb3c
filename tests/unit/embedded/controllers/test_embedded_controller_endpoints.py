"""Endpoints, EndpointSlices and mirrored slices."""

from __future__ import annotations

from typing import Any

from controllers_kit import START, Cluster, Json, container, deployment, pod, run, service

from pytest_sremut.embedded.controllers.networking.endpoints import subsets_of
from pytest_sremut.embedded.meta.jsonvalue import timestamp

SLICES = "endpointslices.discovery.k8s.io"
TRIGGER = "endpoints.kubernetes.io/last-change-trigger-time"
HTTP = {"name": "http", "port": 8080, "protocol": "TCP"}


def addresses(cluster: Cluster, name: str = "web") -> tuple[int, int]:
    """How many addresses are ready, how many not."""
    subsets = cluster.get("endpoints", name).get("subsets") or []
    return (
        sum(len(item.get("addresses", ())) for item in subsets),
        sum(len(item.get("notReadyAddresses", ())) for item in subsets),
    )


def conditions(cluster: Cluster, name: str = "web") -> list[tuple[bool, bool, bool]]:
    """Ready, serving, terminating of each endpoint."""
    return [
        (x["conditions"]["ready"], x["conditions"]["serving"], x["conditions"]["terminating"])
        for item in cluster.list(SLICES, **{"kubernetes.io/service-name": name})
        for x in item["endpoints"] or ()
    ]


def test_a_service_without_pods_has_an_empty_object_and_an_empty_slice() -> None:
    async def body(cluster: Cluster) -> None:
        made = cluster.create("services", service())
        await cluster.settle()
        value = cluster.get("endpoints", "web")
        assert "subsets" not in value
        assert value["metadata"]["labels"] == {
            "endpoints.kubernetes.io/managed-by": "endpoint-controller"
        }
        assert value["metadata"]["annotations"] == {TRIGGER: timestamp(START)}
        (item,) = cluster.list(SLICES)
        assert item["endpoints"] is None
        assert item["ports"] is None
        assert item["addressType"] == "IPv4"
        assert item["metadata"]["generateName"] == "web-"
        assert item["metadata"]["labels"] == {
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
            "kubernetes.io/service-name": "web",
        }
        reference = {
            "apiVersion": "v1",
            "kind": "Service",
            "name": "web",
            "uid": made["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
        assert item["metadata"]["ownerReferences"] == [reference]

    run(body)


def test_pods_join_as_they_get_an_address_and_become_ready() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.kubelet.ready = lambda pod: False
        cluster.create("services", service())
        cluster.create("deployments.apps", deployment())
        await cluster.settle()
        assert addresses(cluster) == (0, 2)
        assert conditions(cluster) == [(False, False, False)] * 2
        first = cluster.pods()[0]
        cluster.kubelet.set_ready(first, True)
        await cluster.settle()
        assert addresses(cluster) == (1, 1)
        (subset,) = cluster.get("endpoints", "web")["subsets"]
        current = cluster.get("pods", first["metadata"]["name"])
        assert subset["ports"] == [HTTP]
        assert subset["addresses"] == [
            {
                "ip": current["status"]["podIP"],
                "nodeName": "node-1",
                "targetRef": {
                    "kind": "Pod",
                    "namespace": "shop",
                    "name": first["metadata"]["name"],
                    "uid": first["metadata"]["uid"],
                },
            }
        ]
        (item,) = cluster.list(SLICES)
        assert item["ports"] == [{"name": "http", "protocol": "TCP", "port": 8080}]
        shown = next(x for x in item["endpoints"] if x["conditions"]["ready"])
        assert list(shown) == ["addresses", "conditions", "targetRef", "nodeName"]

    run(body)


def test_a_terminating_pod_leaves_endpoints_at_once_and_its_slice_at_its_end() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("services", service())
        cluster.create("deployments.apps", deployment())
        await cluster.settle()
        cluster.kubelet.stops = False
        cluster.scale("deployments.apps", "web", 0)
        await cluster.settle()
        assert addresses(cluster) == (0, 0)
        assert conditions(cluster) == [(False, True, True)] * 2
        cluster.kubelet.stops = True
        await cluster.settle()
        (item,) = cluster.list(SLICES)
        assert item["endpoints"] is None
        assert item["ports"] is None

    run(body)


def test_published_addresses_are_ready_whatever_the_pods_are() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.kubelet.ready = lambda pod: False
        cluster.kubelet.stops = False
        cluster.create("services", service(publishNotReadyAddresses=True))
        cluster.create("deployments.apps", deployment(replicas=1))
        await cluster.settle()
        assert addresses(cluster) == (1, 0)
        assert conditions(cluster) == [(True, False, False)]
        cluster.scale("deployments.apps", "web", 0)
        await cluster.settle()
        assert addresses(cluster) == (1, 0)
        assert conditions(cluster) == [(True, False, True)]

    run(body)


def test_finished_pods_are_not_shown() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("services", service())
        cluster.create("pods", pod("solo", {"app": "web"}))
        await cluster.settle()
        assert addresses(cluster) == (1, 0)
        cluster.kubelet.finish(cluster.pods()[0], "Succeeded")
        await cluster.settle()
        assert addresses(cluster) == (0, 0)
        assert conditions(cluster) == []

    run(body)


def test_named_ports_are_looked_up_in_each_pod() -> None:
    async def body(cluster: Cluster) -> None:
        ports = [{"name": "main", "port": 80, "targetPort": "http"}]
        cluster.create("services", service(ports=ports))
        other = {"ports": [{"name": "http", "containerPort": 9090}]}
        cluster.create("pods", pod("a", {"app": "web"}))
        cluster.create("pods", pod("b", {"app": "web"}, containers=[container(**other)]))
        without = {"ports": [{"name": "https", "containerPort": 1}]}
        cluster.create("pods", pod("c", {"app": "web"}, containers=[container(**without)]))
        await cluster.settle()
        subsets = cluster.get("endpoints", "web")["subsets"]
        assert {
            (x["ports"][0]["port"], x["addresses"][0]["targetRef"]["name"]) for x in subsets
        } == {(8080, "a"), (9090, "b")}
        shown = {
            (item["ports"][0]["port"] if item["ports"] else None): len(item["endpoints"])
            for item in cluster.list(SLICES)
        }
        assert shown == {8080: 1, 9090: 1, None: 1}

    run(body)


def test_a_port_name_that_no_pod_has_leaves_no_endpoints() -> None:
    async def body(cluster: Cluster) -> None:
        ports = [{"name": "http", "port": 80, "targetPort": "nope"}]
        cluster.create("services", service(ports=ports))
        cluster.create("deployments.apps", deployment())
        await cluster.settle()
        assert "subsets" not in cluster.get("endpoints", "web")
        (item,) = cluster.list(SLICES)
        assert item["ports"] is None
        assert len(item["endpoints"]) == 2  # as recorded

    run(body)


def test_ports_with_the_same_addresses_stand_together_in_the_recorded_order() -> None:
    async def body(cluster: Cluster) -> None:
        ports = [
            {"name": "second", "port": 81, "targetPort": 8080},
            {"name": "web2", "port": 80, "targetPort": 8080},
        ]
        cluster.create("services", service(ports=ports))
        cluster.create("deployments.apps", deployment())
        await cluster.settle()
        (subset,) = cluster.get("endpoints", "web")["subsets"]
        assert [item["name"] for item in subset["ports"]] == ["web2", "second"]
        (item,) = cluster.list(SLICES)
        assert [port["name"] for port in item["ports"]] == ["web2", "second"]

    run(body)


def test_headless_services_are_labelled() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("services", service(clusterIP="None"))
        await cluster.settle()
        label = "service.kubernetes.io/headless"
        assert cluster.get("endpoints", "web")["metadata"]["labels"][label] == ""
        assert cluster.list(SLICES)[0]["metadata"]["labels"][label] == ""

    run(body)


def test_a_headless_service_without_ports_shows_addresses_alone() -> None:
    value = {"metadata": {"name": "web", "namespace": "n"}, "spec": {"clusterIP": "None"}}
    shown = {
        "metadata": {"name": "a", "namespace": "n", "uid": "1"},
        "spec": {},
        "status": {"podIP": "10.244.0.4", "conditions": [{"type": "Ready", "status": "True"}]},
    }
    (subset,) = subsets_of(value, [shown])
    assert list(subset) == ["addresses"]


def test_selector_changes_reuse_the_slice() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("services", service())
        cluster.create("deployments.apps", deployment())
        await cluster.settle()
        (before,) = cluster.list(SLICES)
        wrong = {"app": "wrong"}
        cluster.change("services", "web", lambda x: x["spec"].update(selector=wrong))
        await cluster.settle()
        assert addresses(cluster) == (0, 0)
        cluster.change("services", "web", lambda x: x["spec"].update(selector={"app": "web"}))
        await cluster.settle()
        assert addresses(cluster) == (2, 0)
        (after,) = cluster.list(SLICES)
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        assert after["metadata"]["generation"] == before["metadata"]["generation"] + 2

    run(body)


def test_a_relabelled_pod_leaves_and_comes_back() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("services", service())
        cluster.create("pods", pod("solo", {"app": "web"}))
        await cluster.settle()
        cluster.change("pods", "solo", lambda x: x["metadata"].update(labels={"app": "x"}))
        await cluster.settle()
        assert addresses(cluster) == (0, 0)
        cluster.change("pods", "solo", lambda x: x["metadata"].update(labels={"app": "web"}))
        await cluster.settle()
        assert addresses(cluster) == (1, 0)

    run(body)


def test_deleted_by_hand_comes_back_changed_by_hand_stays_until_something_changes() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("services", service())
        cluster.create("deployments.apps", deployment())
        await cluster.settle()
        await cluster.advance(5)
        cluster.delete("endpoints", "web")
        await cluster.settle()
        assert addresses(cluster) == (2, 0)
        assert TRIGGER not in (cluster.get("endpoints", "web")["metadata"].get("annotations") or {})
        cluster.change("endpoints", "web", lambda x: x.update(subsets=[]))
        await cluster.settle()
        assert addresses(cluster) == (0, 0)
        cluster.kubelet.set_ready(cluster.pods()[0], False)
        await cluster.settle()
        assert addresses(cluster) == (1, 1)

    run(body)


def test_slices_are_put_right_at_once() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("services", service())
        cluster.create("deployments.apps", deployment())
        await cluster.settle()
        name = cluster.list(SLICES)[0]["metadata"]["name"]
        cluster.change(SLICES, name, lambda x: x.update(endpoints=None))
        await cluster.settle()
        assert len(conditions(cluster)) == 2
        cluster.delete(SLICES, name)
        await cluster.settle()
        assert len(conditions(cluster)) == 2

    run(body)


def test_all_goes_with_the_service() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("services", service())
        cluster.create("deployments.apps", deployment())
        await cluster.settle()
        cluster.delete("services", "web")
        await cluster.settle()
        assert cluster.gone("endpoints", "web")
        assert cluster.list(SLICES) == []
        assert len(cluster.pods()) == 2

    run(body)


def test_external_names_keep_what_there_is() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("services", service("out", type="ExternalName", externalName="x.example"))
        await cluster.settle()
        assert cluster.gone("endpoints", "out")
        assert cluster.list(SLICES) == []

    run(body)


def manual(**fields: Any) -> Json:
    subset = {"addresses": [{"ip": "10.244.9.9"}], "ports": [HTTP], **fields}
    return {"metadata": {"name": "web"}, "subsets": [subset]}


def bare_service() -> Json:
    value = service()
    del value["spec"]["selector"]
    return value


def test_endpoints_by_hand_are_mirrored() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("services", bare_service())
        await cluster.settle()
        assert cluster.list(SLICES) == []
        made = cluster.create("endpoints", manual())
        await cluster.settle()
        (item,) = cluster.list(SLICES)
        assert item["metadata"]["labels"] == {
            "endpointslice.kubernetes.io/managed-by": "endpointslicemirroring-controller.k8s.io",
            "kubernetes.io/service-name": "web",
        }
        owner = item["metadata"]["ownerReferences"][0]
        assert (owner["kind"], owner["uid"]) == ("Endpoints", made["metadata"]["uid"])
        assert item["endpoints"] == [{"addresses": ["10.244.9.9"], "conditions": {"ready": True}}]
        assert item["ports"] == [{"name": "http", "protocol": "TCP", "port": 8080}]
        waiting = [{"ip": "10.244.9.8", "nodeName": "node-1"}]

        def change(value: Json) -> None:
            value["subsets"][0]["notReadyAddresses"] = waiting

        cluster.change("endpoints", "web", change)
        await cluster.settle()
        (after,) = cluster.list(SLICES)
        assert after["metadata"]["uid"] == item["metadata"]["uid"]
        assert after["endpoints"][0] == {
            "addresses": ["10.244.9.8"],
            "conditions": {"ready": False},
            "nodeName": "node-1",
        }
        cluster.delete("endpoints", "web")
        await cluster.settle()
        assert cluster.list(SLICES) == []

    run(body)


def test_mirrors_go_when_the_service_gets_a_selector_and_when_they_are_not_wanted() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("services", bare_service())
        cluster.create("endpoints", manual())
        await cluster.settle()
        assert len(cluster.list(SLICES)) == 1
        skip = {"endpointslice.kubernetes.io/skip-mirror": "true"}
        cluster.change("endpoints", "web", lambda x: x["metadata"].update(labels=skip))
        await cluster.settle()
        assert cluster.list(SLICES) == []
        cluster.change("endpoints", "web", lambda x: x["metadata"].pop("labels"))
        await cluster.settle()
        assert len(cluster.list(SLICES)) == 1
        cluster.change("services", "web", lambda x: x["spec"].update(selector={"app": "web"}))
        await cluster.settle()
        (item,) = cluster.list(SLICES)
        assert item["endpoints"] is None

    run(body)


def test_a_selector_taken_away_leaves_endpoints_and_mirrors_them() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("services", service())
        cluster.create("deployments.apps", deployment())
        await cluster.settle()
        cluster.change("services", "web", lambda x: x["spec"].pop("selector"))
        await cluster.settle()
        assert addresses(cluster) == (2, 0)
        assert len(cluster.list(SLICES)) == 2  # the own one stays and a mirror comes, as recorded

    run(body)


def test_many_endpoints_take_several_slices_and_few_writes() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.registry.mutate(
            "nodes",
            "",
            "node-1",
            lambda x: x["status"]["allocatable"].update(pods="300"),
            subresource="status",
        )
        cluster.create("services", service())
        cluster.create("deployments.apps", deployment(replicas=230))
        await cluster.settle()
        sizes = sorted(len(item["endpoints"]) for item in cluster.list(SLICES))
        assert sizes == [30, 100, 100]
        cluster.scale("deployments.apps", "web", 10)
        await cluster.settle()
        assert [len(item["endpoints"]) for item in cluster.list(SLICES)] == [10]

    run(body)
