"""Each rule of `verify`, by a token that keeps it and one that breaks it."""

from __future__ import annotations

import dataclasses
import hashlib
from datetime import UTC, datetime, timedelta

import forge
import pytest
import tlv
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from pytest_sremut.attestation.errors import (
    CertificateNotValidAtTimeError,
    EkuError,
    Fault,
    ImprintMismatchError,
    NonceMismatchError,
    NotATimestampError,
    PolicyMismatchError,
    SignatureInvalidError,
    SignerMismatchError,
    SignerNotAtHandError,
    UnsupportedTokenError,
    UntrustedRootError,
    VerificationError,
    WeakDigestError,
)
from pytest_sremut.attestation.rfc3161 import certificates
from pytest_sremut.attestation.rfc3161.identity import Identity, new_identity
from pytest_sremut.attestation.rfc3161.request import HASH_ALGORITHMS, build_query
from pytest_sremut.attestation.rfc3161.trust import INDEPENDENT, SELF_ISSUED, PinnedRoot, TrustStore
from pytest_sremut.attestation.rfc3161.verify import verify

DATA = forge.DATA
SOUND = forge.reply()
TRUST = forge.trust(forge.identity())


class TestSound:
    @pytest.mark.parametrize("kind", ["ec", "rsa"])
    @pytest.mark.parametrize("length", [1, 2, 3])
    @pytest.mark.parametrize("algorithm", HASH_ALGORITHMS)
    def test_kinds_lengths_and_digests(self, kind, length, algorithm):
        authority = forge.authority(kind, length)
        query = build_query(DATA, hash_algorithm=algorithm)
        token = verify(
            authority.stamp(query), DATA, forge.trust(forge.identity(kind, length)), query=query
        )
        assert token.hash_algorithm == algorithm
        assert token.imprint == hashlib.new(algorithm, DATA).hexdigest()
        assert token.gen_time == forge.NOW
        assert token.nonce == "checked"
        assert len(token.chain) == length

    @pytest.mark.parametrize("digest", HASH_ALGORITHMS)
    def test_signature_digests(self, digest):
        verify(forge.reply(digest=digest), DATA, TRUST)

    def test_what_it_says(self):
        token = verify(SOUND, DATA, TRUST)
        assert (token.serial, token.policy, token.root) == (7, forge.POLICY, "root0")
        assert token.accuracy == timedelta(seconds=1)
        assert (token.latest - token.earliest) == timedelta(seconds=2)
        assert token.nonce == "not checked"
        assert dict(token.checks)["nonce"] == "not checked: the query is not kept"
        assert token.independence == INDEPENDENT

    def test_unstated_accuracy_counts_as_a_second(self):
        token = verify(forge.reply(forge.stamp(accuracy=None)), DATA, TRUST)
        assert token.accuracy is None
        assert token.latest == forge.NOW + timedelta(seconds=1)

    def test_accuracy_of_all_parts(self):
        accuracy = timedelta(seconds=2, milliseconds=3, microseconds=4)
        assert verify(forge.reply(forge.stamp(accuracy=accuracy)), DATA, TRUST).accuracy == accuracy

    def test_self_issued_is_called_so(self):
        authority = forge.authority()
        token = verify(
            authority.stamp(build_query(DATA)), DATA, TrustStore(roots=(authority.root,))
        )
        assert token.independence == SELF_ISSUED

    def test_long_after_the_certificates_ended(self):
        """The present never matters."""
        then = datetime(2011, 5, 1, tzinfo=UTC)
        old = new_identity(organization="Old", now=then, lifetime=timedelta(days=1))
        token = verify(forge.reply(forge.stamp(gen_time=then), by=old), DATA, forge.trust(old))
        assert token.gen_time == then


