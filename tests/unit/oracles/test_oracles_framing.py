"""Frames between us and the worker."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sremut.errors import HarnessError
from pytest_sremut.oracles import framing


@given(
    st.lists(st.dictionaries(st.text(max_size=4), st.integers() | st.text(max_size=9)), max_size=4),
    st.integers(min_value=1, max_value=50),
)
def test_messages_survive_any_cutting(messages: list[dict[str, Any]], size: int) -> None:
    stream = b"".join(framing.encode(message) for message in messages)
    reader = framing.FrameReader()
    seen: list[dict[str, Any]] = []
    for start in range(0, len(stream), size):
        seen += reader.feed(stream[start : start + size])
    assert seen == messages
    assert reader.pending == 0


@given(st.lists(st.binary(max_size=40), max_size=5))
def test_any_bytes_give_messages_or_our_error(blocks: list[bytes]) -> None:
    reader = framing.FrameReader()
    try:
        for block in blocks:
            assert all(isinstance(message, dict) for message in reader.feed(block))
    except HarnessError:
        return


@pytest.mark.parametrize(
    "payload", [b"[]", b"1", b"{", b"\xff", b"[" * 100_000], ids=lambda value: str(value[:4])
)
def test_a_frame_that_holds_no_message(payload: bytes) -> None:
    with pytest.raises(HarnessError, match="not a message"):
        list(framing.FrameReader().feed(len(payload).to_bytes(4, "big") + payload))


def test_a_frame_that_is_too_large_is_refused_before_it_is_read() -> None:
    with pytest.raises(HarnessError, match="limit"):
        list(framing.FrameReader().feed(b"\xff\xff\xff\xff"))
    with pytest.raises(HarnessError, match="limit"):
        framing.encode({"x": "y" * framing.LARGEST})


@pytest.mark.parametrize("message", [{"x": object()}, {"x": float("nan")}])
def test_what_is_no_message(message: Any) -> None:
    with pytest.raises(HarnessError):
        framing.encode(message)


def test_send_writes_everything() -> None:
    read, write = os.pipe()
    with os.fdopen(read, "rb") as source:
        framing.send(write, {"x": "y" * 1000})
        os.close(write)
        (message,) = framing.FrameReader().feed(source.read())
    assert message == {"x": "y" * 1000}
