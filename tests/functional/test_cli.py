"""`sremut` with a real embedded cluster: what it prints, where it leads, how it exits."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from quick import HOW, MAIN, Result, no_namespaces, require_clusters, session
from small import make_small

Sremut = Callable[..., subprocess.CompletedProcess[str]]


def sremut_in(state: Path) -> Sremut:
    """Calls `sremut` with a state directory of the test's own."""

    def call(*arguments: str, **how: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "pytest_sremut.cli", *arguments],
            env={**os.environ, "XDG_STATE_HOME": str(state)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            **how,
        )

    return call


@pytest.fixture
def sremut(tmp_path: Path) -> Iterator[Sremut]:
    """`sremut`, whose clusters are taken down afterwards."""
    call = sremut_in(tmp_path)
    yield call
    for directory in tmp_path.glob("sremut/clusters/*"):
        if (directory / "state.json").exists():
            call("cluster", "down", "--name", directory.name)


def kubectl(kubeconfig: Path, *arguments: str) -> str:
    return subprocess.run(
        ["kubectl", "--kubeconfig", str(kubeconfig), *arguments],
        env={**os.environ, "KUBECACHEDIR": str(kubeconfig.parent / "cache")},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout


def test_a_cluster_up_and_down(sremut: Sremut, tmp_path: Path) -> None:
    require_clusters()
    up = sremut("cluster", "up", "--name", "t1", "--routing=forwarder", "--nodes=2")
    assert (up.returncode, up.stderr) == (0, "")
    server = re.search(r"^cluster t1 is up at (https://127\.0\.0\.1:\d+)$", up.stdout, re.M)
    assert server is not None
    exported = re.search(r"^export KUBECONFIG=(\S+)$", up.stdout, re.M)
    assert exported is not None
    kubeconfig = Path(exported[1])
    assert kubeconfig.stat().st_mode & 0o777 == 0o600

    told = sremut("cluster", "kubeconfig", "--name", "t1")
    assert (told.returncode, told.stdout) == (0, f"{kubeconfig}\n")

    status = sremut("cluster", "status", "--name", "t1")
    assert (status.returncode, status.stderr) == (0, "")
    assert json.loads(status.stdout)["facts"]["routing"]["mode"] == "forwarder"

    if shutil.which("kubectl"):
        nodes = kubectl(kubeconfig, "get", "nodes")
        assert re.findall(r"^(\S+)\s+Ready\b", nodes, re.M) == ["node-1", "node-2"]

    again = sremut("cluster", "up", "--name", "t1")
    assert again.returncode == 1
    assert again.stderr.startswith("sremut: a cluster already runs in ")
    assert "sremut cluster down" in again.stderr

    # The port that it has is taken, for whoever asks for that very one.
    port = server[1].rpartition(":")[2]
    taken = sremut("cluster", "up", "--name", "t2", "--port", port)
    assert taken.returncode == 1
    assert f"port in use: 127.0.0.1:{port}: Address already in use (EADDRINUSE)" in taken.stderr
    assert "Take another port" in taken.stderr

    down = sremut("cluster", "down", "--name", "t1")
    assert (down.returncode, down.stdout, down.stderr) == (0, "cluster t1 is down\n", "")
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", int(port)), timeout=5).close()
    for verb in ("down", "status", "kubeconfig"):
        gone = sremut("cluster", verb, "--name", "t1")
        assert gone.returncode == 1
        assert gone.stderr.startswith("sremut: no cluster runs in ")
    assert "Traceback" not in again.stderr + taken.stderr + gone.stderr


def test_a_command_in_a_cluster_of_its_own(sremut: Sremut) -> None:
    require_clusters()
    script = (
        "import base64, os, ssl, sys, urllib.request, yaml;"
        "config = yaml.safe_load(open(os.environ['KUBECONFIG']));"
        "cluster = config['clusters'][0]['cluster']; server = cluster['server'];"
        "root = base64.b64decode(cluster['certificate-authority-data']).decode();"
        "tls = urllib.request.HTTPSHandler(context=ssl.create_default_context(cadata=root));"
        "opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), tls);"
        "print(opener.open(server + '/version').status, server); sys.exit(7)"
    )
    done = sremut("cluster", "run", "--", sys.executable, "-c", script)
    assert done.returncode == 7, done.stderr
    assert done.stdout.startswith("200 ")
    # With its end the cluster has ended.
    port = int(re.findall(r":(\d+)", done.stdout)[0])
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", port), timeout=5).close()

    missing = sremut("cluster", "run", "--", "/no/such/program")
    assert (missing.returncode, missing.stderr) == (
        2,
        "sremut: /no/such/program: No such file or directory\n",
    )


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("up", "--name=../x"), "--name: found '../x'; allowed: "),
        (("up", "--name="), "--name: found ''; allowed: "),
        (("down", "--name=a/b"), "--name: found 'a/b'; allowed: "),
        (("status", "--name=Upper"), "--name: found 'Upper'; allowed: "),
        (("kubeconfig", "--name=-x"), "--name: found '-x'; allowed: "),
        (("run",), "cluster run: found no command; allowed: sremut cluster run -- CMD"),
        (("up", "--port=70000"), "--port: found 70000; allowed: 0 to 65535"),
    ],
)
def test_misuse_is_a_sentence(sremut: Sremut, arguments: tuple[str, ...], told: str) -> None:
    done = sremut("cluster", *arguments)
    assert done.returncode == 2
    assert done.stderr.startswith(f"sremut: {told}"), done.stderr
    assert "Traceback" not in done.stderr


