from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sremut.errors import EvidenceError
from pytest_sremut.evidence.rawref import RawRef, is_safe_name


@pytest.mark.parametrize(
    "name", ["a", "record.json", "raw/x.json", "states/healthy.json", "raw/a/b/c-1_2.log"]
)
def test_plain_names(name: str) -> None:
    assert is_safe_name(name)


@pytest.mark.parametrize(
    "name",
    ["", "/", "/a", "a/", "a//b", ".", "..", "a/../b", ".hidden", "raw/.tmp-1", "a\0b", "a\n",
     "a b", "-x", "é", "a/b/c/d/e", "x" * 129, "a\\b"],
)  # fmt: skip
def test_names_that_are_not(name: str) -> None:
    assert not is_safe_name(name)


@given(st.text(max_size=30))
def test_a_safe_name_stays_below_its_directory(name: str) -> None:
    if is_safe_name(name):
        assert Path("/x", name).resolve().is_relative_to("/x")
        assert Path("/x", name).as_posix() == f"/x/{name}"


def test_a_reference_finds_out_what_changed(tmp_path: Path) -> None:
    reference = RawRef.of("a", b"data")
    assert RawRef.from_json(reference.as_json()) == reference
    assert reference.sha256 == hashlib.sha256(b"data").hexdigest()
    assert reference.problem(tmp_path) == "a: missing"
    (tmp_path / "a").write_bytes(b"data")
    assert reference.problem(tmp_path) is None
    assert reference.read(tmp_path) == b"data"
    (tmp_path / "a").write_bytes(b"atad")
    assert "SHA-256" in (reference.problem(tmp_path) or "")
    (tmp_path / "a").write_bytes(b"data and more")
    assert reference.problem(tmp_path) == "a: 13 bytes, recorded 4"
    with pytest.raises(EvidenceError, match="13 bytes"):
        reference.read(tmp_path)


def test_a_reference_is_not_followed_out_of_the_directory(tmp_path: Path) -> None:
    inside = tmp_path / "attempt"
    inside.mkdir()
    (tmp_path / "outside").write_bytes(b"data")
    (inside / "link").symlink_to("../outside")
    (inside / "up").symlink_to("..")
    assert RawRef.of("link", b"data").problem(inside) == "link: a symbolic link"
    assert RawRef.of("up/outside", b"data").problem(inside) == "up/outside: a symbolic link"
    assert "no name" in (RawRef.of("../outside", b"data").problem(inside) or "")
    (inside / "dir").mkdir()
    assert "cannot be read" in (RawRef.of("dir", b"").problem(inside) or "")
