"""Namespaces: what they are given, and how they go."""

from __future__ import annotations

from datetime import timedelta

import pytest
from controllers_kit import NAMESPACE, START, Cluster, deployment, job, pod, run, service

from pytest_sremut.embedded.controllers.namespace import CA_BUNDLE, SEEN_GOING
from pytest_sremut.embedded.meta.errors import ApiStatus
from pytest_sremut.embedded.meta.jsonvalue import timestamp


def test_each_namespace_has_an_account_and_the_bundle() -> None:
    async def body(cluster: Cluster) -> None:
        for name in ("default", "kube-system", NAMESPACE):
            assert cluster.get("serviceaccounts", "default", name)
            bundle = cluster.get("configmaps", CA_BUNDLE, name)
            assert list(bundle["data"]) == ["ca.crt"]
        cluster.delete("serviceaccounts", "default")
        cluster.delete("configmaps", CA_BUNDLE)
        await cluster.settle()
        assert not cluster.gone("serviceaccounts", "default")
        cluster.change("configmaps", CA_BUNDLE, lambda x: x.update(data={"ca.crt": "forged"}))
        await cluster.settle()
        assert cluster.get("configmaps", CA_BUNDLE)["data"] == {"ca.crt": ""}

    run(body)


def conditions(cluster: Cluster) -> dict[str, tuple[str, str, str]]:
    items = cluster.get("namespaces", NAMESPACE, "")["status"]["conditions"]
    return {x["type"]: (x["status"], x["reason"], x["message"]) for x in items}


def test_a_namespace_goes_when_all_that_it_holds_is_gone() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.create("deployments.apps", deployment())
        cluster.create("services", service())
        cluster.create("jobs.batch", job())
        await cluster.settle()
        cluster.kubelet.stops = False
        cluster.registry.delete("namespaces", "", NAMESPACE)
        await cluster.settle()
        assert not cluster.gone("serviceaccounts", "default")  # it is seen going first
        await cluster.advance(SEEN_GOING)
        value = cluster.get("namespaces", NAMESPACE, "")
        assert value["status"]["phase"] == "Terminating"
        assert conditions(cluster)["NamespaceContentRemaining"] == (
            "True",
            "SomeResourcesRemain",
            "Some resources are remaining: pods. has 3 resource instances",
        )
        with pytest.raises(ApiStatus, match="because it is being terminated"):
            cluster.create("pods", pod())
        written = []
        cluster.registry.subscribe(written.append, "namespaces")
        cluster.kubelet.stops = True
        await cluster.settle()
        assert cluster.gone("namespaces", NAMESPACE, "")
        assert written[-1].type == "DELETED"
        moment = timestamp(START + timedelta(seconds=SEEN_GOING))
        last = written[-1].object["status"]["conditions"]
        assert {item["status"] for item in last} == {"False"}
        assert {item["lastTransitionTime"] for item in last} == {moment}
        assert [item["type"] for item in last] == [
            "NamespaceDeletionDiscoveryFailure",
            "NamespaceDeletionGroupVersionParsingFailure",
            "NamespaceDeletionContentFailure",
            "NamespaceContentRemaining",
            "NamespaceFinalizersRemaining",
        ]
        for resource in ("pods", "events", "endpoints", "configmaps", "jobs.batch"):
            assert cluster.list(resource) == []

    run(body)


def test_finalizers_hold_a_namespace() -> None:
    async def body(cluster: Cluster) -> None:
        held = {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}}
        cluster.create("configmaps", held)
        cluster.registry.delete("namespaces", "", NAMESPACE)
        await cluster.settle()
        assert not cluster.gone("serviceaccounts", "default")  # it is seen going first
        await cluster.advance(SEEN_GOING)
        assert conditions(cluster)["NamespaceFinalizersRemaining"] == (
            "True",
            "SomeFinalizersRemain",
            "Some content in the namespace has finalizers remaining: "
            "example.com/hold in 1 resource instances",
        )
        cluster.change("configmaps", "held", lambda x: x["metadata"].pop("finalizers"))
        await cluster.settle()
        assert cluster.gone("namespaces", NAMESPACE, "")

    run(body)


def test_an_empty_namespace_can_be_made_again() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.registry.delete("namespaces", "", NAMESPACE)
        await cluster.settle()
        assert not cluster.gone("serviceaccounts", "default")  # it is seen going first
        await cluster.advance(SEEN_GOING)
        cluster.registry.create("namespaces", "", {"metadata": {"name": NAMESPACE}})
        await cluster.settle()
        assert not cluster.gone("serviceaccounts", "default")

    run(body)
