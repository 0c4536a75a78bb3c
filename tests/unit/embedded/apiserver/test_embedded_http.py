"""The API over real sockets: the official client, watches, logs, commands and ports."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from typing import Any

import api_kit
import kubernetes as k8s
import pytest
import websocket
from api_server_kit import Server
from kubernetes.stream import stream


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()
    yield found
    found.stop()


@pytest.fixture
def client(server: Server) -> Iterator[k8s.client.ApiClient]:
    with server.client() as found:
        yield found


def raw(server: Server, request: bytes) -> bytes:
    """Send bytes, read the answer until the server closes."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as connection:
        connection.sendall(request)
        found = b""
        while chunk := connection.recv(65536):
            found += chunk
    return found


# The official client


def test_workloads(client: k8s.client.ApiClient) -> None:
    apps = k8s.client.AppsV1Api(client)
    made = apps.create_namespaced_deployment("default", api_kit.deployment(replicas=2))
    assert made.spec.strategy.rolling_update.max_surge == "25%"
    assert apps.read_namespaced_deployment_scale("web", "default").spec.replicas == 2
    apps.patch_namespaced_deployment_scale("web", "default", {"spec": {"replicas": 3}})
    made = apps.read_namespaced_deployment("web", "default")
    assert made.metadata.generation == 2
    made.spec.paused = True
    assert apps.replace_namespaced_deployment("web", "default", made).spec.paused is True
    status = {"status": {"replicas": 3}}
    apps.patch_namespaced_deployment_status("web", "default", status)
    assert apps.list_deployment_for_all_namespaces().items[0].status.replicas == 3
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": api_kit.pod()["spec"]}
    workload = {
        "metadata": {"name": "x"},
        "spec": {"selector": {"matchLabels": labels}, "template": template, "serviceName": "x"},
    }
    apps.create_namespaced_stateful_set("default", workload)
    del workload["spec"]["serviceName"]
    apps.create_namespaced_daemon_set("default", workload)
    apps.create_namespaced_replica_set("default", workload)
    batch = k8s.client.BatchV1Api(client)
    job_spec = {"template": {"spec": {**api_kit.pod()["spec"], "restartPolicy": "Never"}}}
    made = batch.create_namespaced_job("default", {"metadata": {"name": "j"}, "spec": job_spec})
    assert made.spec.selector.match_labels
    assert batch.delete_namespaced_job("j", "default", propagation_policy="Background")
    apps.delete_namespaced_deployment(
        "web", "default", body=k8s.client.V1DeleteOptions(propagation_policy="Foreground")
    )
    finalizers = apps.read_namespaced_deployment("web", "default").metadata.finalizers
    assert finalizers == ["foregroundDeletion"]


def test_core_kinds(client: k8s.client.ApiClient) -> None:
    core = k8s.client.CoreV1Api(client)
    core.create_namespace({"metadata": {"name": "n"}})
    core.create_namespaced_config_map("n", {"metadata": {"name": "c"}, "data": {"a": "b"}})
    core.create_namespaced_secret("n", {"metadata": {"name": "s"}, "stringData": {"a": "b"}})
    core.create_namespaced_service_account("n", {"metadata": {"name": "default"}})
    made = core.create_namespaced_service("n", api_kit.service())
    assert made.spec.cluster_ip.startswith("10.")
    subsets = [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}]
    core.create_namespaced_endpoints("n", {"metadata": {"name": "web"}, "subsets": subsets})
    claim = {
        "metadata": {"name": "p"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
        },
    }  # fmt: skip
    core.create_namespaced_persistent_volume_claim("n", claim)
    hard = {"spec": {"hard": {"pods": "5"}}}
    core.create_namespaced_resource_quota("n", {"metadata": {"name": "q"}, **hard})
    limits = {"spec": {"limits": [{"type": "Container", "default": {"cpu": "1"}}]}}
    core.create_namespaced_limit_range("n", {"metadata": {"name": "l"}, **limits})
    core.create_node({"metadata": {"name": "node-1"}})
    core.create_namespaced_pod("n", api_kit.pod())
    with pytest.raises(k8s.client.ApiException) as caught:
        core.create_namespaced_pod("n", api_kit.pod())
    assert (caught.value.status, json.loads(caught.value.body)["reason"]) == (409, "AlreadyExists")
    deleted = core.delete_namespaced_pod("p", "n")
    assert deleted.metadata.name == "p"
    core.delete_collection_namespaced_config_map("n")
    assert core.list_namespaced_config_map("n").items == []
    page = core.list_namespace(limit=2)
    assert page.metadata.remaining_item_count
    rest = core.list_namespace(_continue=page.metadata._continue)
    assert len(page.items + rest.items) == 5
    event = {
        "metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "namespace": "n"},
        "reason": "R", "message": "m", "type": "Normal",
    }  # fmt: skip
    core.create_namespaced_event("n", event)
    assert core.list_namespaced_event("n").items[0].message == "m"