class TestForm:
    def test_bare_token(self):
        token = verify(forge.token(), DATA, TRUST)
        assert token.checks[0] == ("form", "token, DER, status granted")

    @pytest.mark.parametrize("data", [SOUND, forge.token()])
    def test_ber(self, data):
        token = verify(forge.to_ber(data), DATA, TRUST)
        assert "BER" in token.checks[0][1]
        assert token.gen_time == forge.NOW

    @pytest.mark.parametrize("data", [SOUND, forge.token(), forge.to_ber(SOUND)])
    @pytest.mark.parametrize("tail", [b"\0", b"\0\0", b"junkjunk", SOUND])
    def test_bytes_after_the_end(self, data, tail):
        with pytest.raises(NotATimestampError, match="follow its end"):
            verify(data + tail, DATA, TRUST)

    def test_bytes_after_the_end_of_the_signed_statement(self):
        content = forge.stamp().dump() + b"\0\0"
        with pytest.raises(NotATimestampError, match="follow its end"):
            verify(forge.reply(content), DATA, TRUST)

    @pytest.mark.parametrize(
        ("time", "micros"),
        [("20260301120000.5Z", 500_000), ("20260301120000.500Z", 500_000),
         ("20260301120000.1234567Z", 123_456), ("20260301120000Z", 0)],
    )  # fmt: skip
    def test_fractions_of_a_second(self, time, micros):
        token = verify(forge.reply(_with_time(time)), DATA, TRUST)
        assert token.gen_time == forge.NOW.replace(microsecond=micros)

    @pytest.mark.parametrize(
        "time",
        ["20260301120000", "202603011200Z", "20260301120000+0100", "20260230120000Z",
         "20260301120060Z", "00000301120000Z", "20260301120000.Z", "20260301120000,5Z", ""],
    )  # fmt: skip
    def test_times_that_are_none(self, time):
        with pytest.raises(NotATimestampError, match="time"):
            verify(forge.reply(_with_time(time)), DATA, TRUST)

    def test_granted_with_modifications(self):
        changed = forge.rebuilt(SOUND, [0, 0], lambda _: b"\x02\x01\x01")
        assert "grantedWithMods" in verify(changed, DATA, TRUST).checks[0][1]

    def test_two_signers(self):
        doubled = forge.rebuilt(
            forge.token(), [1, 0, 4], lambda raw: tlv.encode(tlv.SET, raw[raw.index(b"\x30") :] * 2)
        )
        with pytest.raises(NotATimestampError):
            verify(doubled, DATA, TRUST)

    def test_every_cut(self):
        for end in range(len(SOUND)):
            with pytest.raises(NotATimestampError):
                verify(SOUND[:end], DATA, TRUST)


class TestDigest:
    @pytest.mark.parametrize("weak", ["sha1", "md5", "sha224"])
    def test_weak_imprint(self, weak):
        content = forge.stamp(hash_algorithm=weak, imprint=hashlib.new(weak, DATA).digest())
        with pytest.raises(WeakDigestError, match="imprint"):
            verify(forge.reply(content), DATA, TRUST)

    def test_weak_signature_digest(self):
        sha1 = bytes.fromhex("06052b0e03021a")
        weak = forge.rebuilt(forge.token(), [1, 0, 4, 0, 2, 0], lambda _: sha1)
        with pytest.raises(WeakDigestError, match="signature"):
            verify(weak, DATA, TRUST)

    @pytest.mark.parametrize(
        ("oid", "error"),
        [("06072a8648ce3d0401", WeakDigestError), ("06032b6570", UnsupportedTokenError)],
    )
    def test_signature_algorithms(self, oid, error):
        changed = forge.rebuilt(forge.token(), [1, 0, 4, 0, 4, 0], lambda _: bytes.fromhex(oid))
        with pytest.raises(error):
            verify(changed, DATA, TRUST)

    def test_the_tokens_own_algorithm_is_used(self):
        """A file hashed with one digest and stamped with another is still the same file."""
        content = forge.stamp(hash_algorithm="sha512", imprint=hashlib.sha512(DATA).digest())
        assert verify(forge.reply(content), DATA, TRUST).hash_algorithm == "sha512"

    def test_imprint_of_another_algorithm(self):
        content = forge.stamp(hash_algorithm="sha512", imprint=hashlib.sha256(DATA).digest())
        with pytest.raises(ImprintMismatchError):
            verify(forge.reply(content), DATA, TRUST)


