"""SPDY/3.1 as kubectl speaks it inside a WebSocket: the frames that forwarded ports need.

Rules kept here:

* no input, however malformed, gets anything out of here but `SpdyError`; sizes are bounded before
  anything is allocated;
* a connection's headers are compressed as one stream in each direction, so every header block is
  read, also of streams that are refused;
* flow control is not used by either side (kubectl's library has none).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

__all__ = ["Frame", "FrameReader", "FrameWriter", "SpdyError"]

VERSION = 3
SYN_STREAM, SYN_REPLY, RST_STREAM, PING, GOAWAY, HEADERS = 1, 2, 3, 6, 7, 8
DATA = 0
FIN = 0x01
REFUSED_STREAM, PROTOCOL_ERROR = 3, 1
MAX_FRAME = 1 << 20
MAX_HEADERS = 1 << 16
_STREAM = 0x7FFFFFFF

_WORDS = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language "
    "accept-ranges age allow authorization cache-control connection content-base content-encoding "
    "content-language content-length content-location content-md5 content-range content-type date "
    "etag expect expires from host if-match if-modified-since if-none-match if-range "
    "if-unmodified-since last-modified location max-forwards pragma proxy-authenticate "
    "proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status"
)
_NAMES = tuple(_WORDS.split())
_MORE = ("200 OK", "version", "HTTP/1.1", "url", "public", "set-cookie", "keep-alive", "origin")
_TAIL = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request"
    "401 Unauthorized403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented"
    "503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, "
    "Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,application/xml,"
    "application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,deflate,sdch"
    "charset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
# The protocol's own dictionary for header blocks.
DICTIONARY = (
    b"".join(struct.pack(">I", len(word)) + word.encode() for word in (*_NAMES, *_MORE))
    + _TAIL.encode()
)


class SpdyError(Exception):
    """The other side does not speak SPDY/3.1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One frame.

    Attributes:
        kind: `DATA`, or the type of a control frame.
        stream: 0 where the frame concerns the whole connection.
        headers: of `SYN_STREAM`, `SYN_REPLY`, `HEADERS`.
        data: the payload of everything else.
    """

    kind: int
    stream: int
    fin: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)
    data: bytes = b""


class FrameReader:
    """Bytes to frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that are complete now.

        Raises:
            SpdyError: these are no frames of ours.
        """
        self._buffer += data
        while len(self._buffer) >= 8:
            first, second = struct.unpack_from(">II", self._buffer)
            size = second & 0xFFFFFF
            if size > MAX_FRAME:
                raise SpdyError(f"a frame of {size} bytes")
            if len(self._buffer) < 8 + size:
                return
            payload = bytes(self._buffer[8 : 8 + size])
            del self._buffer[: 8 + size]
            yield self._frame(first, second >> 24, payload)

    def _frame(self, first: int, flags: int, payload: bytes) -> Frame:
        if not first >> 31:
            return Frame(kind=DATA, stream=first, fin=bool(flags & FIN), data=payload)
        version, kind = (first >> 16) & 0x7FFF, first & 0xFFFF
        if version != VERSION:
            raise SpdyError(f"SPDY version {version}")
        places = {SYN_STREAM: 10, SYN_REPLY: 4, HEADERS: 4}
        if kind in places:
            if len(payload) < places[kind]:
                raise SpdyError("a frame without its head")
            (stream,) = struct.unpack_from(">I", payload)
            headers = self._headers(payload[places[kind] :])
            return Frame(kind=kind, stream=stream & _STREAM, fin=bool(flags & FIN), headers=headers)
        stream = 0
        if kind == RST_STREAM and len(payload) >= 4:
            stream = struct.unpack_from(">I", payload)[0] & _STREAM
        return Frame(kind=kind, stream=stream, data=payload)

    def _headers(self, block: bytes) -> dict[str, str]:
        try:
            plain = self._inflate.decompress(block, MAX_HEADERS)
        except zlib.error as error:
            raise SpdyError(f"a header block that cannot be read: {error}") from None
        if self._inflate.unconsumed_tail:
            raise SpdyError("a header block that is too large")
        place = 0

        def number() -> int:
            nonlocal place
            if place + 4 > len(plain):
                raise SpdyError("a header block that ends early")
            (value,) = struct.unpack_from(">I", plain, place)
            place += 4
            return int(value)

        def text() -> str:
            nonlocal place
            size = number()
            if size > len(plain) - place:
                raise SpdyError("a header block that ends early")
            place += size
            return plain[place - size : place].decode("latin-1")

        count = number()
        if count > len(plain):
            raise SpdyError("a header block that ends early")
        return {text(): text() for _ in range(count)}


class FrameWriter:
    """Frames to bytes."""

    def __init__(self) -> None:
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    def reply(self, stream: int) -> bytes:
        """Accept a stream."""
        block = self._deflate.compress(struct.pack(">I", 0))
        block += self._deflate.flush(zlib.Z_SYNC_FLUSH)
        return _control(SYN_REPLY, struct.pack(">I", stream) + block)

    def data(self, stream: int, data: bytes, *, fin: bool = False) -> bytes:
        """Data of a stream, at most `MAX_FRAME` bytes."""
        return struct.pack(">II", stream, (FIN << 24 if fin else 0) | len(data)) + data

    def reset(self, stream: int, status: int) -> bytes:
        """Refuse or end a stream."""
        return _control(RST_STREAM, struct.pack(">II", stream, status))

    def pong(self, data: bytes) -> bytes:
        """Answer a ping."""
        return _control(PING, data[:4])


def _control(kind: int, payload: bytes) -> bytes:
    return struct.pack(">HHI", 0x8000 | VERSION, kind, len(payload)) + payload
