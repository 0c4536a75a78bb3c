"""Known secrets in every form; JSON by its keys; Secrets that somebody printed."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pytest_sremut.evidence.redaction import redact_value
from pytest_sremut.ground.durable import text_redaction
from pytest_sremut.ground.durable.text_redaction import (
    REDACTED,
    looks_random,
    protect,
    redact_bytes,
    redact_json,
    redact_text,
    secrets_of,
)

SECRET = "S3cr+t/value=9&é"


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_redaction._Known, "values", frozenset())
    monkeypatch.setattr(text_redaction._Known, "forms", ())


@pytest.mark.parametrize(
    "written",
    [
        SECRET,
        json.dumps(SECRET)[1:-1],
        quote(SECRET, safe=""),
        quote_plus(SECRET),
        f"{SECRET[:5]}\n{SECRET[5:]}",
        f"{SECRET[:5]}\r\n    {SECRET[5:]}",
        f"{SECRET[:5]}\\\n{SECRET[5:]}",
        f"{SECRET[:5]}\n2026-11-30T10:00:00.123456789Z {SECRET[5:]}",
    ],
)
def test_a_known_value_is_found_however_it_is_written(written: str) -> None:
    protect([SECRET])
    text = f"before {written} after\nnext"
    assert redact_text(text) == f"before {REDACTED} after\nnext"
    assert redact_text(redact_text(text)) == redact_text(text)
    assert redact_bytes(text.encode()) == f"before {REDACTED} after\nnext".encode()


@settings(max_examples=40)
@given(
    st.text(min_size=10, max_size=40), st.binary(max_size=7), st.binary(max_size=7), st.booleans()
)
def test_a_known_value_is_found_inside_base64(
    value: str, before: bytes, after: bytes, urlsafe: bool
) -> None:
    try:
        data = value.encode()
    except UnicodeEncodeError:
        assume(False)
    text_redaction._Known.values, text_redaction._Known.forms = frozenset(), ()
    protect([value])
    encode = base64.urlsafe_b64encode if urlsafe else base64.b64encode
    text = encode(before + data + after).decode()
    assert REDACTED in redact_text(text)
    broken = "\n".join(text[n : n + 16] for n in range(0, len(text), 16))
    assert REDACTED in redact_text(broken)


def test_a_value_that_is_too_short_is_not_looked_for() -> None:
    protect(["abc", ""])
    assert redact_text("abc") == "abc"


def test_one_value_may_begin_another() -> None:
    protect(["first-part-1", "first-part-1-and-more"])
    assert redact_text("x first-part-1-and-more y") == f"x {REDACTED} y"


def test_what_of_an_environment_is_a_secret() -> None:
    environment = {
        "GITHUB_TOKEN": "ghp_0123456789",
        "DB_PASSWORD": "Correct Horse",
        "PWD": "/home/somebody",
        "TOKEN_FILE": "/run/secrets/token",
        "SECRET_NAME": "user-service",
        "XDG_SESSION_ID": "12",
        "HOME": "/root",
    }
    assert secrets_of(environment) == ["ghp_0123456789", "Correct Horse"]


@pytest.mark.parametrize(
    ("value", "random"),
    [
        ("Zm9vYmFyYmF6cXV4MTIzNDU2", True),
        ("0123456789abcdef0123456789abcdef", True),
        ("01234567890123456789012", False),  # a number
        ("user-timeline-mongodb.social-network", False),
        ("http://nginx-thrift:8080", False),
        ("9090", False),
    ],
)
def test_what_looks_generated(value: str, random: bool) -> None:
    assert looks_random(value) is random


# -- printed Secrets -----------------------------------------------------------------------------

YAML = """\
apiVersion: v1
data:
  any: Y2FuYXJ5
  other: Y2FuYXJ5
kind: Secret
metadata:
  name: s
"""


@pytest.mark.parametrize(
    "text",
    [
        YAML,
        YAML.replace("\n", "\r\n"),
        "items:\n" + "".join(f"  {line}\n" for line in YAML.splitlines()),
        json.dumps({"kind": "Secret", "data": {"any": "Y2FuYXJ5"}, "metadata": {"name": "s"}}),
        json.dumps({"kind": "Secret", "stringData": {"any": "Y2FuYXJ5"}}, indent=2),
        json.dumps(json.dumps({"data": {"any": "Y2FuYXJ5"}, "kind": "Secret"})),
        "client-key-data: LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVktLS0tLQpZMkZ1WVhKNQo=",
        "key LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVktLS0tLQpZMkZ1WVhKNQo= is printed",
        "connection_string=Y2FuYXJ5",
        "credentials: Y2FuYXJ5",
    ],
)
def test_a_secret_that_was_printed(text: str) -> None:
    redacted = redact_text(text)
    assert "Y2FuYXJ5" not in redacted
    assert "Y2FuWVhKNQ" not in redacted
    assert "WTJGdVlYSjU" not in redacted
    assert REDACTED in redacted
    assert redact_text(redacted) == redacted


def test_data_of_another_kind_is_no_secret_in_a_text() -> None:
    text = YAML.replace("Secret", "ConfigMap")
    assert redact_text(text) == text


# -- values --------------------------------------------------------------------------------------


def test_a_value_is_scrubbed_by_its_keys_and_its_texts() -> None:
    value = {
        "success": False,
        "token": "x",
        "token_count": 3,
        "passwords": ["a", {"of": "b", "n": 1}],
        "secretless": None,
        "reason": "Authorization: Bearer abcdef0123",
        "nested": [("Basic YWJjZGVm", 1.5, True)],
    }
    assert redact_json(value) == {
        "success": False,
        "token": REDACTED,
        "token_count": 3,
        "passwords": [REDACTED, {"of": REDACTED, "n": 1}],
        "secretless": None,
        "reason": f"Authorization: {REDACTED}",
        "nested": [[f"Basic {REDACTED}", 1.5, True]],
    }


def test_objects_in_a_value_are_reduced() -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s", "uid": "u"},
        "data": {"k": "v"},
    }
    pods = {
        "apiVersion": "v1",
        "kind": "PodList",
        "items": [{"metadata": {"name": "p"}, "status": {"phase": "Running"}, "secret": 1}],
    }
    assert redact_value({"success": True, "seen": [secret, pods]}) == {
        "success": True,
        "seen": [
            {"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "s", "uid": "u"}},
            {
                "kind": "PodList",
                "items": [
                    {"kind": "Pod", "metadata": {"name": "p"}, "status": {"phase": "Running"}}
                ],
            },
        ],
    }


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["kind", "apiVersion", "metadata", "items", "token", "success", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(_json)
def test_whatever_the_value_scrubbing_gives_json(value: Any) -> None:
    once = redact_value(value)
    assert json.loads(json.dumps(once)) == once
    if isinstance(value, dict) and isinstance(value.get("success"), bool):
        assert "kind" in value or once["success"] is value["success"]


def test_a_long_log_is_searched_for_known_values_in_reasonable_time() -> None:
    protect([f"a-known-secret-{number}" for number in range(20)])
    line = "2026-11-30T10:00:00.123456789Z   Thread Stats   Avg      Stdev     99%   +/- Stdev\n"
    log = (line * 3_000).encode()
    assert redact_bytes(log) == log
    assert b"secret-7" not in redact_bytes(log + b"a-known-secret-7")