def test_other_groups(client: k8s.client.ApiClient) -> None:
    network = k8s.client.NetworkingV1Api(client)
    policy = {"metadata": {"name": "x"}, "spec": {"podSelector": {}}}
    assert network.create_namespaced_network_policy("default", policy).spec.policy_types == [
        "Ingress"
    ]
    slices = k8s.client.DiscoveryV1Api(client)
    body = {
        "metadata": {"name": "x"}, "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"port": 80}],
    }  # fmt: skip
    slices.create_namespaced_endpoint_slice("default", body)
    leases = k8s.client.CoordinationV1Api(client)
    lease = {"metadata": {"name": "x"}, "spec": {"renewTime": "2026-11-30T12:00:00.000001Z"}}
    leases.create_namespaced_lease("default", lease)
    rbac = k8s.client.RbacAuthorizationV1Api(client)
    rules = [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]
    rbac.create_namespaced_role("default", {"metadata": {"name": "r"}, "rules": rules})
    reviews = k8s.client.AuthorizationV1Api(client)
    review = {"spec": {"resourceAttributes": {"verb": "delete", "resource": "pods"}}}
    assert reviews.create_self_subject_access_review(review).status.allowed is True
    assert k8s.client.VersionApi(client).get_code().minor == "36"
    assert {group.name for group in k8s.client.ApisApi(client).get_api_versions().groups} >= {
        "apps"
    }


def test_a_watch_of_the_client(server: Server, client: k8s.client.ApiClient) -> None:
    core = k8s.client.CoreV1Api(client)
    seen = []
    watch = k8s.watch.Watch()
    for event in watch.stream(core.list_namespaced_pod, "default", timeout_seconds=10):
        seen.append((event["type"], event["object"].metadata.name))
        if len(seen) == 2:
            watch.stop()
    # Objects made while the watch is on arrive in it: the first from below, the rest from here.
    assert seen == [("ADDED", "a"), ("ADDED", "b")]


@pytest.fixture(autouse=True)
def pods(request: pytest.FixtureRequest) -> None:
    """Two pods for the tests that look at pods through a server."""
    if "server" in request.fixturenames or "client" in request.fixturenames:
        server = request.getfixturevalue("server")
        for name in ("a", "b"):
            server.run(server.registry.create, "pods", "default", api_kit.pod(name))


# Watches on the wire


def frames(server: Server, query: str) -> list[Any]:
    head, _, body = raw(
        server,
        f"GET /api/v1/namespaces/default/pods?watch=1&{query} HTTP/1.1\r\nHost: x\r\n"
        "Connection: close\r\n\r\n".encode(),
    ).partition(b"\r\n\r\n")
    assert b"200" in head.split(b"\r\n")[0]
    assert b"chunked" in head
    text = b""
    while body:
        size, _, body = body.partition(b"\r\n")
        text += body[: int(size, 16)]
        body = body[int(size, 16) + 2 :]
    return [json.loads(line) for line in text.splitlines()]


