"""Every way in which an API server does not answer, told apart."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
from http_script import HANG, RESET, HttpScript, chunked, http, ok, status
from kubeconfigs import write_kubeconfig

from pytest_sremut.cluster.client import KubeClient, load
from pytest_sremut.cluster.port import Absent, Deleted, Failed, Listing, ObjectRef, Present
from pytest_sremut.cluster.transport import Transport
from pytest_sremut.errors import ClusterError, ClusterUnavailableError, UsageError

REF = ObjectRef(kind="Service", namespace="ns", name="web")
SERVICE = {
    "kind": "Service",
    "apiVersion": "v1",
    "metadata": {"name": "web", "namespace": "ns", "uid": "u1", "resourceVersion": "7"},
    "spec": {"unknownField": 1},
}
NOT_FOUND = status(404, "NotFound", 'services "web" not found', name="web", kind="services")


def _closed_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


# -- reads ---------------------------------------------------------------------------------------


def test_an_object_comes_with_the_bytes_as_sent(client: KubeClient, server: HttpScript) -> None:
    raw = json.dumps(SERVICE, indent=3).encode()
    server.reply(http(200, raw, content_type="application/json; charset=utf-8"))
    found = client.get(REF)
    assert found == Present(body=SERVICE, raw=raw)
    request = server.requests[0]
    assert (request.method, request.path) == ("GET", "/api/v1/namespaces/ns/services/web")
    assert request.headers["authorization"] == "Bearer t0k3n"
    assert request.headers["accept"] == "application/json"


def test_not_found_about_this_object_is_absence(client: KubeClient, server: HttpScript) -> None:
    server.reply(NOT_FOUND)
    assert client.get(REF) == Absent(ref=REF)


def test_a_grouped_kind_is_absent_too(client: KubeClient, server: HttpScript) -> None:
    ref = ObjectRef(kind="Deployment", namespace="ns", name="web")
    server.reply(status(404, "NotFound", name="web", group="apps", kind="deployments"))
    assert client.get(ref) == Absent(ref=ref)
    assert server.requests[0].path == "/apis/apps/v1/namespaces/ns/deployments/web"


@pytest.mark.parametrize(
    ("answer", "code", "reason"),
    [
        (http(404, b"404 page not found\n", content_type="text/plain"), 404, "NoStatus"),
        (status(404, "NotFound", name="ns", kind="namespaces"), 404, "NotFound"),
        (status(404, "NotFound", name="other", kind="services"), 404, "NotFound"),
        (status(404, "NotFound"), 404, "NotFound"),
        (http(404, b"<html>", content_type="text/html"), 404, "NoStatus"),
        (status(403, "Forbidden", name="web", kind="services"), 403, "Forbidden"),
        (status(429, "TooManyRequests"), 429, "TooManyRequests"),
        (status(500, "InternalError"), 500, "InternalError"),
        (status(503, "ServiceUnavailable"), 503, "ServiceUnavailable"),
        (http(502, b"bad gateway", content_type="text/plain"), 502, "NoStatus"),
        (http(307, b"", close=True), 307, "NoStatus"),
        (http(200, json.dumps(SERVICE).encode(), content_type="text/html"), 200, "Malformed"),
        (http(200, b"{'not': json}"), 200, "Malformed"),
        (http(200, b'{"a": NaN}'), 200, "Malformed"),
        (http(200, b"[1]"), 200, "Malformed"),
        (http(200, b"\xff\xfe"), 200, "Malformed"),
        (http(200, b"[" * 100_000), 200, "Malformed"),
        (ok({**SERVICE, "kind": "Pod"}), 200, "Malformed"),
        (ok({**SERVICE, "metadata": {"name": "other"}}), 200, "Malformed"),
        (ok({**SERVICE, "metadata": None}), 200, "Malformed"),
        (http(200, json.dumps(SERVICE).encode())[:-5], 0, "Truncated"),
        (chunked(json.dumps(SERVICE).encode(), end=False), 0, "Truncated"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n", 0, "Truncated"),
        (HANG, 0, "Timeout"),
    ],
)
def test_everything_else_is_no_statement(
    client: KubeClient, server: HttpScript, answer: bytes, code: int, reason: str
) -> None:
    server.reply(answer)
    found = client.get(REF)
    assert isinstance(found, Failed)
    assert (found.status, found.reason) == (code, reason)
    assert found.what == "get Service ns/web"
    assert found.message
    assert "t0k3n" not in repr(found)
    assert len(server.requests) == 1


def test_a_refused_connection(tmp_path: Path) -> None:
    client = load(write_kubeconfig(tmp_path, _closed_port()), "test")
    found = client.get(REF)
    assert isinstance(found, Failed)
    assert (found.status, found.reason) == (0, "Refused")
    assert isinstance(client.version(), Failed)


def test_a_name_that_does_not_resolve(tmp_path: Path) -> None:
    client = load(write_kubeconfig(tmp_path, "http://sremut.invalid:1"), "test")
    found = client.get(REF)
    assert isinstance(found, Failed)
    assert found.reason == "Unreachable"


def test_no_tls_there(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                connection.recv(4096)

        thread = threading.Thread(target=serve)
        thread.start()
        port = listener.getsockname()[1]
        client = load(write_kubeconfig(tmp_path, f"https://127.0.0.1:{port}"), "test")
        found = client.get(REF)
        thread.join(5)
    assert isinstance(found, Failed)
    assert (found.status, found.reason) == (0, "TLS")


def test_a_server_that_trickles_is_cut_off(client: KubeClient, server: HttpScript) -> None:
    def trickle(_request: Any, connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n")
        connection.sendall(b"Transfer-Encoding: chunked\r\n\r\n")
        never = threading.Event()
        for _ in range(200):
            connection.sendall(b"1\r\n \r\n")
            never.wait(0.02)

    server.reply(trickle)
    found = client.get(REF)
    assert isinstance(found, Failed)
    assert found.reason == "Timeout"


def test_a_read_that_was_reset_is_sent_once_more(client: KubeClient, server: HttpScript) -> None:
    server.reply(RESET, ok(SERVICE))
    assert isinstance(client.get(REF), Present)
    server.reply(RESET, RESET)
    found = client.get(REF)
    assert isinstance(found, Failed)
    assert found.reason == "Reset"
    assert len(server.requests) == 4


def test_a_stale_kept_connection_does_not_show(client: KubeClient, server: HttpScript) -> None:
    server.reply(http(200, json.dumps(SERVICE).encode()), ok(SERVICE))
    assert isinstance(client.get(REF), Present)
    for connection in server._open:
        connection.shutdown(socket.SHUT_RDWR)
    assert isinstance(client.get(REF), Present)


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_names_that_cannot_be_one(client: KubeClient, name: str) -> None:
    with pytest.raises(ValueError, match="name"):
        client.get(ObjectRef(kind="Service", namespace="ns", name=name))
    with pytest.raises(ValueError, match="name"):
        client.get(ObjectRef(kind="Service", namespace=name, name="web"))


@pytest.mark.parametrize("name", ["a/b", "a?b", "a%2e%2e", "a#b"])
def test_names_stay_inside_their_path(client: KubeClient, server: HttpScript, name: str) -> None:
    ref = ObjectRef(kind="Service", namespace="ns", name=name)
    server.always(status(404, "NotFound", name=name, kind="services"))
    assert client.get(ref) == Absent(ref=ref)
    assert server.requests[0].path.startswith("/api/v1/namespaces/ns/services/")
    assert server.requests[0].path.count("/") == 6


def test_version(client: KubeClient, server: HttpScript) -> None:
    server.reply(ok({"gitVersion": "v1.36.2"}), http(200, b"[]"))
    assert client.version() == {"gitVersion": "v1.36.2"}
    assert isinstance(client.version(), Failed)


# -- lists ---------------------------------------------------------------------------------------


def _page(names: list[str], *, more: str = "", version: str = "9") -> dict[str, Any]:
    return {
        "kind": "PodList",
        "apiVersion": "v1",
        "metadata": {"resourceVersion": version, **({"continue": more} if more else {})},
        "items": [
            {"metadata": {"name": name, "namespace": "ns", "uid": f"u-{name}"}} for name in names
        ],
    }


def test_all_pages_of_a_list(client: KubeClient, server: HttpScript) -> None:
    server.reply(ok(_page(["a"], more="t1")), ok(_page(["b"])))
    found = client.list("Pod", "ns", labels="app=x", fields="spec.nodeName=n")
    assert isinstance(found, Listing)
    assert [item["metadata"]["name"] for item in found.items] == ["a", "b"]
    assert {item["kind"] for item in found.items} == {"Pod"}
    assert found.resource_version == "9"
    assert b'"a"' in found.raw
    assert b'"b"' in found.raw
    first, second = server.requests
    assert "labelSelector=app%3Dx" in first.path
    assert "fieldSelector=spec.nodeName%3Dn" in first.path
    assert "continue=t1" in second.path


def test_an_expired_continue_token_begins_anew(client: KubeClient, server: HttpScript) -> None:
    server.reply(ok(_page(["a"], more="t1")), status(410, "Expired"), ok(_page(["a", "b"])))
    found = client.list("Pod", "ns")
    assert isinstance(found, Listing)
    assert len(found.items) == 2


def test_a_list_that_expires_for_ever_ends(client: KubeClient, server: HttpScript) -> None:
    for _ in range(10):
        server.reply(ok(_page(["a"], more="t1")), status(410, "Expired"))
    found = client.list("Pod", "ns")
    assert isinstance(found, Failed)
    assert found.reason == "Expired"
    assert len(server.requests) == 8


def test_an_empty_namespace_lists_over_all(client: KubeClient, server: HttpScript) -> None:
    server.reply(ok(_page([]) | {"items": None}))
    assert client.list("Pod", "") == Listing(
        items=(), resource_version="9", raw=json.dumps(_page([]) | {"items": None}).encode()
    )
    assert server.requests[0].path.startswith("/api/v1/pods?")


@pytest.mark.parametrize(
    "body",
    [
        {"kind": "Status"},
        {**_page([]), "kind": "ServiceList"},
        {**_page([]), "items": {}},
        {**_page([]), "items": [1]},
        {**_page([]), "metadata": {}},
        {**_page([]), "metadata": None},
        {**_page([]), "metadata": {"resourceVersion": 9}},
    ],
)
def test_what_is_no_list(client: KubeClient, server: HttpScript, body: Any) -> None:
    server.reply(ok(body))
    found = client.list("Pod", "ns")
    assert isinstance(found, Failed)
    assert found.reason == "Malformed"


def test_a_failed_second_page_fails_the_list(client: KubeClient, server: HttpScript) -> None:
    server.reply(ok(_page(["a"], more="t1")), status(500, "InternalError"))
    assert isinstance(client.list("Pod", "ns"), Failed)


# -- watches and logs ----------------------------------------------------------------------------


def _event(type_: str, name: str, version: str) -> bytes:
    meta = {"name": name, "uid": f"u-{name}", "resourceVersion": version}
    return json.dumps({"type": type_, "object": {"kind": "Pod", "metadata": meta}}).encode() + b"\n"


def _watch(client: KubeClient, timeout: float = 0.3) -> list[tuple[str, str]]:
    events = client.watch("Pod", "ns", resource_version="7", timeout=timeout, labels="a=b")
    return [(event.type, event.object["metadata"]["name"]) for event in events]


def test_events_across_chunk_borders(client: KubeClient, server: HttpScript) -> None:
    stream = _event("ADDED", "a", "8") + _event("DELETED", "a", "9")
    server.reply(chunked(stream[:10], stream[10:70], stream[70:]))
    assert _watch(client) == [("ADDED", "a"), ("DELETED", "a")]
    path = server.requests[0].path
    for part in ("watch=true", "resourceVersion=7", "labelSelector=a%3Db", "timeoutSeconds=1"):
        assert part in path


def test_a_silent_watch_ends_at_its_timeout(client: KubeClient, server: HttpScript) -> None:
    def silent(_request: Any, connection: socket.socket) -> None:
        connection.sendall(chunked(_event("ADDED", "a", "8"), end=False))
        connection.recv(1)

    server.reply(silent)
    assert _watch(client) == [("ADDED", "a")]


def test_an_expired_watch(client: KubeClient, server: HttpScript) -> None:
    gone = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}}
    server.reply(chunked(json.dumps(gone).encode() + b"\n"), status(410, "Expired"))
    for _ in range(2):
        with pytest.raises(ClusterError) as caught:
            _watch(client)
        assert not isinstance(caught.value, ClusterUnavailableError)
        assert (caught.value.status, caught.value.reason) == (410, "Expired")


@pytest.mark.parametrize(
    "answer",
    [
        chunked(b"not json\n"),
        chunked(b'{"type": "ODD", "object": {"metadata": {"resourceVersion": "1"}}}\n'),
        chunked(b'{"type": "ADDED", "object": {}}\n'),
        chunked(b'{"type": "ADDED"}\n'),
        chunked(b'{"type": "ERROR", "object": {"code": 500}}\n'),
        chunked(_event("ADDED", "a", "8"), end=False),
        status(500, "InternalError"),
        RESET,
    ],
)
def test_a_broken_watch(client: KubeClient, server: HttpScript, answer: bytes) -> None:
    server.reply(answer)
    with pytest.raises(ClusterUnavailableError):
        _watch(client)


def test_a_bookmark_needs_no_name(client: KubeClient, server: HttpScript) -> None:
    mark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "9"}}}
    server.reply(chunked(json.dumps(mark).encode() + b"\n"))
    events = list(client.watch("Pod", "ns", resource_version="7", timeout=0.3))
    assert [event.type for event in events] == ["BOOKMARK"]


def test_logs_are_the_bytes_as_sent(client: KubeClient, server: HttpScript) -> None:
    server.reply(chunked(b"2026 a\n", b"2026 \xff\n", content_type="text/plain"))
    assert b"".join(client.logs("ns", "p", container="c", follow=True, timeout=1)) == (
        b"2026 a\n2026 \xff\n"
    )
    assert server.requests[0].path == (
        "/api/v1/namespaces/ns/pods/p/log?timestamps=true&container=c&follow=true"
    )


def test_logs_with_a_known_length(client: KubeClient, server: HttpScript) -> None:
    server.reply(http(200, b"x" * 200_000, content_type="text/plain"))
    assert len(b"".join(client.logs("ns", "p", timeout=1))) == 200_000


def test_logs_of_a_pod_that_is_not_there(client: KubeClient, server: HttpScript) -> None:
    server.reply(status(404, "NotFound", name="p", kind="pods"))
    with pytest.raises(ClusterError) as caught:
        list(client.logs("ns", "p", timeout=1))
    assert caught.value.status == 404


# -- writes --------------------------------------------------------------------------------------


def test_create(client: KubeClient, server: HttpScript) -> None:
    server.reply(ok(SERVICE, 201))
    assert client.create(SERVICE, namespace="ns").body == SERVICE
    request = server.requests[0]
    assert (request.method, request.path) == ("POST", "/api/v1/namespaces/ns/services")
    assert request.json == SERVICE
    assert request.headers["content-type"] == "application/json"


def test_create_of_a_namespace_has_no_namespace(client: KubeClient, server: HttpScript) -> None:
    server.reply(ok({"kind": "Namespace", "metadata": {"name": "x", "uid": "u"}}, 201))
    client.create({"kind": "Namespace", "metadata": {"name": "x"}}, namespace="x")
    assert server.requests[0].path == "/api/v1/namespaces"


def test_replace(client: KubeClient, server: HttpScript) -> None:
    server.reply(ok(SERVICE))
    client.replace(SERVICE, namespace="ns")
    request = server.requests[0]
    assert (request.method, request.path) == ("PUT", "/api/v1/namespaces/ns/services/web")
    assert request.json["metadata"]["resourceVersion"] == "7"


def test_delete_names_the_uid(client: KubeClient, server: HttpScript) -> None:
    server.reply(ok({"kind": "Status", "status": "Success"}), NOT_FOUND)
    deleted = client.delete(
        REF, uid="u1", resource_version="7", grace_period=0, propagation="Foreground"
    )
    assert isinstance(deleted, Deleted)
    assert server.requests[0].json == {
        "kind": "DeleteOptions",
        "apiVersion": "v1",
        "preconditions": {"uid": "u1", "resourceVersion": "7"},
        "gracePeriodSeconds": 0,
        "propagationPolicy": "Foreground",
    }
    assert client.delete(REF, uid="u1") == Absent(ref=REF)
    assert server.requests[1].json["preconditions"] == {"uid": "u1"}
    with pytest.raises(ValueError, match="without a UID"):
        client.delete(REF, uid="")


WRITES: list[Callable[[KubeClient], Any]] = [
    lambda client: client.create(SERVICE, namespace="ns"),
    lambda client: client.replace(SERVICE, namespace="ns"),
    lambda client: client.delete(REF, uid="u1"),
]


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize(
    ("code", "reason"),
    [(403, "Forbidden"), (409, "Conflict"), (409, "AlreadyExists"), (422, "Invalid")],
)
def test_a_refused_write(
    client: KubeClient,
    server: HttpScript,
    write: Callable[[KubeClient], Any],
    code: int,
    reason: str,
) -> None:
    server.reply(status(code, reason, "why"))
    with pytest.raises(ClusterError, match="why") as caught:
        write(client)
    assert not isinstance(caught.value, ClusterUnavailableError)
    assert (caught.value.status, caught.value.reason) == (code, reason)


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize(
    "answer",
    [
        RESET,
        HANG,
        status(429, "TooManyRequests"),
        status(500, "InternalError"),
        status(503, "ServiceUnavailable"),
        http(403, b"<html>proxy</html>", content_type="text/html"),
        http(200, b"<html>welcome</html>", content_type="text/html"),
        http(201, b'{"kind":')[:-3],
        b"HTTP/1.1 200 OK\r\n",
    ],
)
def test_a_write_of_unknown_effect_is_never_sent_twice(
    client: KubeClient, server: HttpScript, write: Callable[[KubeClient], Any], answer: bytes
) -> None:
    server.reply(answer)
    server.always(ok(SERVICE))
    with pytest.raises(ClusterUnavailableError):
        write(client)
    assert len(server.requests) == 1


def test_an_unknown_kind_is_a_programming_error(client: KubeClient) -> None:
    with pytest.raises(ValueError, match="Secret"):
        client.create({"kind": "Secret", "metadata": {"name": "x"}}, namespace="ns")


# -- kubeconfig ----------------------------------------------------------------------------------


def test_a_context_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="context 'prod'"):
        load(write_kubeconfig(tmp_path), "prod")


@pytest.mark.parametrize("text", ["", "{", "- 1", "a: [", "kind: Config", "\x00"])
def test_a_kubeconfig_that_is_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "broken"
    path.write_text(text)
    with pytest.raises(UsageError, match="broken"):
        load(path, "test")


def test_a_kubeconfig_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nowhere"):
        load(tmp_path / "nowhere", "test")


def test_the_global_default_is_not_touched(tmp_path: Path) -> None:
    from kubernetes.client import Configuration

    load(write_kubeconfig(tmp_path, "http://127.0.0.1:9"), "test")
    assert "127.0.0.1:9" not in Configuration.get_default_copy().host


def test_the_environment_is_not_read_again_once_a_kubeconfig_was_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread may be taking a variable away at that very moment."""
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:7")
    kubeconfig = write_kubeconfig(tmp_path, "https://127.0.0.1:9", token="t0")
    transport = Transport.load(kubeconfig, "test")
    assert transport.configuration.proxy == "http://127.0.0.1:7"

    def taken_away() -> NoReturn:
        raise KeyError("KUBECONFIG")

    monkeypatch.setattr("kubernetes.client.configuration.getproxies", taken_away)
    assert transport.authorization() == {"authorization": "Bearer t0"}
    assert transport.configuration.proxy == "http://127.0.0.1:7"
