"""`openssl ts` and we agree, in both directions."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import forge
import needs
import pytest

from pytest_sremut.attestation.errors import (
    CertificateNotValidAtTimeError,
    NonceMismatchError,
    NotATimestampError,
    RejectedByAuthorityError,
    SignatureInvalidError,
    UntrustedRootError,
)
from pytest_sremut.attestation.rfc3161 import reply
from pytest_sremut.attestation.rfc3161.authority import SelfIssuedAuthority
from pytest_sremut.attestation.rfc3161.identity import Identity, new_identity
from pytest_sremut.attestation.rfc3161.request import HASH_ALGORITHMS, build_query
from pytest_sremut.attestation.rfc3161.verify import verify

pytestmark = needs.program("openssl")

DATA = forge.DATA
CONFIG = """
[tsa]
serial = {directory}/serial
crypto_device = builtin
default_policy = 1.2.3.4.1
other_policies = 1.2.3.4.2
digests = sha256, sha384, sha512
signer_digest = {signer_digest}
accuracy = {accuracy}
clock_precision_digits = {digits}
ordering = {ordering}
tsa_name = yes
ess_cert_id_chain = {chain}
ess_cert_id_alg = {ess}
"""


def openssl(*arguments: object, check: bool = True) -> subprocess.CompletedProcess[str]:
    # The exit code counts: the result is on stdout, a notice on stderr even where all is well.
    return subprocess.run(
        ["openssl", *map(str, arguments)], capture_output=True, text=True, check=check, timeout=30
    )


def verified_by_openssl(
    directory: Path, stamp: bytes, chain: tuple[bytes, ...], *options: object, data: bytes = DATA
) -> bool:
    for name, content in (
        ("stamp", stamp), ("data", data),
        ("root.pem", forge.pem(chain[-1])), ("others.pem", forge.pem(*(chain[:-1] or chain))),
    ):  # fmt: skip
        (directory / name).write_bytes(content)
    done = openssl(
        "ts", "-verify", "-in", directory / "stamp", "-data", directory / "data",
        "-CAfile", directory / "root.pem", "-attime", int(forge.NOW.timestamp()),
        *options, check=False,
    )  # fmt: skip
    return done.returncode == 0


@pytest.fixture(scope="module")
def now_identities() -> dict[tuple[str, int], Identity]:
    """openssl stamps with the machine's clock, so these are valid now."""
    now = datetime.now(UTC).replace(microsecond=0)
    return {
        (kind, length): new_identity(
            organization="Now", now=now, lifetime=timedelta(hours=1), kind=kind, length=length
        )
        for kind, length in (("ec", 1), ("ec", 2), ("ec", 3), ("rsa", 1), ("rsa", 2), ("rsa", 3))
    }


def stamped_by_openssl(
    directory: Path,
    one: Identity,
    query: bytes,
    *,
    bare: bool = False,
    **settings: str,
) -> bytes:
    defaults = {
        "directory": str(directory), "signer_digest": "sha256", "accuracy": "secs:1",
        "digits": "0", "ordering": "no", "chain": "no", "ess": "sha256",
    }  # fmt: skip
    (directory / "tsa.cnf").write_text(CONFIG.format(**{**defaults, **settings}))
    (directory / "signer.pem").write_bytes(forge.pem(one.chain[0]))
    (directory / "chain.pem").write_bytes(forge.pem(*one.chain))
    (directory / "key.pem").write_bytes(forge.key_pem(one))
    (directory / "query").write_bytes(query)
    openssl(
        "ts", "-reply", "-config", directory / "tsa.cnf", "-section", "tsa",
        "-queryfile", directory / "query", "-signer", directory / "signer.pem",
        "-inkey", directory / "key.pem", "-chain", directory / "chain.pem",
        "-out", directory / "reply", *(["-token_out"] if bare else []),
    )  # fmt: skip
    return (directory / "reply").read_bytes()


