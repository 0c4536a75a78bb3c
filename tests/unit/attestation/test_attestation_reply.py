"""What gets saved as a timestamp by mistake is called that; both forms are told apart."""

from __future__ import annotations

import base64
import contextlib

import forge
import pytest
import tlv
from asn1crypto import core
from hypothesis import given
from hypothesis import strategies as st

from pytest_sremut.attestation.errors import (
    Fault,
    NotATimestampError,
    RejectedByAuthorityError,
)
from pytest_sremut.attestation.rfc3161 import ber, reply, structures
from pytest_sremut.attestation.rfc3161.authority import _rejection, assemble_reply

SOUND = forge.reply()


@pytest.mark.parametrize(
    ("body", "match"),
    [
        (b"", "empty"),
        (b"<!DOCTYPE html><html>502</html>", "HTML"),
        (b"\r\n <html>", "HTML"),
        (b"<?xml version='1.0'?>", "HTML or XML"),
        (base64.b64encode(SOUND), "base64"),
        (base64.encodebytes(SOUND), "base64"),
        (b"0123456789abcdef", "base64 or other text"),
        (b"-----BEGIN PKCS7-----\nMII\n", "PEM"),
        (b"\x00\x01\x02", "no ASN.1 sequence"),
        (b"\x1f\x8b\x08", "no ASN.1 sequence"),
        (SOUND[:100], "missing at its end"),
        (SOUND + b"\n", "follow its end"),
        (b"\x30\x00", "empty sequence"),
        (b"\x30\x03\x02\x01\x00", "neither"),
        (b"\x30" * 300_000, "more than"),
        (b"\x30\x80" * 20_000, "nested too deep"),
    ],
    # A reply differs from process to process, and so would ids made of it.
    ids=lambda value: value if isinstance(value, str) else "body",
)
def test_not_a_timestamp(body, match):
    with pytest.raises(NotATimestampError, match=match) as caught:
        reply.parse_granted(body)
    assert str(caught.value).startswith("not a timestamp")
    assert caught.value.fault is Fault.UNVERIFIABLE
    assert "application/timestamp-reply" in caught.value.diagnostics()


def test_forms():
    token = forge.token()
    assert reply.parse(token).form == "token"
    assert reply.parse(SOUND).form == "response"
    assert reply.parse(assemble_reply(token)).token == token == reply.parse(token).token


@pytest.mark.parametrize("status", range(2, 8))
def test_status_that_stamped_nothing(status):
    """Even if a token came with it."""
    changed = forge.rebuilt(SOUND, [0, 0], lambda _: bytes([2, 1, status]))
    with pytest.raises(RejectedByAuthorityError, match="stamped nothing") as caught:
        reply.parse_granted(changed)
    assert caught.value.fault is Fault.AUTHORITY


def test_rejection_gives_its_reasons():
    with pytest.raises(RejectedByAuthorityError) as caught:
        reply.parse_granted(_rejection("bad_alg", "no SHA-1, please"))
    error = caught.value
    assert (error.status, error.failure_info, error.text) == (
        "rejection",
        ("badAlg",),
        ("no SHA-1, please",),
    )
    assert "badAlg" in str(error)


def test_rejection_without_reasons():
    bare = tlv.encode(tlv.SEQUENCE, tlv.encode(tlv.SEQUENCE, b"\x02\x01\x02"))
    with pytest.raises(RejectedByAuthorityError, match="no reason given"):
        reply.parse_granted(bare)


def test_granted_without_a_token():
    bare = tlv.encode(tlv.SEQUENCE, tlv.encode(tlv.SEQUENCE, b"\x02\x01\x00"))
    with pytest.raises(NotATimestampError, match="holds no token"):
        reply.parse_granted(bare)


@given(st.binary(max_size=400))
def test_any_bytes(data):
    for body in (data, b"\x30" + data, tlv.encode(tlv.SEQUENCE, data)):
        with contextlib.suppress(NotATimestampError, RejectedByAuthorityError):
            reply.parse_granted(body)


@given(st.binary(max_size=300))
def test_any_bytes_as_der(data):
    with contextlib.suppress(ber.DerError):
        once = ber.to_der(data)
        assert ber.to_der(once) == once


@given(
    st.recursive(
        st.binary(max_size=150).map(lambda body: tlv.encode(tlv.OCTET_STRING, body)),
        lambda inner: st.lists(inner, max_size=4).map(
            lambda parts: tlv.encode(tlv.SEQUENCE, b"".join(parts))
        ),
        max_leaves=12,
    )
)
def test_ber_becomes_the_same_der(value):
    assert ber.to_der(value) == value
    assert ber.to_der(forge.to_ber(value)) == value


@pytest.mark.parametrize(
    ("contents", "dotted"),
    [("2a03", "1.2.3"), ("883703", "2.999.3"), ("00", "0.0"), ("608648016503040201", None)],
)
def test_oid(contents, dotted):
    value = structures.read(core.ObjectIdentifier, tlv.encode(tlv.OID, bytes.fromhex(contents)))
    assert structures.oid(value) == (dotted or "2.16.840.1.101.3.4.2.1")


@pytest.mark.parametrize("contents", ["", "80", "2a80", "2a8001", "2a03" * 40])
def test_oid_that_is_none(contents):
    value = structures.read(core.ObjectIdentifier, tlv.encode(tlv.OID, bytes.fromhex(contents)))
    with pytest.raises(ber.DerError):
        structures.oid(value)


@pytest.mark.parametrize("contents", ["", "0001", "ff80"])
def test_integer_that_is_none(contents):
    value = structures.read(core.Integer, tlv.encode(0x02, bytes.fromhex(contents)))
    with pytest.raises(ber.DerError):
        structures.integer(value)


@pytest.mark.parametrize("value", [0, 1, 127, 128, -1, -128, -129, 1 << 160])
def test_integer(value):
    size = (value if value >= 0 else ~value).bit_length() // 8 + 1
    body = value.to_bytes(size, "big", signed=True)
    assert structures.integer(structures.read(core.Integer, tlv.encode(0x02, body))) == value