class TestSigner:
    @pytest.mark.parametrize("identifiers", [(1,), (2,), (1, 2)])
    def test_identifiers(self, identifiers):
        token = verify(forge.reply(identifiers=identifiers), DATA, TRUST)
        assert ("ESSCertIDv2" in dict(token.checks)["signer"]) == (2 in identifiers)

    def test_no_identifier(self):
        with pytest.raises(NotATimestampError, match="ESSCertID"):
            verify(forge.reply(identifiers=()), DATA, TRUST)

    def test_one_identifier_twice(self):
        with pytest.raises(NotATimestampError, match="twice"):
            verify(forge.reply(identifiers=(2, 2)), DATA, TRUST)

    def test_identifiers_of_two_certificates(self, monkeypatch):
        from pytest_sremut.attestation.rfc3161 import authority

        other = dataclasses.replace(forge.identity(), chain=forge.identity("ec", 3).chain)
        real = authority._signing_certificate
        monkeypatch.setattr(
            authority,
            "_signing_certificate",
            lambda version, one, digest: real(version, other if version == 1 else one, digest),
        )
        with pytest.raises(SignerMismatchError, match="two"):
            verify(forge.reply(identifiers=(1, 2)), DATA, TRUST)

    def test_sid_of_another_certificate(self):
        sid = forge.rebuilt(forge.token(), [1, 0, 4, 0, 1, 1], lambda _: b"\x02\x01\x05")
        with pytest.raises(SignerMismatchError, match="serial number 5"):
            verify(sid, DATA, TRUST)

    def test_not_at_hand(self):
        with pytest.raises(SignerNotAtHandError) as caught:
            verify(forge.reply(embedded=()), DATA, TRUST)
        assert caught.value.fault is Fault.UNVERIFIABLE
        assert "trust.yaml" in caught.value.diagnostics()
        assert [name for name, _ in caught.value.passed] == ["form", "digest"]

    def test_at_hand_from_the_pins(self):
        store = TRUST.with_certificates(forge.identity().chain[0])
        token = verify(forge.reply(embedded=()), DATA, store)
        assert not token.complete

    def test_unrelated_certificates_are_never_the_signer(self):
        """In front, behind, with the signer's own name and serial number: all ignored."""
        signer = certificates.load(forge.identity().chain[0])
        twin = _certificate(
            subject=signer.parsed.subject, issuer=signer.parsed.issuer, serial=signer.serial
        )
        foreign = forge.identity("ec", 3).chain
        for order in (
            (twin, *foreign, forge.identity().chain[0]),
            (forge.identity().chain[0], twin, *foreign, b"\x30\x03abc"),
        ):
            token = verify(forge.token(embedded=order), DATA, TRUST)
            assert token.signer_sha256 == signer.sha256

    def test_only_a_twin(self):
        signer = certificates.load(forge.identity().chain[0])
        twin = _certificate(
            subject=signer.parsed.subject, issuer=signer.parsed.issuer, serial=signer.serial
        )
        with pytest.raises(SignerNotAtHandError):
            verify(forge.reply(embedded=(twin,)), DATA, TRUST)


class TestUsage:
    @pytest.mark.parametrize(
        ("usage", "critical", "match"),
        [
            (None, True, "no extended key usage"),
            ([ExtendedKeyUsageOID.TIME_STAMPING], False, "not critical"),
            ([ExtendedKeyUsageOID.CODE_SIGNING], True, "alone"),
            ([ExtendedKeyUsageOID.TIME_STAMPING, ExtendedKeyUsageOID.CODE_SIGNING], True, "alone"),
            ([ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE], True, "alone"),
        ],
    )
    def test_extended_key_usage(self, usage, critical, match):
        odd = new_identity(
            organization="Odd",
            now=forge.NOW.replace(microsecond=0),
            lifetime=timedelta(days=1),
            usage=None if usage is None else x509.ExtendedKeyUsage(usage),
            usage_critical=critical,
        )
        with pytest.raises(EkuError, match=match) as caught:
            verify(forge.reply(by=odd), DATA, forge.trust(odd))
        assert caught.value.fault is Fault.INVALID


