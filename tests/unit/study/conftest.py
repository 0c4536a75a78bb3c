"""A small project of study files that tests may break in one place."""

from __future__ import annotations

import shutil
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import settings
from study_project import CONTRACT, MUTANTS, PREDICTIONS, REPOSITORY, STUDY, Edit

from pytest_sremut.study.load import load_study
from pytest_sremut.study.model import Study

# No timed assertions: a busy machine is no finding.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the shipped study with everything that it refers to."""
    root = tmp_path / "project"
    for file in (STUDY, PREDICTIONS, MUTANTS, CONTRACT):
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(REPOSITORY / file, root / file)
    return root


@pytest.fixture
def edit(project: Path) -> Edit:
    """Replace a piece of text that stands exactly `count` times in a file of the project."""

    def replace(file: PurePosixPath, old: str, new: str, *, count: int = 1) -> Path:
        path = project / file
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == count, f"{old!r} stands {text.count(old)} times in {file}"
        path.write_text(text.replace(old, new), encoding="utf-8")
        return project

    return replace


@pytest.fixture(scope="session")
def study() -> Study:
    """The shipped study."""
    return load_study(REPOSITORY, STUDY)
