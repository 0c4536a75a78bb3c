"""The definitions of the published studies, which ship with this package."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import as_file, files
from pathlib import Path, PurePosixPath

from pytest_sremut.study.load import load_study
from pytest_sremut.study.model import Study

__all__ = ["definitions", "shipped_study"]


@contextmanager
def definitions() -> Iterator[Path]:
    """The root of a project with the definitions; valid inside the block."""
    with as_file(files("pytest_sremut.ledger.published") / "definitions") as root:
        yield root


def shipped_study(study: str) -> Study:
    """The definition of one published study."""
    with definitions() as root:
        return load_study(root, PurePosixPath("audits", study, "study.yaml"))
