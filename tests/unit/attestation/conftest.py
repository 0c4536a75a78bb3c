"""A small project to register, in a directory of its own."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from forge import make_study, write_project


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The files of one study."""
    return write_project(tmp_path / "project")


@pytest.fixture
def study() -> SimpleNamespace:
    """What this room needs of a `Study`: id, file, frozen."""
    return make_study()
