from __future__ import annotations

import subprocess
import sys
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from pytest_sremut.errors import InputError
from pytest_sremut.ground.formats.schema import load_schema, show, validate
from pytest_sremut.ground.formats.yamlfile import parse_yaml
from pytest_sremut.study import names
from pytest_sremut.study.verdict import ContractVerdict, State, Verdict

NAMES = ("study", "contract", "mutants", "predictions")


def enums(node: Any) -> list[list[str]]:
    if isinstance(node, dict):
        own = [node["enum"]] if isinstance(node.get("enum"), list) else []
        return own + [found for value in node.values() for found in enums(value)]
    if isinstance(node, list):
        return [found for value in node for found in enums(value)]
    return []


@pytest.mark.parametrize("name", NAMES)
def test_each_schema_is_a_schema_and_closed(name: str) -> None:
    schema = load_schema("pytest_sremut.study", name)
    Draft202012Validator.check_schema(schema)
    assert schema["additionalProperties"] is False
    assert schema["properties"]["schema"] == {"const": f"sremut/{name}/v1"}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("mutants", names.Criterion),
        ("contract", names.Check),
        ("study", names.Instrument),
        ("predictions", names.Measure),
        ("predictions", names.Circumstance),
        ("predictions", names.Consequence),
        ("predictions", State),
        ("predictions", Verdict),
        ("predictions", ContractVerdict),
    ],
)
def test_the_schemas_and_the_vocabulary_are_the_same_lists(name: str, words: type[StrEnum]) -> None:
    listed = [set(found) for found in enums(load_schema("pytest_sremut.study", name))]
    assert {word.value for word in words} in listed


def refused(text: str, name: str = "contract") -> InputError:
    with pytest.raises(InputError) as caught:
        validate(parse_yaml(text.encode(), PurePosixPath("c.yaml")), name)
    return caught.value


CONTRACT = """\
schema: sremut/contract/v1
id: c
title: t
poll: 2s
invariants:
  - id: I1
    name: n
    check: ready-endpoints
    deadline: 30s
    parameters: {minimum: 1}
"""


def test_a_valid_file_passes() -> None:
    validate(parse_yaml(CONTRACT.encode(), PurePosixPath("c.yaml")), "contract")


@pytest.mark.parametrize(
    ("old", "new", "place", "found", "allowed"),
    [
        ("poll: 2s", "pol: 2s", "pol (line 4", "unknown key text 'pol'", "did you mean poll?"),
        ("poll: 2s\n", "", "line 1", "no key poll", "poll is required here"),
        ("poll: 2s", "poll: 2", "poll (line 4, column 7)", "2", "a duration such as 500ms"),
        ("poll: 2s", "poll: 2h", "poll (line 4", "text '2h'", "a duration such as 500ms"),
        ("poll: 2s", 'poll: "2s\\n"', "poll (line 4", "text '2s\\n'", "a duration"),
        ("poll: 2s", "poll:", "poll (line 4", "nothing", "a duration"),
        ("title: t", "title: ''", "title (line 3", "text ''", "one line of text"),
        ("title: t", "title: [t]", "title (line 3", "[t]", "one line of text"),
        ("id: c", "id: C", "id (line 2", "text 'C'", "lower-case letters"),
        ("/v1", "/v2", "schema (line 1", "'sremut/contract/v2'", "'sremut/contract/v1'"),
        ("ready-endpoints", "ready", "invariants[0].check (line 8", "'ready'", "ready-endpoints"),
        ("{minimum: 1}", "{}", "invariants[0].parameters (line 10", "no key minimum", "required"),
        ("{minimum: 1}", "{minimum: 0}", "parameters.minimum (line 10", "0", "1 or more"),
        ("{minimum: 1}", "{minimum: 1.0}", "parameters.minimum", "1.0", "a whole number"),
        ("{minimum: 1}", "{minimum: true}", "parameters.minimum", "true", "a whole number"),
        ("{minimum: 1}", "{minimum: 1, x: 2}", "parameters.x", "unknown key text 'x'", "minimum"),
        ("{minimum: 1}", "1", "invariants[0].parameters", "1", "a mapping"),
    ],
)  # fmt: skip
def test_an_error_names_place_found_and_allowed(
    old: str, new: str, place: str, found: str, allowed: str
) -> None:
    assert CONTRACT.count(old) == 1
    error = refused(CONTRACT.replace(old, new))
    assert place in error.place
    assert found in error.found
    assert allowed in error.allowed


def test_an_empty_list_and_a_list_of_nothing() -> None:
    head = CONTRACT.split("invariants:", maxsplit=1)[0]
    assert refused(head + "invariants: []\n").allowed == "1 or more entries"
    assert refused(head + "invariants: {}\n").found == "a mapping of 0 keys"
    assert refused("[]").found == "[]"
    assert refused("just text").allowed == "a mapping"


def test_the_first_error_of_the_file_is_told() -> None:
    text = CONTRACT.replace("2s", "2").replace("30s", "30")
    assert refused(text).place.startswith("poll")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "nothing"),
        (True, "true"),
        (3, "3"),
        ("x", "text 'x'"),
        ("x" * 100, f"text {'x' * 60 + '…'!r}"),
        ([1, "a"], "[1, a]"),
        ([{}], "a list of 1"),
        ({"a": 1}, "a mapping of 1 keys"),
    ],
)
def test_values_are_shown_short_and_on_one_line(value: object, shown: str) -> None:
    assert show(value) == shown


def test_loading_imports_neither_cluster_nor_network() -> None:
    script = (
        "import sys\n"
        "import pytest_sremut.study.load, pytest_sremut.study.cells\n"
        "heavy = {'jsonschema', 'kubernetes', 'aiohttp', 'socket', 'subprocess', 'pytest'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
