"""Requests and names."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
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


def _node(use: str) -> OracleNode:
    parts = (OracleNode(id="r", use="reference:pods-and-deployments"),) if use == "all-of" else ()
    return OracleNode(id="O1", use=use, of=parts)


def test_names_are_checked_without_importing_anything(tmp_path: Path) -> None:
    (tmp_path / "bomb.py").write_text("raise SystemExit\nclass Grader: ...\n")
    for fine in ("all-of", "reference:pods-and-deployments", "python:bomb:Grader"):
        registry.known(_node(fine), tmp_path)
    for odd in ("", "reference:", "reference", "python:os", "python:os:a.b", "python:1:x", "x:y"):
        with pytest.raises(UsageError, match="allowed: "):
            registry.known(_node(odd), tmp_path)
    with pytest.raises(UsageError, match=r"cannot import no\.such\.module"):
        registry.known(_node("python:no.such.module:Thing"), tmp_path)
    with pytest.raises(UsageError, match="bomb has no class Other"):
        registry.known(_node("python:bomb:Other"), tmp_path)
    with pytest.raises(UsageError, match="at least one oracle"):
        registry.known(OracleNode(id="O1", use="all-of"), tmp_path)


@given(st.text(max_size=20) | st.text(max_size=8).map(lambda text: f"python:{text}"))
def test_any_name_is_known_or_refused(use: str) -> None:
    try:
        registry.known(_node(use), Path("/nonexistent"))
    except UsageError:
        return


def test_reference_oracles_take_no_arguments() -> None:
    node = OracleNode(id="O1", use="reference:pods-and-deployments", arguments={"x": 1})
    context: Any = None
    with pytest.raises(UsageError, match="takes no such arguments"):
        registry.build(node, lambda _: context)


def test_a_tree_with_one_class_that_is_not_ours_is_foreign() -> None:
    ours = OracleNode(id="r", use="reference:pods-and-deployments")
    theirs = OracleNode(id="p", use="python:a.b:C")
    assert not registry.is_foreign(OracleNode(id="t", use="all-of", of=(ours,)))
    assert registry.is_foreign(OracleNode(id="t", use="all-of", of=(ours, theirs)))


def test_the_modules_of_an_oracle_are_hashed_as_they_lie_there(tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "__init__.py").write_text("")
    (tmp_path / "made" / "grader.py").write_text(
        "import json\nfrom .parts import look\ndef f():\n    import made_late\n"
    )
    (tmp_path / "made" / "parts.py").write_text("look = 1\n")
    (tmp_path / "made_late.py").write_text("raise SystemExit\n")
    (tmp_path / "other.py").write_text("")
    theirs = OracleNode(id="p", use="python:made.grader:C")
    ours = OracleNode(id="r", use="reference:service-endpoints")
    tree = OracleNode(id="t", use="all-of", of=(ours, theirs))
    found = registry.digests(tree, registry.code_behind(tree, tmp_path))
    assert set(found) == {
        "made", "made.grader", "made.parts", "made_late",
        "pytest_sremut.oracles.reference.all_of",
        "pytest_sremut.oracles.reference.service_endpoints",
    }  # fmt: skip
    late = hashlib.sha256(b"raise SystemExit\n").hexdigest()
    assert found["made_late"] == late