def test_a_watch_ends_at_its_time_with_a_bookmark(server: Server) -> None:
    found = frames(server, "timeoutSeconds=3&allowWatchBookmarks=true")
    assert [frame["type"] for frame in found] == ["ADDED", "ADDED", "BOOKMARK"]
    assert found[-1]["object"]["metadata"] == {"resourceVersion": str(server.registry.revision)}


def test_a_watch_from_the_forgotten_past_ends_at_once(server: Server) -> None:
    found = frames(server, "resourceVersion=0&timeoutSeconds=1")
    assert len(found) == 2

    def forget() -> None:
        for _ in range(20_001):
            server.registry.store.put("x", {"metadata": {"name": "x"}})

    server.run(forget)
    (found,) = frames(server, "resourceVersion=2&timeoutSeconds=600")
    assert (found["type"], found["object"]["code"]) == ("ERROR", 410)


def test_a_client_that_goes_is_forgotten(server: Server) -> None:
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(b"GET /api/v1/pods?watch=1 HTTP/1.1\r\nHost: x\r\n\r\n")
        assert connection.recv(10)
        assert len(server.registry.store._subscribers) == 1

    async def until_gone() -> None:
        async with asyncio.timeout(5):
            while server.registry.store._subscribers:
                await asyncio.sleep(0.01)

    server.run(until_gone)


# Logs, commands, ports


def test_logs(client: k8s.client.ApiClient) -> None:
    core = k8s.client.CoreV1Api(client)
    assert core.read_namespaced_pod_log("a", "default") == "one\ntwo\nthree\n"
    assert core.read_namespaced_pod_log("a", "default", tail_lines=1, follow=True) == "three\n"
    with pytest.raises(k8s.client.ApiException) as caught:
        core.read_namespaced_pod_log("a", "default", previous=True)
    assert caught.value.status == 400


def run(client: k8s.client.ApiClient, command: list[str], **options: Any) -> Any:
    core = k8s.client.CoreV1Api(client)
    wanted = {"stderr": True, "stdin": False, "stdout": True, "tty": False, **options}
    return stream(
        core.connect_get_namespaced_pod_exec, "a", "default", command=command,
        _preload_content=False, **wanted,
    )  # fmt: skip


def test_a_command_and_its_exit_code(client: k8s.client.ApiClient) -> None:
    for code in (0, 5):
        session = run(client, ["x", str(code)])
        session.run_forever(timeout=5)
        assert session.read_stdout() == "out"
        assert session.read_stderr() == "err"
        assert session.returncode == code
        session.sock.shutdown()  # the client leaves a socket that the server closed


def test_a_command_with_input(client: k8s.client.ApiClient) -> None:
    session = run(client, ["x"], stdin=True, stderr=False)
    session.write_stdin("hello END")
    session.run_forever(timeout=5)
    assert session.read_stdout() == "outhello END"
    assert session.read_stderr() == ""
    session.sock.shutdown()  # the client leaves a socket that the server closed


def open_socket(server: Server, target: str, *protocols: str) -> websocket.WebSocket:
    return websocket.create_connection(
        f"ws://127.0.0.1:{server.port}/api/v1/namespaces/default/pods/a/{target}",
        subprotocols=list(protocols), timeout=5,
    )  # fmt: skip


def test_version_5_closes_the_input(server: Server) -> None:
    session = open_socket(
        server, "exec?command=x&stdin=1&stdout=1&tty=1", "v5.channel.k8s.io", "v4.channel.k8s.io"
    )
    assert session.getsubprotocol() == "v5.channel.k8s.io"
    session.send_binary(b"\x04" + b'{"Width": 80, "Height": 24}')
    session.send_binary(b"\x04" + b"nonsense")
    session.send_binary(b"\x00hi")
    session.send_binary(b"\xff\x00")
    received = []
    while (data := session.recv()) and not data.startswith(b"\x03"):
        received.append(data)
    assert received == [b"\x01out", b"\x01hi"]
    assert json.loads(data[1:])["status"] == "Success"
    session.close()
    assert server.runtime.execs[-1].sizes == [(80, 24)]


