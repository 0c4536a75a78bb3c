"""DER elements for the tests, by hand: what takes tokens apart must not be what is tested."""

from __future__ import annotations

from typing import NamedTuple

OCTET_STRING = 0x04
OID = 0x06
GENERALIZED_TIME = 0x18
SEQUENCE = 0x30
SET = 0x31


class Element(NamedTuple):
    """One tag-length-value: `start`..`end` is all of it, `body`..`end` its contents."""

    data: bytes
    tag: int
    start: int
    body: int
    end: int

    @property
    def raw(self) -> bytes:
        return self.data[self.start : self.end]

    @property
    def contents(self) -> bytes:
        return self.data[self.body : self.end]


def read(data: bytes, start: int = 0) -> Element:
    """The DER element at `start`."""
    length, body = data[start + 1], start + 2
    if length >= 0x80:
        count = length & 0x7F
        length = int.from_bytes(data[body : body + count], "big")
        body += count
        assert length >= 0x80
    assert body + length <= len(data)
    return Element(data, data[start], start, body, body + length)


def children(element: Element) -> list[Element]:
    """The elements inside a constructed one."""
    assert element.tag & 0x20
    found, position = [], element.body
    while position < element.end:
        found.append(read(element.data, position))
        position = found[-1].end
    assert position == element.end
    return found


def encode(tag: int, contents: bytes) -> bytes:
    """One DER element."""
    length = len(contents)
    if length < 0x80:
        return bytes((tag, length)) + contents
    size = (length.bit_length() + 7) // 8
    return bytes((tag, 0x80 | size)) + length.to_bytes(size, "big") + contents
