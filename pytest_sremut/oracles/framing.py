"""Messages over a pipe: four bytes of length (big endian), then that many bytes of JSON."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator
from typing import Any, Final

from pytest_sremut.errors import HarnessError

__all__ = ["LARGEST", "FrameReader", "encode", "send", "split"]

LARGEST: Final = 32 << 20
_LENGTH: Final = struct.Struct(">I")


def encode(message: dict[str, Any]) -> bytes:
    """One frame. Raises HarnessError for a message that is too large or no JSON."""
    try:
        payload = json.dumps(message, separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise HarnessError(f"not a message: {error}") from error
    if len(payload) > LARGEST:
        raise HarnessError(f"a message of {len(payload)} bytes; the limit is {LARGEST}")
    return _LENGTH.pack(len(payload)) + payload


def send(descriptor: int, message: dict[str, Any]) -> None:
    """Write one frame completely. Raises HarnessError, OSError."""
    rest = memoryview(encode(message))
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def split(data: bytes | bytearray, most: int) -> tuple[list[bytes], int]:
    """The first frames in `data`, not looked into, and how many bytes come after them.

    Args:
        data: From a process that nobody believes.
        most: How many frames are taken.
    """
    frames: list[bytes] = []
    at = 0
    while len(frames) < most and len(data) - at >= _LENGTH.size:
        end = at + _LENGTH.size + _LENGTH.unpack_from(data, at)[0]
        if end > len(data):
            break
        frames.append(bytes(data[at + _LENGTH.size : end]))
        at = end
    return frames, len(data) - at


class FrameReader:
    """Turns bytes as they arrive into messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    @property
    def pending(self) -> int:
        """Bytes of a message that is not complete."""
        return len(self._buffer)

    def feed(self, data: bytes) -> Iterator[dict[str, Any]]:
        """The messages that are complete now. Raises HarnessError for what is no message."""
        self._buffer += data
        while len(self._buffer) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer)
            if length > LARGEST:
                raise HarnessError(f"a message of {length} bytes; the limit is {LARGEST}")
            end = _LENGTH.size + length
            if len(self._buffer) < end:
                return
            payload = bytes(self._buffer[_LENGTH.size : end])
            del self._buffer[:end]
            yield _message(payload)


def _message(payload: bytes) -> dict[str, Any]:
    try:
        message = json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise HarnessError(f"not a message: {error}") from error
    if not isinstance(message, dict):
        raise HarnessError(f"not a message: {type(message).__name__}")
    return message
