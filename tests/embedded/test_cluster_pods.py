"""Pods as real processes, seen through an unmodified client."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client, watch
from kubernetes.stream import stream
from real_cluster import Pods, core, eventually, hang_up, start

from pytest_sremut.embedded import EmbeddedCluster

SLEEPER = ("sh", "-c", "trap 'exit 0' TERM; sleep 36000 & wait")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    with start(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture
def pods(cluster: EmbeddedCluster, request: pytest.FixtureRequest) -> Iterator[Pods]:
    api = core(cluster)
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())[-50:].strip("-")
    yield Pods(api, name)
    api.delete_namespace(name)
    api.api_client.close()


def test_a_pod_is_a_container_of_its_own(pods: Pods) -> None:
    pods.create("one", *SLEEPER)
    pod = pods.ready("one")
    assert pod.status.pod_ip.startswith("10.244.")
    assert pods.run("one", "hostname") == (0, "one\n", "")
    code, out, _ = pods.run("one", "cat", "/etc/resolv.conf")
    assert (code, out) == (
        0,
        f"search {pods.namespace}.svc.cluster.local svc.cluster.local cluster.local\n"
        "nameserver 10.96.0.10\noptions ndots:5\n",
    )
    code, out, err = pods.run(
        "one", "sh", "-c", "echo $$; echo no >&2; mkdir /x && ls -d /x; exit 3"
    )
    assert (code, err) == (3, "no\n")
    assert out.endswith("/x\n")
    assert not Path("/x").exists()
    # Process 1 is the container's own, and the machine's processes are not to be seen.
    assert pods.run("one", "cat", "/proc/1/comm") == (0, "sh\n", "")
    assert pods.run("one", "touch", "/usr/x")[0] == 1
    token = pods.run("one", "cat", "/var/run/secrets/kubernetes.io/serviceaccount/namespace")
    assert token == (0, pods.namespace, "")


def test_a_pod_cannot_undo_what_protects_the_machine(pods: Pods) -> None:
    pods.create("one", *SLEEPER)
    pods.ready("one")
    code, out, _ = pods.run("one", "grep", "^Cap", "/proc/self/status")
    assert code == 0
    limits = dict(line.split(":\t") for line in out.splitlines())
    assert limits["CapEff"] == limits["CapPrm"] == limits["CapBnd"] == "00000000a80425fb"
    assert pods.run("one", "grep", "^CapEff", "/proc/1/status")[1] == "CapEff:\t00000000a80425fb\n"


def test_containers_of_a_pod_do_not_share_files(pods: Pods) -> None:
    second = {"name": "second", "image": "busybox:1.36", "command": list(SLEEPER)}
    main = {"name": "main", "image": "busybox:1.36", "command": list(SLEEPER)}
    pods.create("two", spec={"containers": [main, second]})
    pods.ready("two")
    with pytest.raises(client.ApiException, match=r"choose one of: \[main second\]"):
        pods.log("two")
    assert pods.log("two", container="second") == ""


def test_environment_and_volumes(pods: Pods) -> None:
    pods.api.create_namespaced_config_map(
        pods.namespace, {"metadata": {"name": "c"}, "data": {"key": "value"}}
    )
    pods.api.create_namespaced_secret(
        pods.namespace, {"metadata": {"name": "s"}, "data": {"password": "aHVudGVyMg=="}}
    )
    reference = {"fieldRef": {"fieldPath": "status.podIP"}}
    pods.create(
        "env",
        *SLEEPER,
        env=[
            {"name": "IP", "valueFrom": reference},
            {"name": "KEY", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "key"}}},
        ],
        envFrom=[{"secretRef": {"name": "s"}}],
        volumeMounts=[
            {"name": "c", "mountPath": "/etc/app/c"},
            {"name": "e", "mountPath": "/usr/share/nowhere/data"},
            {"name": "s", "mountPath": "/run/s", "readOnly": True},
        ],
        spec={
            "volumes": [
                {"name": "c", "configMap": {"name": "c"}},
                {"name": "e", "emptyDir": {}},
                {"name": "s", "secret": {"secretName": "s"}},
            ]
        },
    )
    ip = pods.ready("env").status.pod_ip
    script = (
        "echo $IP $KEY $password $KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT;"
        "cat /etc/app/c/key /run/s/password; echo; echo kept > /usr/share/nowhere/data/f;"
        "cat /usr/share/nowhere/data/f; touch /run/s/x 2>/dev/null || echo frozen"
    )
    assert pods.run("env", "sh", "-c", script) == (
        0,
        f"{ip} value hunter2 10.96.0.1:443\nvaluehunter2\nkept\nfrozen\n",
        "",
    )


def test_init_containers_come_first_and_share_volumes(pods: Pods) -> None:
    mount = [{"name": "shared", "mountPath": "/shared"}]
    init = {"name": "init", "image": "busybox:1.36", "volumeMounts": mount}
    init["command"] = ["sh", "-c", "echo made > /shared/file"]
    volumes = [{"name": "shared", "emptyDir": {}}]
    pods.create(
        "init", *SLEEPER, volumeMounts=mount, spec={"initContainers": [init], "volumes": volumes}
    )
    pod = pods.ready("init")
    assert pod.status.init_container_statuses[0].state.terminated.reason == "Completed"
    assert pods.run("init", "cat", "/shared/file") == (0, "made\n", "")


def test_finished_pods(pods: Pods) -> None:
    never = {"restartPolicy": "Never"}
    pods.create("ok", "sh", "-c", "echo out; echo err >&2", spec=never)
    pods.create("bad", "sh", "-c", "echo because > /dev/termination-log; exit 7", spec=never)
    pods.until("ok", lambda pod: pod.status.phase == "Succeeded", "ok has succeeded")
    assert pods.log("ok") == "out\nerr\n"
    assert pods.log("ok", tail_lines=1) == "err\n"
    assert re.fullmatch(
        r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z (out|err)\n){2}", pods.log("ok", timestamps=True)
    )
    pod = pods.until("bad", lambda pod: pod.status.phase == "Failed", "bad has failed")
    terminated = pod.status.container_statuses[0].state.terminated
    assert (terminated.exit_code, terminated.reason) == (7, "Error")
    assert terminated.message == "because\n"


def test_a_crash_loop(pods: Pods) -> None:
    pods.create("crash", "sh", "-c", "echo boom; exit 3")
    pod = pods.until(
        "crash",
        lambda pod: (
            pod.status.container_statuses  # none before the kubelet has seen the pod
            and (waiting := pod.status.container_statuses[0].state.waiting)
            and waiting.reason == "CrashLoopBackOff"
        ),
        "crash is backed off",
    )
    status = pod.status.container_statuses[0]
    assert status.restart_count == 1
    assert status.last_state.terminated.exit_code == 3
    assert pods.log("crash", previous=True) == "boom\n"


@pytest.mark.parametrize(
    ("command", "least", "code"),
    [
        (SLEEPER, 0.0, 0),  # stops when told to
        (("sleep", "36000"), 1.0, 137),  # process 1 without a handler does not see the signal
    ],
)
def test_graceful_deletion(pods: Pods, command: tuple[str, ...], least: float, code: int) -> None:
    pods.create("gone", *command)
    version = pods.ready("gone").metadata.resource_version
    events = watch.Watch()
    begin = time.monotonic()
    pods.api.delete_namespaced_pod("gone", pods.namespace)
    codes = []
    for event in events.stream(
        pods.api.list_namespaced_pod, pods.namespace, resource_version=version, timeout_seconds=20
    ):
        ended = event["object"].status.container_statuses[0].state.terminated
        if ended is not None:
            codes.append(ended.exit_code)
        if event["type"] == "DELETED":
            events.stop()
    assert time.monotonic() - begin >= least
    assert set(codes) == {code}
    assert pods.get("gone") is None


def test_a_forced_deletion_ends_the_processes(pods: Pods, cluster: EmbeddedCluster) -> None:
    pods.create("forced", "sh", "-c", "trap '' TERM; sleep 36000", spec={})
    pods.ready("forced")
    pods.api.delete_namespaced_pod("forced", pods.namespace, grace_period_seconds=0)
    assert pods.get("forced") is None
    eventually(lambda: cluster.status()["pods"] == 0, "its worker is gone")


def test_a_dead_pods_address_is_not_the_next_ones(pods: Pods) -> None:
    addresses = set()
    for number in range(3):
        pods.create(f"p{number}", *SLEEPER)
        addresses.add(pods.ready(f"p{number}").status.pod_ip)
        pods.api.delete_namespaced_pod(f"p{number}", pods.namespace, grace_period_seconds=0)
    assert len(addresses) == 3


def test_images_and_configuration_that_are_not_there(pods: Pods) -> None:
    pods.create("never", image="busybox:nope", imagePullPolicy="Never")
    pods.create("pull", image="busybox:nope")
    pods.create("config", *SLEEPER, envFrom=[{"configMapRef": {"name": "late"}}])
    pods.create("missing", "/no/such/binary", spec={"restartPolicy": "Never"})

    def waits(name: str, reason: str) -> None:
        def holds(pod: Any) -> bool:
            (status,) = pod.status.container_statuses or [None]
            state = status and (status.state.waiting or status.state.terminated)
            return bool(state and state.reason == reason)

        pods.until(name, holds, f"{name}: {reason}")

    waits("never", "ErrImageNeverPull")
    waits("pull", "ImagePullBackOff")
    waits("config", "CreateContainerConfigError")
    waits("missing", "StartError")
    with pytest.raises(client.ApiException, match="is waiting to start: ErrImageNeverPull"):
        pods.log("never")
    pods.api.create_namespaced_config_map(pods.namespace, {"metadata": {"name": "late"}})
    pods.ready("config")


def test_readiness_follows_the_probe(pods: Pods) -> None:
    probe = {"exec": {"command": ["test", "-e", "/tmp/ready"]}, "periodSeconds": 1}
    pods.create("slow", *SLEEPER, readinessProbe=probe | {"failureThreshold": 1})
    pods.until("slow", lambda pod: pod.status.phase == "Running", "slow is running")
    assert not pods.get("slow").status.container_statuses[0].ready
    pods.run("slow", "touch", "/tmp/ready")
    pods.ready("slow")
    pods.run("slow", "rm", "/tmp/ready")
    pods.until("slow", lambda pod: not pod.status.container_statuses[0].ready, "slow is unready")


def test_liveness_restarts(pods: Pods) -> None:
    probe = {"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 1}
    pods.create("sick", *SLEEPER, livenessProbe=probe)

    def restarted(pod: Any) -> bool:
        # None before the kubelet has seen the pod.
        return any(status.restart_count >= 1 for status in pod.status.container_statuses or [])

    pods.until("sick", restarted, "restart")


def test_a_log_can_be_followed(pods: Pods) -> None:
    script = "echo one; while ! test -e /tmp/go; do sleep 0.05; done; echo two"
    pods.create("talk", "sh", "-c", script, spec={"restartPolicy": "Never"})
    pods.ready("talk")
    answer = pods.api.read_namespaced_pod_log(
        "talk", pods.namespace, follow=True, _preload_content=False
    )
    lines = iter(answer)
    assert next(lines) == b"one\n"
    pods.run("talk", "touch", "/tmp/go")
    assert b"".join(lines) == b"two\n"
    answer.release_conn()


def test_an_exec_that_is_cut_off_ends(pods: Pods) -> None:
    pods.create("cut", *SLEEPER)
    pods.ready("cut")
    session = stream(
        pods.api.connect_get_namespaced_pod_exec,
        "cut",
        pods.namespace,
        command=["sh", "-c", "echo $$; exec sleep 12345"],
        stdout=True,
        stdin=True,
        stderr=True,
        tty=False,
        _preload_content=False,
    )
    session.readline_stdout(timeout=20)
    hang_up(session)

    def gone() -> bool:
        return (
            "12345" not in pods.run("cut", "sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")[1]
        )

    eventually(gone, "the command has ended")


def test_exec_with_input_and_terminal(pods: Pods) -> None:
    pods.create("tty", *SLEEPER)
    pods.ready("tty")
    session = stream(
        pods.api.connect_get_namespaced_pod_exec,
        "tty",
        pods.namespace,
        command=["sh"],
        stdout=True,
        stdin=True,
        stderr=True,
        tty=True,
        _preload_content=False,
    )
    session.write_stdin("test -t 0 && echo it is a $((6 * 7)) terminal; exit 4\n")
    session.run_forever(timeout=20)
    assert "it is a 42 terminal" in session.read_stdout()
    assert session.returncode == 4
    hang_up(session)


def test_what_cannot_be_executed_is_said(pods: Pods) -> None:
    pods.create("exec", *SLEEPER)
    pods.ready("exec")
    with pytest.raises(client.ApiException, match=r"container nope is not valid for pod exec|400"):
        stream(
            pods.api.connect_get_namespaced_pod_exec,
            "exec",
            pods.namespace,
            container="nope",
            command=["true"],
            stdout=True,
        )


def test_the_demo_service_is_forked_and_answers(pods: Pods) -> None:
    reference = {"fieldRef": {"fieldPath": "status.podIP"}}
    pods.create(
        "redis",
        image="sremut/demo:1",
        args=["--name=user-memcached"],
        env=[{"name": "POD_IP", "valueFrom": reference}],
    )
    pods.create("client", *SLEEPER)
    ip = pods.ready("redis").status.pod_ip
    pods.ready("client")
    eventually(lambda: "listening" in pods.log("redis"), "the service listens")
    assert (
        pods.run("redis", "grep", "^CapEff", "/proc/1/status")[1] == "CapEff:\t00000000a80425fb\n"
    )
    port = re.search(r"listening on \S+:(\d+)", pods.log("redis"))
    assert port is not None
    assert pods.run("client", "nc", "-zv", "-w", "3", ip, port.group(1)) == (
        0,
        "",
        f"{ip} ({ip}:{port.group(1)}) open\n",
    )


def test_events_tell_the_story(pods: Pods) -> None:
    pods.create("tale", *SLEEPER)
    pods.ready("tale")
    pods.api.delete_namespaced_pod("tale", pods.namespace)
    eventually(lambda: pods.get("tale") is None, "tale is gone")
    events = pods.api.list_namespaced_event(pods.namespace).items
    told = {(e.reason, e.message) for e in events if e.source.component == "kubelet"}
    image = (
        'Container image "busybox:1.36" already present on machine and can be accessed by the pod'
    )
    assert told == {
        ("Pulled", image),
        ("Created", "Container created"),
        ("Started", "Container started"),
        ("Killing", "Stopping container main"),
    }
    assert {e.involved_object.field_path for e in events if e.source.component == "kubelet"} == {
        "spec.containers{main}"
    }
    assert os.environ.get("HOSTNAME") != "tale"
