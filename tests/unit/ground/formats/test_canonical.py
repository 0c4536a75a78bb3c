from __future__ import annotations

import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sremut.ground.formats.canonical import (
    CanonicalError,
    canonical_json,
    canonical_sha256,
    parse_with_encoder,
    sha256,
)
from pytest_sremut.study.verdict import Verdict

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(alphabet=st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=20,
)


def test_keys_are_sorted_and_nothing_is_spaced() -> None:
    assert canonical_json({"b": [1, 2.0, None], "a": "é"}) == '{"a":"é","b":[1,2,null]}'.encode()
    assert canonical_json({"v": Verdict.ACCEPT}) == b'{"v":"ACCEPT"}'
    assert canonical_sha256({}) == sha256(b"{}") == hashlib.sha256(b"{}").hexdigest()


@given(values)
def test_canonical_json_reads_back_and_is_stable(value: object) -> None:
    try:
        data = canonical_json(value)
    except CanonicalError:
        return  # lone surrogates in keys
    assert canonical_json(json.loads(data)) == data


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (2**53, "integers of 2^53"),
        ({"a": [-(2**53)]}, "integers of 2^53"),
        (float("nan"), "NaN and infinity"),
        (float("inf"), "NaN and infinity"),
        ({1: 2}, "not JSON"),
        ({"a": {1, 2}}, "not JSON"),
        (b"x", "not JSON"),
        ("\ud800", "not JSON"),
        ({"\ud800": 1}, "not JSON"),
    ],
)
def test_what_has_no_canonical_form_is_named(value: object, told: str) -> None:
    with pytest.raises(CanonicalError, match="the thing: ") as caught:
        canonical_json(value, what="the thing")
    assert told in str(caught.value)


def test_a_value_inside_itself_is_named() -> None:
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(CanonicalError, match="inside itself"):
        canonical_json(endless)


@given(values)
def test_the_encoder_that_comes_with_a_value_gives_its_canonical_bytes(value: object) -> None:
    try:
        data = canonical_json(value)
    except CanonicalError:
        return
    parsed, encode = parse_with_encoder(data)
    assert encode(parsed) == data


@pytest.mark.parametrize(
    "data",
    [
        b'{"a":1.0}',
        b'{"a":1e2}',
        b'{"a":-0}',
        b'{"a": 1}',
        b'{"b":1,"a":2}',
        b'{"a":1,"a":1}',
        b'{"a":"\\u00e9"}',
        b'{"a":"\\u0041"}',
        b'{"a":"\\/"}',
        b'{"\\ud83d\\ude00":1,"\\uffff":2}',
        b'{"a":9007199254740993}',
        b'{"a":NaN}',
        b'{"a":Infinity}',
        b" 1",
        b'"\\ud800"',
    ],
)
def test_no_encoder_takes_other_bytes_for_canonical(data: bytes) -> None:
    value, encode = parse_with_encoder(data)
    try:
        assert encode(value) != data
    except CanonicalError:
        return


@given(st.binary(max_size=40) | st.text(max_size=40).map(str.encode))
def test_any_bytes_are_a_value_or_no_json(data: bytes) -> None:
    try:
        value, encode = parse_with_encoder(data)
    except (ValueError, RecursionError):
        return
    try:
        quick = encode(value)
    except CanonicalError:
        return
    if quick == data:
        assert canonical_json(value) == data
