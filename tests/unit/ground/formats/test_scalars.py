from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pytest_sremut.ground.formats.scalars import MAX_INTEGER, AmbiguousScalarError, plain


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("~", None),
        ("null", None),
        ("true", True),
        ("false", False),
        ("0", 0),
        ("-7", -7),
        ("9090", 9090),
        ("1.5", 1.5),
        ("healthy", "healthy"),
        ("2s", "2s"),
        ("500ms", "500ms"),
        ("demo:social-network", "demo:social-network"),
        ("None", "None"),
        ("y", "y"),
        ("v1", "v1"),
        (str(MAX_INTEGER), MAX_INTEGER),
    ],
)
def test_a_plain_scalar_has_its_one_meaning(text: str, value: object) -> None:
    assert plain(text) == value
    assert type(plain(text)) is type(value)


@pytest.mark.parametrize(
    "text",
    [
        "on", "off", "yes", "no", "On", "True", "FALSE", "NULL",  # YAML 1.1 booleans and null
        "1:30", "190:20:30",  # sexagesimal
        "0777", "0x1F", "0b11", "1_000", "0o17",  # other bases
        ".nan", ".inf", "-.inf", "1e3", "1.0e+3", ".5", "1.",  # floats
        "2026-11-30", "2026-11-30T10:00:00Z",
        "<<", "=",
        str(MAX_INTEGER + 1), "9" * 5000, "9" * 400 + ".0",
    ],
)  # fmt: skip
def test_what_yaml_versions_or_json_disagree_on_is_refused(text: str) -> None:
    with pytest.raises(AmbiguousScalarError) as caught:
        plain(text)
    assert caught.value.allowed


@given(st.text(alphabet="0123456789+-._:eExXobnaiftruly~ ", max_size=12))
def test_what_is_accepted_reads_the_same_in_yaml_1_1(text: str) -> None:
    try:
        value = plain(text)
    except AmbiguousScalarError:
        return
    if text.strip() != text or ": " in text or text.endswith(":") or text.startswith(("- ", "-\n")):
        return  # no plain scalar of YAML at all
    try:
        read = yaml.safe_load(text)
    except yaml.YAMLError:
        return
    if isinstance(read, list | dict):
        return
    assert read == value
    assert type(read) is type(value)
