"""Replies of authorities that we do not run, and the right answer for each."""

from __future__ import annotations

import itertools

import forge
import pytest

from pytest_sremut.attestation.errors import (
    Fault,
    ImprintMismatchError,
    NonceMismatchError,
    SignatureInvalidError,
    SignerNotAtHandError,
    TokenOrderError,
    UntrustedRootError,
)
from pytest_sremut.attestation.registration.order import Step, require_order
from pytest_sremut.attestation.rfc3161 import certificates
from pytest_sremut.attestation.rfc3161.trust import INDEPENDENT, PinnedRoot, TrustStore
from pytest_sremut.attestation.rfc3161.verify import verify

pytestmark = pytest.mark.skipif(
    not forge.SHARED.is_dir(), reason="the shared tokens are not beside this checkout"
)

HELLO = b"hello"
FINGERPRINTS = {
    "sigstage/ts_chain.pem": "81d9ef485ec4572a6511d2d99aca787e0e9b331383454c94f8d678c246a35acc",
    "test_tsa/ts_chain.pem": "b3592af591dcc23cba8222bbfe9dd4c17946e41aec92cb378dbf59275ff874fd",
    "identrust/root.der": "5d56499be4d2e08bcfcad08a3e38723d50503bde706948e42f55603019e528ae",
}


def read(name: str) -> bytes:
    return (forge.SHARED / name).read_bytes()


def pinned(name: str, *, others: bool = False) -> TrustStore:
    """The root of a chain file pinned; with `others`, its other certificates are at hand."""
    chain = certificates.load_many(read(name))
    assert chain[-1].sha256 == FINGERPRINTS[name]
    root = PinnedRoot(
        name=name, sha256=chain[-1].sha256, independence=INDEPENDENT, certificate=chain[-1]
    )
    return TrustStore(
        roots=(root,), certificates=tuple(one.der for one in chain[:-1]) if others else ()
    )


def test_the_data():
    assert read("hello.bin") == HELLO


@pytest.mark.parametrize("algorithm", ["sha256", "sha384", "sha512"])
def test_sigstore_staging(algorithm):
    token = verify(read(f"sigstage/response-{algorithm}.tsr"), HELLO, pinned(SIGSTAGE))
    assert token.hash_algorithm == algorithm
    assert token.signer == "CN=sigstore-tsa,O=sigstore.dev"


SIGSTAGE = "sigstage/ts_chain.pem"
TEST_TSA = "test_tsa/ts_chain.pem"


def test_damaged_signature():
    with pytest.raises(SignatureInvalidError) as caught:
        verify(read("sigstage/response-invalid-signature.tsr"), HELLO, pinned(SIGSTAGE))
    assert caught.value.fault is Fault.INVALID


def test_certificate_not_in_the_reply():
    reply = read("sigstage/response-no-embedded-cert.tsr")
    with pytest.raises(SignerNotAtHandError) as caught:
        verify(reply, HELLO, pinned(SIGSTAGE))
    assert caught.value.fault is Fault.UNVERIFIABLE
    verify(reply, HELLO, pinned(SIGSTAGE, others=True))


@pytest.mark.parametrize("query", ["sigstage/request.der", "test_tsa/request.der"])
@pytest.mark.parametrize("algorithm", ["sha256", "sha384", "sha512"])
def test_reply_to_another_query(query, algorithm):
    reply = read(f"sigstage/response-{algorithm}.tsr")
    with pytest.raises(NonceMismatchError):
        verify(reply, HELLO, pinned(SIGSTAGE), query=read(query))


def test_chain_of_three():
    reply = read("test_tsa/response.tsr")
    query = read("test_tsa/request.der")
    token = verify(reply, HELLO, pinned(TEST_TSA, others=True), query=query)
    assert (len(token.chain), token.nonce) == (3, "checked")
    with pytest.raises(UntrustedRootError):
        verify(reply, HELLO, pinned(TEST_TSA))  # the intermediate is not at hand


def test_injected_certificates_are_tolerated_and_never_the_signer():
    sound = verify(read("test_tsa/response.tsr"), HELLO, pinned(TEST_TSA, others=True))
    injected = verify(
        read("test_tsa/response-injected-certs.tsr"), HELLO, pinned(TEST_TSA, others=True)
    )
    assert injected.signer_sha256 == sound.signer_sha256
    assert injected.chain == sound.chain


def test_identrust():
    token = verify(read("identrust/issue-104.tsr"), HELLO, pinned("identrust/root.der"))
    assert len(token.chain) == 3
    assert "ESSCertID over sha1" in dict(token.checks)["signer"]


@pytest.mark.parametrize("data", [HELLO, b"other"])
def test_authority_whose_root_is_not_here(data):
    """Cannot be verified, which is not invalid."""
    with pytest.raises(UntrustedRootError, match="cannot be verified: no trusted root") as caught:
        verify(read("self_signed.tsr"), data, pinned("identrust/root.der"))
    assert caught.value.fault is Fault.UNVERIFIABLE


@pytest.mark.parametrize(
    ("reply", "chain"),
    [
        ("sigstage/response-sha512.tsr", SIGSTAGE),
        ("test_tsa/response.tsr", TEST_TSA),
        ("identrust/issue-104.tsr", "identrust/root.der"),
    ],
)
def test_other_bytes_and_other_roots(reply, chain):
    with pytest.raises(ImprintMismatchError):
        verify(read(reply), HELLO + b"\n", pinned(chain, others=True))
    for other in FINGERPRINTS:
        if other != chain:
            with pytest.raises(UntrustedRootError):
                verify(read(reply), HELLO, pinned(other, others=True))


def test_three_tokens_in_every_order():
    """Stamped in October 2024, in March and in May 2025: one order holds, five do not."""
    tokens = [
        verify(read("test_tsa/response.tsr"), HELLO, pinned(TEST_TSA, others=True)),
        verify(read("identrust/issue-104.tsr"), HELLO, pinned("identrust/root.der")),
        verify(read("sigstage/response-sha256.tsr"), HELLO, pinned(SIGSTAGE)),
    ]
    for order in itertools.permutations(range(3)):
        names = ("predictions", "tree", "first mutation")
        steps = [Step.of(name, tokens[number]) for name, number in zip(names, order, strict=True)]
        if order == (0, 1, 2):
            require_order(steps)
        else:
            with pytest.raises(TokenOrderError, match="is not before"):
                require_order(steps)


def test_tokens_within_each_others_accuracy():
    """Stamped in the same second or the next, with an accuracy of one: not provably ordered."""
    first, second = (
        verify(read(f"sigstage/response-{name}.tsr"), HELLO, pinned(SIGSTAGE))
        for name in ("sha256", "sha512")
    )
    assert first.gen_time < second.gen_time
    with pytest.raises(TokenOrderError):
        require_order([Step.of("a", first), Step.of("b", second)])
