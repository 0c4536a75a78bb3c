"""Smokes of real clients, unmodified, against a real cluster.

The clients beyond the one that is installed anyway are looked for in the folder SREMUT_CLIENTS, as
``.ci/clients`` makes it; without it these tests are skipped, and SREMUT_REQUIRE_CLIENTS=1 makes
that a failure.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import needs
import pytest
from real_cluster import Pods, core, eventually, start

from pytest_sremut.embedded import EmbeddedCluster

PROGRAMS = Path(__file__).parent / "clients"
ABOVE = sys.version_info[:2]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    with start(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def place(*parts: str) -> Path:
    """Something of the folder of clients; skips without."""
    folder = os.environ.get("SREMUT_CLIENTS", "")
    found = Path(folder, *parts) if folder else None
    if found is None or not found.exists():
        needs.lacking("clients", f"{'/'.join(parts)} is not here: see .ci/clients")
    return found


def environment(cluster: EmbeddedCluster, scratch: Path, **more: str) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(scratch),
        "KUBECONFIG": str(cluster.kubeconfig),
        "KUBECACHEDIR": str(scratch / "cache"),
        **more,
    }


def played(argv: list[str], env: dict[str, str]) -> dict[str, Any]:
    """What a client program printed at its end."""
    ran = subprocess.run(
        argv, env=env, capture_output=True, text=True, check=False, timeout=120, cwd=env["HOME"]
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    found: dict[str, Any] = json.loads(ran.stdout.strip().splitlines()[-1])
    return found


def test_the_installed_python_client(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    found = played(
        [sys.executable, str(PROGRAMS / "official.py"), "c-now"], environment(cluster, tmp_path)
    )
    assert found["ready"]
    assert found["labels"] == {"app": "p", "x": "y"}
    assert found["missing"] == [404, "NotFound"]
    assert (found["exec"], found["log"]) == ("out\n", "hello\n")


def test_the_python_client_30(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    path = place("kubernetes-30.1")
    env = environment(cluster, tmp_path, PYTHONPATH=str(path))
    found = played([sys.executable, str(PROGRAMS / "official.py"), "c-30"], env)
    assert found["version"].startswith("30.1")
    assert found["labels"] == {"app": "p", "x": "y"}
    assert found["missing"] == [404, "NotFound"]
    assert (found["exec"], found["log"]) == ("out\n", "hello\n")


def test_kr8s(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    path = place("kr8s")
    env = environment(cluster, tmp_path, PYTHONPATH=str(path))
    found = played([sys.executable, str(PROGRAMS / "with_kr8s.py"), "c-kr8s"], env)
    assert found["labels"] == {"app": "p", "x": "y"}
    assert (found["exec"], found["log"]) == ("out\n", "hello\n")
    assert found["listed"] == ["p"]


def test_lightkube(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    path = place("lightkube")
    env = environment(cluster, tmp_path, PYTHONPATH=str(path))
    found = played([sys.executable, str(PROGRAMS / "with_lightkube.py"), "c-light"], env)
    assert found["labels"] == {"app": "p", "x": "y"}
    assert found["missing"] == [404, "NotFound"]
    assert found["log"] == "hello\n"
    assert found["applied"] == {"a": "b"}


def test_the_javascript_client(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    modules = place("node", "node_modules")
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node on this machine")
    env = environment(cluster, tmp_path, SREMUT_NODE_MODULES=str(modules))
    found = played([node, str(PROGRAMS / "node_client.mjs"), "c-node"], env)
    assert (found["exec"], found["log"]) == ("out\n", "hello\n")
    assert found["missing"] == [404, "NotFound"]


def kubectl(which: str) -> str:
    if which == "the machine's":
        return needs.located("kubectl")
    return str(place("kubectl", "bin", "kubectl"))


@pytest.mark.parametrize("which", ["the machine's", "the newest"])
def test_kubectl(cluster: EmbeddedCluster, tmp_path: Path, which: str) -> None:
    program = kubectl(which)
    env = environment(cluster, tmp_path)
    space = "k-" + which.replace("'", "").replace(" ", "-")

    def run(*words: str, code: int = 0) -> str:
        ran = subprocess.run(
            [program, "-n", space, *words], env=env, capture_output=True, text=True, check=False
        )
        assert ran.returncode == code, f"{words}: {ran.stdout}{ran.stderr}"
        return ran.stdout + ran.stderr

    run("create", "namespace", space)
    run("create", "deployment", "web", "--image=busybox:1.36", "--", "sh", "-c",
        "mkdir /www; hostname > /www/index.html; exec httpd -f -p 8080 -h /www")  # fmt: skip
    run("wait", "--for=condition=available", "deployment/web", "--timeout=60s")
    run("create", "configmap", "c", "--from-literal=a=b")
    run("create", "secret", "generic", "s", "--from-literal=a=b")
    run("create", "service", "clusterip", "x", "--tcp=80:8080")
    run("create", "job", "j", "--image=busybox:1.36", "--", "true")
    run("create", "quota", "q", "--hard=pods=10")
    run("create", "serviceaccount", "sa")
    run("create", "role", "r", "--verb=get", "--resource=pods")
    run("create", "rolebinding", "rb", "--role=r", f"--serviceaccount={space}:sa")
    run("expose", "deployment", "web", "--port=80", "--target-port=8080")
    run("wait", "--for=condition=complete", "job/j", "--timeout=60s")
    assert "1/1" in run("get", "deployment", "web")
    account = f"--as=system:serviceaccount:{space}:sa"
    assert run("auth", "can-i", "get", "pods", account) == "yes\n"
    assert run("auth", "can-i", "delete", "pods", account, code=1).startswith("no")
    assert "Metrics API not available" in run("top", "pods", code=1)
    assert "replicas" in run("explain", "deployment.spec")
    assert "FIELD: replicas <integer>" in run("explain", "deployment.spec.replicas")
    assert run("exec", "deploy/web", "--", "hostname").startswith("web-")
    if which == "the newest":  # older ones send autoscaling/v1, which is not served
        run("autoscale", "deployment", "web", "--max=3")
        assert "Deployment/web" in run("get", "hpa")
    run("create", "poddisruptionbudget", "pdb", "--selector=app=web", "--min-available=1")
    run("create", "priorityclass", f"pc-{space}", "--value=10")
    said = run("create", "ingress", "i", "--rule=x.example.com/=web:80", code=1)
    assert "use `kubectl create ... --dry-run=client -o yaml | kubectl apply -f -`" in said
    run("delete", "namespace", space, "--wait=false")


@pytest.mark.parametrize("which", ["the machine's", "the newest"])
def test_kubectl_port_forward(cluster: EmbeddedCluster, tmp_path: Path, which: str) -> None:
    program = kubectl(which)
    pods = Pods(core(cluster), "f-" + which.replace("'", "").replace(" ", "-"))
    pods.create("web", "sh", "-c", "echo served > index.html; exec httpd -f -p 8080 -h .",
                ports=[{"containerPort": 8080}],
                readinessProbe={"tcpSocket": {"port": 8080}})  # fmt: skip
    pods.ready("web")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    forward = subprocess.Popen(
        [program, "-n", pods.namespace, "port-forward", "pod/web", f"{port}:8080"],
        env=environment(cluster, tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert forward.stdout is not None
        assert "Forwarding from" in forward.stdout.readline()

        def served() -> str:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10) as answer:
                    return str(answer.read().decode())
            except OSError:
                return ""

        assert eventually(served, "the forwarded port answers") == "served\n"
        assert served() == "served\n", "a second connection"
    finally:
        forward.terminate()
        forward.communicate()
    pods.api.api_client.close()


CHART = {
    "Chart.yaml": "apiVersion: v2\nname: stall\nversion: 0.1.0\n",
    "templates/all.yaml": """\
