"""What an authority sent back, taken apart: a response with a status, or a bare token.

Rules: the bytes are exactly one ASN.1 value with nothing after it; which of the two forms it is
comes from the bytes and never from the caller; a reply that holds no token is never a token.
What is no timestamp at all (HTML, base64, nothing, a cut-off file) is called that.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, Literal

from asn1crypto import core

from pytest_sremut.attestation.errors import NotATimestampError, RejectedByAuthorityError
from pytest_sremut.attestation.rfc3161.ber import DerError, der_or_ber, elements
from pytest_sremut.attestation.rfc3161.structures import (
    UNREADABLE,
    Raw,
    Response,
    each,
    exact,
    integer,
    oid,
    read,
    reason,
)

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
_OID, _SEQUENCE, _CONTEXT_0 = 0x06, 0x30, 0xA0  # identifier octets
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
    try:
        reply, encoding = der_or_ber(_parse, data)
        return replace(reply, encoding=encoding)
    except UNREADABLE as error:  # DerError among them
        raise NotATimestampError(
            f"not a timestamp: {reason(error)}", details=[f"{len(data)} bytes: {_quote(data)}"]
        ) from error


def _parse(data: bytes) -> Reply:
    parts = elements(read(Raw, data).contents)
    if not parts:
        raise DerError("an empty sequence")
    if parts[0][0] == _OID:  # ContentInfo: the bare token
        _check_token(parts)
        return Reply(
            form="token", encoding="DER", status="granted", text=(), failure_info=(), token=data
        )
    if parts[0][0] != _SEQUENCE or len(parts) > 2:
        raise DerError("neither a response nor a token")
    response = read(Response, data)
    status, text, failures = _status(exact(response["status"]))
    token = None
    if len(parts) == 2:
        token = parts[1]
        _check_token(elements(read(Raw, token).contents))
    return Reply(
        form="response",
        encoding="DER",
        status=status,
        text=text,
        failure_info=failures,
        token=token,
    )


def _check_token(parts: list[bytes]) -> None:
    if (
        len(parts) != 2
        or parts[1][0] != _CONTEXT_0
        or oid(read(core.ObjectIdentifier, parts[0])) != _SIGNED_DATA
    ):
        raise DerError("its content is not CMS signed data")


def _status(info: Any) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """PKIStatusInfo: status, statusString OPTIONAL, failInfo OPTIONAL."""
    number = integer(info["status"])
    # Authorities send text that is no UTF-8; it is shown as well as it can be.
    text = tuple(
        part.contents.decode("utf-8", "backslashreplace") for part in each(info["status_string"])
    )
    failures: tuple[str, ...] = ()
    if not isinstance(info["fail_info"], core.Void):
        failures = _failure_info(info["fail_info"].contents)
    return _STATUSES.get(number, f"unknown ({number})"), text, failures


def _failure_info(contents: bytes) -> tuple[str, ...]:
    if not contents or contents[0] > 7 or len(contents) > 9:
        raise DerError("a failInfo that is no bit string")
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
    if data[0] == _SEQUENCE and not _BASE64.match(data):
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
