"""When a new cluster can be worked with."""

from __future__ import annotations

from typing import Any

import pytest
from fake_kube import FakeKube

from pytest_sremut.cluster.kind.readiness import await_ready
from pytest_sremut.cluster.kind.tools import KindError


def test_it_is_ready(api: Any) -> None:
    await_ready(api, nodes=1, timeout=60)


def test_it_becomes_ready_while_it_is_watched(api: Any) -> None:
    """Node, DNS and account come one after another, each seen by its event."""
    for key in (("Node", "", "n0"), ("Deployment", "kube-system", "coredns")):
        body = api.objects[key]
        waiting = {**body, "status": {}}
        api.put(waiting)
    account = api.objects[("ServiceAccount", "default", "default")]
    api.drop("ServiceAccount", "default", "default")
    condition = {"type": "Ready", "status": "True"}
    steps = [
        lambda kube: kube.change("Node", "", "n0", status__conditions=[condition]),
        lambda kube: kube.change(
            "Deployment",
            "kube-system",
            "coredns",
            status={
                "observedGeneration": 1, "replicas": 2, "updatedReplicas": 2,
                "readyReplicas": 2, "availableReplicas": 2,
            },
        ),
        lambda kube: kube.put(account),
    ]  # fmt: skip

    def idle(kube: FakeKube) -> None:
        if steps:
            steps.pop(0)(kube)

    api.on_idle = idle
    await_ready(api, nodes=1, timeout=60)
    assert steps == []


@pytest.mark.parametrize(
    ("nodes", "spoil", "told"),
    [
        (2, lambda api: None, "1 of 2 nodes are there"),
        (1, lambda api: api.change("Node", "", "n0", status={}), "node n0 is not Ready"),
        (
            1,
            lambda api: api.change("Deployment", "kube-system", "coredns", status__readyReplicas=1),
            "Deployment coredns: readyReplicas is 1 of 2",
        ),
        (
            1,
            lambda api: api.drop("ServiceAccount", "default", "default"),
            "ServiceAccount default does not exist",
        ),
    ],
)
def test_what_is_missing_is_told(api: Any, nodes: int, spoil: Any, told: str) -> None:
    spoil(api)
    with pytest.raises(KindError, match=rf"did not become ready within 0\.1 s: .*{told}"):
        await_ready(api, nodes=nodes, timeout=0.1)
