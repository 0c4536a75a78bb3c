"""Whatever the bytes, only errors with our names come out of what reads a timestamp."""

from __future__ import annotations

import contextlib

import forge
import tlv
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_sremut.attestation.errors import VerificationError
from pytest_sremut.attestation.rfc3161 import ber, certificates
from pytest_sremut.attestation.rfc3161.cms import parse_token
from pytest_sremut.attestation.rfc3161.request import build_query, parse_query
from pytest_sremut.attestation.rfc3161.verify import verify

TRUST = forge.trust(forge.identity())
SOUND, TOKEN, QUERY = forge.reply(), forge.token(), build_query(forge.DATA)
TAGS = st.sampled_from([*range(0x01, 0x20), 0x30, 0x31, 0x24, 0xA0, 0xA1, 0xA4, 0x80, 0x81])
CONSTRUCTED = TAGS.filter(lambda tag: tag & 0x20)


def _trees(leaf_tags, branch_tags):
    return st.recursive(
        st.builds(tlv.encode, leaf_tags, st.binary(max_size=40)),
        lambda inner: st.builds(tlv.encode, branch_tags, st.lists(inner, max_size=4).map(b"".join)),
        max_leaves=15,
    )


TREES = _trees(TAGS, TAGS)
# Whoever re-encodes a tree takes it apart, and a constructed element must then hold elements.
WELL_FORMED = _trees(TAGS.filter(lambda tag: not tag & 0x20), CONSTRUCTED)


def _read_everywhere(data: bytes) -> None:
    for read in (
        lambda: verify(data, forge.DATA, TRUST),
        lambda: verify(data, forge.DATA, TRUST, query=data),
        lambda: parse_token(data),
        lambda: parse_query(data),
    ):
        with contextlib.suppress(VerificationError):
            read()
    certificates.same_name(data, TOKEN)
    certificates.same_name(data, data + b"\0")


@given(st.binary(max_size=300))
def test_bytes(data):
    _read_everywhere(data)
    _read_everywhere(b"\x30\x80" + data)


@given(TREES)
def test_trees(data):
    _read_everywhere(data)


@given(WELL_FORMED)
def test_trees_in_ber(data):
    _read_everywhere(forge.to_ber(data))


def _spots(data: bytes) -> list[tlv.Element]:
    found = [tlv.read(data)]
    for element in found:
        if element.tag & 0x20:
            found.extend(tlv.children(element))
    return found


def _put(element: tlv.Element, target: tlv.Element, new: bytes) -> bytes:
    """The element with `target` in it replaced, the lengths around it made right."""
    if element[2:] == target[2:]:
        return new
    if not (element.tag & 0x20 and element.body <= target.start and target.end <= element.end):
        return element.raw
    parts = (_put(child, target, new) for child in tlv.children(element))
    return tlv.encode(element.tag, b"".join(parts))


@settings(max_examples=300)
@given(st.data())
def test_one_part_replaced_by_any_tree(data):
    """What is wrong deep inside comes out like what is wrong at the top."""
    whole = data.draw(st.sampled_from([SOUND, TOKEN, QUERY]))
    target = data.draw(st.sampled_from(_spots(whole)))
    new = data.draw(st.one_of(TREES, st.binary(max_size=20), st.just(target.raw * 2)))
    _read_everywhere(_put(tlv.read(whole), target, new))


@settings(max_examples=200)
@given(st.sampled_from(["30", "a0", "04"]), st.integers(0, 2**70), st.binary(max_size=8))
def test_lengths_of_any_size(tag, length, body):
    octets = length.to_bytes((length.bit_length() + 7) // 8 or 1, "big")
    _read_everywhere(bytes.fromhex(tag) + bytes((0x80 | len(octets),)) + octets + body)
    inner = tlv.encode(0x04, bytes((0x80 | len(octets),)) + octets)
    _read_everywhere(tlv.encode(0x30, inner + body))


@given(TREES)
def test_der_stays_as_it_is_and_ber_becomes_der_once(data):
    with contextlib.suppress(ber.DerError):
        once = ber.to_der(data)
        assert ber.to_der(once) == once
