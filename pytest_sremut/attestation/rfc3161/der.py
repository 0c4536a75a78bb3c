"""Just enough ASN.1 to take a token apart without losing a byte.

Rules:

* A value ends where its length says, and nothing follows it: no parser here skips bytes.
* DER is read as it stands. BER (indefinite or padded lengths, strings in pieces), which some
  authorities send, is re-encoded to DER first; primitive contents are never touched, so whatever
  was signed stays byte for byte what was signed.
* Only `DerError` comes out, whatever goes in.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

__all__ = [
    "BIT_STRING",
    "BOOLEAN",
    "GENERALIZED_TIME",
    "INTEGER",
    "NULL",
    "OCTET_STRING",
    "OID",
    "SEQUENCE",
    "SET",
    "UTF8_STRING",
    "DerError",
    "Element",
    "children",
    "encode",
    "integer",
    "oid",
    "only",
    "to_der",
]

BOOLEAN = 0x01
INTEGER = 0x02
BIT_STRING = 0x03
OCTET_STRING = 0x04
NULL = 0x05
OID = 0x06
UTF8_STRING = 0x0C
GENERALIZED_TIME = 0x18
SEQUENCE = 0x30
SET = 0x31

_CONSTRUCTED = 0x20
_MAX_DEPTH = 32  # a token nests about 16 deep; deeper input is an attack on the stack
_MAX_OID = 64  # octets
_new = tuple.__new__
_STRING_TAGS = frozenset({BIT_STRING, OCTET_STRING, UTF8_STRING, GENERALIZED_TIME})


class DerError(ValueError):
    """The bytes are not the ASN.1 that was expected. Never leaves this room."""


class Element(NamedTuple):
    """One tag-length-value. `start`..`end` is all of it, `body`..`end` its contents."""

    # A tuple and no dataclass: a verification makes a hundred of them, and has 0.5 ms.

    data: bytes
    tag: int  # the identifier octet
    start: int
    body: int
    end: int

    @property
    def raw(self) -> bytes:
        """The whole element, header included."""
        return self.data[self.start : self.end]

    @property
    def contents(self) -> bytes:
        """The contents octets."""
        return self.data[self.body : self.end]


def _read(data: bytes, start: int, limit: int) -> Element:
    """The DER element at `start`, which must end at or before `limit`."""
    if start + 2 > limit:
        raise DerError("ends in the middle of a header")
    tag = data[start]
    if tag & 0x1F == 0x1F:
        raise DerError("a tag number above 30")
    length = data[start + 1]
    body = start + 2
    if length >= 0x80:
        count = length & 0x7F
        if count == 0 or count > 4 or body + count > limit:
            raise DerError("a length that is not DER, or cut off")
        length = int.from_bytes(data[body : body + count], "big")
        if length < 0x80 or length >> (8 * (count - 1)) == 0:
            raise DerError("a length that is not minimal")
        body += count
    end = body + length
    if end > limit:
        raise DerError(f"{end - limit} bytes are missing at its end")
    return Element(data, tag, start, body, end)


def only(data: bytes, tag: int) -> Element:
    """The one element that `data` consists of. Raises DerError for another tag or more bytes."""
    element = _read(data, 0, len(data))
    if element.tag != tag:
        raise DerError(f"starts with tag {element.tag:#04x}, expected {tag:#04x}")
    if element.end != len(data):
        raise DerError(f"{len(data) - element.end} bytes follow its end")
    return element


def children(element: Element) -> list[Element]:
    """The elements inside a constructed element, which they fill exactly."""
    data, tag, _, position, end = element
    if not tag & _CONSTRUCTED:
        raise DerError(f"tag {tag:#04x} is not constructed")
    found = []
    while position < end:
        # What `_read` does, for the common case of a short length, without the call.
        if position + 2 <= end and data[position + 1] < 0x80 and data[position] & 0x1F != 0x1F:
            body = position + 2
            child = _new(Element, (data, data[position], position, body, body + data[position + 1]))
            if child[4] > end:
                raise DerError(f"{child[4] - end} bytes are missing at its end")
        else:
            child = _read(data, position, end)
        found.append(child)
        position = child[4]
    return found


def encode(tag: int, contents: bytes) -> bytes:
    """One DER element."""
    length = len(contents)
    if length < 0x80:
        return bytes((tag, length)) + contents
    size = (length.bit_length() + 7) // 8
    return bytes((tag, 0x80 | size)) + length.to_bytes(size, "big") + contents


def integer(element: Element) -> int:
    """The value of an INTEGER, which must be minimal."""
    contents = element.contents
    if element.tag != INTEGER or not contents:
        raise DerError("expected an INTEGER")
    if len(contents) > 1 and contents[0] in (0x00, 0xFF) and contents[0] >> 7 == contents[1] >> 7:
        raise DerError("an INTEGER that is not minimal")
    return int.from_bytes(contents, "big", signed=True)


def oid(element: Element) -> str:
    """An OBJECT IDENTIFIER, dotted."""
    if element.tag != OID:
        raise DerError("expected an OBJECT IDENTIFIER")
    return _dotted(element.contents)


@lru_cache(maxsize=256)  # a token holds fifteen, and they are always the same ones
def _dotted(contents: bytes) -> str:
    if not contents or contents[-1] & 0x80 or len(contents) > _MAX_OID:
        raise DerError("expected an OBJECT IDENTIFIER")
    arcs: list[int] = []
    value = 0
    fresh = True
    for octet in contents:
        if fresh and octet == 0x80:
            raise DerError("an OBJECT IDENTIFIER that is not minimal")
        value = value << 7 | octet & 0x7F
        fresh = not octet & 0x80
        if fresh:
            arcs.append(value)
            value = 0
    first = min(arcs[0] // 40, 2)
    return ".".join(map(str, [first, arcs[0] - 40 * first, *arcs[1:]]))


def to_der(data: bytes) -> bytes:
    """Re-encode one BER element as DER.

    Raises:
        DerError: Not BER either, or bytes follow the element's end.
    """
    encoded, end = _transcode(data, 0, len(data), 0)
    if end != len(data):
        raise DerError(f"{len(data) - end} bytes follow its end")
    return encoded


def _transcode(data: bytes, start: int, limit: int, depth: int) -> tuple[bytes, int]:
    """The element at `start` as DER, and where it ended in `data`."""
    if depth > _MAX_DEPTH:
        raise DerError("nested too deep")
    if start + 2 > limit:
        raise DerError("ends in the middle of a header")
    tag, length, body = data[start], data[start + 1], start + 2
    if tag & 0x1F == 0x1F:
        raise DerError("a tag number above 30")
    indefinite = length == 0x80
    if indefinite and not tag & _CONSTRUCTED:
        raise DerError("a primitive element of indefinite length")
    if length > 0x80:
        count = length & 0x7F
        if count > 8 or body + count > limit:
            raise DerError("a length that is cut off")
        length = int.from_bytes(data[body : body + count], "big")
        body += count
    end = limit if indefinite else body + length
    if end > limit:
        raise DerError(f"{end - limit} bytes are missing at its end")
    if not tag & _CONSTRUCTED:
        return encode(tag, data[body:end]), end
    parts: list[bytes] = []
    position = body
    while True:
        if indefinite and data[position : position + 2] == b"\x00\x00":
            end = position + 2
            break
        if position >= end:
            if indefinite:
                raise DerError("ends inside an element of indefinite length")
            break
        part, position = _transcode(data, position, end, depth + 1)
        parts.append(part)
    plain = tag & ~_CONSTRUCTED
    if plain in _STRING_TAGS:
        return encode(plain, _joined(plain, parts)), end
    return encode(tag, b"".join(parts)), end


def _joined(tag: int, parts: list[bytes]) -> bytes:
    """The contents of a string that was sent in pieces."""
    if tag == BIT_STRING:
        raise DerError("a BIT STRING in pieces")
    return b"".join(only(part, tag).contents for part in parts)
