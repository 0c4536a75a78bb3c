"""What our own authority refuses, and that nobody can use it afterwards."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

import forge
import pytest
import tlv
from asn1crypto import tsp

from pytest_sremut.attestation.errors import MisuseError, RejectedByAuthorityError
from pytest_sremut.attestation.rfc3161 import certificates, reply
from pytest_sremut.attestation.rfc3161.authority import SELF_POLICY, SelfIssuedAuthority
from pytest_sremut.attestation.rfc3161.cms import parse_token
from pytest_sremut.attestation.rfc3161.identity import new_identity
from pytest_sremut.attestation.rfc3161.request import build_query


def query(**changes: object) -> bytes:
    fields: dict[str, object] = {
        "version": "v1",
        "message_imprint": {
            "hash_algorithm": {"algorithm": "sha256"},
            "hashed_message": bytes(32),
        },
        "cert_req": True,
        **changes,
    }
    return tsp.TimeStampReq(fields).dump()


def imprint(algorithm: str, size: int) -> dict[str, object]:
    return {"hash_algorithm": {"algorithm": algorithm}, "hashed_message": bytes(size)}


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (b"", "badDataFormat"),
        (b"<html>", "badDataFormat"),
        (query() + b"\0", "badDataFormat"),
        (query(message_imprint=imprint("sha1", 20)), "badAlg"),
        (query(message_imprint=imprint("md5", 16)), "badAlg"),
        (query(message_imprint=imprint("sha256", 31)), "badDataFormat"),
        (query(message_imprint=imprint("sha512", 32)), "badDataFormat"),
        (query(req_policy="1.2.3"), "unacceptedPolicy"),
        (
            query(extensions=[{"extn_id": "1.2.3", "critical": True, "extn_value": b"x"}]),
            "unacceptedExtension",
        ),
    ],
)
def test_rejections(asked, reason):
    with pytest.raises(RejectedByAuthorityError) as caught:
        reply.parse_granted(SelfIssuedAuthority().stamp(asked))
    assert caught.value.failure_info == (reason,)
    assert caught.value.text


def test_what_it_stamps():
    now = datetime(2026, 8, 29, 9, 8, 34, 123_456, tzinfo=UTC)
    authority = SelfIssuedAuthority(clock=lambda: now)
    asked = build_query(b"data", policy=SELF_POLICY)
    _, token = reply.parse_granted(authority.stamp(asked))
    info = parse_token(token).info
    assert info.gen_time == now.replace(microsecond=123_000)
    assert info.policy == SELF_POLICY
    assert info.imprint == hashlib.sha256(b"data").digest()
    serials = {
        parse_token(reply.parse_granted(authority.stamp(asked))[1]).info.serial for _ in range(5)
    }
    assert len(serials) == 5


def test_certificates_only_when_asked():
    _, token = reply.parse_granted(SelfIssuedAuthority().stamp(query(cert_req=False)))
    assert parse_token(token).certificates == ()


def test_the_root_stays_out_of_tokens():
    authority = SelfIssuedAuthority(length=3)
    _, token = reply.parse_granted(authority.stamp(query()))
    assert parse_token(token).certificates == authority.chain[:-1]


def test_discarded_key():
    authority = SelfIssuedAuthority()
    authority.discard_key()
    with pytest.raises(MisuseError, match="discarded"):
        authority.stamp(query())


@pytest.mark.parametrize("length", [1, 2, 3])
def test_certificates(length):
    identity = new_identity(
        organization="O", now=forge.NOW, lifetime=forge.timedelta(days=1), length=length
    )
    loaded = [certificates.load(one) for one in identity.chain]
    assert loaded[0].extended_key_usage == {"1.3.6.1.5.5.7.3.8"}
    assert loaded[0].extended_key_usage_critical
    assert not loaded[0].is_ca
    assert loaded[-1].self_issued
    assert [one.path_length for one in loaded[1:]] == list(range(length - 1))


@pytest.mark.parametrize("length", [0, 4])
def test_chains_that_are_none(length):
    with pytest.raises(ValueError, match="1 to 3"):
        new_identity(
            organization="O", now=forge.NOW, lifetime=forge.timedelta(days=1), length=length
        )


def test_names_differ_only_in_what_counts():
    def name(tag: int, text: bytes) -> bytes:
        kind = tlv.encode(tlv.OID, bytes.fromhex("550403"))
        pair = tlv.encode(tlv.SEQUENCE, kind + tlv.encode(tag, text))
        return tlv.encode(tlv.SEQUENCE, tlv.encode(tlv.SET, pair))

    utf8 = name(0x0C, b"Some  Root")
    assert certificates.same_name(utf8, name(0x13, b"some root"))
    assert not certificates.same_name(utf8, name(0x0C, b"Other Root"))
    assert not certificates.same_name(utf8, b"\x30\x05")