class TestChain:
    def test_another_root(self):
        with pytest.raises(UntrustedRootError, match="no trusted root") as caught:
            verify(SOUND, DATA, forge.trust(forge.identity("ec", 3)))
        assert caught.value.fault is Fault.UNVERIFIABLE

    def test_no_root(self):
        with pytest.raises(UntrustedRootError):
            verify(SOUND, DATA, TrustStore(roots=()))

    def test_an_embedded_root_proves_nothing(self):
        with pytest.raises(UntrustedRootError, match=r"which is not pinned"):
            verify(forge.reply(embedded=forge.identity().chain), DATA, TrustStore(roots=()))

    def test_an_embedded_root_with_a_pinned_fingerprint(self):
        """The pin is what is believed; the bytes may come from anywhere."""
        root = certificates.load(forge.identity().chain[-1])
        pin = PinnedRoot(name="fingerprint", sha256=root.sha256, independence=INDEPENDENT)
        verify(forge.reply(embedded=forge.identity().chain), DATA, TrustStore(roots=(pin,)))
        with pytest.raises(UntrustedRootError):
            verify(SOUND, DATA, TrustStore(roots=(pin,)))

    def test_root_of_the_same_name(self):
        """Same subject, another key."""
        root = certificates.load(forge.identity().chain[-1])
        forged = _certificate(
            subject=root.parsed.subject, issuer=root.parsed.subject, serial=root.serial, ca=True
        )
        with pytest.raises(UntrustedRootError):
            verify(SOUND, DATA, _pins(forged))

    def test_renewed_root(self):
        """Two pinned roots of one name: the one that made the signer is found, in any order."""
        root = certificates.load(forge.identity().chain[-1])
        renewed = _certificate(
            subject=root.parsed.subject, issuer=root.parsed.subject, serial=9, ca=True
        )
        for order in ((renewed, root.der), (root.der, renewed)):
            assert verify(SOUND, DATA, _pins(*order)).root_sha256 == root.sha256

    def test_missing_intermediate(self):
        three = forge.identity("ec", 3)
        with pytest.raises(UntrustedRootError):
            verify(forge.reply(by=three, embedded=three.chain[:1]), DATA, forge.trust(three))
        store = forge.trust(three).with_certificates(three.chain[1])
        verify(forge.reply(by=three, embedded=three.chain[:1]), DATA, store)

    @pytest.mark.parametrize("ca", [False, True])
    def test_a_pinned_signer_is_no_authority(self, ca):
        """A certificate issued by somebody who is no CA leads nowhere."""
        parent, key = _self_signed("Parent", ca=ca)
        child = _issued_by(parent, key)
        expected = None if ca else UntrustedRootError
        if expected is None:
            verify(forge.reply(by=child), DATA, _pins(parent))
        else:
            with pytest.raises(expected):
                verify(forge.reply(by=child), DATA, _pins(parent))

    @pytest.mark.parametrize("order", [1, -1])
    def test_an_anchor_smuggled_in_as_intermediate(self, order):
        """A stranger's self-signed CA of the pinned root's name, in between."""
        root = certificates.load(forge.identity().chain[-1])
        key = ec.generate_private_key(ec.SECP256R1())
        twin = _certificate(
            subject=root.parsed.subject, issuer=root.parsed.subject, serial=3, ca=True, key=key
        )
        child = _issued_by(twin, key)
        embedded = (child.chain[0], twin)[::order]
        with pytest.raises(UntrustedRootError):
            verify(forge.reply(by=child, embedded=embedded), DATA, TRUST)

    def test_a_signer_that_says_the_root_issued_it(self):
        """Signed by itself: one candidate by name, and that one never signed it."""
        root = certificates.load(forge.identity().chain[-1])
        key = ec.generate_private_key(ec.SECP256R1())
        for subject in (
            root.parsed.subject,
            x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "S")]),
        ):
            forged = _certificate(
                subject=subject, issuer=root.parsed.subject, serial=4, ca=True, key=key
            )
            liar = Identity(key=key, chain=(forged, root.der))
            with pytest.raises(UntrustedRootError):
                verify(forge.reply(by=liar, embedded=(forged,)), DATA, TRUST)

    def test_policies_of_the_pin(self):
        verify(SOUND, DATA, forge.trust(forge.identity(), policies=(forge.POLICY,)))
        with pytest.raises(PolicyMismatchError):
            verify(SOUND, DATA, forge.trust(forge.identity(), policies=("1.2.3.4.9",)))


