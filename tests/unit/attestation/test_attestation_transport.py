"""Asking over HTTP: what is tried again, what is refused, and that every wait ends."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import forge
import pytest

from pytest_sremut.attestation.errors import (
    AuthorityAnswerError,
    AuthorityUnreachableError,
    NotATimestampError,
)
from pytest_sremut.attestation.rfc3161.authority import SelfIssuedAuthority
from pytest_sremut.attestation.rfc3161.reply import MAX_REPLY, parse_granted
from pytest_sremut.attestation.rfc3161.request import build_query
from pytest_sremut.attestation.rfc3161.server import serve
from pytest_sremut.attestation.rfc3161.transport import HttpAuthority
from pytest_sremut.errors import UsageError

QUERY = build_query(forge.DATA)
REPLY_TYPE = b"application/timestamp-reply"


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


def answer(body: bytes, *, status: bytes = b"200 OK", kind: bytes = REPLY_TYPE) -> bytes:
    return (
        b"HTTP/1.1 " + status + b"\r\nContent-Type: " + kind
        + b"\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body
    )  # fmt: skip


@contextmanager
def scripted(*answers: bytes | None) -> Iterator[tuple[str, list[bytes]]]:
    """A server that gives these bytes in turn; None says nothing until the client goes."""
    requests: list[bytes] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def run() -> None:
        for one in answers:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(10)
                head = b""
                while b"\r\n\r\n" not in head or not head.endswith(QUERY):
                    head += connection.recv(65536)
                requests.append(head)
                if one is None:
                    connection.recv(1)
                else:
                    connection.sendall(one)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/tsr", requests
    finally:
        listener.close()
        thread.join(20)


def authority(url: str, **options: object) -> HttpAuthority:
    return HttpAuthority(**{"url": url, "timeout": 5.0, "wait": lambda _: None, **options})


class TestServer:
    def test_round_trip(self):
        own = SelfIssuedAuthority()
        with serve(own) as server:
            assert server.url.startswith("http://127.0.0.1:")
            parse_granted(authority(server.url).stamp(QUERY))

    def test_wrong_media_type_is_told(self):
        import http.client

        with serve(SelfIssuedAuthority()) as server:
            host, port = server.server_address[:2]
            for method, path, headers, body, expected in (
                ("POST", "/", {"Content-Type": "text/plain"}, QUERY, 415),
                ("POST", "/", {"Content-Length": "99999999"}, b"", 400),
                ("POST", "/", {"Content-Length": "x"}, b"", 400),
                ("GET", "/", {}, b"", 404),
                ("GET", "/root.pem", {}, b"", 200),
                ("POST", "/", {"Content-Type": "application/timestamp-query"}, b"?", 200),
            ):
                connection = http.client.HTTPConnection(str(host), port, timeout=5)
                connection.request(method, path, body=body, headers=headers)
                assert connection.getresponse().status == expected
                connection.close()


class TestAnswers:
    def test_sound(self):
        with scripted(answer(b"reply")) as (url, requests):
            assert authority(url).stamp(QUERY) == b"reply"
        assert b"Content-Type: application/timestamp-query" in requests[0]

    @pytest.mark.parametrize("kind", [b"text/html", b"application/octet-stream", b"text/plain"])
    def test_media_type(self, kind):
        with (
            scripted(answer(b"<html>", kind=kind)) as (url, _),
            pytest.raises(NotATimestampError, match=kind.decode()),
        ):
            authority(url).stamp(QUERY)

    def test_media_type_with_parameters(self):
        with scripted(answer(b"x", kind=REPLY_TYPE.upper() + b"; charset=binary")) as (url, _):
            assert authority(url).stamp(QUERY) == b"x"

    @pytest.mark.parametrize("status", [b"400 Bad Request", b"403 Forbidden", b"404 Not Found"])
    def test_client_errors_are_not_tried_again(self, status):
        with (
            scripted(answer(b"no", status=status)) as (url, requests),
            pytest.raises(AuthorityAnswerError, match=status.decode()),
        ):
            authority(url).stamp(QUERY)
        assert len(requests) == 1

    @pytest.mark.parametrize("status", [b"301 Moved", b"302 Found", b"307 Temporary", b"308 Moved"])
    def test_redirects_are_not_followed(self, status):
        moved = b"HTTP/1.1 " + status + b"\r\nLocation: http://127.0.0.1:1/x\r\n\r\n"
        with (
            scripted(moved) as (url, requests),
            pytest.raises(AuthorityAnswerError, match=r"moved to http://127.0.0.1:1/x"),
        ):
            authority(url).stamp(QUERY)
        assert len(requests) == 1

    def test_too_long(self):
        with (
            scripted(answer(b"0" * (MAX_REPLY + 1))) as (url, _),
            pytest.raises(NotATimestampError, match="more than"),
        ):
            authority(url).stamp(QUERY)

    def test_cut_off(self):
        with (
            scripted(answer(b"0123456789")[:-3]) as (url, _),
            pytest.raises(AuthorityUnreachableError, match="cut off"),
        ):
            authority(url).stamp(QUERY)

    def test_no_http(self):
        with (
            scripted(b"SSH-2.0-OpenSSH\r\n") as (url, _),
            pytest.raises(AuthorityUnreachableError),
        ):
            authority(url).stamp(QUERY)

    def test_silence(self):
        with (
            scripted(None) as (url, requests),
            pytest.raises(AuthorityUnreachableError, match=r"timed out|Timeout"),
        ):
            authority(url, timeout=0.2).stamp(QUERY)
        assert len(requests) == 1


class TestTries:
    def test_server_errors_pass(self):
        busy = answer(b"busy", status=b"503 Busy", kind=b"text/html")
        waits: list[float] = []
        with scripted(busy, busy, answer(b"reply")) as (url, requests):
            assert authority(url, wait=waits.append).stamp(QUERY) == b"reply"
        assert waits == [0.5, 1.0]
        assert len({request.split(b"\r\n\r\n", 1)[1] for request in requests}) == 1

    def test_server_errors_to_the_end(self):
        busy = answer(b"busy", status=b"500 Oops")
        with (
            scripted(busy, busy) as (url, requests),
            pytest.raises(AuthorityUnreachableError, match=r"in 2 tries: .*500 Oops") as caught,
        ):
            authority(url, attempts=2).stamp(QUERY)
        assert len(requests) == 2
        assert "try 1" in caught.value.diagnostics()

    def test_nobody_there(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        waits: list[float] = []
        with pytest.raises(AuthorityUnreachableError, match="cannot connect"):
            authority(f"http://127.0.0.1:{port}/", wait=waits.append).stamp(QUERY)
        assert waits == [0.5, 1.0, 2.0]

    def test_proxy_is_honoured(self, monkeypatch):
        with scripted(answer(b"by proxy")) as (url, requests):
            monkeypatch.setenv("http_proxy", url)
            monkeypatch.delenv("no_proxy", raising=False)
            monkeypatch.delenv("NO_PROXY", raising=False)
            assert authority("http://tsa.invalid/tsr").stamp(QUERY) == b"by proxy"
        assert requests[0].startswith(b"POST http://tsa.invalid/tsr")


@pytest.mark.parametrize(
    "url",
    ["", "self", "ftp://x/", "file:///etc/passwd", "http://", "http://[::1", "http://h:x/",
     "http://a b/", "http://h/\n", "http://user:pass@h/", "http://h\u00e9/"],
)  # fmt: skip
def test_urls_that_are_none(url):
    with pytest.raises(UsageError) as caught:
        HttpAuthority(url=url)
    assert "pass@" not in str(caught.value)


def test_name_leaves_keys_out():
    assert HttpAuthority(url="https://h:1/p?key=secret#x").name == "https://h:1/p"


@pytest.mark.parametrize(("algorithm", "policy"), [("sha1", None), ("sha256", "abc")])
def test_queries_that_may_not_be_asked(algorithm, policy):
    with pytest.raises(UsageError):
        build_query(b"", hash_algorithm=algorithm, policy=policy)


def test_nonces_differ():
    from pytest_sremut.attestation.rfc3161.request import parse_query

    nonces = {parse_query(build_query(b"")).nonce for _ in range(50)}
    assert len(nonces) == 50
    assert max(nonce.bit_length() for nonce in nonces if nonce) > 48
