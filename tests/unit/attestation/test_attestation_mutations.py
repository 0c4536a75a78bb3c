"""Twenty thousand damaged tokens: none may say anything else than the sound one, none may crash.

A mutation is accepted only where it changes nothing that was signed: a status text, the order of
unsigned certificates, the form. What is accepted must then be the same statement by the same
signer under the same root, over the same bytes that were signed.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import forge
import pytest
import tlv

from pytest_sremut.attestation.errors import VerificationError
from pytest_sremut.attestation.rfc3161 import certificates, reply
from pytest_sremut.attestation.rfc3161.cms import parse_token
from pytest_sremut.attestation.rfc3161.trust import INDEPENDENT, PinnedRoot, TrustStore
from pytest_sremut.attestation.rfc3161.verify import VerifiedToken, verify

SEED = 20260829
BYTES, STRUCTURES = 14_000, 6_000


def _sound() -> list[tuple[bytes, bytes, TrustStore]]:
    """(reply, query, pins) of several kinds, from files (see `make_tokens`)."""
    found = []
    for file in sorted(forge.TOKENS.glob("*.tsr")):
        root = certificates.load(file.with_suffix(".root.der").read_bytes())
        pin = PinnedRoot(
            name="root", sha256=root.sha256, independence=INDEPENDENT, certificate=root
        )
        query = file.with_suffix(".tsq").read_bytes()
        found.append((file.read_bytes(), query, TrustStore(roots=(pin,))))
    assert len(found) == 5
    return found


def _signed(data: bytes, token: VerifiedToken) -> tuple[object, ...]:
    """Everything that a signature covers, or that decides whom we believe."""
    _, bare = reply.parse_granted(data)
    parsed = parse_token(bare)
    return (
        parsed.content,
        parsed.signer.signed_attributes,
        token.gen_time,
        token.accuracy,
        token.serial,
        token.policy,
        token.hash_algorithm,
        token.imprint,
        token.signer_sha256,
        token.root_sha256,
        token.independence,
        token.nonce,
        token.chain,
    )


def _elements(data: bytes) -> list[tlv.Element]:
    """All elements of a DER value, outer ones first."""
    found = [tlv.read(data)]
    for element in found:
        if element.tag & 0x20:
            found.extend(tlv.children(element))
    return found


def _one_byte(data: bytes, source: random.Random) -> bytes:
    position = source.randrange(len(data))
    changed = bytearray(data)
    match source.randrange(4):
        case 0:
            changed[position] ^= 1 << source.randrange(8)
        case 1:
            changed[position] = source.randrange(256)
        case 2:
            del changed[position]
        case _:
            changed.insert(position, source.randrange(256))
    return bytes(changed)


def _structural(data: bytes, source: random.Random) -> bytes:
    """Take out, double, exchange, empty or retag whole elements, lengths kept right or not."""
    elements = _elements(data)
    target, other = source.choice(elements), source.choice(elements)
    raw = target.raw
    match source.randrange(8):
        case 0:
            new = b""
        case 1:
            new = raw + raw
        case 2:
            new = other.raw
        case 3:
            new = tlv.encode(target.tag, b"")
        case 4:
            new = tlv.encode(target.tag ^ 1 << source.randrange(8), target.contents)
        case 5:
            new = tlv.encode(target.tag, target.contents[: source.randrange(len(raw))])
        case 6:
            new = tlv.encode(target.tag, target.contents + source.randbytes(source.randrange(1, 5)))
        case _:
            new = forge.to_ber(raw)
    if source.random() < 0.25:
        return data[: target.start] + new + data[target.end :]
    return _replaced(data, target, new)


def _replaced(data: bytes, target: tlv.Element, new: bytes) -> bytes:
    """`data` with `target` replaced and the lengths around it made right."""

    def walk(element: tlv.Element) -> bytes:
        if (element.start, element.end) == (target.start, target.end):
            return new
        if element.start <= target.start and target.end <= element.end and element.tag & 0x20:
            return tlv.encode(element.tag, b"".join(map(walk, tlv.children(element))))
        return element.raw

    return walk(tlv.read(data))


def _mutants(
    sound: list[tuple[bytes, bytes, TrustStore]],
) -> Iterator[tuple[bytes, bytes, TrustStore, bytes]]:
    source = random.Random(SEED)
    made = 0
    while made < BYTES + STRUCTURES:
        data, query, trust = sound[made % len(sound)]
        change = _one_byte if made < BYTES else _structural
        mutant = change(data, source)
        if mutant != data:
            made += 1
            yield mutant, query, trust, data


def test_none_is_accepted_that_says_anything_else():
    sound = _sound()
    expected = {
        data: _signed(data, verify(data, forge.DATA, trust, query=query))
        for data, query, trust in sound
    }
    outcomes: Counter[str] = Counter()
    for mutant, query, trust, original in _mutants(sound):
        try:
            token = verify(mutant, forge.DATA, trust, query=query)
        except VerificationError as error:
            outcomes[type(error).__name__] += 1
        else:
            outcomes["accepted"] += 1
            assert _signed(mutant, token) == expected[original]
    total = sum(outcomes.values())
    assert total == BYTES + STRUCTURES
    # The fuzzer is worth something only if it reaches every depth.
    for name in ("NotATimestampError", "SignatureInvalidError", "SignerNotAtHandError"):
        assert outcomes[name] > 100, outcomes
    assert 0 < outcomes["accepted"] < total / 10, outcomes


def test_statements_that_an_authority_should_not_have_signed():
    """Damaged before signing: the signature holds over what makes no sense."""
    source = random.Random(SEED)
    content = forge.stamp().dump()
    trust = forge.trust(forge.identity())
    outcomes: Counter[str] = Counter()
    for number in range(400):
        odd = (_one_byte if number % 2 else _structural)(content, source)
        try:
            verify(forge.token(odd), forge.DATA, trust)
        except VerificationError as error:
            outcomes[type(error).__name__] += 1
        else:
            outcomes["accepted"] += 1  # another serial number, say: what was signed is what it says
    assert outcomes["NotATimestampError"] > 40
    assert outcomes["ImprintMismatchError"] > 20


@pytest.mark.parametrize("name", ["sigstage/response-sha256.tsr", "test_tsa/response.tsr"])
def test_every_bit_of_real_tokens(name):
    file = forge.SHARED / name
    if not file.exists():
        pytest.skip("the shared tokens are not here")
    chain = certificates.load_many((file.parent / "ts_chain.pem").read_bytes())
    root = PinnedRoot(
        name="root", sha256=chain[-1].sha256, independence=INDEPENDENT, certificate=chain[-1]
    )
    trust = TrustStore(roots=(root,), certificates=tuple(one.der for one in chain[:-1]))
    data = file.read_bytes()
    expected = _signed(data, verify(data, b"hello", trust))
    for position in range(len(data)):
        mutant = bytearray(data)
        mutant[position] ^= 1 << position % 8
        try:
            token = verify(bytes(mutant), b"hello", trust)
        except VerificationError:
            continue
        assert _signed(bytes(mutant), token) == expected
