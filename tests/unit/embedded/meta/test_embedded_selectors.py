from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sremut.embedded.meta.errors import ApiStatus
from pytest_sremut.embedded.meta.fieldselectors import parse_field_selector
from pytest_sremut.embedded.meta.selectors import (
    format_label_selector,
    parse_label_selector,
    selector_of,
)

LABELS = {"app": "web", "tier": "a", "n": "5", "example.com/x": "y"}


@pytest.mark.parametrize(
    ("text", "selects"),
    [
        ("", True), ("app=web", True), ("app==web", True), ("app!=web", False), ("app=db", False),
        ("gone!=x", True), ("app in (web,db)", True), ("app notin (web,db)", False),
        ("gone notin (x)", True), ("gone in (x)", False), ("app", True), ("gone", False),
        ("!app", False), ("!gone", True), ("app=web,tier=a", True), ("app=web,tier=b", False),
        ("n>4", True), ("n>5", False), ("n<6", True), ("app>1", False), ("example.com/x=y", True),
        (" app = web , tier in ( a , b ) ", True), ("app=", False), ("app in (,web)", True),
    ],
)  # fmt: skip
def test_label_selectors(text: str, selects: bool) -> None:
    assert parse_label_selector(text).matches(LABELS) is selects


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("=x", "unable to parse requirement: found '=', expected: identifier"),
        ("a in x", "found 'x' expected: '('"),
        ("a in (", "expected: ',', or ')'"),
        ("a,", "expected: identifier after ','"),
        ("a=b c", "expected: ',' or 'end of string'"),
        ("a>x", "the value must be an integer"),
        ("a=b/c", "a valid label must be an empty string"),
        ("/x", "prefix part must be non-empty"),
        ("a/b/c", "a qualified name must consist of"),
        ("-a", "name part must consist of"),
    ],
)
def test_bad_label_selectors(text: str, sentence: str) -> None:
    with pytest.raises(ApiStatus) as caught:
        parse_label_selector(text)
    assert caught.value.code == 400
    assert sentence in caught.value.message


@given(st.text(alphabet="ab=!,()<> in/notin-_.\t'\"", max_size=20))
def test_any_text_is_a_selector_or_refused(text: str) -> None:
    code = 400
    try:
        assert parse_label_selector(text).matches({"a": "b"}) in (True, False)
    except ApiStatus as status:
        code = status.code
    assert code == 400


def test_selector_objects() -> None:
    selector = {
        "matchLabels": {"app": "web"},
        "matchExpressions": [
            {"key": "tier", "operator": "In", "values": ["b", "a"]},
            {"key": "x", "operator": "DoesNotExist"},
            {"key": "n", "operator": "Exists"},
        ],
    }
    assert selector_of(selector).matches(LABELS)
    assert format_label_selector(selector) == "app=web,n,tier in (a,b),!x"
    assert format_label_selector({}) == "<none>"
    assert format_label_selector(None) == "<none>"
    assert selector_of(None).matches({})


POD = {
    "metadata": {"name": "p", "namespace": "n"},
    "spec": {"nodeName": "node-1", "restartPolicy": "Never"},
    "status": {"phase": "Running"},
}


@pytest.mark.parametrize(
    ("text", "selects"),
    [
        ("", True), ("metadata.name=p", True), ("metadata.name!=p", False),
        ("status.phase=Running,spec.nodeName==node-1", True), ("status.phase=Failed", False),
        ("metadata.namespace=n", True), ("spec.hostNetwork=false", True), ("status.podIP=", True),
    ],
)  # fmt: skip
def test_field_selectors(text: str, selects: bool) -> None:
    assert parse_field_selector("pods", text)(POD) is selects


def test_bad_field_selectors() -> None:
    for resource, text, sentence in (
        ("pods", "spec.nope=x", "field label not supported: spec.nope"),
        ("configmaps", "data.k=v", '"data.k" is not a known field selector: only "metadata.name"'),
        ("pods", "status.phase", "invalid selector"),
    ):
        with pytest.raises(ApiStatus) as caught:
            parse_field_selector(resource, text)
        assert sentence in caught.value.message


@given(st.text(alphabet="metadata.name=!,\\ x", max_size=25))
def test_any_text_is_a_field_selector_or_refused(text: str) -> None:
    code = 400
    try:
        assert parse_field_selector("pods", text)(POD) in (True, False)
    except ApiStatus as status:
        code = status.code
    assert code == 400
