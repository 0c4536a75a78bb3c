"""What an authority sent back, taken apart: a response with a status, or a bare token.

Rules: the bytes are exactly one ASN.1 value with nothing after it; which of the two forms it is
comes from the bytes and never from the caller; a reply that holds no token is never a token.
What is no timestamp at all (HTML, base64, nothing, a cut-off file) is called that.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from pytest_sremut.attestation.errors import NotATimestampError, RejectedByAuthorityError
from pytest_sremut.attestation.rfc3161 import der

__all__ = ["MAX_REPLY", "Reply", "parse", "parse_granted"]

MAX_REPLY = 256 * 1024
"""Bytes. A reply with a chain of four RSA certificates takes about 8 KiB."""

# RFC 3161, 2.4.2
_STATUSES = {
    0: "granted",
    1: "grantedWithMods",
    2: "rejection",
    3: "waiting",
    4: "revocationWarning",
    5: "revocationNotification",
}
_GRANTED = frozenset({"granted", "grantedWithMods"})
_FAILURES = {
    0: "badAlg",
    2: "badRequest",
    5: "badDataFormat",
    14: "timeNotAvailable",
    15: "unacceptedPolicy",
    16: "unacceptedExtension",
    17: "addInfoNotAvailable",
    25: "systemFailure",
}
_SIGNED_DATA = "1.2.840.113549.1.7.2"
_BASE64 = re.compile(rb"[A-Za-z0-9+/=\s_-]+\Z")
_SHOWN = 60  # bytes of a foreign body that a message quotes


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One reply. `token` is DER whatever was sent; None where nothing was stamped."""

    form: Literal["response", "token"]
    encoding: Literal["DER", "BER"]
    status: str
    text: tuple[str, ...]
    failure_info: tuple[str, ...]
    token: bytes | None


def parse_granted(data: bytes) -> tuple[Reply, bytes]:
    """Parse a reply that must hold a token.

    Returns:
        The reply and its token as DER.

    Raises:
        NotATimestampError: The bytes are no timestamp.
        RejectedByAuthorityError: The status says that nothing was stamped.
    """
    reply = parse(data)
    if reply.status not in _GRANTED:
        said = ", ".join([*reply.failure_info, *(f'"{text}"' for text in reply.text)])
        raise RejectedByAuthorityError(
            f"the authority stamped nothing: status {reply.status}"
            + (f" ({said})" if said else " (no reason given)"),
            status=reply.status,
            failure_info=reply.failure_info,
            text=reply.text,
        )
    if reply.token is None:
        raise NotATimestampError(
            f"not a timestamp: the status says {reply.status}, but the reply holds no token"
        )
    return reply, reply.token


def parse(data: bytes) -> Reply:
    """Parse a reply of either form, whatever its status.

    Raises:
        NotATimestampError: The bytes are no timestamp reply and no token.
    """
    _refuse_foreign(data)
    encoding: Literal["DER", "BER"] = "DER"
    try:
        try:
            return _parse(data, encoding)
        except der.DerError:
            recoded = der.to_der(data)
            if recoded == data:
                raise
            encoding = "BER"
            return _parse(recoded, encoding)
    except der.DerError as error:
        raise NotATimestampError(
            f"not a timestamp: {error}", details=[f"{len(data)} bytes: {_quote(data)}"]
        ) from error


def _parse(data: bytes, encoding: Literal["DER", "BER"]) -> Reply:
    outer = der.only(data, der.SEQUENCE)
    parts = der.children(outer)
    if not parts:
        raise der.DerError("an empty sequence")
    if parts[0].tag == der.OID:  # ContentInfo: the bare token
        _check_token(parts)
        return Reply(
            form="token", encoding=encoding, status="granted", text=(), failure_info=(), token=data
        )
    if parts[0].tag != der.SEQUENCE or len(parts) > 2:
        raise der.DerError("neither a response nor a token")
    status, text, failures = _status(parts[0])
    token = None
    if len(parts) == 2:
        if parts[1].tag != der.SEQUENCE:
            raise der.DerError("what follows the status is no token")
        _check_token(der.children(parts[1]))
        token = parts[1].raw
    return Reply(
        form="response",
        encoding=encoding,
        status=status,
        text=text,
        failure_info=failures,
        token=token,
    )


def _check_token(parts: list[der.Element]) -> None:
    if len(parts) != 2 or der.oid(parts[0]) != _SIGNED_DATA or parts[1].tag != 0xA0:
        raise der.DerError("its content is not CMS signed data")


def _status(element: der.Element) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """PKIStatusInfo: status, statusString OPTIONAL, failInfo OPTIONAL."""
    parts = der.children(element)
    if not parts:
        raise der.DerError("a response without a status")
    number = der.integer(parts.pop(0))
    text: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    if parts and parts[0].tag == der.SEQUENCE:
        text = tuple(_free_text(part) for part in der.children(parts.pop(0)))
    if parts and parts[0].tag == der.BIT_STRING:
        failures = _failure_info(parts.pop(0).contents)
    if parts:
        raise der.DerError("a status with unknown parts")
    return _STATUSES.get(number, f"unknown ({number})"), text, failures


def _free_text(element: der.Element) -> str:
    if element.tag != der.UTF8_STRING:
        raise der.DerError("a status text that is no UTF8String")
    return element.contents.decode("utf-8", "backslashreplace")


def _failure_info(contents: bytes) -> tuple[str, ...]:
    if not contents or contents[0] > 7 or len(contents) > 9:
        raise der.DerError("a failInfo that is no bit string")
    bits = [
        8 * index + bit
        for index, octet in enumerate(contents[1:])
        for bit in range(8)
        if octet & (0x80 >> bit)
    ]
    return tuple(_FAILURES.get(bit, f"bit {bit}") for bit in bits)


def _refuse_foreign(data: bytes) -> None:
    """Name the things that get saved as a timestamp by mistake."""
    if not data:
        raise NotATimestampError("not a timestamp: the file is empty")
    if len(data) > MAX_REPLY:
        raise NotATimestampError(
            f"not a timestamp: {len(data)} bytes, more than the {MAX_REPLY} a reply may have"
        )
    if data[0] == der.SEQUENCE and not _BASE64.match(data):
        return
    head = data.lstrip()[:16].lower()
    if head.startswith((b"<!doctype", b"<html", b"<?xml", b"<")):
        what = "an HTML or XML page"
    elif head.startswith(b"-----begin"):
        what = "PEM text; the authority's reply is binary"
    elif _BASE64.match(data):
        what = "base64 or other text; the authority's reply is binary"
    else:
        what = "no ASN.1 sequence"
    raise NotATimestampError(
        f"not a timestamp: {what}", details=[f"{len(data)} bytes: {_quote(data)}"]
    )


def _quote(data: bytes) -> str:
    shown = repr(data[:_SHOWN])[2:-1]
    return shown + ("…" if len(data) > _SHOWN else "")