def test_the_doctor(sremut: Sremut) -> None:
    plain, document = sremut("doctor"), sremut("doctor", "--json")
    checks = json.loads(document.stdout)
    for check in checks:
        mark = "OK  " if check["ok"] else "LACK" if check["needed"] else "no  "
        assert f"{mark} {check['name']}: " in plain.stdout
        if not check["ok"]:
            assert check["advice"] in plain.stdout
    # What is only missed by people does not make the machine unfit.
    fit = all(check["ok"] or not check["needed"] for check in checks)
    assert plain.returncode == document.returncode == (0 if fit else 1)


def test_the_doctor_of_a_machine_without_namespaces(sremut: Sremut) -> None:
    require_clusters()
    told = sremut("doctor", preexec_fn=no_namespaces)
    assert told.returncode == 1
    # Root inside may go on without a user namespace, and comes no further than the next one.
    assert re.search(r"^LACK (user|network) namespace: No space left on device$", told.stdout, re.M)
    assert re.search(r"^     failed to unshare\(.* \(errno 28\)$", told.stdout, re.M)
    assert "user.max_user_namespaces" in told.stdout
    up = sremut("cluster", "up", preexec_fn=no_namespaces)
    assert up.returncode == 1
    assert up.stderr.startswith("sremut: create a user namespace: No space left on device (ENOSPC)")
    assert "The limit of user namespaces is reached: look at sysctl" in up.stderr
    assert "Traceback" not in told.stderr + up.stderr


def test_a_session_that_keeps_its_cluster(tmp_path: Path) -> None:
    """Whoever is told how to reach it can look at what was there, and take it down."""
    require_clusters()
    project = make_small(tmp_path)
    with session(
        project,
        *("-m", "mutant", "-k", f"{MAIN} and ms-m01 and healthy and O1", "--sremut-keep-cluster"),
        *HOW["no xdist"],
    ) as running:
        running.look()
        result: Result = running.end()
        assert result.code == 0, result.out
        name = re.search(r"^sremut: cluster (\S+) was kept:$", result.out, re.M)
        exported = re.search(r"^  export KUBECONFIG=(\S+)$", result.out, re.M)
        assert name is not None
        assert exported is not None
        assert f"  sremut cluster down --name {name[1]}" in result.out.splitlines()
        assert running.left() != []
        call = sremut_in(project / "state")
        try:
            status = call("cluster", "status", "--name", name[1])
            assert status.returncode == 0
            if shutil.which("kubectl"):
                assert "social-network" in kubectl(Path(exported[1]), "get", "namespaces")
        finally:
            down = call("cluster", "down", "--name", name[1])
        assert down.returncode == 0
        running.until_gone()
