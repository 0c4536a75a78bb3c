"""Answers read from bytes: whatever comes, in whatever pieces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sremut.workload.wire import Answer, WireError, take_answer, take_last_answer

CHUNKED = b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n"
WHOLE = [
    (b"HTTP/1.1 500 X\r\nContent-Length: 3\r\n\r\nabc", 500, True),
    (b"HTTP/1.1 200 X\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", 200, False),
    (b"HTTP/1.0 200 X\r\nContent-Length: 1\r\n\r\na", 200, False),
    (b"HTTP/1.0 200 X\r\nConnection: Keep-Alive\r\nContent-Length: 1\r\n\r\na", 200, True),
    (b"HTTP/1.1 304 X\r\nContent-Length: 9\r\n\r\n", 304, True),
    (CHUNKED + b"3\r\nabc\r\n0\r\n\r\n", 200, True),
    (CHUNKED + b"a;name=v\r\n0123456789\r\n1\r\n\n\r\n0\r\nTrailer: x\r\n\r\n", 200, True),
]


@pytest.mark.parametrize(("data", "status", "keep_alive"), WHOLE)
def test_an_answer_is_complete_with_its_last_byte(
    data: bytes, status: int, keep_alive: bool
) -> None:
    for cut in range(len(data)):
        assert take_answer(data[:cut]) is None
        assert take_last_answer(data[:cut]) is None, "a body that is cut off is no answer"
    assert take_answer(data) == Answer(status, len(data), keep_alive)
    assert take_answer(data + b"HTTP/1.1 200") == Answer(status, len(data), keep_alive)


def test_a_body_without_length_ends_with_the_connection() -> None:
    data = b"HTTP/1.1 200 X\r\n\r\nuntil the end"
    assert take_answer(data) is None
    assert take_last_answer(data) == Answer(200, len(data), keep_alive=False)


@pytest.mark.parametrize(
    "data",
    [
        b"220 ready\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 X\r\nContent-Length: many\r\n\r\n",
        CHUNKED + b"zz\r\n",
        CHUNKED + b"-1\r\n",
        CHUNKED + b"1\r\nabc\r\n",
        b"x" * 70_000,
    ],
)
def test_what_never_becomes_an_answer(data: bytes) -> None:
    with pytest.raises(WireError):
        take_answer(data)


@given(st.binary(max_size=200) | st.binary(max_size=80).map(lambda more: CHUNKED + more))
def test_any_bytes_are_an_answer_or_none(data: bytes) -> None:
    for take in (take_answer, take_last_answer):
        try:
            found = take(data)
        except WireError:
            continue
        assert found is None or 0 < found.size <= len(data)
