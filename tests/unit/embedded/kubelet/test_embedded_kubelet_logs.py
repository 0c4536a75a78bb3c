"""A container's log."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest

from pytest_sremut.embedded.kubelet.logs import LONGEST_LINE, LogBuffer, LogPipe, rfc3339_nano

SECOND = 1_000_000_000


def read(buffer: LogBuffer, **options: Any) -> bytes:
    async def collect() -> bytes:
        return b"".join([piece async for piece in buffer.read(**options)])

    return asyncio.run(collect())


def test_lines_keep_their_time_of_arrival() -> None:
    buffer = LogBuffer()
    buffer.write(b"one\ntw", now=1)
    buffer.write(b"o\nthree", now=2 * SECOND + 5)
    assert read(buffer, timestamps=True) == (
        b"1970-01-01T00:00:00.000000001Z one\n1970-01-01T00:00:02.000000005Z two\n"
    )
    buffer.close()
    assert read(buffer).endswith(b"two\nthree")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"tail_lines": 1}, b"d\n"),
        ({"tail_lines": 0}, b""),
        ({"tail_lines": 99}, b"a\nb\nc\nd\n"),
        ({"limit_bytes": 3}, b"a\nb"),
        ({"limit_bytes": 0}, b""),
        ({"since": 3}, b"c\nd\n"),
        ({"since": 3, "tail_lines": 1}, b"d\n"),
    ],
)
def test_parts_of_a_log(options: dict[str, int], expected: bytes) -> None:
    buffer = LogBuffer()
    for number, letter in enumerate("abcd", start=1):
        buffer.write(f"{letter}\n".encode(), now=number)
    assert read(buffer, **options) == expected


def test_the_oldest_lines_go_first() -> None:
    buffer = LogBuffer(limit=10)
    for number in range(9):
        buffer.write(f"{number}aa\n".encode())
    assert read(buffer) == b"7aa\n8aa\n"


def test_a_line_without_an_end_is_cut() -> None:
    buffer = LogBuffer()
    buffer.write(b"x" * (LONGEST_LINE + 10))
    assert len(read(buffer)) == LONGEST_LINE
    buffer.close()
    assert len(read(buffer)) == LONGEST_LINE + 10


def test_the_tail_is_what_came_last() -> None:
    buffer = LogBuffer()
    buffer.write(b"abc\ndef\n")
    assert buffer.tail(6) == b"c\ndef\n"
    assert buffer.tail(100) == b"abc\ndef\n"


def test_following_ends_with_the_container() -> None:
    async def scenario() -> bytes:
        buffer = LogBuffer()
        buffer.write(b"before\n")
        seen: list[bytes] = []

        async def follow() -> None:
            async for piece in buffer.read(follow=True):
                seen.append(piece)

        task = asyncio.create_task(follow())
        await asyncio.sleep(0)
        assert seen == [b"before\n"]
        buffer.write(b"after\n")
        await asyncio.sleep(0)
        buffer.write(b"last")
        buffer.close()
        await task
        return b"".join(seen)

    assert asyncio.run(scenario()) == b"before\nafter\nlast"


def test_following_with_a_limit_ends_at_the_limit() -> None:
    async def scenario() -> list[bytes]:
        buffer = LogBuffer()
        buffer.write(b"12345\n")
        return [piece async for piece in buffer.read(follow=True, limit_bytes=2)]

    assert asyncio.run(scenario()) == [b"12"]


def test_a_follower_that_was_overtaken_goes_on_with_what_is_there() -> None:
    async def scenario() -> bytes:
        buffer = LogBuffer(limit=4)
        buffer.write(b"a\n")
        pieces = buffer.read(follow=True)
        first = await anext(pieces)
        buffer.write(b"b\nc\nd\n")
        buffer.close()
        return first + b"".join([piece async for piece in pieces])

    assert asyncio.run(scenario()) == b"a\nc\nd\n"


def test_a_pipe_feeds_a_log_and_ends_with_it() -> None:
    async def scenario() -> tuple[bytes, bool]:
        reader, writer = os.pipe()
        buffer = LogBuffer()
        pipe = LogPipe(reader, buffer, asyncio.get_running_loop())
        os.write(writer, b"one\ntwo")
        async for piece in buffer.read(follow=True):
            assert piece == b"one\n"
            break
        os.write(writer, b" and three\n")
        pipe.finish()  # the writer is still open: a process left in the background
        pipe.finish()
        os.close(writer)
        text = b"".join([piece async for piece in buffer.read(follow=True)])
        return text, buffer.closed

    assert asyncio.run(scenario()) == (b"one\ntwo and three\n", True)


def test_a_closed_pipe_closes_the_log() -> None:
    async def scenario() -> bytes:
        reader, writer = os.pipe()
        buffer = LogBuffer()
        LogPipe(reader, buffer, asyncio.get_running_loop())
        os.write(writer, b"end")
        os.close(writer)
        return b"".join([piece async for piece in buffer.read(follow=True)])

    assert asyncio.run(scenario()) == b"end"


def test_nanoseconds_have_nine_digits() -> None:
    assert rfc3339_nano(1_700_000_000 * SECOND + 120) == "2023-11-14T22:13:20.000000120Z"
