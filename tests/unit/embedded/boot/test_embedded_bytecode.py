"""Bytecode is kept while it can be."""

from __future__ import annotations

import os
import sys
from importlib.util import cache_from_source
from pathlib import Path

import pytest

from pytest_sremut.embedded.boot.bytecode import folders_of, keep_bytecode


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    (tmp_path / "deep").mkdir()
    for name in ("one.py", "deep/two.py"):
        (tmp_path / name).write_text("X = 1\n")
    (tmp_path / "data.txt").write_text("no module")
    return tmp_path


def test_what_is_missing_or_older_is_compiled_once(package: Path) -> None:
    assert keep_bytecode([package]) == 2
    kept = [Path(cache_from_source(str(package / name))) for name in ("one.py", "deep/two.py")]
    assert all(path.is_file() for path in kept)
    assert keep_bytecode([package]) == 0
    future = kept[0].stat().st_mtime + 10
    os.utime(package / "one.py", (future, future))
    assert keep_bytecode([package]) == 1


def test_a_source_that_is_none_is_left_to_its_import(package: Path) -> None:
    (package / "one.py").write_text("def (")
    assert keep_bytecode([package]) == 1


def test_nothing_is_kept_where_it_may_not_be(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert keep_bytecode([package]) == 0
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert keep_bytecode([package]) == 0
    assert list(package.rglob("*.pyc")) == []


def test_the_folders_are_those_of_the_images_modules() -> None:
    import pytest_sremut.demo
    import pytest_sremut.embedded

    found = folders_of(["pytest_sremut.demo.service", "no.such.module", "sys"])
    assert found == {
        Path(str(module.__file__)).parent for module in (pytest_sremut.demo, pytest_sremut.embedded)
    }