def test_a_command_that_cannot_start_is_told_on_the_error_channel(server: Server) -> None:
    session = open_socket(server, "exec?command=missing&stdout=1", "v4.channel.k8s.io")
    data = session.recv()
    assert data[:1] == b"\x03"
    assert json.loads(data[1:])["message"].startswith("Internal error occurred")
    session.close()


@pytest.mark.parametrize(
    ("target", "protocol", "part"),
    [
        ("exec?command=refused&stdout=1", "v4.channel.k8s.io", b"completed pod"),
        ("exec?command=x&stdout=1", "odd.protocol", b"none of the protocols"),
        ("portforward", "v4.channel.k8s.io", b"is required"),
        ("exec?command=x&stdout=1", "", b"Upgrade request required"),
    ],
)
def test_commands_that_are_refused_are_no_sockets(
    server: Server, target: str, protocol: str, part: bytes
) -> None:
    upgrade = (
        "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        f"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: {protocol}\r\n"
    )
    path = f"/api/v1/namespaces/default/pods/a/{target}"
    head = upgrade if protocol else "Connection: close\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n{head}\r\n".encode())
        found = b""
        while b"}" not in found:
            found += connection.recv(65536)
    assert b" 400 " in found.split(b"\r\n")[0]
    assert part in found


def test_a_client_that_goes_takes_its_command_with_it(server: Server) -> None:
    session = open_socket(server, "exec?command=wait&stdout=1", "v4.channel.k8s.io")
    command = server.runtime.execs[-1]
    session.close()

    async def until_killed() -> None:
        async with asyncio.timeout(5):
            while not command.killed:
                await asyncio.sleep(0.01)

    server.run(until_killed)


def test_ports(server: Server) -> None:
    session = open_socket(server, "portforward?ports=80&ports=81", "v4.channel.k8s.io")
    session.send_binary(b"\x00hello")
    received: dict[int, bytes] = {}
    while received.get(0, b"")[2:] != b"HELLO" or len(received.get(3, b"")) < 3:
        data = session.recv()
        received[data[0]] = received.get(data[0], b"") + data[1:]
    assert received[0][:2] == (80).to_bytes(2, "little")
    assert received[3][2:].endswith(b"connection refused")
    session.close()


# The server itself


def test_own_documents(server: Server) -> None:
    for path, wanted in (("status", b'{"pods":1}'), ("selftest", b'{"ok":true}')):
        found = raw(
            server,
            f"GET /sremut/v1/{path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode(),
        )
        assert found.endswith(wanted)


def test_tokens_over_the_wire() -> None:
    server = Server(token="secret")
    try:
        with server.client("secret") as client:
            assert k8s.client.CoreV1Api(client).list_namespace().items
        for token, status in (("wrong", 401), ("", 403)):
            with server.client(token) as client:
                with pytest.raises(k8s.client.ApiException) as caught:
                    k8s.client.CoreV1Api(client).list_namespace()
                assert caught.value.status == status
    finally:
        server.stop()


def test_without_a_kubelet_logs_say_so() -> None:
    server = Server()
    try:
        server.server._runtime = None
        server.run(server.registry.create, "pods", "default", api_kit.pod("a"))
        with server.client() as client:
            with pytest.raises(k8s.client.ApiException) as caught:
                k8s.client.CoreV1Api(client).read_namespaced_pod_log("a", "default")
            assert caught.value.status == 501
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("request_bytes", "part"),
    [
        (b"GET /version?%ff=%zz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", b" 200 "),
        (b"GET /\xff HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", b" 40"),
        (b"NONSENSE\r\n\r\n", b" 400 "),
        (
            b"POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
            b"Content-Length: 4000000\r\n\r\n" + b"x" * 4_000_000,
            b" 413 ",
        ),
    ],
)
def test_odd_requests(server: Server, request_bytes: bytes, part: bytes) -> None:
    assert part in raw(server, request_bytes).split(b"\r\n")[0]
    assert b"200" in raw(server, b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
