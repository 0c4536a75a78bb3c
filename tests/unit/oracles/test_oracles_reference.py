"""Our own graders: what they see, and what they are blind to on purpose.

The table is what the graders they stand for said of the same states on a real Kubernetes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from fake_kube import FakeKube
from world import (
    NS,
    TARGET,
    World,
    cap_cut,
    delete_deployment,
    deployment,
    pod,
    scale_zero,
    slice_of,
)

from pytest_sremut.errors import ClusterError, ClusterUnavailableError, GuardRefusedError
from pytest_sremut.oracles.baseline import capture_baseline
from pytest_sremut.oracles.context import GraderContext, identity_guard
from pytest_sremut.oracles.reference.all_of import AllOf
from pytest_sremut.oracles.reference.pods_and_deployments import PodsAndDeployments
from pytest_sremut.oracles.reference.service_endpoints import PROBE_LABELS, ServiceEndpoints


def _context(world: World, **changes: Any) -> GraderContext:
    fields: dict[str, Any] = {
        "api": world.kube, "namespace": NS, "target": TARGET,
        "problem": {"expected_service_port": 9090}, "baseline": world.baseline,
        "guarded": identity_guard(world.kube, "cluster-1"), "timeout": 0.3,
    }  # fmt: skip
    return GraderContext(**(fields | changes))


@pytest.fixture
def world() -> World:
    made = World()
    made.kube.reactors.append(_kubelet(made))
    return made


def _kubelet(world: World) -> Callable[[FakeKube, str, Mapping[str, Any]], None]:
    """Runs probe pods to their end."""

    def run(kube: FakeKube, verb: str, body: Mapping[str, Any]) -> None:
        if verb != "create" or body["metadata"].get("labels") != PROBE_LABELS:
            return
        name = body["metadata"]["name"]
        good = world.connects()
        kube.log_chunks[(NS, name)] = [b"2026-11-30T00:00:00Z SERVICE_", b"OK\n"] if good else []

        def end(kube: FakeKube) -> None:
            phase = "Succeeded" if good else "Failed"
            kube.change("Pod", NS, name, status={"phase": phase, "conditions": []})

        kube.on_idle = end

    return run


def _change(**paths: Any) -> Callable[[World], None]:
    return lambda world: world.kube.change("Service", NS, "user-service", **paths)


def _narrow(world: World) -> None:
    labels = {"service": "user-service", "canary": "yes"}
    world.kube.change("Pod", NS, world.pods()[0]["metadata"]["name"], metadata__labels=labels)
    world.kube.change("Service", NS, "user-service", spec__selector=labels)


def _relabel(world: World) -> None:
    name = world.pods("media-service")[0]["metadata"]["name"]
    world.kube.change("Pod", NS, name, metadata__labels={"service": "user-service"})


def _by_hand(*, refs: bool) -> Callable[[World], None]:
    def change(world: World) -> None:
        world.pin_endpoints()
        subsets = world.kube.objects[("Endpoints", NS, "user-service")]["subsets"]
        if not refs:
            for address in subsets[0]["addresses"]:
                del address["targetRef"]

    return change


def _paused(world: World) -> None:
    body = deployment("user-service", 3)
    body["metadata"]["generation"] = 3
    body["spec"]["paused"] = True
    body["status"] |= {"observedGeneration": 3, "updatedReplicas": 0}
    world.kube.put(body)


STATES: list[tuple[str, Callable[[World], None], bool, bool]] = [
    # state, how, pods-and-deployments accepts, service-endpoints accepts
    ("healthy", lambda world: None, True, True),
    ("missing", lambda world: world.kube.drop("Service", NS, "user-service"), True, False),
    ("sel-typo", _change(spec__selector={"service": "x"}), True, False),
    ("sel-narrow", _narrow, True, True),
    ("sel-foreign", _change(spec__selector={"service": "media-service"}), True, False),
    ("relabel-foreign", _relabel, True, False),
    ("tp-dead", _change(spec__ports=[{"port": 9090, "targetPort": 65535}]), True, False),
    ("headless", _change(spec__clusterIP="None"), True, True),
    ("manual-ep-ref", _by_hand(refs=True), True, True),
    ("manual-ep-noref", _by_hand(refs=False), True, False),
    ("extra-slice", lambda w: w.kube.put(slice_of("x", w.pods("media-service"))), True, True),
    ("scale-zero", scale_zero, False, False),
    ("delete-deployment", delete_deployment, False, False),
    ("cap-cut", cap_cut, True, True),
    ("bad-tag-paused", _paused, True, False),
    (
        "beside-succeeded",
        lambda w: w.kube.put(pod("job", "10.244.0.9", phase="Succeeded", ready=False)),
        False,
        True,
    ),
]


@pytest.mark.parametrize(
    ("change", "pods", "endpoints"), [row[1:] for row in STATES], ids=[row[0] for row in STATES]
)
def test_the_states_of_the_recording(
    world: World, change: Callable[[World], None], pods: bool, endpoints: bool
) -> None:
    change(world)
    service = world.kube.objects.get(("Service", NS, "user-service"))
    if service is None or service["spec"].get("selector"):
        world.settle()
    context = _context(world)
    assert PodsAndDeployments(context).evaluate()["success"] is pods
    assert ServiceEndpoints(context).evaluate()["success"] is endpoints
    both = AllOf([("O1", PodsAndDeployments(context)), ("O3", ServiceEndpoints(context))])
    returned = both.evaluate()
    assert returned["success"] is (pods and endpoints)
    assert returned["accuracy"] == 50.0 * (pods + endpoints)


# -- pods and deployments ------------------------------------------------------------------------


def test_it_reads_deployments_and_pods_and_nothing_else(world: World) -> None:
    world.kube.calls.clear()
    PodsAndDeployments(_context(world)).evaluate()
    assert world.kube.calls == [("list", "Deployment", ""), ("list", "Pod", "")]


def test_without_a_baseline_its_checks_do_not_apply(world: World) -> None:
    delete_deployment(world)
    grader = PodsAndDeployments(_context(world, baseline={}))
    assert grader.evaluate()["success"] is True


def test_it_captures_its_own_baseline(world: World) -> None:
    grader = PodsAndDeployments(_context(world, baseline={}))
    assert grader.capture_baseline() == {"media-service": 1, "user-service": 3}
    delete_deployment(world)
    returned = grader.evaluate()
    assert returned == {"success": False, "reasons": ["Deployment user-service is gone"]}


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ({"phase": "Pending"}, "is Pending"),
        ({}, "is without a phase"),
        ({"phase": "Running"}, "0 of its containers have a status"),
        (
            {
                "phase": "Running",
                "containerStatuses": [
                    {"name": "c", "ready": False, "state": {"waiting": {"reason": "CrashLoop"}}}
                ],
            },
            "container c is not ready (waiting: CrashLoop)",
        ),
        (
            {
                "phase": "Running",
                "containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": 1}}}],
            },
            "container c is not ready (terminated: no reason given)",
        ),
    ],
)
def test_pods_that_look_ill(world: World, status: dict[str, Any], reason: str) -> None:
    world.kube.put({**pod("ill", "10.244.0.9"), "status": status})
    returned = PodsAndDeployments(_context(world)).evaluate()
    assert returned["success"] is False
    assert reason in returned["reasons"][0]


def test_deployments_that_look_ill(world: World) -> None:
    body = deployment("user-service", 3, ready=2)
    body["status"]["updatedReplicas"] = 1
    world.kube.put(body)
    assert PodsAndDeployments(_context(world)).evaluate()["reasons"] == [
        "Deployment user-service: 2 of 3 ready",
        "Deployment user-service: 1 unavailable",
        "Deployment user-service: 1 of 3 updated",
    ]


def test_an_empty_namespace_is_not_healthy() -> None:
    world = World()
    for key in [key for key in world.kube.objects if key[0] in ("Pod", "Deployment")]:
        del world.kube.objects[key]
    assert PodsAndDeployments(_context(world, baseline={})).evaluate()["success"] is False


@pytest.mark.parametrize("grader", [PodsAndDeployments, ServiceEndpoints])
def test_a_failed_read_raises(world: World, grader: type[Any]) -> None:
    world.kube.break_always("list", "Pod")
    with pytest.raises(ClusterUnavailableError):
        grader(_context(world)).evaluate()


# -- service endpoints ---------------------------------------------------------------------------


def _leftovers(world: World) -> list[str]:
    return [k[2] for k in world.kube.objects if k[0] == "Pod" and "connectivity" in k[2]]


def test_a_missing_port_raises_and_nothing_is_touched(world: World) -> None:
    with pytest.raises(KeyError):
        ServiceEndpoints(_context(world, problem={})).evaluate()
    for odd in ("9090", 0, 65536, True, None):
        with pytest.raises(ValueError, match="expected_service_port"):
            ServiceEndpoints(_context(world, problem={"expected_service_port": odd})).evaluate()
    assert not any(call[0] == "create" for call in world.kube.calls)


def test_the_probe_pod_is_as_a_client_would_and_is_deleted(world: World) -> None:
    seen: list[Mapping[str, Any]] = []
    world.kube.reactors.append(
        lambda k, verb, body: seen.append(body) if verb == "create" else None
    )
    assert ServiceEndpoints(_context(world)).evaluate() == {"success": True}
    (probe,) = seen
    assert probe["metadata"]["labels"] == {"app": "service-connectivity-check"}
    (container,) = probe["spec"]["containers"]
    assert container["image"] == "busybox:1.36"
    assert container["command"] == [
        "sh",
        "-c",
        "nc -z -w 5 'user-service.social-network.svc.cluster.local' 9090 && echo SERVICE_OK",
    ]
    assert probe["spec"]["restartPolicy"] == "Never"
    assert _leftovers(world) == []


def test_a_host_cannot_reach_into_the_shell(world: World) -> None:
    with pytest.raises(ValueError, match="no DNS label"):
        ServiceEndpoints(_context(world, namespace="x'; reboot"))._connection(9090)
    assert _leftovers(world) == []


def test_a_probe_pod_that_never_ends_raises_and_is_deleted() -> None:
    world = World()  # no kubelet
    with pytest.raises(ClusterError, match=r"after 0\.3 s"):
        ServiceEndpoints(_context(world)).evaluate()
    assert _leftovers(world) == []


def test_a_probe_pod_that_somebody_deletes_raises(world: World) -> None:
    def steal(kube: FakeKube, verb: str, body: Mapping[str, Any]) -> None:
        if verb == "create":
            kube.on_idle = lambda kube: kube.drop("Pod", NS, body["metadata"]["name"])

    world.kube.reactors.append(steal)
    with pytest.raises(ClusterError, match="deleted by somebody else"):
        ServiceEndpoints(_context(world)).evaluate()


@pytest.mark.parametrize("log", [b"", b"2026-11-30T00:00:00Z SERV", b"<html>busy</html>"])
def test_a_log_that_lacks_what_the_probe_printed_is_no_rejection(
    world: World, monkeypatch: pytest.MonkeyPatch, log: bytes
) -> None:
    """Cut off, or none: either would say that the Service leads nowhere."""
    read, answers = world.kube.logs, [log, log]

    def cut(*where: Any, **how: Any) -> Iterator[bytes]:
        return iter([answers.pop()]) if answers else read(*where, **how)

    monkeypatch.setattr(world.kube, "logs", cut)
    with pytest.raises(ClusterUnavailableError, match=f"logs of Pod {NS}/.*had printed SERVICE_OK"):
        ServiceEndpoints(_context(world)).evaluate()
    assert _leftovers(world) == []
    answers.append(log)  # the second look is good
    assert ServiceEndpoints(_context(world)).evaluate() == {"success": True}


def test_a_probe_that_failed_rejects_whatever_its_log_says(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(world, "connects", lambda: False)
    monkeypatch.setattr(world.kube, "logs", lambda *_, **__: iter([b"SERVICE_OK\n"]))
    returned = ServiceEndpoints(_context(world)).evaluate()
    assert returned["success"] is False
    assert returned["reason"].startswith("no connection to user-service.")


def test_it_writes_to_no_other_cluster(world: World) -> None:
    guarded = identity_guard(world.kube, "another")
    with pytest.raises(GuardRefusedError, match="another cluster"):
        ServiceEndpoints(_context(world, guarded=guarded)).evaluate()
    assert not any(call[0] == "create" for call in world.kube.calls)
    world.kube.break_always("get", "Namespace")
    with pytest.raises(ClusterUnavailableError, match="cannot tell"):
        identity_guard(world.kube, "cluster-1")()


def test_a_replica_set_of_an_older_revision_is_not_active(world: World) -> None:
    revision = {"deployment.kubernetes.io/revision": "2"}
    world.kube.change("Deployment", NS, "user-service", metadata__annotations=revision)
    returned = ServiceEndpoints(_context(world)).evaluate()
    assert "no ReplicaSet of its present revision" in returned["reason"]


# -- all of, baseline ----------------------------------------------------------------------------


class _Fixed:
    def __init__(self, returned: Any) -> None:
        self.returned = returned
        self.asked = 0

    def evaluate(self) -> Any:
        self.asked += 1
        return self.returned


def test_all_of_asks_everyone_and_names_them() -> None:
    first, second = _Fixed({"success": False, "reason": "r"}), _Fixed({"success": True})
    returned = AllOf([("a", first), ("b", second)]).evaluate()
    assert returned == {
        "success": False,
        "oracles": [
            {"success": False, "reason": "r", "name": "a"},
            {"success": True, "name": "b"},
        ],
        "accuracy": 50.0,
    }
    assert (first.asked, second.asked) == (1, 1)


def test_all_of_does_not_take_an_odd_result_for_a_rejection() -> None:
    with pytest.raises(TypeError, match="b: the oracle's 'success' is an int"):
        AllOf([("a", _Fixed({"success": True})), ("b", _Fixed({"success": 1}))]).evaluate()


def test_all_of_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="everything"):
        AllOf([])


def test_all_of_fans_the_baseline_out(world: World) -> None:
    both = AllOf([("a", _Fixed(None)), ("b", PodsAndDeployments(_context(world)))])
    assert both.capture_baseline() == {"b": {"media-service": 1, "user-service": 3}}


def test_a_baseline_over_nothing_or_over_a_rollout_is_refused(world: World) -> None:
    assert capture_baseline(world.kube, NS) == world.baseline
    with pytest.raises(ClusterError, match="no Deployment in empty"):
        capture_baseline(world.kube, "empty")
    world.kube.put(deployment("user-service", 3, ready=2))
    with pytest.raises(ClusterError, match="no baseline can be captured"):
        capture_baseline(world.kube, NS)
    world.kube.break_always("list")
    with pytest.raises(ClusterUnavailableError):
        capture_baseline(world.kube, NS)
