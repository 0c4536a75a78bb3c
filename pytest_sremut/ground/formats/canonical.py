"""One value, one sequence of bytes: RFC 8785 canonical JSON, and SHA-256 over bytes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any, Final, NewType

from pytest_sremut.errors import SremutError

__all__ = [
    "CanonicalError",
    "Sha256",
    "canonical_json",
    "canonical_sha256",
    "parse_with_encoder",
    "sha256",
]

Sha256 = NewType("Sha256", str)
"""64 lower-case hexadecimal digits."""


class CanonicalError(SremutError):
    """A value has no canonical JSON: a number JSON cannot carry exactly, or no JSON at all."""


def canonical_json(value: Any, *, what: str = "value") -> bytes:
    """The canonical bytes of a JSON value, without a final newline.

    Args:
        value: Mappings with text keys, lists, tuples, text, booleans, None, integers below 2^53
            in magnitude, finite floats. Floats that would be written like an integer of 2^53 or
            more are refused too: what is read back must have the same canonical bytes.
        what: Names the value in the error.

    Raises:
        CanonicalError: Anything else stands in it.
    """
    import rfc8785

    try:
        _refuse_large_floats(value, what)
        return bytes(rfc8785.dumps(value))
    except rfc8785.IntegerDomainError as error:
        raise CanonicalError(f"{what}: integers of 2^53 and more are not exact: {error}") from None
    except rfc8785.FloatDomainError as error:
        raise CanonicalError(f"{what}: NaN and infinity are not JSON: {error}") from None
    except (rfc8785.CanonicalizationError, UnicodeEncodeError) as error:
        raise CanonicalError(f"{what}: not JSON: {error}") from None
    except RecursionError:
        raise CanonicalError(f"{what}: nested too deep, or inside itself") from None


def parse_with_encoder(data: bytes) -> tuple[Any, Callable[[Any], bytes]]:
    """The JSON value of `data`, and what gives the canonical bytes of it and of parts of it.

    For whoever verifies that `data` are canonical: where they are, and nothing in them is written
    differently by Python's own encoder and by RFC 8785 (no fractions, no large integers, ASCII
    only, so that keys sort alike), the encoder is Python's, which is some thirty times as fast.
    Else it is `canonical_json`. Data that are not canonical never equal either's bytes.

    Raises:
        ValueError: It is not JSON.
        RecursionError: It is nested too deep.
    """
    try:
        return _STRICT.decode(data.decode("ascii")), _quick_json
    except ValueError:  # not ASCII, a number of another kind, or no JSON at all
        return json.loads(data), canonical_json


_SURE_DIGITS: Final = 15  # 10^15 < 2^53; a sign counts as a digit, which only makes it surer


def _sure_integer(text: str) -> int:
    if len(text) > _SURE_DIGITS or text == "-0":
        raise ValueError(text)
    return int(text)


def _no_number(text: str) -> float:
    raise ValueError(text)


_STRICT: Final = json.JSONDecoder(
    parse_int=_sure_integer, parse_float=_no_number, parse_constant=_no_number
)
_ENCODER: Final = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, allow_nan=False, sort_keys=True, separators=(",", ":")
)


def _quick_json(value: Any) -> bytes:
    # An escape in ASCII data may stand for any character. Keys are then possibly in another order
    # than RFC 8785's, but such data are not canonical either way: it writes them as themselves.
    return _ENCODER.encode(value).encode("utf-8", "surrogatepass")


def _refuse_large_floats(value: Any, what: str) -> None:
    if isinstance(value, float):
        # From 10^21 on RFC 8785 writes an exponent, which reads back as a float.
        if 2**53 <= abs(value) < 10**21:
            raise CanonicalError(f"{what}: integers of 2^53 and more are not exact: {value}")
    elif isinstance(value, dict):
        for item in value.values():
            _refuse_large_floats(item, what)
    elif isinstance(value, list | tuple):
        for item in value:
            _refuse_large_floats(item, what)


def sha256(data: bytes) -> Sha256:
    """SHA-256 of bytes."""
    return Sha256(hashlib.sha256(data).hexdigest())


def canonical_sha256(value: Any, *, what: str = "value") -> Sha256:
    """SHA-256 of the canonical bytes. Raises CanonicalError."""
    return sha256(canonical_json(value, what=what))