class TestValidity:
    @pytest.mark.parametrize("away", [timedelta(days=2), -timedelta(minutes=2)])
    def test_stamped_outside_of_it(self, away):
        with pytest.raises(CertificateNotValidAtTimeError) as caught:
            verify(forge.reply(forge.stamp(gen_time=forge.NOW + away)), DATA, TRUST)
        assert caught.value.fault is Fault.INVALID

    def test_the_last_second(self):
        end = certificates.load(forge.identity().chain[0]).not_after
        verify(forge.reply(forge.stamp(gen_time=end - timedelta(milliseconds=1))), DATA, TRUST)
        with pytest.raises(CertificateNotValidAtTimeError):
            verify(forge.reply(forge.stamp(gen_time=end)), DATA, TRUST)

    def test_the_first_second(self):
        start = certificates.load(forge.identity().chain[0]).not_before
        verify(forge.reply(forge.stamp(gen_time=start)), DATA, TRUST)
        before = start - timedelta(milliseconds=1)
        with pytest.raises(CertificateNotValidAtTimeError):
            verify(forge.reply(forge.stamp(gen_time=before)), DATA, TRUST)


class TestSignature:
    def test_flipped_bit(self):
        for position in (-1, -20, -60):
            broken = bytearray(SOUND)
            broken[position] ^= 1
            with pytest.raises(SignatureInvalidError):
                verify(bytes(broken), DATA, TRUST)

    def test_content_exchanged(self):
        other = forge.stamp(gen_time=forge.NOW - timedelta(hours=1)).dump()
        position = SOUND.index(forge.stamp().dump())
        swapped = SOUND[:position] + other + SOUND[position + len(other) :]
        assert len(other) == len(forge.stamp().dump())
        with pytest.raises(SignatureInvalidError, match="message digest"):
            verify(swapped, DATA, TRUST)

    def test_made_by_another_key(self):
        other = dataclasses.replace(forge.identity(), key=forge.identity("ec", 3).key)
        with pytest.raises(SignatureInvalidError):
            verify(forge.reply(by=other), DATA, TRUST)

    def test_broken_is_worse_than_unknown(self):
        broken = SOUND[:-1] + bytes([SOUND[-1] ^ 1])
        with pytest.raises(SignatureInvalidError):
            verify(broken, DATA, TrustStore(roots=()))


class TestData:
    @pytest.mark.parametrize("data", [b"", DATA[:-1], DATA + b"\n", DATA.replace(b"\n", b"\r\n")])
    def test_other_bytes(self, data):
        with pytest.raises(ImprintMismatchError) as caught:
            verify(SOUND, data, TRUST)
        assert caught.value.fault is Fault.INVALID
        assert "other bytes" in str(caught.value)

    def test_untrusted_is_told_before_other_bytes(self):
        """An imprint that nobody we trust has signed speaks neither for nor against a file."""
        with pytest.raises(UntrustedRootError):
            verify(SOUND, b"other", TrustStore(roots=()))


