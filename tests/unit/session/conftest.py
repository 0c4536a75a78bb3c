"""Evidence of a whole study, written once."""

from __future__ import annotations

from pathlib import Path

import pytest
from records import Records, main_study, no_fsync


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Evidence of a complete matrix, every reading as predicted. Not to be changed."""
    directory = tmp_path_factory.mktemp("whole") / "evidence"
    with pytest.MonkeyPatch.context() as patch, no_fsync(patch):
        Records(directory, main_study()).matrix()
    return directory
