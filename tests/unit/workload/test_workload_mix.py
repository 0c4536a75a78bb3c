"""The mix: what is one, and what is refused."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sremut.workload.mix import Kind, MixError, parse_mix


def test_a_mix_from_json() -> None:
    text = json.dumps(
        [
            {"name": "a", "path": "/a", "weight": 9},
            {"name": "b", "path": "/b?c=1", "weight": 1, "method": "POST", "body": "d=e"},
        ]
    )
    assert parse_mix(text) == (Kind("a", "/a", 9), Kind("b", "/b?c=1", 1, "POST", "d=e"))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "found no JSON"),
        ("[", "found no JSON"),
        ("{}", "found no list"),
        ("[]", "found no list"),
        ("[1]", "[0]: found 1; allowed: name, path, weight"),
        ('[{"name": "a", "path": "/", "weight": 1, "x": 1}]', "allowed: name, path, weight"),
        ('[{"name": "a", "path": "/", "weight": 0}]', "[0].weight: found 0; allowed: 1 to"),
        ('[{"name": "a", "path": "/", "weight": true}]', "[0].weight: found True"),
        ('[{"name": "a", "path": "x", "weight": 1}]', "[0].path: found 'x'"),
        ('[{"name": "a", "path": "/ x", "weight": 1}]', "[0].path: found '/ x'"),
        ('[{"name": "a", "path": "/\\r\\nX: y", "weight": 1}]', "[0].path: found"),
        ('[{"name": "a", "path": "/", "weight": 1, "method": "PUT"}]', "allowed: GET, POST"),
        ('[{"name": "", "path": "/", "weight": 1}]', "a name or a body"),
        ('[{"name":"a","path":"/","weight":1},{"name":"a","path":"/","weight":1}]', "twice"),
    ],
)
def test_what_is_refused(text: str, says: str) -> None:
    with pytest.raises(MixError) as refused:
        parse_mix(text)
    assert says in str(refused.value)


@given(st.text(max_size=60) | st.recursive(st.integers() | st.text(), st.lists).map(json.dumps))
def test_any_text_is_a_mix_or_a_mix_error(text: str) -> None:
    with contextlib.suppress(MixError):
        assert parse_mix(text)
