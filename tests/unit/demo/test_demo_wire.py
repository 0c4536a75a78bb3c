"""HTTP messages: whole ones, pieces, and what is none."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sremut.demo.wire import (
    MAX_BODY,
    MAX_HEAD,
    Reply,
    WireError,
    format_reply,
    format_request,
    parameters,
    take_reply,
    take_request,
)


@given(st.binary(max_size=300), st.integers(0, 400))
def test_a_request_in_pieces_is_taken_when_it_is_whole(body: bytes, cut: int) -> None:
    data = format_request("user-service", "POST", "/compose?user_id=7", body)
    assert (take_request(data[: min(cut, len(data) - 1)])) is None
    taken = take_request(data + b"GET /next")
    assert taken is not None
    request, rest = taken
    assert (request.method, request.path, request.query) == ("POST", "/compose", "user_id=7")
    assert request.body == body
    assert request.keep_alive
    assert rest == b"GET /next"


@given(st.integers(200, 599), st.binary(max_size=300), st.booleans())
def test_a_reply_round_trips(status: int, body: bytes, keep_alive: bool) -> None:
    taken = take_reply(format_reply(Reply(status, body), keep_alive=keep_alive))
    assert taken == (Reply(status, body), keep_alive, b"")


@given(st.binary(max_size=400))
def test_arbitrary_bytes_are_a_message_or_a_wire_error(data: bytes) -> None:
    for take in (take_request, take_reply):
        for prefix in (b"", b"GET / HTTP/1.1\r\n", b"HTTP/1.1 200 OK\r\n"):
            with suppress(WireError):
                take(prefix + data + b"\r\n\r\n")


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (MAX_BODY + 1), 413),
        (b"GET / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n", 413),
        (b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 501),
        (b"GET /" + b"a" * MAX_HEAD, 431),
        (b"GET / SPDY/1\r\n\r\n", 400),
        (b"GET http://elsewhere/ HTTP/1.1\r\n\r\n", 400),
        (b"\r\n\r\n", 400),
        ("GET /ü HTTP/1.1\r\n\r\n".encode(), 400),
    ],
)
def test_what_is_refused(data: bytes, status: int) -> None:
    with pytest.raises(WireError) as refused:
        take_request(data)
    assert refused.value.status == status


@pytest.mark.parametrize(
    ("head", "keep_alive"),
    [
        (b"GET / HTTP/1.1\r\nHost: a", True),
        (b"GET / HTTP/1.1\r\nconnection: Close", False),
        (b"GET / HTTP/1.0\r\nHost: a", False),
        (b"GET / HTTP/1.0\r\nConnection: keep-alive", True),
    ],
)
def test_keep_alive(head: bytes, keep_alive: bool) -> None:
    taken = take_request(head + b"\r\n\r\n")
    assert taken is not None
    assert taken[0].keep_alive is keep_alive


def test_head_replies_have_no_body() -> None:
    data = format_reply(Reply(200, b"{}"), keep_alive=True, body=False)
    assert data.endswith(b"Content-Length: 2\r\n\r\n")


def test_parameters() -> None:
    assert parameters("a=1&b=x%20y+z&&a=2&c") == {"a": "2", "b": "x y z", "c": ""}
