"""The quick yes is never wrong: whatever it accepts, the authority accepts."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from records import Records, Told, main_study, no_fsync

from pytest_sremut.ground.formats.quickschema import (
    UnknownKeywordError,
    _compiled,
    accepts,
    compile_schema,
)
from pytest_sremut.ground.formats.schema import validator_for
from pytest_sremut.study.cells import runs

EVIDENCE = "pytest_sremut.evidence"


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """Real documents of every kind."""
    directory = tmp_path_factory.mktemp("documents")
    study = main_study()
    with pytest.MonkeyPatch.context() as patch, no_fsync(patch):
        records = Records(directory, study)
        records.attempt(next(iter(runs(study))), Told(bulk=True))
    found = {
        "state": list(directory.glob("*/*/a01/states/*.json")),
        "record": list(directory.glob("*/*/a01/record.json")),
        "attempt": list(directory.glob("*/*/a01/attempt.json")),
        "attempt-ledger": list(directory.glob("attempts/*.json")),
    }
    return {
        name: [json.loads(path.read_bytes()) for path in sorted(paths)]
        for name, paths in found.items()
    }


@pytest.mark.parametrize("name", ["state", "record", "attempt", "attempt-ledger"])
def test_what_is_as_it_should_be_is_accepted_quickly(
    documents: dict[str, list[Any]], name: str
) -> None:
    assert documents[name]
    for document in documents[name]:
        assert accepts(EVIDENCE, name, document)
        assert not list(validator_for(EVIDENCE, name).iter_errors(document))


odd = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats(allow_nan=False)
    | st.sampled_from(["", "x", "ACCEPT", "COMPLETE", "0" * 64, "2026-08-29T10:00:00.000000Z\n"])
    | st.lists(st.sampled_from(["MS-I1", 1, True]), max_size=3)
    | st.dictionaries(st.sampled_from(["path", "sha256", "size", "type"]), st.just("x"), max_size=3)
)


@settings(
    max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_nothing_is_accepted_that_the_authority_refuses(
    documents: dict[str, list[Any]], data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(sorted(documents)))
    value = copy.deepcopy(data.draw(st.sampled_from(documents[name])))
    place = value
    while True:
        keys = sorted(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            break
        key = data.draw(st.sampled_from(keys))
        inner = place[key]
        if not isinstance(inner, dict | list) or data.draw(st.integers(0, 3)) == 0:
            what = data.draw(st.sampled_from(["replace", "delete", "add"]))
            if what == "replace":
                place[key] = data.draw(odd)
            elif what == "delete":
                del place[key]
            elif isinstance(place, dict):
                place["surplus"] = data.draw(odd)
            else:
                place.append(data.draw(odd))
            break
        place = inner
    if accepts(EVIDENCE, name, value):
        assert not list(validator_for(EVIDENCE, name).iter_errors(value))


@pytest.mark.parametrize("value", [None, [], "x", 1, {}])
def test_what_is_no_document_is_left_to_the_authority(value: Any) -> None:
    assert not accepts(EVIDENCE, "state", value)


def test_every_schema_of_records_and_ledgers_can_be_compiled() -> None:
    import pytest_sremut

    root = Path(pytest_sremut.__file__).parent
    for package in (EVIDENCE, "pytest_sremut.ledger"):
        for path in (root / package.rpartition(".")[2] / "schemas").glob("*.schema.json"):
            assert _compiled(package, path.name.removesuffix(".schema.json")), path


def test_a_keyword_that_is_not_known_is_not_passed_over() -> None:
    with pytest.raises(UnknownKeywordError, match="multipleOf"):
        compile_schema({"type": "integer", "multipleOf": 2})


def test_a_definition_may_speak_of_itself() -> None:
    check = compile_schema(
        {
            "$ref": "#/$defs/tree",
            "$defs": {"tree": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
        }
    )
    assert check([[], [[]]])
    assert not check([[], [1]])


def test_names_of_properties_are_held_to_their_schema() -> None:
    check = compile_schema({"propertyNames": {"pattern": "^[a-z]+$"}})
    assert check({"a": 1, "bc": 2})
    assert check({})
    assert check(["A"])
    assert not check({"a": 1, "B": 2})