class TestQuery:
    def test_reply_to_another_query(self):
        authority = forge.authority()
        mine, other = build_query(DATA), build_query(DATA)
        verify(authority.stamp(mine), DATA, TRUST, query=mine)
        with pytest.raises(NonceMismatchError, match="another query"):
            verify(authority.stamp(other), DATA, TRUST, query=mine)

    def test_replay_without_the_query_goes_unnoticed_and_says_so(self):
        reply = forge.authority().stamp(build_query(DATA))
        assert verify(reply, DATA, TRUST).nonce == "not checked"

    def test_nonce_not_returned(self):
        with pytest.raises(NonceMismatchError, match="does not return"):
            verify(forge.reply(forge.stamp(nonce=None)), DATA, TRUST, query=build_query(DATA))

    def test_policy(self):
        query = build_query(DATA, policy="1.2.3.4.2")
        assert (
            verify(forge.authority().stamp(query), DATA, TRUST, query=query).policy == "1.2.3.4.2"
        )
        nonce = int.from_bytes(b"\x12\x34", "big")
        asked = _query_with(nonce, "1.2.3.4.2")
        with pytest.raises(PolicyMismatchError):
            verify(forge.reply(forge.stamp(nonce=nonce)), DATA, TRUST, query=asked)

    def test_query_without_nonce(self):
        token = verify(SOUND, DATA, TRUST, query=_query_with(None, None))
        assert token.nonce == "not checked"

    def test_query_over_other_bytes(self):
        nonce = 1234
        query = _query_with(nonce, None, data=b"other")
        with pytest.raises(ImprintMismatchError, match="query"):
            verify(SOUND, DATA, TRUST, query=query)

    def test_query_that_is_none(self):
        with pytest.raises(NotATimestampError, match="query"):
            verify(SOUND, DATA, TRUST, query=b"<html>")


def test_every_error_says_what_next():
    for error in _all_errors(VerificationError):
        assert error.__doc__
        assert isinstance(error.fault, Fault)


def _all_errors(base):
    for one in base.__subclasses__():
        yield one
        yield from _all_errors(one)


def _with_time(text: str) -> bytes:
    value = tlv.encode(tlv.GENERALIZED_TIME, text.encode())
    return forge.rebuilt(forge.stamp().dump(), [4], lambda _: value)


def _query_with(nonce: int | None, policy: str | None, *, data: bytes = DATA) -> bytes:
    from asn1crypto import tsp

    fields = {
        "version": "v1",
        "message_imprint": {
            "hash_algorithm": {"algorithm": "sha256"},
            "hashed_message": hashlib.sha256(data).digest(),
        },
    }
    if nonce is not None:
        fields["nonce"] = nonce
    if policy is not None:
        fields["req_policy"] = policy
    return tsp.TimeStampReq(fields).dump()


def _pins(*roots: bytes) -> TrustStore:
    loaded = [certificates.load(root) for root in roots]
    return TrustStore(
        roots=tuple(
            PinnedRoot(
                name=f"pin{index}", sha256=root.sha256, independence=INDEPENDENT, certificate=root
            )
            for index, root in enumerate(loaded)
        )
    )


def _certificate(
    *,
    subject: x509.Name,
    issuer: x509.Name,
    serial: int,
    ca: bool = False,
    key: ec.EllipticCurvePrivateKey | None = None,
) -> bytes:
    """A certificate that a stranger made about these names."""
    own = key or ec.generate_private_key(ec.SECP256R1())
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(own.public_key())
        .serial_number(serial)
        .not_valid_before(forge.NOW.replace(microsecond=0) - timedelta(days=1))
        .not_valid_after(forge.NOW.replace(microsecond=0) + timedelta(days=9))
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.TIME_STAMPING]), True)
    )
    return builder.sign(own, hashes.SHA256()).public_bytes(Encoding.DER)


def _self_signed(name: str, *, ca: bool) -> tuple[bytes, ec.EllipticCurvePrivateKey]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    return _certificate(subject=subject, issuer=subject, serial=1, ca=ca, key=key), key


def _issued_by(parent: bytes, key: ec.EllipticCurvePrivateKey) -> Identity:
    own = ec.generate_private_key(ec.SECP256R1())
    issuer = x509.load_der_x509_certificate(parent).subject
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Child")]))
        .issuer_name(issuer)
        .public_key(own.public_key())
        .serial_number(2)
        .not_valid_before(forge.NOW.replace(microsecond=0) - timedelta(hours=1))
        .not_valid_after(forge.NOW.replace(microsecond=0) + timedelta(hours=1))
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.TIME_STAMPING]), True)
    )
    certificate = builder.sign(key, hashes.SHA256()).public_bytes(Encoding.DER)
    return Identity(key=own, chain=(certificate, parent))
