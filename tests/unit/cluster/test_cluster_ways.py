"""Every way of failing, over a socket, becomes exactly what the tests of the engine inject.

`api_faults.WAYS` says what a client makes of each way; here a server really fails so, at each kind
of call, and the client must agree with it.
"""

from __future__ import annotations

import contextlib
import json
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from api_faults import WAYS, Way
from http_script import HANG, RESET, HttpScript, http, ok, status
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kubeconfigs import write_kubeconfig

from pytest_sremut.cluster.client import KubeClient
from pytest_sremut.cluster.port import Failed, Kind, ObjectRef, Present
from pytest_sremut.cluster.shapes import misfit
from pytest_sremut.cluster.transport import Transport
from pytest_sremut.errors import ClusterError, ClusterUnavailableError, UsageError

REF = ObjectRef(kind="Service", namespace="ns", name="web")
SERVICE: dict[str, Any] = {
    "kind": "Service",
    "apiVersion": "v1",
    "metadata": {"name": "web", "namespace": "ns", "uid": "u1", "resourceVersion": "7"},
    "spec": {"selector": {"a": "b"}, "ports": [{"port": 1}]},
}
LIST = {"kind": "ServiceList", "metadata": {"resourceVersion": "9"}, "items": [SERVICE]}
EVENT = {"type": "ADDED", "object": SERVICE}
VERSION = {"gitVersion": "v1.36.2"}
PAGE = b"<html><body>Please log in</body></html>\n"

Call = Callable[[KubeClient], Any]
READS: dict[str, tuple[str, Call, Any]] = {
    "get": ("get Service ns/web", lambda client: client.get(REF), SERVICE),
    "list": ("list Service in ns", lambda client: client.list("Service", "ns"), LIST),
    "version": ("get /version", lambda client: client.version(), VERSION),
}
STREAMS: dict[str, tuple[str, Call, Any]] = {
    "watch": (
        "watch Service in ns",
        lambda client: list(client.watch("Service", "ns", resource_version="7", timeout=0.3)),
        EVENT,
    ),
    "logs": (
        "logs of Pod ns/p",
        lambda client: b"".join(client.logs("ns", "p", timeout=0.3)),
        None,
    ),
}
WRITES: dict[str, tuple[str, Call, Any]] = {
    "create": (
        "create Service ns/web",
        lambda client: client.create(SERVICE, namespace="ns"),
        SERVICE,
    ),
    "replace": (
        "replace Service ns/web",
        lambda client: client.replace(SERVICE, namespace="ns"),
        SERVICE,
    ),
    "delete": ("delete Service ns/web", lambda client: client.delete(REF, uid="u1"), SERVICE),
}
SHAPELESS = {
    "get": {**SERVICE, "spec": {"selector": ["a"]}},
    "list": {**LIST, "items": [{**SERVICE, "metadata": {"name": "web"}}]},
    "version": ["v1.36.2"],
    "watch": {"type": "ADDED", "object": {**SERVICE, "metadata": []}},
    "create": {"kind": "Status", "status": "Success"},
    "replace": {**SERVICE, "metadata": {"name": "other", "uid": "u1"}},
    "delete": {"kind": "Status", "status": "Maybe"},
}


