"""Answers on one connection: bytes in, complete HTTP/1 answers out.

A body is read by Content-Length, by its chunks, or up to the connection's end, whichever the
head says. A status that has no body (1xx, 204, 304) ends with its head.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Answer", "WireError", "take_answer", "take_last_answer"]

_MAX_HEAD = 64 * 1024
_END = b"\r\n\r\n"


class WireError(Exception):
    """What came is no HTTP."""


class Answer(NamedTuple):
    """A complete answer. `size` counts its bytes, head included."""

    status: int
    size: int
    keep_alive: bool


class _Head(NamedTuple):
    status: int
    keep_alive: bool
    length: int | None  # of the body; None: up to the connection's end
    chunked: bool
    end: int  # where the body begins


def take_answer(data: bytes) -> Answer | None:
    """The first answer in `data`; None while it is not complete.

    Raises:
        WireError: It never will be one.
    """
    head = _head(data)
    if head is None:
        return None
    if head.chunked:
        end = _after_chunks(data, head.end)
    elif head.length is None:
        return None
    else:
        end = head.end + head.length
    if end is None or len(data) < end:
        return None
    return Answer(head.status, end, head.keep_alive)


def take_last_answer(data: bytes) -> Answer | None:
    """The answer in `data` that the connection's end completes; None if it does not.

    Raises:
        WireError: It is no HTTP.
    """
    head = _head(data)
    if head is None or head.chunked or head.length is not None:
        return None
    return Answer(head.status, len(data), keep_alive=False)


def _head(data: bytes) -> _Head | None:
    end = data.find(_END)
    if end < 0:
        if len(data) > _MAX_HEAD:
            raise WireError("a head without an end")
        return None
    text = data[:end].lower()
    if not text.startswith(b"http/1.") or not text[9:12].isdigit():
        raise WireError("no status line")
    status = int(text[9:12])
    connection = _field(text, b"connection")
    keep_alive = connection != b"close"
    if text[7:8] == b"0":
        keep_alive = connection == b"keep-alive"
    chunked = _field(text, b"transfer-encoding") == b"chunked"
    length = _length(text)
    if status < 200 or status in (204, 304):
        length, chunked = 0, False
    return _Head(status, keep_alive, length, chunked, end + len(_END))


def _field(text: bytes, name: bytes) -> bytes:
    """A field of a lower-case head, without blanks around it; empty if it is not there."""
    at = text.find(b"\r\n" + name + b":")
    if at < 0:
        return b""
    return text[at + 3 + len(name) :].partition(b"\r\n")[0].strip()


def _length(text: bytes) -> int | None:
    value = _field(text, b"content-length")
    if not value:
        return None
    if not value.isdigit() or len(value) > 11:
        raise WireError("a Content-Length that is no number")
    return int(value)


def _after_chunks(data: bytes, at: int) -> int | None:
    """Where a chunked body ends; None while its last chunk or trailer is not there."""
    while True:
        line = data.find(b"\r\n", at)
        if line < 0:
            if len(data) - at > 64:
                raise WireError("a chunk without a size")
            return None
        text = data[at:line].partition(b";")[0].strip()
        try:
            size = int(text, 16)
        except ValueError:
            raise WireError("a chunk without a size") from None
        if not 0 <= size < 1 << 40 or not text.isalnum():
            raise WireError("a chunk of an impossible size")
        if size == 0:
            return _after_trailer(data, line + 2)
        at = line + 2 + size + 2
        if len(data) < at:
            return None
        if data[at - 2 : at] != b"\r\n":
            raise WireError("a chunk that does not end where it says")


def _after_trailer(data: bytes, at: int) -> int | None:
    if data[at : at + 2] == b"\r\n":
        return at + 2
    end = data.find(_END, at)
    return None if end < 0 else end + len(_END)
