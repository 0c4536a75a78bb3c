from __future__ import annotations

from datetime import timedelta
from typing import Any

import api_kit
import pytest

from pytest_sremut.embedded.printers.objects import PRINTERS
from pytest_sremut.embedded.printers.pods import pod_status, print_pod
from pytest_sremut.embedded.printers.values import duration, since

NOW = api_kit.START + timedelta(seconds=90)
CREATED = "2026-11-30T12:00:00Z"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"), (-1, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (202, "3m22s"),
        (599, "9m59s"), (600, "10m"), (3600, "60m"), (10799, "179m"), (10800, "3h"),
        (12000, "3h20m"), (28800, "8h"), (172799, "47h"), (172800, "2d"), (187200, "2d4h"),
        (691200, "8d"), (63071999, "729d"), (63072000, "2y"), (66000000, "2y33d"),
    ],
)  # fmt: skip
def test_ages_are_short(seconds: int, text: str) -> None:
    assert duration(seconds) == text


def test_ages_of_what_has_none() -> None:
    assert since(None, NOW) == "<unknown>"
    assert since("never", NOW) == "<unknown>"
    assert since(CREATED, NOW) == "90s"


def status_of(name: str = "c", *, restarts: int = 0, last: str = "", **state: Any) -> Any:
    found: dict[str, Any] = {"name": name, "restartCount": restarts, "state": state}
    found["ready"] = "running" in state
    if last:
        found["lastState"] = {"terminated": {"finishedAt": last, "exitCode": 1}}
    return found


def pod(*containers: Any, init: Any = (), phase: str = "Running", **metadata: Any) -> Any:
    return {
        "metadata": {"name": "p", "creationTimestamp": CREATED, **metadata},
        "spec": {
            "containers": [{"name": item["name"]} for item in containers],
            "initContainers": [{"name": item["name"]} for item in init],
        },
        "status": {
            "phase": phase,
            "containerStatuses": list(containers),
            "initContainerStatuses": list(init),
        },
    }


RUNNING = status_of(running={})
WAITING = {"reason": "PodInitializing"}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (pod(RUNNING), "Running"),
        (pod(phase="Pending"), "Pending"),
        (pod(RUNNING, deletionTimestamp=CREATED), "Terminating"),
        (pod(RUNNING, phase="Failed", deletionTimestamp=CREATED), "Failed"),
        (pod(status_of(waiting={"reason": "CrashLoopBackOff"})), "CrashLoopBackOff"),
        (pod(status_of(terminated={"reason": "Completed"}), phase="Succeeded"), "Completed"),
        (pod(status_of(terminated={"exitCode": 3}), phase="Failed"), "ExitCode:3"),
        (pod(status_of(terminated={"exitCode": 1, "signal": 9}), phase="Failed"), "Signal:9"),
        (pod(RUNNING, init=[status_of("i", running={})]), "Init:0/1"),
        (pod(RUNNING, init=[status_of("i", waiting=WAITING)]), "Init:0/1"),
        (
            pod(RUNNING, init=[status_of("i", waiting={"reason": "ErrImagePull"})]),
            "Init:ErrImagePull",
        ),
        (pod(RUNNING, init=[status_of("i", terminated={"exitCode": 2})]), "Init:ExitCode:2"),
        (
            pod(RUNNING, init=[status_of("i", terminated={"exitCode": 2, "reason": "Error"})]),
            "Init:Error",
        ),
        (pod(RUNNING, init=[status_of("i", terminated={"exitCode": 0})]), "Running"),
    ],
)
def test_status_texts(value: Any, text: str) -> None:
    assert pod_status(value) == text


def test_the_row_of_a_pod() -> None:
    value = pod(RUNNING, status_of("d", restarts=2, last="2026-11-30T12:01:00Z", waiting={}))
    value["status"] |= {"podIP": "10.0.0.1"}
    value["spec"]["nodeName"] = "node-1"
    value["spec"]["readinessGates"] = [{"conditionType": "x"}]
    assert print_pod(value, NOW) == [
        "p", "1/2", "Running", "2 (30s ago)", "90s", "10.0.0.1", "node-1", "<none>", "0/1",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("key", "value", "cells"),
    [
        (
            "services",
            {"spec": {"type": "NodePort", "clusterIP": "10.0.0.1", "selector": {"b": "2", "a": "1"},
                      "ports": [{"port": 80, "nodePort": 30000}, {"port": 53, "protocol": "UDP"}]}},
            ["x", "NodePort", "10.0.0.1", "<none>", "80:30000/TCP,53/UDP", "90s", "a=1,b=2"],
        ),
        (
            "services", {"spec": {"type": "ExternalName", "externalName": "e.example"}},
            ["x", "ExternalName", "<none>", "e.example", "<none>", "90s", "<none>"],
        ),
        (
            "services", {"spec": {"type": "LoadBalancer", "clusterIP": "None"}},
            ["x", "LoadBalancer", "None", "<pending>", "<none>", "90s", "<none>"],
        ),
        (
            "endpoints",
            {"subsets": [{"addresses": [{"ip": f"10.0.0.{n}"} for n in range(5)],
                          "ports": [{"port": 80}]}]},
            ["x", "10.0.0.0:80,10.0.0.1:80,10.0.0.2:80 + 2 more...", "90s"],
        ),
        ("endpoints", {}, ["x", "<none>", "90s"]),
        (
            "endpointslices.discovery.k8s.io",
            {"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": None},
            ["x", "IPv4", "<unset>", "10.0.0.1", "90s"],
        ),
        (
            "deployments.apps",
            {"spec": {"replicas": 3, "selector": {"matchLabels": {"a": "b"}},
                      "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}},
             "status": {"readyReplicas": 2, "updatedReplicas": 3, "availableReplicas": 2}},
            ["x", "2/3", 3, 2, "90s", "c", "i", "a=b"],
        ),
        (
            "jobs.batch",
            {"spec": {"completions": 1}, "status": {
                "succeeded": 1, "startTime": CREATED, "completionTime": "2026-11-30T12:00:07Z",
                "conditions": [{"type": "Complete", "status": "True"}]}},
            ["x", "Complete", "1/1", "7s", "90s", "", "", "<none>"],
        ),
        (
            "nodes",
            {"metadata": {"labels": {"node-role.kubernetes.io/worker": ""}},
             "spec": {"unschedulable": True},
             "status": {"conditions": [{"type": "Ready", "status": "False"}]}},
            ["x", "NotReady,SchedulingDisabled", "worker", "90s", "", "<none>", "<none>",
             "<unknown>", "<unknown>", "<unknown>"],
        ),
        (
            "resourcequotas",
            {"status": {"hard": {"pods": "2", "limits.cpu": "1"}, "used": {"pods": "1"}}},
            ["x", "pods: 1/2", "limits.cpu: 0/1", "90s"],
        ),
        ("configmaps", {"data": {"a": "b"}, "binaryData": {"c": "ZA=="}}, ["x", "2", "90s"]),
        (
            "rolebindings.rbac.authorization.k8s.io",
            {"roleRef": {"kind": "Role", "name": "r"},
             "subjects": [{"kind": "ServiceAccount", "namespace": "n", "name": "s"},
                          {"kind": "User", "name": "u"}]},
            ["x", "Role/r", "90s", "u", "", "n/s"],
        ),
    ],
)  # fmt: skip
def test_rows(key: str, value: Any, cells: list[Any]) -> None:
    metadata = {"name": "x", "creationTimestamp": CREATED, **value.get("metadata", {})}
    assert PRINTERS[key]({**value, "metadata": metadata}, NOW) == cells
