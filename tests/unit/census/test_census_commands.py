"""kubectl, helm and programs: what a command line does to the cluster."""

# ruff: noqa: E501 - one case of a table is one line

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_sremut.census.model import Reason

Seen = tuple[str, str, str, str, tuple[str, ...]]


def follow(program: Callable[..., object], command: str) -> list[Seen]:
    text = f"import subprocess\ndef main():\n    subprocess.run({command!r}, shell=True)\n"
    made = program(text)
    made.run()
    return [(e.verb, e.kind, e.namespace, e.name, e.fields) for e in made.effects]


@pytest.mark.parametrize(
    ("command", "seen"),
    [
        ("kubectl delete svc a b -n x", [("delete", "Service", "x", "a", ()), ("delete", "Service", "x", "b", ())]),
        ("kubectl -n x delete deploy/a", [("delete", "Deployment", "x", "a", ())]),
        ("kubectl scale deployment/a --replicas=0 -nx", [("update", "Deployment", "x", "a", ("spec.replicas",))]),
        (
            "kubectl patch svc a -n x --type=json -p '[{\"op\":\"replace\",\"path\":\"/spec/ports/0/targetPort\",\"value\":1}]'",
            [("update", "Service", "x", "a", ("spec.ports[].targetPort",))],
        ),
        (
            "kubectl patch deploy a -n x -p '{\"spec\":{\"template\":{\"spec\":{\"dnsPolicy\":\"None\"}}}}'",
            [("update", "Deployment", "x", "a", ("spec.template.spec.dnsPolicy",))],
        ),
        ("kubectl set image deploy/a c=i:1 -n x", [("update", "Deployment", "x", "a", ("spec.template.spec.containers[].image",))]),
        ("kubectl label ns x p/enforce=restricted q-", [("update", "Namespace", "", "x", ("metadata.labels.p/enforce", "metadata.labels.q"))]),
        ("kubectl taint nodes n1 k=v:NoSchedule", [("update", "Node", "", "n1", ("spec.taints",))]),
        ("kubectl cordon n1", [("update", "Node", "", "n1", ("spec.unschedulable",))]),
        ("kubectl rollout restart deploy a -n x", [("restart", "Deployment", "x", "a", ())]),
        ("kubectl rollout status deploy/a -n x", [("read", "Deployment", "x", "a", ()), ("wait", "Deployment", "x", "a", ())]),
        ("kubectl get pods -A -o name", [("read", "Pod", "*", "", ())]),
        ("kubectl logs a -n x", [("logs", "Pod", "x", "a", ())]),
        ("kubectl top pod -n x", [("exec", "METRICS", "x", "pod", ("resource-usage",))]),
        ("kubectl exec a -n x -- nslookup b", [("exec", "DNS", "x", "a", ("nslookup",))]),
        ("kubectl exec a -n x -- sh -c 'nc -z b 1 && wget -qO- http://b/c'", [("exec", "TCP", "x", "a", ("nc",)), ("exec", "HTTP", "", "a", ("wget",))]),
        ("kubectl exec a -n x -- curl http://m:9090/api/v1/query", [("exec", "METRICS", "", "a", ("curl",))]),
        ("kubectl create configmap a -n x --from-literal=k=v", [("create", "ConfigMap", "x", "a", ("*",))]),
        (
            "echo 'kind: NetworkPolicy\nmetadata: {name: a, namespace: y}\nspec: {podSelector: {}}' | kubectl apply -f -",
            [("apply", "NetworkPolicy", "y", "a", ("spec.podSelector",))],
        ),
        ("helm upgrade r ./c -n x --set a.b=1,c=2 --set-string d=3", [("update", "HelmRelease", "x", "r", ("values.a.b", "values.c", "values.d"))]),
        ("helm uninstall r -n x", [("delete", "HelmRelease", "x", "r", ())]),
        ("kubectl get ipamconfig default", [("read", "ipamconfig", "", "default", ())]),
        ("ssh -o X=y node1 systemctl stop kubelet", [("exec", "NODE", "", "", ("ssh",)), ("exec", "EXEC", "", "node by ssh", ("systemctl",))]),
        ("docker exec node1 sysctl -w a=b", [("exec", "NODE", "", "", ("docker",)), ("exec", "EXEC", "", "node by docker", ("sysctl",))]),
    ],
)  # fmt: skip
def test_effects(program: Callable[..., object], command: str, seen: list[Seen]) -> None:
    assert follow(program, command) == seen


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("subprocess.run('frobnicate the-cluster', shell=True)", Reason.OPAQUE_COMMAND),
        ("subprocess.run('kubectl apply -f /nowhere.yaml', shell=True)", Reason.OPAQUE_MANIFEST),
        ("subprocess.run('kubectl patch svc a -p oops', shell=True)", Reason.OPAQUE_MANIFEST),
        ("subprocess.run(unknown(), shell=True)", Reason.OPAQUE_COMMAND),
        ("kafka_library.seek()", Reason.EXTERNAL_CALL),
        ("eval('1')", Reason.UNRESOLVED_DISPATCH),
    ],
)
def test_trails(program: Callable[..., object], body: str, reason: Reason) -> None:
    made = program(f"import subprocess\nimport kafka_library\ndef main():\n    {body}\n")
    made.run()
    (trail,) = made.m.trails
    assert (trail.reason, str(trail.place)) == (reason, "program.py:4")


def test_a_structure_written_to_a_file_and_applied_meets_itself(
    program: Callable[..., object],
) -> None:
    made = program(
        """
import subprocess, yaml, json

def run(command):
    try:
        return subprocess.run(command, shell=True, check=True).stdout.decode()
    except subprocess.CalledProcessError as error:
        return error.stderr

def main():
    data = yaml.safe_load(run("kubectl get deployment a -n x -o yaml"))
    for container in data["spec"]["template"]["spec"]["containers"]:
        container.setdefault("resources", {})["limits"] = {"cpu": "1m"}
    with open("/tmp/a.yaml", "w") as file:
        yaml.dump(data, file)
    run("kubectl apply -f /tmp/a.yaml")
"""
    )
    made.run()
    last = made.effects[-1]
    assert (last.verb, last.kind, last.namespace, last.name) == ("apply", "Deployment", "x", "a")
    assert last.fields == ("spec.template.spec.containers[].resources.limits.cpu",)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), max_size=6))
def test_no_command_line_is_an_error(program: Callable[..., object], words: list[str]) -> None:
    follow(program, " ".join(["kubectl", *words]))
