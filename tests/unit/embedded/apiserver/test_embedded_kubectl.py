"""What kubectl needs of the API, with the real kubectl; skipped where there is none."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import needs
import pytest
from api_server_kit import Server

KUBECTL = shutil.which("kubectl")
pytestmark = needs.program("kubectl")
Run = Callable[..., subprocess.CompletedProcess[str]]

APP = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: web, image: "busybox:1.36", ports: [{containerPort: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    found = Server()
    yield found
    found.stop()


@pytest.fixture
def kubectl(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.getbasetemp() / "kubectl"
    folder.mkdir(exist_ok=True)
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "x", "cluster": {"server": server.url}}],
        "users": [{"name": "x", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        "current-context": "x",
    }
    (folder / "config").write_text(json.dumps(config))

    def run(*arguments: str, stdin: str = "", rc: int = 0) -> subprocess.CompletedProcess[str]:
        env = {
            **os.environ, "KUBECONFIG": str(folder / "config"), "KUBECACHEDIR": str(folder / "c"),
            "HOME": str(folder),
        }  # fmt: skip
        found = subprocess.run(
            ["kubectl", *arguments], input=stdin, capture_output=True, text=True, check=False,
            env=env, timeout=30,
        )  # fmt: skip
        assert found.returncode == rc, (arguments, found.stdout, found.stderr)
        return found

    return run


def test_apply_change_and_delete(kubectl: Run, tmp_path: Path) -> None:
    file = tmp_path / "app.yaml"
    file.write_text(APP)
    kubectl("create", "namespace", "a")
    made = kubectl("-n", "a", "apply", "-f", str(file)).stdout
    assert made == "deployment.apps/web created\nservice/web created\n"
    again = kubectl("-n", "a", "apply", "-f", str(file)).stdout
    assert again == "deployment.apps/web unchanged\nservice/web unchanged\n"
    file.write_text(APP.replace("1.36", "1.37").replace("8080}]\n---", "8080}]\n---"))
    assert "image: busybox:1.37" in kubectl("-n", "a", "diff", "-f", str(file), rc=1).stdout
    changed = kubectl("-n", "a", "apply", "-f", str(file)).stdout
    assert changed == "deployment.apps/web configured\nservice/web unchanged\n"
    kubectl("-n", "a", "set", "image", "deployment/web", "web=busybox:1")
    refused = kubectl("-n", "a", "apply", "--server-side", "-f", str(file), rc=1).stderr
    assert 'conflict with "kubectl-set" using apps/v1' in refused
    kubectl("-n", "a", "apply", "--server-side", "--force-conflicts", "-f", str(file))
    kubectl("-n", "a", "scale", "deployment/web", "--replicas=3")
    kubectl("-n", "a", "rollout", "restart", "deployment/web")
    kubectl("-n", "a", "label", "deployment", "web", "x=y")
    kubectl("-n", "a", "annotate", "service", "web", "x=y")
    kubectl(
        "-n", "a", "patch", "svc", "web", "-p", '{"spec":{"ports":[{"port":81,"name":"b"}]}}', rc=1
    )
    kubectl("-n", "a", "expose", "deployment", "web", "--name=web2", "--port=80")
    image = kubectl(
        "-n", "a", "get", "deployment", "web", "-o",
        "jsonpath={.spec.replicas} {.spec.template.spec.containers[0].image}",
    ).stdout  # fmt: skip
    assert image == "3 busybox:1.37"
    gone = kubectl("-n", "a", "delete", "-f", str(file)).stdout
    assert 'deployment.apps "web" deleted' in gone
    missing = kubectl("-n", "a", "get", "deployment", "web", rc=1).stderr
    assert missing == 'Error from server (NotFound): deployments.apps "web" not found\n'


def test_objects_that_kubectl_makes_up(kubectl: Run) -> None:
    kubectl("create", "deployment", "d", "--image=busybox:1.36", "--replicas=2", "--", "sleep", "1")
    kubectl("create", "configmap", "c", "--from-literal=a=b")
    kubectl("create", "secret", "generic", "s", "--from-literal=a=b")
    kubectl("create", "job", "j", "--image=busybox:1.36", "--", "true")
    kubectl("create", "service", "clusterip", "s", "--tcp=80:8080")
    kubectl("create", "role", "r", "--verb=get", "--resource=pods")
    kubectl("run", "p", "--image=busybox:1.36", "--command", "--", "sh", "-c", "true")
    taken = kubectl("create", "configmap", "c", "--from-literal=a=b", rc=1).stderr
    assert 'configmaps "c" already exists' in taken
    refused = kubectl("create", "ingress", "x", "--rule=a.example.com/=b:80", rc=1).stderr
    assert "--dry-run=client -o yaml | kubectl apply -f -" in refused
    command = kubectl(
        "get", "deployment", "d", "-o", "jsonpath={.spec.template.spec.containers[0].command}"
    ).stdout
    assert json.loads(command) == ["sleep", "1"]


def test_looking_around(kubectl: Run, server: Server) -> None:
    assert "v1.36.2+sremut" in kubectl("version").stdout
    assert "deployments" in kubectl("api-resources", "--api-group=apps").stdout
    assert kubectl("auth", "can-i", "delete", "pods").stdout == "yes\n"
    assert "FIELD: replicas <integer>" in kubectl("explain", "deployment.spec.replicas").stdout
    assert kubectl("get", "--raw", "/healthz").stdout == "ok"
    assert "default" in kubectl("get", "ns", "-o", "name").stdout
    server.run(
        server.registry.create, "services", "default",
        {"metadata": {"name": "look"}, "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}},
    )  # fmt: skip
    head, row = kubectl("get", "svc", "look", "-o", "wide").stdout.splitlines()
    assert head.split() == [
        "NAME", "TYPE", "CLUSTER-IP", "EXTERNAL-IP", "PORT(S)", "AGE", "SELECTOR",
    ]  # fmt: skip
    assert row.split()[0::6] == ["look", "a=b"]
    described = kubectl("describe", "svc", "look").stdout
    assert "Selector:                 a=b" in described


def test_pods(kubectl: Run, server: Server) -> None:
    body = {"spec": {"containers": [{"name": "main", "image": "x"}]}, "metadata": {"name": "run"}}
    server.run(server.registry.create, "pods", "default", body)
    assert kubectl("logs", "run").stdout == "one\ntwo\nthree\n"
    found = kubectl("exec", "run", "--", "x", "5", rc=5)
    assert (found.stdout, "exit code 5" in found.stderr) == ("out", True)
    echoed = kubectl("exec", "-i", "run", "--", "x", stdin="hello")
    assert echoed.stdout == "outhello"
    kubectl("wait", "--for=jsonpath={.status.phase}=Pending", "pod/run", "--timeout=5s")
    assert kubectl("delete", "pod", "run").stdout == 'pod "run" deleted\n'
