"""Pod statuses, held against every one that a real kubelet wrote in the recorded scenarios."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_sremut.embedded.kubelet.status import ContainerRecord, PodFacts, pod_phase, pod_status

CORPUS = Path(__file__).parents[4].parent / "shared" / "k8s-golden" / "v1.36.2"
# A limit that the recorded kubelet invents for pods without one, now and then.
INVENTED = {"limits": {"memory": "9007199254740988Ki"}}

Json = dict[str, Any]


def record(status: Json, policy: str, *, init: bool) -> ContainerRecord:
    """The record behind a recorded container status."""
    code = status["state"].get("terminated", {}).get("exitCode")
    ended = code is not None and (policy == "Never" or (code == 0 and (init or policy != "Always")))
    return ContainerRecord(
        name=status["name"],
        image=status["image"],
        state=status["state"],
        last_state=status["lastState"],
        image_id=status["imageID"],
        container_id=status.get("containerID", ""),
        restart_count=status["restartCount"],
        started=status["started"],
        ready=status["ready"],
        done=ended,
    )


def facts_of(pod: Json) -> PodFacts:
    """What the kubelet knew when it wrote the status that `pod` has."""
    status = pod["status"]
    policy = pod["spec"]["restartPolicy"]
    conditions = {c["type"]: c["status"] for c in status["conditions"]}
    return PodFacts(
        init=[record(s, policy, init=True) for s in status.get("initContainerStatuses", [])],
        containers=[record(s, policy, init=False) for s in status["containerStatuses"]],
        sandbox_ready=conditions["PodReadyToStartContainers"] == "True",
        stopping=bool(pod["metadata"].get("deletionTimestamp"))
        and all("terminated" in s["state"] for s in status["containerStatuses"]),
        pod_ip=status.get("podIP", ""),
        host_ip=status["hostIP"],
        start_time=status["startTime"],
    )


def normal(status: Json) -> Json:
    """Without what the recorded kubelet invents and what only it can know."""
    value: Json = json.loads(json.dumps(status))
    if value.get("resources") == INVENTED:
        value["resources"] = {}
    return value


def recorded() -> Iterator[tuple[str, Json, Json]]:
    """(where, pod with the status before, status) for each that a kubelet wrote."""
    for file in sorted(CORPUS.glob("0*/events-pods.jsonl")):
        last: dict[str, Json] = {}
        for number, line in enumerate(file.read_text().splitlines()[1:], start=2):
            event = json.loads(line)
            pod = event["object"]
            before = last.get(pod["metadata"]["name"])
            for part in ("spec", "metadata"):
                if pod[part] == "=" or "=" in pod[part]:
                    assert before is not None
                    pod[part] = before[part] | (pod[part] if isinstance(pod[part], dict) else {})
            last[pod["metadata"]["name"]] = pod
            if "hostIP" in pod["status"] and before is not None:
                yield f"{file.parent.name}:{number}", before, pod
    state = CORPUS / "08-faults" / "002-pods-at-15s.state.json"
    for path, answer in json.loads(state.read_text())["objects"].items():
        if answer["body"].get("kind") == "Pod" and "hostIP" in answer["body"]["status"]:
            yield path, answer["body"], answer["body"]


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the recordings are not here")
def test_every_recorded_status_comes_out_of_its_facts() -> None:
    checked = 0
    for where, before, pod in recorded():
        wanted = normal(pod["status"])
        old = dict(before["status"], qosClass=wanted["qosClass"])
        generation = wanted["observedGeneration"]
        given = pod | {
            "metadata": pod["metadata"] | {"generation": generation},
            "status": old,
        }
        times = {c["type"]: c["lastTransitionTime"] for c in wanted["conditions"]}
        made = pod_status(given, facts_of(pod), now="NOW")
        for condition in made["conditions"]:
            if condition["lastTransitionTime"] == "NOW":
                # Changed just now: the recorded time is that of the change, too.
                old_status = {c["type"]: c["status"] for c in old.get("conditions", [])}
                assert old_status.get(condition["type"]) != condition["status"], where
                condition["lastTransitionTime"] = times[condition["type"]]
        assert normal(made) == wanted, where
        checked += 1
    assert checked > 150


def pod(policy: str = "Always", **spec: Any) -> Json:
    return {
        "metadata": {"name": "p", "namespace": "n", "uid": "u", "generation": 1},
        "spec": {"restartPolicy": policy, "containers": [{"name": "a"}, {"name": "b"}], **spec},
    }


def exited(name: str, code: int, *, done: bool = True) -> ContainerRecord:
    state = {"terminated": {"exitCode": code}}
    return ContainerRecord(name=name, image="i", state=state, done=done)


def running(name: str) -> ContainerRecord:
    return ContainerRecord(
        name=name, image="i", state={"running": {}}, started=True, ready=True, container_id="x"
    )


def facts(
    *containers: ContainerRecord, init: tuple[ContainerRecord, ...] = (), stopping: bool = False
) -> PodFacts:
    return PodFacts(
        init=init,
        containers=containers,
        sandbox_ready=True,
        stopping=stopping,
        pod_ip="10.244.0.2",
        host_ip="192.0.2.2",
        start_time="then",
    )


@pytest.mark.parametrize(
    ("policy", "records", "stopping", "phase"),
    [
        ("Always", [running("a"), running("b")], False, "Running"),
        ("Always", [running("a"), exited("b", 1)], False, "Running"),
        ("Always", [exited("a", 0), exited("b", 1)], False, "Running"),
        ("Always", [exited("a", 0), exited("b", 0)], True, "Succeeded"),
        ("Always", [exited("a", 0), exited("b", 137)], True, "Failed"),
        ("Never", [running("a"), exited("b", 1)], False, "Running"),
        ("Never", [exited("a", 0), exited("b", 1)], False, "Failed"),
        ("Never", [exited("a", 0), exited("b", 0)], False, "Succeeded"),
        ("OnFailure", [exited("a", 0), exited("b", 1, done=False)], False, "Running"),
        ("OnFailure", [exited("a", 0), exited("b", 0)], False, "Succeeded"),
        ("Always", [running("a"), ContainerRecord(name="b", image="i")], False, "Pending"),
    ],
)
def test_phases(policy: str, records: list[ContainerRecord], stopping: bool, phase: str) -> None:
    assert pod_phase(pod(policy), facts(*records, stopping=stopping)) == phase


def test_a_phase_that_is_final_stays() -> None:
    value = pod() | {"status": {"phase": "Succeeded"}}
    assert pod_phase(value, facts(running("a"), running("b"))) == "Succeeded"


@pytest.mark.parametrize(
    ("policy", "init", "phase"),
    [
        ("Never", exited("i", 1), "Failed"),
        ("Always", exited("i", 1, done=False), "Pending"),
        ("Always", running("i"), "Pending"),
        ("Always", exited("i", 0), "Running"),
    ],
)
def test_init_containers_hold_the_pod_back(policy: str, init: ContainerRecord, phase: str) -> None:
    value = pod(policy, initContainers=[{"name": "i"}])
    assert pod_phase(value, facts(running("a"), running("b"), init=(init,))) == phase


def test_a_sidecar_is_initialised_when_it_runs() -> None:
    value = pod(initContainers=[{"name": "i", "restartPolicy": "Always"}])
    waiting = ContainerRecord(name="i", image="i")
    held_back = facts(running("a"), running("b"), init=(waiting,))
    assert pod_phase(value, held_back) == "Pending"
    status = pod_status(value, facts(running("a"), running("b"), init=(running("i"),)), "now")
    assert status["phase"] == "Running"
    assert {c["type"]: c["status"] for c in status["conditions"]}["Initialized"] == "True"


def test_a_condition_keeps_its_time_until_its_status_changes() -> None:
    value = pod()
    value["status"] = pod_status(value, facts(running("a"), running("b")), "first")
    down = running("b")
    down.ready = False
    value["status"] = pod_status(value, facts(running("a"), down), "second")
    times = {c["type"]: c["lastTransitionTime"] for c in value["status"]["conditions"]}
    assert times == {
        "PodReadyToStartContainers": "first",
        "Initialized": "first",
        "Ready": "second",
        "ContainersReady": "second",
    }


def test_readiness_gates_and_conditions_of_others() -> None:
    value = pod(readinessGates=[{"conditionType": "example.org/gate"}])
    records = facts(running("a"), running("b"))
    ready = {c["type"]: c for c in pod_status(value, records, "now")["conditions"]}
    assert ready["ContainersReady"]["status"] == "True"
    assert ready["Ready"]["reason"] == "ReadinessGatesNotReady"
    value["status"] = {
        "conditions": [
            {"type": "example.org/gate", "status": "True", "lastTransitionTime": "t"},
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": "t"},
        ]
    }
    made = {c["type"]: c for c in pod_status(value, records, "now")["conditions"]}
    assert made["Ready"]["status"] == "True"
    assert made["example.org/gate"]["lastTransitionTime"] == "t"
    assert made["PodScheduled"]["observedGeneration"] == 1


def test_resources_of_containers_add_up() -> None:
    value = pod(
        containers=[
            {"name": "a", "resources": {"requests": {"cpu": "10m", "memory": "24Mi"}}},
            {"name": "b", "resources": {"requests": {"cpu": "5m", "memory": "512Ki"}}},
        ]
    )
    status = pod_status(value, facts(running("a"), running("b")), "now")
    assert status["allocatedResources"] == {"cpu": "15m", "memory": "25088Ki"}
    assert status["resources"] == {"requests": status["allocatedResources"]}
