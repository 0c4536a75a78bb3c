"""Every function on the way of a cell, as the architecture lists it, is there."""

from __future__ import annotations

from types import FunctionType

import pytest
from cell_way import resolve, way_of_a_cell


@pytest.mark.parametrize("name", way_of_a_cell())
def test_it_is_a_function_of_that_module(name: str) -> None:
    function = resolve(name)
    assert isinstance(function, FunctionType)
    assert f"{function.__module__}:{function.__qualname__}" == name


def test_the_way_goes_from_collection_to_the_ledger() -> None:
    way = way_of_a_cell()
    assert len(way) == len(set(way))
    rooms = [name.split(".")[1] for name in way]
    places = [rooms.index(room) for room in ("session", "study", "evidence", "engine", "ledger")]
    assert places == sorted(places)


def test_a_name_that_is_gone_is_seen() -> None:
    with pytest.raises(AttributeError):
        resolve("pytest_sremut.session.summary:nowhere")
    with pytest.raises(ImportError):
        resolve("pytest_sremut.session.nowhere:conclude")
