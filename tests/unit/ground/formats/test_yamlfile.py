from __future__ import annotations

import os
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pytest_sremut.errors import InputError
from pytest_sremut.ground.formats.yamlfile import (
    MAX_BYTES,
    MAX_DEPTH,
    MAX_NODES,
    YamlFile,
    parse_yaml,
    read_yaml,
)

FILE = PurePosixPath("a.yaml")


def parse(text: str | bytes) -> YamlFile:
    return parse_yaml(text.encode() if isinstance(text, str) else text, FILE)


def refusal(text: str | bytes) -> InputError:
    with pytest.raises(InputError) as caught:
        parse(text)
    assert caught.value.file == "a.yaml"
    return caught.value


def test_values_and_their_places() -> None:
    source = parse("# comment\na: 1\nb:\n  - x\n  - {c: true}\n")
    assert source.value == {"a": 1, "b": ["x", {"c": True}]}
    assert source.place("a") == (2, 4)
    assert source.place("b", 1, "c") == (5, 9)
    assert source.place("b", 1, "missing", "deeper") == (5, 5)
    assert str(source.error(("b", 1, "c"), found="true", allowed="text")) == (
        "a.yaml: b[1].c (line 5, column 9): found true; allowed: text"
    )


def test_an_alias_stands_for_its_anchor_at_its_own_place() -> None:
    source = parse("a: &x {k: 1}\nb: *x\n")
    assert source.value["b"] == {"k": 1}
    assert source.place("b", "k") == (2, 4)


@pytest.mark.parametrize(
    ("text", "place", "found"),
    [
        ("", "", "an empty file"),
        ("# only a comment\n", "", "an empty file"),
        ("a: 1\na: 2\n", "line 2", "key 'a' a second time"),
        ("x: {a: 1, a: 2}\n", "x (line 1", "key 'a' a second time"),
        ("a: 1\n---\nb: 2\n", "line 2", "a second document"),
        ("1: x\n", "line 1", "`1` as a key"),
        ("true: x\n", "line 1", "`true` as a key"),
        ("on: x\n", "line 1", "`on`, which is a boolean"),
        ("?\n: x\n", "line 1", "an empty key"),
        ("? [a]\n: x\n", "line 1", "a collection as a key"),
        ("&k a: 1\n*k : 2\n", "line 2", "an alias as a key"),
        ("a: no\n", "a (line 1, column 4)", "`no`, which is a boolean in YAML 1.1"),
        ("d: 2026-11-30\n", "d (line 1", "`2026-11-30`, which is a date"),
        ("a: .nan\n", "a (line 1", "`.nan`"),
        ("a: -.inf\n", "a (line 1", "`-.inf`"),
        ("a: !!python/object:os.system x\n", "a (line 1", "tag"),
        ("a: !!str 1\n", "a (line 1", "tag"),
        ("!!map {a: 1}\n", "line 1", "tag"),
        ("a: *nowhere\n", "a (line 1", "alias *nowhere of no finished anchor"),
        ("a: &a [*a]\n", "a[0] (line 1", "alias *a of no finished anchor"),
        ("<<: {a: 1}\n", "line 1", "`<<`, which is a merge key"),
        ("a: [1, 2\n", "line 2", "expected ',' or ']'"),
        ("a: 'x\n", "line 2", "unexpected end of stream"),
        ("\t- x\n", "line 1", "cannot start any token"),
        ('a: "\\ud800"\n', "a (line 1", "half of a surrogate pair"),
        ('a: "\\U00110000"\n', "", "an escape outside Unicode"),
        ("a: 1\nb: \x07\n", "line 2", "character U+0007"),
        ("%YAML 3.0\n---\na: 1\n", "line 1", "incompatible YAML document"),
        (b"a: 1\nb: \xff\n", "line 2", "byte 0xff that is not UTF-8"),
        ("a: 1\n".encode("utf-16"), "line 1", "not UTF-8"),
    ],
)  # fmt: skip
def test_what_is_not_allowed_is_named_with_its_place(
    text: str | bytes, place: str, found: str
) -> None:
    error = refusal(text)
    assert found in error.found
    assert error.place.startswith(place)
    assert error.allowed


