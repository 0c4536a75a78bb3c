from __future__ import annotations

import re

import pytest

from pytest_sremut.ground.formats.durations import seconds
from pytest_sremut.ground.formats.schema import load_schema


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2s", 2.0),
        ("500ms", 0.5),
        ("1.5s", 1.5),
        ("1m30s", 90.0),
        ("2m", 120.0),
        ("0s", 0.0),
        ("0ms", 0.0),
    ],
)
def test_durations_as_people_write_them(text: str, value: float) -> None:
    assert seconds(text) == value


@pytest.mark.parametrize(
    "text",
    ["", "s", "m", "2", "2 s", "-1s", "2h", "1e3s", "1.s", ".5s", "30s1m", "2s\n", "1,5s", "٢s"],
)
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        seconds(text)


@pytest.mark.parametrize("name", ["study", "contract"])
def test_the_schema_knows_the_same_durations(name: str) -> None:
    pattern = re.compile(load_schema("pytest_sremut.study", name)["$defs"]["duration"]["pattern"])
    for text in ("2s", "500ms", "1.5s", "1m30s", "2m", "0s"):
        assert pattern.search(text)
    for text in ("", "s", "m", "2", "-1s", "2h", ".5s", "30s1m", "2s\n", "x2s"):
        assert not pattern.search(text), text