class TestOursThere:
    @pytest.mark.parametrize("kind", ["ec", "rsa"])
    @pytest.mark.parametrize("length", [1, 2, 3])
    @pytest.mark.parametrize("algorithm", HASH_ALGORITHMS)
    def test_kinds_lengths_and_digests(self, tmp_path, kind, length, algorithm):
        query = build_query(DATA, hash_algorithm=algorithm)
        stamp = forge.authority(kind, length).stamp(query)
        chain = forge.identity(kind, length).chain
        assert verified_by_openssl(tmp_path, stamp, chain)
        assert not verified_by_openssl(tmp_path, stamp, chain, data=DATA + b" ")
        token = reply.parse(stamp).token
        assert token is not None
        assert verified_by_openssl(tmp_path, token, chain, "-token_in")

    def test_our_query_and_reply_belong_together(self, tmp_path):
        query = build_query(DATA)
        (tmp_path / "query").write_bytes(query)
        (tmp_path / "reply").write_bytes(forge.authority().stamp(query))
        (tmp_path / "root.pem").write_bytes(forge.pem(forge.identity().chain[-1]))
        done = openssl(
            "ts", "-verify", "-in", tmp_path / "reply", "-queryfile", tmp_path / "query",
            "-CAfile", tmp_path / "root.pem", "-attime", int(forge.NOW.timestamp()),
        )  # fmt: skip
        assert "OK" in done.stdout

    def test_without_certificates(self, tmp_path):
        chain = forge.identity("ec", 3).chain
        stamp = forge.reply(by=forge.identity("ec", 3), embedded=())
        assert not verified_by_openssl(tmp_path, stamp, chain)
        assert verified_by_openssl(tmp_path, stamp, chain, "-untrusted", tmp_path / "others.pem")

    @pytest.mark.parametrize("identifiers", [(1,), (2,), (1, 2)])
    def test_identifiers(self, tmp_path, identifiers):
        stamp = forge.reply(identifiers=identifiers)
        assert verified_by_openssl(tmp_path, stamp, forge.identity().chain)

    @pytest.mark.parametrize("reason", ["bad_alg", "unaccepted_policy", "bad_data_format"])
    def test_rejections_are_readable(self, tmp_path, reason):
        from pytest_sremut.attestation.rfc3161.authority import _rejection

        (tmp_path / "reply").write_bytes(_rejection(reason, "because"))
        text = openssl("ts", "-reply", "-in", tmp_path / "reply", "-text").stdout
        assert "Rejected" in text
        assert "because" in text

    def test_where_we_are_stricter(self, tmp_path):
        """Bytes after the end: openssl takes them, we do not."""
        chain = forge.identity().chain
        stamp = forge.reply() + b"junkjunk"
        assert verified_by_openssl(tmp_path, stamp, chain)
        with pytest.raises(NotATimestampError):
            verify(stamp, DATA, forge.trust(forge.identity()))


