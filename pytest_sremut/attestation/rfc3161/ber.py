"""The headers of ASN.1 elements: which are DER, and how BER becomes DER.

asn1crypto reads the structures. What is done here it does not do, so it is done by hand:

* it reads BER and DER alike and does not say which one it was given;
* it refuses indefinite lengths that nest more than ten deep, and a token nests about sixteen;
* when it writes a value anew it also writes times, strings and sets anew. What was signed has to
  stay byte for byte what was signed, so here only lengths change, and strings in pieces are joined.

DER is read as it is. BER, which some authorities send, is re-encoded first (`der_or_ber`).

Only `DerError` is raised, whatever the bytes are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeVar

__all__ = ["DerError", "der_or_ber", "elements", "emit", "to_der"]

_Parsed = TypeVar("_Parsed")

_CONSTRUCTED = 0x20
_MAX_DEPTH = 32  # a token nests about 16 deep; deeper input is an attack on the stack
_BIT_STRING = 0x03
_STRINGS = frozenset({_BIT_STRING, 0x04, 0x0C, 0x18})  # octets, UTF-8 text, GeneralizedTime


class DerError(ValueError):
    """The bytes are not the ASN.1 that was expected. Never leaves this room."""


def emit(tag: int, contents: bytes) -> bytes:
    """One DER element; `tag` is its identifier octet."""
    length = len(contents)
    if length < 0x80:
        return bytes((tag, length)) + contents
    size = (length.bit_length() + 7) // 8
    return bytes((tag, 0x80 | size)) + length.to_bytes(size, "big") + contents


def elements(contents: bytes) -> list[bytes]:
    """The DER elements that fill `contents`, each with its header.

    Only these headers are looked at, not what is inside.
    """
    found = []
    position = 0
    while position < len(contents):
        _, body, length = _header(contents, position, len(contents))
        if length is None or (body > position + 2 and not _minimal(length, body - position - 2)):
            raise DerError("a length that is not DER")
        end = body + length
        if end > len(contents):
            raise DerError(f"{end - len(contents)} bytes are missing at its end")
        found.append(contents[position:end])
        position = end
    return found


def _minimal(length: int, octets: int) -> bool:
    """Whether a length that was written in so many octets needed them."""
    return length >= 0x80 and length >> (8 * (octets - 1)) != 0


def der_or_ber(
    parse: Callable[[bytes], _Parsed], data: bytes
) -> tuple[_Parsed, Literal["DER", "BER"]]:
    """What `parse` makes of `data`, or of `data` re-encoded if it is not DER where `parse` looks.

    Raises:
        ValueError, TypeError: From `parse`, or `DerError` because it is not BER either.
    """
    try:
        return parse(data), "DER"
    except (ValueError, TypeError):
        recoded = to_der(data)
        if recoded == data:
            raise
        return parse(recoded), "BER"


def to_der(data: bytes) -> bytes:
    """Re-encode one BER element as DER. DER comes back as it is.

    Raises:
        DerError: Not BER either, or bytes follow the element's end.
    """
    encoded, end = _element(data, 0, len(data), 0)
    if end != len(data):
        raise DerError(f"{len(data) - end} bytes follow its end")
    return encoded


def _element(data: bytes, start: int, limit: int, depth: int) -> tuple[bytes, int]:
    """The element at `start` as DER, and where it ended in `data`."""
    if depth > _MAX_DEPTH:
        raise DerError("nested too deep")
    tag, body, length = _header(data, start, limit)
    if length is None:
        parts, end = _parts(data, body, limit, depth + 1, indefinite=True)
        return _joined(tag, parts), end
    end = body + length
    if end > limit:
        raise DerError(f"{end - limit} bytes are missing at its end")
    if tag & _CONSTRUCTED:
        return _joined(tag, _parts(data, body, end, depth + 1, indefinite=False)[0]), end
    return emit(tag, data[body:end]), end


def _header(data: bytes, start: int, limit: int) -> tuple[int, int, int | None]:
    """Identifier octet, where the contents begin, and their length; None if it is indefinite."""
    if start + 2 > limit:
        raise DerError("ends in the middle of a header")
    tag, length, body = data[start], data[start + 1], start + 2
    if tag & 0x1F == 0x1F:
        raise DerError("a tag number above 30")
    if length < 0x80:
        return tag, body, length
    if length == 0x80:
        if not tag & _CONSTRUCTED:
            raise DerError("a primitive element of indefinite length")
        return tag, body, None
    count = length & 0x7F
    if count > 8 or body + count > limit:
        raise DerError("a length that is cut off")
    return tag, body + count, int.from_bytes(data[body : body + count], "big")


def _parts(
    data: bytes, position: int, limit: int, depth: int, *, indefinite: bool
) -> tuple[list[bytes], int]:
    """The elements from `position` on as DER, and where they ended."""
    parts: list[bytes] = []
    while indefinite or position < limit:
        if indefinite and data[position : position + 2] == b"\0\0":
            return parts, position + 2
        part, position = _element(data, position, limit, depth)
        parts.append(part)
    return parts, position


def _joined(tag: int, parts: list[bytes]) -> bytes:
    """A constructed element of these parts; a string that was sent in pieces becomes one."""
    plain = tag & ~_CONSTRUCTED
    if plain not in _STRINGS:
        return emit(tag, b"".join(parts))
    if plain == _BIT_STRING:
        raise DerError("a BIT STRING in pieces")
    if any(part[0] != plain for part in parts):
        raise DerError("a string in pieces of another kind")
    return emit(plain, b"".join(part[_header(part, 0, len(part))[1] :] for part in parts))
