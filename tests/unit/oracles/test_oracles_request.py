"""Requests and names."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sremut.errors import HarnessError, UsageError
from pytest_sremut.oracles import registry
from pytest_sremut.oracles.request import OracleNode, ReadingRequest, oracle_tree
from pytest_sremut.study.model import OracleSpec


def test_a_request_crosses_a_process(request_for: Callable[..., ReadingRequest]) -> None:
    child = OracleNode(id="O1", use="reference:x", problem={"port": 1})
    request = replace(request_for("Accepts"), oracle=OracleNode(id="O4", use="all-of", of=(child,)))
    assert ReadingRequest.from_json(json.loads(json.dumps(request.to_json()))) == request


@given(
    st.none()
    | st.integers()
    | st.lists(st.text(max_size=3), max_size=3)
    | st.dictionaries(
        st.sampled_from(["oracle", "target", "timeout", "x"]),
        st.none() | st.dictionaries(st.text(max_size=3), st.none(), max_size=2),
    )
)
def test_what_is_no_request(value: Any) -> None:
    with pytest.raises(HarnessError):
        ReadingRequest.from_json(value)


def test_a_tree_is_looked_up_by_id() -> None:
    specs = {
        "O1": OracleSpec(id="O1", use="reference:pods-and-deployments"),
        "O3": OracleSpec(id="O3", use="reference:service-endpoints", problem={"p": 1}),
        "O4": OracleSpec(id="O4", use="all-of", of=("O1", "O3")),
    }
    tree = oracle_tree(specs["O4"], specs)
    assert [node.id for node in tree.walk()] == ["O4", "O1", "O3"]
    assert tree.of[1].problem == {"p": 1}


def test_trees_that_cannot_be() -> None:
    loop = {"a": OracleSpec(id="a", use="all-of", of=("b",)),
            "b": OracleSpec(id="b", use="all-of", of=("a",))}  # fmt: skip
    with pytest.raises(UsageError, match="a -> b -> a"):
        oracle_tree(loop["a"], loop)
    lost = {"a": OracleSpec(id="a", use="all-of", of=("z",))}
    with pytest.raises(UsageError, match="z, which does not exist; allowed: a"):
        oracle_tree(lost["a"], lost)


def test_names_are_checked_without_importing_anything() -> None:
    registry.known("all-of")
    registry.known("python:no.such.module:Thing")
    registry.known("reference:pods-and-deployments")
    for odd in ("", "reference:", "reference", "python:os", "python:os:a.b", "python:1:x", "x:y"):
        with pytest.raises(UsageError, match="allowed: "):
            registry.known(odd)


@given(st.text(max_size=20) | st.text(max_size=8).map(lambda text: f"python:{text}"))
def test_any_name_is_known_or_refused(use: str) -> None:
    try:
        registry.known(use)
    except UsageError:
        return


def test_reference_oracles_take_no_arguments() -> None:
    node = OracleNode(id="O1", use="reference:pods-and-deployments", arguments={"x": 1})
    context: Any = None
    with pytest.raises(UsageError, match="takes no such arguments"):
        registry.build(node, lambda _: context)


def test_which_modules_a_worker_imports_beforehand() -> None:
    children = (OracleNode(id="a", use="python:b.c:X"), OracleNode(id="b", use="python:a:Y"))
    tree = OracleNode(id="t", use="all-of", of=(*children, OracleNode(id="r", use="reference:x")))
    assert registry.modules_of(tree) == ["a", "b.c"]