# One case a way.
def answer_of(way: str, call: str, good: Any) -> bytes:  # noqa: C901
    """What a server that fails in that way sends."""
    body = json.dumps(good).encode() + b"\n"
    match way:
        case "reset":
            return RESET
        case "hung":
            return HANG
        case "500":
            return status(500, "InternalError")
        case "429":
            return status(429, "TooManyRequests")
        case "429-retry-after":
            throttled = status(429, "TooManyRequests")
            return throttled.replace(b"\r\n", b"\r\nRetry-After: 0\r\n", 1)
        case "409":
            return status(409, "Conflict")
        case "410":
            return status(410, "Expired")
        case "truncated":
            return http(200, body)[: -len(body) // 2]
        case "content-type":
            return http(200, body, content_type="application/yaml")
        case "not-json":
            return http(200, b"{'not': json}\n")
        case "wrong-shape":
            return http(200, json.dumps(SHAPELESS[call]).encode() + b"\n")
        case "html":
            return http(200, PAGE, content_type="text/html")
    raise AssertionError(way)


@pytest.fixture
def unheard(tmp_path: Path) -> Iterator[KubeClient]:
    """A client of a port where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    made = KubeClient(Transport.load(write_kubeconfig(tmp_path, address), "test"))
    yield made
    made.close()


def failing(way: Way, call: str, good: Any, server: HttpScript, unheard: KubeClient) -> Any:
    """The client whose next call fails in that way, or None for the scripted one."""
    if way.name == "refused":
        return unheard
    answer = answer_of(way.name, call, good)
    server.reply(answer)
    if answer is RESET and call in READS:
        server.reply(answer)  # a read that was reset is sent once more
    if way.name == "429-retry-after" and call in READS:
        server.reply(answer)  # and one that was told to come again twice
        server.reply(answer)
    return None


@pytest.mark.parametrize("call", READS)
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_read_that_fails(
    way: Way, call: str, client: KubeClient, server: HttpScript, unheard: KubeClient
) -> None:
    what, act, good = READS[call]
    found = act(failing(way, call, good, server, unheard) or client)
    assert isinstance(found, Failed)
    assert (found.status, found.reason) == (way.status, way.reason)
    assert str(found).startswith(f"{what}: ")
    sent = {"refused": 0, "reset": 2, "429-retry-after": 3}
    assert len(server.requests) == sent.get(way.name, 1)


@pytest.mark.parametrize("call", READS)
def test_a_read_that_is_told_to_come_again_does(
    call: str, client: KubeClient, server: HttpScript
) -> None:
    _, act, good = READS[call]
    server.reply(answer_of("429-retry-after", call, good))
    server.reply(http(200, json.dumps(good).encode()))
    assert not isinstance(act(client), Failed)
    assert len(server.requests) == 2


def test_a_read_that_is_told_to_come_when_its_time_is_over_does_not(
    client: KubeClient, server: HttpScript
) -> None:
    later = status(429, "TooManyRequests").replace(b"\r\n", b"\r\nRetry-After: 86400\r\n", 1)
    server.reply(later)
    found = client.get(REF)
    assert isinstance(found, Failed)
    assert (found.status, len(server.requests)) == (429, 1)


@pytest.mark.parametrize("call", WRITES)
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_write_that_fails(
    way: Way, call: str, client: KubeClient, server: HttpScript, unheard: KubeClient
) -> None:
    what, act, good = WRITES[call]
    with pytest.raises(ClusterError) as caught:
        act(failing(way, call, good, server, unheard) or client)
    # Either nothing happened and the server says so, or whether it happened is unknown.
    assert isinstance(caught.value, ClusterUnavailableError) is not way.refused
    assert (caught.value.status, caught.value.reason) == (way.status, way.reason)
    assert str(caught.value).startswith(f"{what}: ")
    assert len(server.requests) == (way.name != "refused")  # never sent twice


@pytest.mark.parametrize(
    ("way", "call"),
    [
        pytest.param(way, call, id=f"{way.name}-{call}")
        for way in WAYS.values()
        for call in STREAMS
        # A log may hold anything: whoever reads it judges what it holds.
        if call != "logs" or way.logs != "garbage"
    ],
)
def test_a_stream_that_fails(
    way: Way, call: str, client: KubeClient, server: HttpScript, unheard: KubeClient
) -> None:
    what, act, good = STREAMS[call]
    used = failing(way, call, good, server, unheard) or client
    with pytest.raises(ClusterError) as caught:
        act(used)
    assert isinstance(caught.value, ClusterUnavailableError) is not way.refused
    assert caught.value.reason == way.reason
    assert str(caught.value).startswith(f"{what}: ")
    assert len(server.requests) == (way.name != "refused")


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_an_exec_that_fails(
    way: Way, client: KubeClient, server: HttpScript, unheard: KubeClient
) -> None:
    used = failing(way, "get", SERVICE, server, unheard) or client
    found = used.exec("ns", "p", ["true"], timeout=0.3)
    assert isinstance(found, Failed)
    assert str(found).startswith("exec in Pod ns/p: ")
    assert len(server.requests) == (way.name != "refused")


def test_a_log_that_is_no_text(client: KubeClient, server: HttpScript) -> None:
    server.reply(ok({"kind": "Status", "status": "Success"}))
    with pytest.raises(ClusterUnavailableError, match="logs of Pod ns/p"):
        list(client.logs("ns", "p", timeout=0.3))


# -- shapes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "more", "told"),
    [
        ("Pod", {"metadata": {"name": "p"}}, "metadata.uid"),
        ("Pod", {"metadata": {"name": "p", "uid": ""}}, "metadata.uid"),
        (
            "Pod",
            {"metadata": {"name": "p", "uid": "u", "labels": ["a"]}},
            "metadata.labels is a list",
        ),
        (
            "Pod",
            {"metadata": {"name": "p", "uid": "u", "labels": {"a": 1}}},
            "labels.a is of type int",
        ),
        ("Pod", {"status": []}, "status is a list"),
        ("Pod", {"status": {"conditions": {"type": "Ready"}}}, "status.conditions is"),
        ("Pod", {"status": {"conditions": ["Ready"]}}, "status.conditions[0] is a text"),
        ("Pod", {"status": {"phase": 1}}, "status.phase is of type int"),
        ("Deployment", {"spec": {"replicas": "3"}}, "spec.replicas is a text"),
        ("Deployment", {"spec": {"replicas": True}}, "spec.replicas is of type bool"),
        ("EndpointSlice", {"endpoints": [{"addresses": [None]}]}, "endpoints[0].addresses[0] is"),
        (
            "EndpointSlice",
            {"endpoints": [{"conditions": {"ready": 1}}]},
            "conditions.ready is of type int",
        ),
        ("Endpoints", {"subsets": [[]]}, "subsets[0] is a list"),
    ],
)
def test_what_does_not_fit(kind: Kind, more: dict[str, Any], told: str) -> None:
    assert told in misfit(kind, {"metadata": {"name": "p", "uid": "u"}, **more})


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("EndpointSlice", {"endpoints": None, "ports": None}),
        ("Service", {"spec": {"selector": None, "unknown": 1}}),
        ("Pod", {"status": {}, "unknown": []}),
        ("ConfigMap", {"data": [1]}),  # nobody looks into it
    ],
)
def test_what_fits(kind: Kind, more: dict[str, Any]) -> None:
    assert misfit(kind, {"metadata": {"name": "p", "uid": "u"}, **more}) == ""


# -- what a message may hold -----------------------------------------------------------------------

CANARY = "canary-7Qx41zPw0sLk93"


@pytest.mark.parametrize(
    "answer",
    [
        status(403, "Forbidden", f"token={CANARY} is not allowed"),
        http(500, f"Authorization: Bearer {CANARY}".encode(), content_type="text/plain"),
        http(502, f"<a href='https://u:{CANARY}@proxy/'>".encode(), content_type="text/html"),
        ok({**SERVICE, "metadata": {"name": "web", "uid": {"x": CANARY}}}),
        ok({**SERVICE, "spec": {"selector": CANARY}}),
        http(200, json.dumps({**SERVICE, "env": CANARY}).encode()[:-1]),
        http(200, json.dumps([SERVICE, CANARY]).encode()),
        http(200, json.dumps({"kind": CANARY}).encode(), content_type="text/html"),
    ],
)
def test_no_failure_tells_a_secret(client: KubeClient, server: HttpScript, answer: bytes) -> None:
    server.always(answer)
    assert CANARY not in str(client.get(REF))
    with pytest.raises(ClusterError) as caught:
        client.create(SERVICE, namespace="ns")
    assert CANARY not in str(caught.value)
    assert CANARY not in repr(client.exec("ns", "p", ["true"], timeout=0.3))


def test_the_token_of_the_kubeconfig_is_never_told(tmp_path: Path) -> None:
    token = "kNow+n/9f3b2c7a5e1d"
    with HttpScript() as server:
        transport = Transport.load(write_kubeconfig(tmp_path, server.address, token=token), "test")
        client = KubeClient(transport, read_timeout=5, write_timeout=5)
        server.always(status(401, "Unauthorized", f"no such user: {token}"))
        found = client.get(REF)
        assert isinstance(found, Failed)
        assert found.message == "no such user: [redacted]"
        client.close()


def test_the_password_of_the_kubeconfig_is_never_told(tmp_path: Path) -> None:
    with HttpScript() as server:
        path = write_kubeconfig(tmp_path, server.address, token="t")
        text = path.read_text().replace("token: t", "username: u\n    password: kNow+n/9f3b2")
        assert "password" in text
        path.write_text(text)
        client = KubeClient(Transport.load(path, "test"), read_timeout=5)
        server.always(status(401, "Unauthorized", "u:kNow+n/9f3b2 and dTprTm93K24vOWYzYjI="))
        found = client.get(REF)
        assert isinstance(found, Failed)
        assert "kNow" not in found.message
        assert "dTprTm93K24vOWYz" not in found.message
        client.close()


def test_a_kubeconfig_that_cannot_be_read_is_not_quoted(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(f"users:\n- user: {{token: {CANARY}\n  x: [\n")
    with pytest.raises(UsageError) as caught:
        Transport.load(path, "test")
    assert CANARY not in str(caught.value)


def test_credentials_in_an_address_are_not_shown(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path, f"http://u:{CANARY}@127.0.0.1:9")
    client = KubeClient(Transport.load(path, "test"))
    assert client.server == "http://[redacted]@127.0.0.1:9"
    assert CANARY not in str(client.get(REF))


# -- whatever comes over the wire ----------------------------------------------------------------

_PIECES = st.lists(
    st.sampled_from(
        [
            b"HTTP/1.1 200 OK\r\n",
            b"HTTP/1.1 404 Not Found\r\n",
            b"HTTP/1.1 999 \xff\r\n",
            b"HTTP/9.9\r\n",
            b"Content-Type: application/json\r\n",
            b"Content-Type: text/plain\r\n",
            b"Content-Encoding: gzip\r\n",
            b"Content-Length: 12\r\n",
            b"Content-Length: -1\r\n",
            b"Content-Length: many\r\n",
            b"Transfer-Encoding: chunked\r\n",
            b"Transfer-Encoding: \x00\r\n",
            b"X: " + b"y" * 70_000 + b"\r\n",
            b"\r\n",
            b"5\r\nabcde\r\n",
            b"zz\r\n",
            b"0\r\n\r\n",
            b"\x00\xff\xfe",
            json.dumps(SERVICE).encode(),
            json.dumps(EVENT).encode() + b"\n",
        ]
    )
    | st.binary(max_size=8),
    max_size=9,
).map(b"".join)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_PIECES)
def test_whatever_a_server_says_is_named(said: bytes) -> None:
    def speak(_request: Any, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            connection.sendall(said)
            connection.shutdown(socket.SHUT_RDWR)
        connection.close()

    with HttpScript() as server, tempfile.TemporaryDirectory() as folder:
        kubeconfig = write_kubeconfig(Path(folder), server.address)
        client = KubeClient(Transport.load(kubeconfig, "test"), read_timeout=2, write_timeout=2)
        server.always(speak)
        assert isinstance(client.get(REF), Present | Failed)
        assert isinstance(client.list("Service", "ns"), Failed)
        assert isinstance(client.exec("ns", "p", ["true"], timeout=2), Failed)
        for act in (WRITES["create"][1], STREAMS["watch"][1], STREAMS["logs"][1]):
            with contextlib.suppress(ClusterError):
                act(client)
        client.close()


def test_a_host_that_cannot_be_a_name(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path, f"http://{'a' * 70}.invalid:1")
    client = KubeClient(Transport.load(path, "test"))
    assert isinstance(client.get(REF), Failed)
    assert isinstance(client.exec("ns", "p", ["true"], timeout=2), Failed)
