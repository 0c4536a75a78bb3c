"""Evidence of a whole study, written once and copied where a test changes it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ledger_world import Adjudicated, adjudicated
from records import Records, main_study, no_fsync

from pytest_sremut.study.model import Study


@pytest.fixture(scope="session")
def study() -> Study:
    """The study of the main job."""
    return main_study()


@pytest.fixture(scope="session", autouse=True)
def quick() -> Iterator[None]:
    """Records of a test need not survive a power cut."""
    with pytest.MonkeyPatch.context() as patch, no_fsync(patch):
        yield


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory, study: Study) -> Path:
    """Evidence of a complete matrix, every reading as predicted. Not to be changed."""
    directory = tmp_path_factory.mktemp("whole") / "evidence"
    Records(directory, study).matrix()
    return directory


@pytest.fixture
def copy(whole: Path, tmp_path: Path) -> Path:
    """The same, to be damaged."""
    return Path(shutil.copytree(whole, tmp_path / "copy"))


@pytest.fixture(scope="session")
def judged_whole(whole: Path, study: Study) -> Adjudicated:
    """The complete matrix, adjudicated."""
    return adjudicated(study, whole)


@pytest.fixture
def records(tmp_path: Path, study: Study) -> Records:
    """A builder into an empty directory."""
    return Records(tmp_path / "evidence", study)


@pytest.fixture
def judge_it(study: Study) -> Callable[..., Adjudicated]:
    """Adjudicate evidence directories of the study."""
    return lambda *directories: adjudicated(study, *directories)