class TestTheirsHere:
    @pytest.mark.parametrize("algorithm", HASH_ALGORITHMS)
    @pytest.mark.parametrize(
        ("kind", "length"),
        [("ec", 1), ("ec", 2), ("ec", 3), ("rsa", 1), ("rsa", 2), ("rsa", 3)],
    )
    def test_kinds_lengths_and_digests(self, tmp_path, now_identities, algorithm, kind, length):
        one = now_identities[kind, length]
        query = build_query(DATA, hash_algorithm=algorithm)
        stamp = stamped_by_openssl(tmp_path, one, query, signer_digest=algorithm)
        token = verify(stamp, DATA, forge.trust(one), query=query)
        assert (token.hash_algorithm, token.policy) == (algorithm, "1.2.3.4.1")
        assert token.nonce == "checked"
        with pytest.raises(NonceMismatchError):
            verify(stamp, DATA, forge.trust(one), query=build_query(DATA, hash_algorithm=algorithm))

    @pytest.mark.parametrize("chain", ["yes", "no"])
    @pytest.mark.parametrize("ess", ["sha1", "sha256", "sha512"])
    @pytest.mark.parametrize("bare", [True, False])
    def test_identifiers_and_forms(self, tmp_path, now_identities, chain, ess, bare):
        one = now_identities["ec", 3]
        stamp = stamped_by_openssl(
            tmp_path, one, build_query(DATA), chain=chain, ess=ess, bare=bare
        )
        token = verify(stamp, DATA, forge.trust(one))
        assert token.checks[0][1].startswith("token" if bare else "response")

    @pytest.mark.parametrize(
        ("accuracy", "seconds"),
        [("secs:1", 1.0), ("millisecs:500", 0.5), ("secs:2, millisecs:3, microsecs:4", 2.003004)],
    )
    def test_accuracy_fraction_and_ordering(self, tmp_path, now_identities, accuracy, seconds):
        one = now_identities["ec", 2]
        stamp = stamped_by_openssl(
            tmp_path, one, build_query(DATA), accuracy=accuracy, digits="6", ordering="yes"
        )
        token = verify(stamp, DATA, forge.trust(one))
        assert token.accuracy is not None
        assert token.accuracy.total_seconds() == pytest.approx(seconds)

    def test_without_certificates(self, tmp_path, now_identities):
        one = now_identities["ec", 2]
        (tmp_path / "data").write_bytes(DATA)
        openssl("ts", "-query", "-data", tmp_path / "data", "-sha256", "-out", tmp_path / "q")
        stamp = stamped_by_openssl(tmp_path, one, (tmp_path / "q").read_bytes())
        token = verify(stamp, DATA, forge.trust(one).with_certificates(one.chain[0]))
        assert not token.complete

    def test_wrong_root(self, tmp_path, now_identities):
        stamp = stamped_by_openssl(tmp_path, now_identities["ec", 2], build_query(DATA))
        with pytest.raises(UntrustedRootError):
            verify(stamp, DATA, forge.trust(now_identities["ec", 3]))

    def test_made_with_an_expired_certificate(self, tmp_path):
        """openssl accepts it where its time checks are off; ours cannot be switched off."""
        then = datetime.now(UTC).replace(microsecond=0) - timedelta(days=30)
        expired = new_identity(organization="Expired", now=then, lifetime=timedelta(days=1))
        stamp = stamped_by_openssl(tmp_path, expired, build_query(DATA))
        with pytest.raises(CertificateNotValidAtTimeError):
            verify(stamp, DATA, forge.trust(expired))

    @pytest.mark.parametrize(
        ("options", "expected"),
        [(("-sha1",), "badAlg"), (("-sha256", "-tspolicy", "1.2.3.9"), "unacceptedPolicy")],
    )
    def test_rejections(self, tmp_path, now_identities, options, expected):
        (tmp_path / "data").write_bytes(DATA)
        openssl("ts", "-query", "-data", tmp_path / "data", *options, "-out", tmp_path / "q")
        stamp = stamped_by_openssl(tmp_path, now_identities["ec", 2], (tmp_path / "q").read_bytes())
        with pytest.raises(RejectedByAuthorityError) as caught:
            verify(stamp, DATA, forge.trust(now_identities["ec", 2]))
        assert caught.value.failure_info == (expected,)

    def test_our_authority_answers_their_queries(self, tmp_path):
        (tmp_path / "data").write_bytes(DATA)
        authority = SelfIssuedAuthority()
        openssl("ts", "-query", "-data", tmp_path / "data", "-sha1", "-out", tmp_path / "q")
        with pytest.raises(RejectedByAuthorityError, match="badAlg"):
            reply.parse_granted(authority.stamp((tmp_path / "q").read_bytes()))
        openssl(
            "ts", "-query", "-data", tmp_path / "data", "-sha384", "-cert", "-out", tmp_path / "q"
        )
        query = (tmp_path / "q").read_bytes()
        (tmp_path / "reply").write_bytes(authority.stamp(query))
        (tmp_path / "root.pem").write_bytes(forge.pem(authority.chain[-1]))
        done = openssl(
            "ts", "-verify", "-in", tmp_path / "reply", "-queryfile", tmp_path / "q",
            "-CAfile", tmp_path / "root.pem",
        )  # fmt: skip
        assert "OK" in done.stdout

    def test_flipped_bit(self, tmp_path, now_identities):
        one = now_identities["ec", 2]
        stamp = bytearray(stamped_by_openssl(tmp_path, one, build_query(DATA)))
        stamp[-1] ^= 1
        with pytest.raises(SignatureInvalidError):
            verify(bytes(stamp), DATA, forge.trust(one))
