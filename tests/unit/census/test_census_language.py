"""The tables of handlers: what the models add, and that nothing is followed without them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from pytest_sremut.census.interpreter import values
from pytest_sremut.census.interpreter.attributes import ATTRIBUTES
from pytest_sremut.census.interpreter.calls import CALLS
from pytest_sremut.census.interpreter.values import Const, Ext, Native, Unknown, Value
from pytest_sremut.census.models.language import LANGUAGE

MAIN = "import os\n\ndef main():\n    os.system('kubectl delete pod web')\n    return len('web')\n"


def test_the_models_add_to_the_interpreters_tables_and_replace_nothing() -> None:
    assert {kind for kind in LANGUAGE.calls if kind not in CALLS} == {Ext}
    assert all(LANGUAGE.calls[kind] is handler for kind, handler in CALLS.items())
    assert all(LANGUAGE.attributes[kind] is handler for kind, handler in ATTRIBUTES.items())


def test_every_kind_of_value_has_its_attributes() -> None:
    kinds = {
        kind for kind in vars(values).values() if isinstance(kind, type) and issubclass(kind, Value)
    }
    # A lazy import is resolved where its name is read; a partial has no attribute of interest.
    assert kinds - set(LANGUAGE.attributes) == {Value, values.Lazy, values.Partial}


def test_without_the_models_a_program_has_no_effect(program: Callable[..., object]) -> None:
    one = program(MAIN)
    one.m.language = replace(LANGUAGE, calls=CALLS, builtin=lambda _m, _name: None)
    assert isinstance(one.run(), Unknown)
    assert one.effects == []


@pytest.mark.parametrize("length", [0, 3])
def test_another_builtin_takes_the_place_of_the_model(
    program: Callable[..., object], length: int
) -> None:
    one = program(MAIN)
    fixed = Native(lambda _args, _kwargs: Const(length), "len")
    one.m.language = replace(LANGUAGE, builtin=lambda _m, _name: fixed)
    found = one.run()
    assert isinstance(found, Const)
    assert found.value == length
    assert [effect.verb for effect in one.effects] == ["delete"]