def test_a_large_file_is_refused_unread() -> None:
    assert str(MAX_BYTES) in refusal(b" " * (MAX_BYTES + 1)).allowed


@pytest.mark.parametrize(("open_", "close"), [("[", "]"), ("{a: ", "}")])
def test_depth_is_bounded(open_: str, close: str) -> None:
    fine = parse(open_ * MAX_DEPTH + "1" + close * MAX_DEPTH)
    assert fine.value
    assert "levels" in refusal(open_ * (MAX_DEPTH + 1)).found
    assert "levels" in refusal(open_ * 100_000).found


def test_depth_is_bounded_through_aliases() -> None:
    nested = "[" * 20 + "1" + "]" * 20
    text = f"a: &a {nested}\nb: {'[' * 20}*a{']' * 20}\n"
    assert "levels, aliases expanded" in refusal(text).found


def test_a_billion_laughs_are_not_laughed() -> None:
    lines = ["a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    assert f"more than {MAX_NODES} values" in refusal("\n".join(lines)).found


def test_files_stay_inside_the_project(tmp_path: Path) -> None:
    root = tmp_path / "project"
    (root / "sub").mkdir(parents=True)
    (tmp_path / "outside.yaml").write_text("a: 1\n")
    (root / "inside.yaml").write_text("a: 1\n")
    (root / "link.yaml").symlink_to("inside.yaml")
    (root / "escape.yaml").symlink_to("../outside.yaml")
    (root / "loop.yaml").symlink_to("loop.yaml")
    (root / "up").symlink_to("..")
    os.mkfifo(root / "pipe.yaml")

    assert read_yaml(root, PurePosixPath("link.yaml")).value == {"a": 1}
    expected = {
        "../outside.yaml": "a path out of the project",
        "sub/../inside.yaml": "a path out of the project",
        str(root / "inside.yaml"): "a path out of the project",
        "a\0b": "a path out of the project",
        "escape.yaml": "a symbolic link out of the project",
        "up/outside.yaml": "a symbolic link out of the project",
        "loop.yaml": "symbolic links",
        "missing.yaml": "no such file",
        "inside.yaml/x.yaml": "Not a directory",
        "sub": "no regular file",
        "pipe.yaml": "no regular file",
        "x" * 300 + ".yaml": "File name too long",
    }
    for name, found in expected.items():
        with pytest.raises(InputError) as caught:
            read_yaml(root, PurePosixPath(name))
        assert found in caught.value.found, name


@given(st.binary(max_size=400))
def test_whatever_the_bytes_only_input_errors_come_out(data: bytes) -> None:
    try:
        parse(data)
    except InputError as error:
        str(error).encode()


@given(
    st.text(
        alphabet=st.sampled_from("[]{}:,-?&*!|>%@`'\"#~ \n\tab01.\\xuU<=_\ud800\u2028\ufeff"),
        max_size=200,
    )
)
def test_whatever_the_yaml_only_input_errors_come_out(text: str) -> None:
    try:
        source = parse(text.encode("utf-8", "surrogatepass"))
    except InputError as error:
        str(error).encode()
        return
    assert source.place("no", "such", 3)


def test_why_documents_are_built_from_events_and_not_composed() -> None:
    """PyYAML's nodes have lost what our rules are about; if that changes, they can replace us."""

    def compose(text: str) -> list[Any]:
        return [value for _, value in yaml.compose(text, Loader=yaml.SafeLoader).value]

    written, found = compose("a: !!str x\nb: x")
    assert (written.tag, written.style) == (found.tag, found.style)
    assert refusal("a: !!str x").found.startswith("tag")

    anchor, alias = compose("a: &x [1]\nb: *x")
    assert alias.start_mark.line == anchor.start_mark.line == 0
    assert parse("a: &x [1]\nb: *x").place("b").line == 2

    deep = "[" * 2000 + "]" * 2000
    with pytest.raises(RecursionError):
        yaml.compose(deep, Loader=yaml.SafeLoader)
    assert "levels" in refusal(deep).found