apiVersion: v1
kind: Service
metadata: {name: {{ .Release.Name }}}
spec: {selector: {app: stall}, ports: [{port: {{ .Values.port }}}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}}
data: {port: "{{ .Values.port }}"}
""",
}


def test_helm(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    """Its release records are Secrets that it sends, and deletes, as protobuf."""
    helm = place("helm", "bin", "helm")
    for name, text in CHART.items():
        file = tmp_path / "stall" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def run(*arguments: str) -> str:
        ran = subprocess.run(
            [str(helm), *arguments, "--namespace", "default"],
            env=environment(cluster, tmp_path),
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    def port() -> int:
        return int(core(cluster).read_namespaced_service("fair", "default").spec.ports[0].port)

    chart = str(tmp_path / "stall")
    assert "STATUS: deployed" in run("install", "fair", chart, "--set", "port=80")
    assert port() == 80
    assert "REVISION: 2" in run("upgrade", "fair", chart, "--set", "port=81")
    assert port() == 81
    assert [row["name"] for row in json.loads(run("list", "-o", "json"))] == ["fair"]
    run("rollback", "fair", "1")
    assert port() == 80
    assert "uninstalled" in run("uninstall", "fair")
    assert json.loads(run("list", "--all", "-o", "json")) == []
    left = core(cluster).list_namespaced_secret("default", label_selector="owner=helm").items
    assert left == []
